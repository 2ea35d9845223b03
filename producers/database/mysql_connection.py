"""A connection of PyMySQL's that leaves no socket behind.

Of its own it leaves one open, until the collector comes by, at every try to reach a socket at which nobody
listens: a relay tries for as long as its server is away.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from pymysql.connections import Connection as Theirs
from pymysql.constants import CR
from pymysql.err import OperationalError

if TYPE_CHECKING:
    _Theirs = Theirs[Any]
else:
    _Theirs = Theirs


class Connection(_Theirs):
    """Connects when it is made. Raises PyMySQL's errors."""

    def connect(self, sock: socket.socket | None = None) -> None:
        """Open it."""
        if sock is None and self.unix_socket:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(self.connect_timeout)
            try:
                sock.connect(self.unix_socket)
            except OSError as error:
                sock.close()
                told = f"Can't connect to the server at {self.unix_socket} ({error.strerror})"
                raise OperationalError(CR.CR_CONNECTION_ERROR, told) from error
            self._secure = True  # as PyMySQL says of its own: passwords may be sent as they are
        super().connect(sock)

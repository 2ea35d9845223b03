"""A proxy before a real Redis that breaks what a test says: error replies, cut connections, a fail-over.

It passes one command on, reads its whole reply, and only then the next command. So a reply of its own
comes in its place, also among pipelined commands. After SUBSCRIBE it copies bytes both ways and breaks
nothing any more.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from typing import Final, Literal
from urllib.parse import urlsplit

Fault = str | Literal["cut", "cut-after"] | None
"""What happens to one command: an error reply in place of its own, a connection that closes before or after
the server has done it, or nothing."""

Plan = Callable[[Sequence[bytes]], Fault]

_SUBSCRIBE: Final = {b"SUBSCRIBE", b"PSUBSCRIBE", b"SSUBSCRIBE"}


def always(fault: Fault, *names: str) -> Plan:
    """The same for each command of these names; without a name, for each but those that open a connection."""
    chosen = {name.upper().encode() for name in names}
    opening = {b"HELLO", b"AUTH", b"CLIENT", b"SELECT"}

    def plan(command: Sequence[bytes]) -> Fault:
        name = command[0].upper()
        return fault if (name in chosen if chosen else name not in opening) else None

    return plan


class RedisProxy:
    """Listens on a port of 127.0.0.1 from `start` to `close`. Its attributes may change at any time."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        """Where new connections go to: another server for a fail-over, followed by `cut`."""
        self.plan: Plan | None = None
        self.delay = 0.0
        """Seconds before each command is passed on."""
        self.refused = 0
        """How many commands got a fault."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def url(self) -> str:
        """What a client connects to."""
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    @contextmanager
    def breaking(self, plan: Plan) -> Iterator[None]:
        """Within it, what the plan says happens to each command."""
        self.plan = plan
        try:
            yield
        finally:
            self.plan = None

    def cut(self) -> None:
        """Close every connection that is open."""
        with self._lock:
            sockets = list(self._sockets)
        for each in sockets:
            _shut(each)

    def close(self) -> None:
        """End the proxy; whoever connects then is refused."""
        self._closed = True
        _shut(self._listener)  # or `accept` goes on waiting
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), name="proxied", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server: socket.socket | None = None
        try:
            server = _connect(self.upstream)
            with self._lock:
                self._sockets |= {client, server}
            with client.makefile("rb") as commands, server.makefile("rb") as replies:
                self._relay(client, server, commands, replies)
        except (OSError, EOFError):
            pass  # either side is gone, or was cut: the other learns of it below
        finally:
            with self._lock:
                self._sockets -= {client, server} if server else {client}
            for each in (client, server):
                if each is not None:
                    _shut(each)
                    each.close()

    def _relay(
        self, client: socket.socket, server: socket.socket, commands: BufferedReader, replies: BufferedReader
    ) -> None:
        queueing = spoilt = False  # within MULTI; one of its commands got an error
        while True:
            command = _read_command(commands)
            name, plan = command[0].upper(), self.plan
            fault = plan(command) if plan is not None else None
            if self.delay:
                time.sleep(self.delay)
            self.refused += fault is not None
            if fault == "cut":
                return
            if name == b"EXEC" and spoilt and fault is None:
                fault = "EXECABORT Transaction discarded because of previous errors."
            if fault is not None and fault != "cut-after":
                if name == b"EXEC" and queueing:
                    server.sendall(_pack([b"DISCARD"]))
                    _read_reply(replies)
                    queueing = False
                spoilt = queueing
                client.sendall(b"-" + fault.encode() + b"\r\n")
                continue
            if name in (b"MULTI", b"EXEC", b"DISCARD"):
                queueing, spoilt = name == b"MULTI", False
            server.sendall(_pack(command))
            if name in _SUBSCRIBE:
                threading.Thread(target=_copy, args=(replies, client), name="proxied", daemon=True).start()
                _copy(commands, server)
                return
            reply = _read_reply(replies)
            if fault == "cut-after":
                return
            client.sendall(reply)


def _connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        found = socket.socket(socket.AF_UNIX)
        found.connect(parts.path)
        return found
    return socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 6379))


def _shut(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)


def _copy(source: BufferedReader, target: socket.socket) -> None:
    with suppress(OSError, ValueError):  # ValueError: the file was closed meanwhile
        while data := source.read1(65536):
            target.sendall(data)
    _shut(target)


def _pack(command: Sequence[bytes]) -> bytes:
    parts = [b"*%d\r\n" % len(command)]
    for each in command:
        parts += [b"$%d\r\n" % len(each), each, b"\r\n"]
    return b"".join(parts)


def _line(source: BufferedReader) -> bytes:
    line = source.readline()
    if not line.endswith(b"\r\n"):
        raise EOFError
    return line


def _exactly(source: BufferedReader, size: int) -> bytes:
    data = source.read(size)
    if len(data) != size:
        raise EOFError
    return data


def _read_command(source: BufferedReader) -> list[bytes]:
    """One command as clients send it: an array of strings."""
    command = []
    for _ in range(int(_line(source)[1:])):
        size = int(_line(source)[1:])
        command.append(_exactly(source, size))
        _exactly(source, 2)
    return command


def _read_reply(source: BufferedReader) -> bytes:
    """One whole reply as it is on the wire (RESP2 or RESP3)."""
    line = _line(source)
    kind, size = line[:1], line[1:-2]
    if kind in b"$=!" and size != b"-1":
        return line + _exactly(source, int(size) + 2)
    if kind in b"*~>%|" and size != b"-1":
        many = int(size) * (2 if kind in b"%|" else 1)
        return line + b"".join(_read_reply(source) for _ in range(many + (kind == b"|")))
    return line

"""The uvicorn server in a thread of its own, and the port that it listens on."""

from __future__ import annotations

import socket
import threading
from typing import Literal

import uvicorn
from starlette.applications import Starlette

from sitemap_store.errors import BadSetting
from sitemapd.web.protocol import Patient

LOOP: Literal["auto", "asyncio"] = "auto"
"""uvloop where it is installed (the extra `fast`), else asyncio's own."""
IDLE_S = 5
CONNECTIONS = 500
"""Connections at a time; requests on further ones are answered 503 at once."""
GRACE_S = 3


def listen(host: str, port: int) -> socket.socket:
    """Take a port, 0 for any that is free, before anything else is started. Raises BadSetting."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol by name: only then does asyncio set TCP_NODELAY, and answers don't wait 40 ms for an ACK.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        raise BadSetting(
            setting="--port",
            detail=f"{host}:{port} can't be listened on ({error.strerror}).",
            hint="Choose another port, or 0 for any that is free.",
        ) from error
    return listener


class Server:
    """A uvicorn server in a thread of its own; `listener` (see `listen`) stays the caller's to close."""

    def __init__(self, app: Starlette, listener: socket.socket) -> None:
        self._socket = listener
        self._app = app
        config = uvicorn.Config(
            app,
            http=Patient,
            loop=LOOP,
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=CONNECTIONS,
            timeout_keep_alive=IDLE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        host, port, *_ = listener.getsockname()
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{port}/"

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the requests in hand, live feeds excepted, and end."""
        closing: threading.Event | None = getattr(self._app.state, "closing", None)
        if closing is not None:
            closing.set()
        self._server.should_exit = True
        self._thread.join(GRACE_S + 2)

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

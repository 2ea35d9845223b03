"""The uvicorn servers, each in a thread of its own, and the ports that they listen on.

uvloop takes one new connection in each round of its loop, so with 2,000 busy clients a new one waits for
seconds. Probes that must be answered in time have a listener with a loop of its own (`probes`).
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Literal, cast

import uvicorn
from starlette.types import ASGIApp

from producers.http.auth import loopback
from sitemap_store.errors import BadSetting
from sitemapd.web.application import Application
from sitemapd.web.connections import Connections, Patient
from sitemapd.web.front import HEADER_MAX

LOOP: Literal["auto", "asyncio"] = "auto"
"""uvloop where it is installed (the extra `fast`), else asyncio's own."""
IDLE_S = 5
CONNECTIONS = 4000
PER_PEER = 256
PROBE_CONNECTIONS = 64
_OTHER_FILES = 256
"""File descriptors that are left for all that is no connection."""
GRACE_S = 3
TICK_S = 1.0
"""How old the header `date` may be, in seconds."""

log = logging.getLogger(__name__)


def listen(host: str, port: int, setting: str = "--port") -> socket.socket:
    """Take a port, 0 for any that is free, first of all. Raises BadSetting of `setting`."""
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
            setting=setting,
            detail=f"{host}:{port} can't be listened on ({error.strerror}).",
            hint="Choose another port, or 0 for any that is free.",
        ) from error
    return listener


class _Uvicorn(uvicorn.Server):
    """Looks at whether it is to end once a second and when `end` is called, not ten times a second."""

    _rouse: Callable[[], object] | None = None

    async def main_loop(self) -> None:
        """Answer requests until it is to end."""
        loop, roused = asyncio.get_running_loop(), asyncio.Event()
        self._rouse = partial(loop.call_soon_threadsafe, roused.set)
        while not await self.on_tick(0):  # 0: each of them renews the header `date`
            with suppress(TimeoutError):
                await asyncio.wait_for(roused.wait(), TICK_S)
        self._rouse = None

    def end(self) -> None:
        """Have it end, from any thread."""
        self.should_exit = True
        if self._rouse is not None:
            with suppress(RuntimeError):  # it ended meanwhile, and its loop is closed
                self._rouse()


class Server:
    """The server of `listener`, and of `probes` where there is one; the caller closes both.

    `connections` in all and `per_peer` of one address may be open; no bound for an address that is `shared`.
    """

    def __init__(
        self,
        app: Application,
        listener: socket.socket,
        *,
        probes: socket.socket | None = None,
        connections: int = CONNECTIONS,
        per_peer: int = PER_PEER,
        shared: Callable[[str], bool] = loopback,
    ) -> None:
        self._closing = app.closing
        most = min(connections, _files() - _OTHER_FILES)
        self._running = [_Running("http", app.asgi, listener, Connections(most, per_peer, shared))]
        if probes is not None:
            few = Connections(PROBE_CONNECTIONS, PROBE_CONNECTIONS, shared)
            self._running.append(_Running("probes", app.probes, probes, few))
        self.address = self._running[0].address

    def start(self) -> None:
        """Answer from now on."""
        for each in self._running:
            each.thread.start()
        for each in self._running[1:]:
            log.info("Answering probes at %s", each.address, extra={"action": "serving_probes"})

    def stop(self) -> None:
        """Finish the requests in hand, live feeds excepted, and end."""
        self._closing.set()
        for each in self._running:
            each.server.end()
        for each in self._running:
            each.thread.join(GRACE_S + 2)


class _Running:
    """One listener's uvicorn server and its thread."""

    def __init__(self, name: str, asgi: ASGIApp, listener: socket.socket, open_: Connections) -> None:
        config = uvicorn.Config(
            asgi,
            http=cast("type[asyncio.Protocol]", partial(Patient, connections=open_)),
            loop=LOOP,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # `Front` reads them, from the proxies that are named
            h11_max_incomplete_event_size=HEADER_MAX,
            timeout_keep_alive=IDLE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        self.server = _Uvicorn(config)
        self.thread = threading.Thread(
            target=self.server.run, kwargs={"sockets": [listener]}, name=name, daemon=True
        )
        host, port, *_ = listener.getsockname()
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{port}/"


def _files() -> int:
    """Raise the number of files that the process may open as far as it may; returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard

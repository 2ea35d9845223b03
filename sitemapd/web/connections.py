"""The open connections of the HTTP server: how many there may be, and how long each may keep us waiting.

1. A request's line and headers have `HEADER_S` seconds.
2. A client that reads nothing of its answer for `STALLED_S` seconds is cut off.
3. When there are as many connections as may be, in all or from one address, a new one takes the place of an
   old one of least use: one that idles, then one whose headers or body do not come, then one that does not
   read. A request that goes on well is never cut off; only when all do is the new connection answered 503.
4. Addresses that speak for many clients (this machine, `trusted_proxies`) have no bound of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, Final, cast

from uvicorn import Config
from uvicorn.server import ServerState

from sitemapd.web.protocol import SPEAKS, busy, cycle_of

HEADER_S: Final = 10.0
"""How long a client may take for a request's line and headers."""
STALLED_S: Final = 30.0
SLOW_S: Final = 1.0
"""A request of which nothing came or went for that long is a slow one."""
_VICTIMS: Final = 256
"""Connections that one look at all of them finds for closing."""
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 5\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: 31\r\n\r\nToo many connections are open.\n"
)


class Connections:
    """The open connections: at most `most`, and `per_peer` from one address that is not `shared`."""

    def __init__(self, most: int, per_peer: int, shared: Callable[[str], bool]) -> None:
        self._most = most
        self._per_peer = per_peer
        self._shared = shared
        self._open: dict[Patient, str] = {}
        self._of_peer: dict[str, dict[Patient, None]] = {}
        self._victims: list[tuple[tuple[int, float], Patient]] = []
        """Of all, as the last look found them, that of least use last: with thousands, a look takes 5 ms."""

    def admit(self, connection: Patient, peer: str) -> bool:
        """Count a connection in, if need be in the place of another; False when there is no room."""
        own = self._of_peer.get(peer, {})
        if not self._shared(peer) and len(own) >= self._per_peer and not self._evict(_by_use(own)):
            return False
        if len(self._open) >= self._most and not self._evict(self._victims):
            self._victims = _by_use(self._open)
            if not self._evict(self._victims):
                return False
        self._open[connection] = peer
        self._of_peer.setdefault(peer, {})[connection] = None
        return True

    def forget(self, connection: Patient) -> None:
        """Count a connection out."""
        peer = self._open.pop(connection, None)
        if peer is not None:
            del self._of_peer[peer][connection]
            if not self._of_peer[peer]:
                del self._of_peer[peer]

    def _evict(self, victims: list[tuple[tuple[int, float], Patient]]) -> bool:
        """Close the last of these that is still of as little use; whether there was one."""
        while victims:
            use, victim = victims.pop()
            if victim in self._open and victim.use() == use:
                self.forget(victim)
                victim.cut()
                return True
        return False


def _by_use(connections: Iterable[Patient]) -> list[tuple[tuple[int, float], Patient]]:
    """Some connections that may be closed, that of least use last; of equals, the one that came first."""
    found = [(use, connection) for connection in connections if (use := connection.use()) is not None]
    return sorted(found, key=itemgetter(0))[_VICTIMS - 1 :: -1]


class Patient(asyncio.Protocol):
    """One connection: uvicorn's protocol, with an end to its waiting."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        connections: Connections,
    ) -> None:
        self._inner = SPEAKS(config, server_state, app_state)
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._refused = False
        self._late: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._moved = self._loop.time()
        """When something last came or was taken."""
        self._unsent = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the first request its time."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        name = transport.get_extra_info("peername")
        if not self._connections.admit(self, str(name[0]) if name else ""):
            self._refused = True
            self._transport.write(_FULL)
            self._transport.close()
            return
        self._inner.connection_made(transport)
        self._watch(self._transport)

    def data_received(self, data: bytes) -> None:
        """Take what came, and stop the clock once a request's headers are complete."""
        if self._refused:
            return
        self._moved = self._loop.time()
        self._inner.data_received(data)
        if self._transport is not None:
            self._watch(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        self._connections.forget(self)
        if not self._refused:
            self._inner.connection_lost(exc)
        self._transport = None
        self._unwatch()
        self._unstall()

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return None if self._refused else self._inner.eof_received()

    def pause_writing(self) -> None:
        """The client does not read as fast as it is sent to."""
        if self._refused:
            return
        self._inner.pause_writing()
        self._unstall()
        self._look_at_buffer()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._moved = self._loop.time()
        self._unstall()
        if not self._refused:
            self._inner.resume_writing()

    def use(self) -> tuple[int, float] | None:
        """How little a connection is of use, and since when; None for one whose request goes on well."""
        if not busy(self._inner):
            return 0, self._moved
        slow = self._loop.time() - self._moved > SLOW_S
        if slow and cycle_of(self._inner).more_body:
            return 1, self._moved
        if slow and self._stalled is not None and self._pending() >= self._unsent:
            return 2, self._moved
        return None

    def cut(self) -> None:
        """End the connection at once, to make room."""
        if self._transport is not None:
            self._transport.abort()

    def _pending(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def _look_at_buffer(self) -> None:
        """Cut off a client that took nothing since the last look, STALLED_S ago."""
        pending = self._pending()
        if self._stalled is not None and pending >= self._unsent:
            self.cut()
            return
        self._unsent = pending
        self._stalled = self._loop.call_later(STALLED_S, self._look_at_buffer)

    def _unstall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _watch(self, transport: asyncio.Transport) -> None:
        if busy(self._inner) or transport.is_closing():
            self._unwatch()
        elif self._late is None:
            self._late = self._loop.call_later(HEADER_S, self._end, transport)

    def _unwatch(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self, transport: asyncio.Transport) -> None:
        self._late = None
        if not transport.is_closing() and not busy(self._inner):
            transport.close()

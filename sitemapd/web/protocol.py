"""HTTP/1.1 as uvicorn speaks it, with an end to the wait for a request's headers and to their length.

uvicorn has two parsers: that of httptools (in the extra `fast`) is written in C and takes a small part of
the time of h11's, which is always there. They answer alike, but for what no client asks: to httptools a
method that nobody knows is no HTTP (400), to h11 it is a method that is not allowed (405).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

HEADER_S: Final = 10.0
"""How long a client may take for a request's line and headers."""
HEADER_MAX: Final = 64 * 1024
"""Bytes of a request's line and headers that may come before their end does; h11 has the same bound."""

Speaks = Callable[[Config, ServerState, dict[str, Any]], asyncio.Protocol]

try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:
    SPEAKS: Speaks = H11Protocol
else:

    class Bounded(HttpToolsProtocol):
        """httptools, which by itself keeps headers of any length."""

        _in_head = False
        _length = 0

        def on_message_begin(self) -> None:
            """A request begins."""
            super().on_message_begin()
            self._in_head, self._length = True, 0

        def on_headers_complete(self) -> None:
            """Its headers are all there."""
            self._in_head = False
            super().on_headers_complete()

        def data_received(self, data: bytes) -> None:
            """Take what came; headers that are too long end the connection."""
            super().data_received(data)
            if not self._in_head:
                return
            self._length += len(data)
            if self._length > HEADER_MAX and not self.transport.is_closing():
                if _busy(self):  # an answer is on its way: these are the headers of the next request
                    self.transport.close()
                else:
                    self.send_400_response("The headers are too long.")

    SPEAKS = Bounded


class Patient(asyncio.Protocol):
    """Ends connections whose request does not begin: uvicorn by itself waits for ever for headers."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._inner = SPEAKS(config, server_state, app_state)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the first request its time."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._inner.connection_made(transport)
        self._watch(self._transport)

    def data_received(self, data: bytes) -> None:
        """Take what came, and stop the clock once a request's headers are complete."""
        self._inner.data_received(data)
        if self._transport is not None:
            self._watch(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._inner.connection_lost(exc)
        self._transport = None
        self._unwatch()

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Pass it on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._inner.resume_writing()

    def _watch(self, transport: asyncio.Transport) -> None:
        if _busy(self._inner) or transport.is_closing():
            self._unwatch()
        elif self._late is None:
            self._late = self._loop.call_later(HEADER_S, self._end, transport)

    def _unwatch(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self, transport: asyncio.Transport) -> None:
        self._late = None
        if not transport.is_closing() and not _busy(self._inner):
            transport.close()


def _busy(speaker: asyncio.Protocol) -> bool:
    """Whether a request is in hand."""
    cycle = getattr(speaker, "cycle", None)
    return cycle is not None and not cycle.response_complete

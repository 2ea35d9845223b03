"""HTTP/1.1 as uvicorn speaks it, with bounds on headers and on requests that are sent ahead.

1. uvicorn has two parsers: that of httptools (in the extra `fast`) is written in C and takes a small part of
   the time of h11's, which is always there. They answer alike, but for what no client asks: to httptools a
   method that nobody knows is no HTTP (400), to h11 it is a method that is not allowed (405).
2. A request's line and headers have `HEADER_MAX` bytes (431).
3. A client may send `PIPELINED` requests ahead of an answer. httptools would take in any number: 256 KB of
   them, of 30 bytes each, become 20 MB of objects. The last of them is answered with `Connection: close`.
4. uvicorn's httptools protocol tells the newest request of a connection that the client went away. With
   requests sent ahead that is not the one in hand, which would go on for nobody and end in a traceback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from sitemapd.web.front import HEADER_MAX

PIPELINED: Final = 16
"""Requests that wait behind the one in hand."""
_TOO_LONG: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: 26\r\n\r\nThe headers are too long.\n"
)

Speaks = Callable[[Config, ServerState, dict[str, Any]], asyncio.Protocol]


class H11(H11Protocol):
    """h11, which answers 400 where headers are too long."""

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        if self.conn.their_state is h11.ERROR and len(self.conn.trailing_data[0]) > HEADER_MAX:
            self.transport.write(_TOO_LONG)
            self.transport.close()
        else:
            super().send_400_response(msg)


try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:
    SPEAKS: Speaks = H11
else:

    class Bounded(HttpToolsProtocol):
        """httptools, which by itself keeps headers of any length and any number of requests sent ahead."""

        running: Any = None
        """The request in hand; `cycle` is the newest, which may wait behind it."""
        _in_head = False
        _length = 0
        _ending = False
        """Whether what comes from now on is passed over."""

        def on_message_begin(self) -> None:
            """A request begins."""
            super().on_message_begin()
            self._in_head, self._length = True, 0
            if len(self.pipeline) >= PIPELINED:
                self._end_after_answers()

        def on_headers_complete(self) -> None:
            """Its headers are all there."""
            self._in_head = False
            if not self._ending:
                super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            """A piece of its body came."""
            if not self._ending:
                super().on_body(body)

        def on_message_complete(self) -> None:
            """All of it came."""
            if not self._ending:
                super().on_message_complete()

        def data_received(self, data: bytes) -> None:
            """Take what came; headers that are too long end the connection."""
            if self._ending:
                self.transport.pause_reading()  # uvicorn reads on after each answer
                return
            super().data_received(data)
            if not self._in_head:
                return
            self._length += len(data)
            if self._length > HEADER_MAX and not self.transport.is_closing():
                if busy(self):  # these are the next request's
                    self._end_after_answers()
                else:
                    self.transport.write(_TOO_LONG)
                    self.transport.close()

        def send_400_response(self, msg: str) -> None:
            """Refuse what is no HTTP, unless that would answer the request before it."""
            if busy(self) and not self.cycle.more_body:
                self._end_after_answers()
            else:
                super().send_400_response(msg)

        def connection_lost(self, exc: Exception | None) -> None:
            """The client went away: the request in hand ends, and those that wait behind it never begin."""
            self.pipeline.clear()
            if self.running is not None:
                self.cycle = self.running
            super().connection_lost(exc)

        def _end_after_answers(self) -> None:
            """Answer what came whole, then close the connection."""
            self._ending, self.cycle.keep_alive = True, False
            self.transport.pause_reading()

        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            self.running = cycle
            super()._start_asgi_task(cycle, app)

    SPEAKS = Bounded


def busy(speaker: asyncio.Protocol) -> bool:
    """Whether a request is in hand."""
    cycle = cycle_of(speaker)
    return cycle is not None and not cycle.response_complete


def cycle_of(speaker: asyncio.Protocol) -> Any:
    """uvicorn's request in hand and its response; None before the first."""
    return getattr(speaker, "running" if hasattr(speaker, "running") else "cycle", None)

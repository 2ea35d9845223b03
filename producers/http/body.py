"""A request's body as a stream of pieces, under caps on bytes, on time and on what gzip may unfold.

No piece is larger than `PIECE` by much, so memory does not depend on what a client sends.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from starlette.requests import ClientDisconnect, Request

from producers.http.problem import Problem

PIECE: Final = 64 * 1024
_GATHERED: Final = 16 * 1024
"""Pieces are at least this long, but for the last: tiny ones would be looked through too often."""
_DRAINED: Final = 256 * 1024
_DRAIN_S: Final = 1.0
_GZIP: Final = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """How much of everything a request may take. Bytes count after decompression."""

    body: int = 64 * 1024 * 1024
    """Of `POST …/events`."""
    sync: int = 1024 * 1024 * 1024
    """Of `PUT …/sources/…`."""
    webhook: int = 8 * 1024 * 1024
    """Of a webhook, which is held whole to check its signature."""
    wait: float = 20.0
    """Seconds between two pieces."""
    grace: float = 30.0
    """Seconds that a body may take, whatever its length …"""
    pace: int = 8192
    """… and the bytes a second that it must have from then on."""
    redis: float = 15.0
    """Seconds that Redis may take for one step."""


class Body:
    """One request's body. Its methods raise Problem (400, 408, 413, 415)."""

    def __init__(self, request: Request, caps: Caps) -> None:
        self._request = request
        self._caps = caps
        self._stream: AsyncIterator[bytes] | None = None
        length = request.headers.get("content-length", "")
        chunked = "transfer-encoding" in request.headers
        self._length = int(length) if length.isdecimal() and not chunked else None
        """How long it is, when that is known; uvicorn holds the client to it."""
        self.finished = not (length or chunked) or self._length == 0
        """Whether nothing of it is left to read."""

    async def pieces(self, cap: int) -> AsyncIterator[bytes]:
        """The plain bytes, `cap` of them at the most."""
        inflate = self._inflater()
        if self._length is not None and self._length > cap:
            raise _too_large(cap)
        plain = 0
        async for gathered in self._gathered(cap):
            for number, piece in enumerate(inflate.feed(gathered) if inflate else (gathered,)):
                if number:
                    await asyncio.sleep(0)  # what unfolds from one piece must not hold the others up
                plain += len(piece)
                if plain > cap:
                    raise _too_large(cap)
                yield piece
        if inflate:
            inflate.end()

    async def whole(self, cap: int) -> bytes:
        """All of it, `cap` bytes at the most."""
        return b"".join([piece async for piece in self.pieces(cap)])

    async def drain(self) -> None:
        """Take in a little of what is left, so that the answer reaches a client that is still sending."""
        if self.finished or "expect" in self._request.headers:
            return
        taken = 0
        try:
            async with asyncio.timeout(_DRAIN_S):
                async for piece in self._pieces():
                    taken += len(piece)
                    if taken > _DRAINED:
                        return
        except (TimeoutError, ClientDisconnect, RuntimeError):
            return

    def _pieces(self) -> AsyncIterator[bytes]:
        if self._stream is None:
            self._stream = self._request.stream()
        return self._stream

    async def _gathered(self, cap: int) -> AsyncIterator[bytes]:
        caps, clock = self._caps, asyncio.get_running_loop().time
        start, taken = clock(), 0
        gathered = bytearray()
        stream = self._pieces()
        while taken != self._length:
            latest = start + caps.grace + taken / caps.pace
            try:
                async with asyncio.timeout_at(min(latest, clock() + caps.wait)):
                    piece = await anext(stream, None)
            except TimeoutError:
                raise Problem(408, "slow", "The body came too slowly.") from None
            except ClientDisconnect:
                self.finished = True
                raise Problem(400, "disconnected", "The client went away before the body's end.") from None
            if piece is None:
                break
            taken += len(piece)
            if taken > cap:
                raise _too_large(cap)
            gathered += piece
            if len(gathered) >= _GATHERED:
                yield bytes(gathered)
                gathered.clear()
        self.finished = True
        if gathered:
            yield bytes(gathered)

    def _inflater(self) -> _Inflater | None:
        encoding = self._request.headers.get("content-encoding", "").strip().lower()
        if encoding in ("", "identity"):
            return None
        if encoding in ("gzip", "x-gzip"):
            return _Inflater()
        raise Problem(415, "encoding", "The Content-Encoding may be gzip, or none.")


class _Inflater:
    """Unfolds gzip, several members too, a piece at a time."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._member.eof:
                if not data.strip(b"\0"):  # padding
                    return
                self._member = zlib.decompressobj(_GZIP)
            self._begun = True
            try:
                piece = self._member.decompress(data, PIECE)
            except zlib.error as error:
                raise Problem(400, "gzip", "The body is not gzip, though it says so.") from error
            if piece:
                yield piece
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail

    def end(self) -> None:
        if not self._begun or not self._member.eof:
            raise Problem(400, "gzip", "The gzip body ends too early.")


def _too_large(cap: int) -> Problem:
    return Problem(413, "too-large", f"The body is larger than {cap} bytes: send it in parts.")

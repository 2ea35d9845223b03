"""A request's body as a stream of pieces, under caps on bytes, on time and on what gzip may unfold.

No piece is larger than `PIECE`, so neither memory nor how long others wait for their turn depends on what a
client sends.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from producers.http.problems import Problem

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
    array: int = 8 * 1024 * 1024
    """Of one in JSON, which is held whole."""
    sync: int = 1024 * 1024 * 1024
    """Of `PUT …/sources/…`."""
    webhook: int = 8 * 1024 * 1024
    """Of a webhook that shows a token. It is held whole."""
    unknown: int = 1024 * 1024
    """Of a webhook that shows none: whether its signature is right is only known at the body's end."""
    held: int = 64 * 1024 * 1024
    """Of all bodies together that are held whole, once for those with a token and once for those without."""
    wait: float = 20.0
    """Seconds between two pieces."""
    grace: float = 30.0
    """Seconds that a body may take, whatever its length …"""
    pace: int = 8192
    """… and the bytes a second that it must have from then on."""
    redis: float = 1.5
    """Seconds that Redis may take for one step."""


class Admission:
    """Lets requests begin a few at a time, in their order. One event loop uses it.

    Between two such rounds the loop comes to all else that is ready. So an answer that needs no work, such as
    that of `/livez`, waits for a few requests and not for all that have come.
    """

    def __init__(self, *, together: int = 16, waiting: int = 1000) -> None:
        self._together = together
        """Requests that begin in one round of the loop."""
        self._most = waiting
        """Requests that wait; at a thousand requests a second the last of them waits for a second."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._begun = 0

    async def enter(self) -> None:
        """Return when the request may begin. Raises Problem (503) when too many wait already."""
        loop = asyncio.get_running_loop()
        if self._begun < self._together and not self._waiting:
            if not self._begun:
                loop.call_soon(self._next, loop)
            self._begun += 1
            return
        if len(self._waiting) >= self._most:
            detail = "Too many requests wait to be handled: send it again in a second."
            raise Problem(503, "overload", detail, headers={"Retry-After": "1"})
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the next requests begin: what began before has had its round of the loop."""
        self._begun = 0
        while self._waiting and self._begun < self._together:
            turn = self._waiting.popleft()
            if not turn.done():  # else its connection was closed
                turn.set_result(None)
                self._begun += 1
        if self._begun:
            loop.call_soon(self._next, loop)


class Room:
    """The memory for bodies that are held whole: what strangers send takes nothing from others."""

    def __init__(self, size: int) -> None:
        self._free = {True: size, False: size}

    def take(self, size: int, *, known: bool) -> None:
        """Reserve bytes. Raises Problem (429)."""
        if size > self._free[known]:
            detail = "Too many large bodies are on their way at once: send it again in a few seconds."
            raise Problem(429, "bodies", detail, headers={"Retry-After": "5"})
        self._free[known] -= size

    def free(self, size: int, *, known: bool) -> None:
        """Give bytes back."""
        self._free[known] += size


class Body:
    """One request's body. Its methods raise Problem (400, 408, 413, 415, 429)."""

    def __init__(self, request: Request, caps: Caps, room: Room) -> None:
        self._receive = request.receive
        self._caps = caps
        self._room = room
        self._held = {True: 0, False: 0}
        headers = dict(request.scope["headers"])
        length = headers.get(b"content-length", b"").decode("latin-1")
        chunked = b"transfer-encoding" in headers
        self._length = int(length) if length.isdecimal() and not chunked else None
        """How long it is, when that is known; uvicorn holds the client to it."""
        self._encoding = headers.get(b"content-encoding", b"").decode("latin-1").strip().lower()
        self._expected = b"expect" in headers
        self._taken = 0
        self.finished = not (length or chunked) or self._length == 0
        """Whether nothing of it is left to read."""

    @property
    def short(self) -> bool:
        """Whether it is known to fit into one piece: most bodies are one event."""
        return self._length is not None and self._length <= PIECE and not self._encoding

    async def pieces(self, cap: int) -> AsyncIterator[bytes]:
        """The plain bytes, `cap` of them at the most."""
        inflate = self._inflater()
        plain = 0
        async for gathered in self._gathered(cap):
            for number, piece in enumerate(inflate.feed(gathered) if inflate else _parts(gathered)):
                if number:
                    await asyncio.sleep(0)  # what came, or unfolds, at once must not hold the others up
                plain += len(piece)
                if plain > cap:
                    raise _too_large(cap)
                yield piece
        if inflate:
            inflate.end()

    async def whole(
        self, cap: int, *, known: bool = True, each: Callable[[bytes], None] | None = None
    ) -> bytes:
        """All of it, `cap` bytes at the most. `each` gets its pieces; `known`: the sender showed a token."""
        if not self.short or each is not None:
            held = bytearray()
            async for piece in self.pieces(cap):
                try:
                    self._room.take(len(piece), known=known)
                except Problem:
                    self.release()  # at once: others that are on their way then fit
                    raise
                self._held[known] += len(piece)
                held += piece
                if each is not None:
                    each(piece)
            return bytes(held)
        if (self._length or 0) > cap:
            raise _too_large(cap)
        begin, text = asyncio.get_running_loop().time(), b""
        while not self.finished:
            text += await self._next(begin, cap)
        return text

    def release(self) -> None:
        """Give back the room that a whole body took."""
        for known, size in self._held.items():
            self._room.free(size, known=known)
            self._held[known] = 0

    async def drain(self) -> None:
        """Take in a little of what is left, so that the answer reaches a client that is still sending."""
        if self._expected:
            return
        most = self._taken + _DRAINED
        try:
            async with asyncio.timeout(_DRAIN_S):
                while not self.finished and self._taken <= most:
                    await self._message()
        except (TimeoutError, Problem):
            return

    async def _gathered(self, cap: int) -> AsyncIterator[bytes]:
        begin = asyncio.get_running_loop().time()
        gathered = bytearray()
        while not self.finished:
            gathered += await self._next(begin, cap)
            if len(gathered) >= _GATHERED:
                yield bytes(gathered)
                gathered.clear()
        if gathered:
            yield bytes(gathered)

    async def _next(self, begin: float, cap: int) -> bytes:
        """What comes next, of a body that began at a time of the loop; empty, perhaps, at its end."""
        if (self._length or self._taken) > cap:
            raise _too_large(cap)
        caps = self._caps
        latest = begin + caps.grace + self._taken / caps.pace
        try:
            async with asyncio.timeout_at(min(latest, asyncio.get_running_loop().time() + caps.wait)):
                piece = await self._message()
        except TimeoutError:
            detail = (
                f"The body came too slowly: send {caps.pace} bytes a second, no pause of {caps.wait:g} s, "
                "or fewer events at a time."
            )
            raise Problem(408, "slow", detail) from None
        if self._taken > cap:
            raise _too_large(cap)
        return piece

    async def _message(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.finished = True
            raise Problem(400, "disconnected", "The client went away before the body's end: send it again.")
        piece: bytes = message.get("body", b"")
        self._taken += len(piece)
        self.finished = not message.get("more_body", False) or self._taken == self._length
        return piece

    def _inflater(self) -> _Inflater | None:
        if self._encoding in ("", "identity"):
            return None
        if self._encoding in ("gzip", "x-gzip"):
            return _Inflater()
        raise Problem(415, "encoding", f"The Content-Encoding is {self._encoding[:20]!r}: use gzip, or none.")


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
                raise Problem(
                    400, "gzip", "The body is not gzip: compress it, or leave out Content-Encoding."
                ) from error
            if piece:
                yield piece
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail

    def end(self) -> None:
        if not self._begun or not self._member.eof:
            raise Problem(400, "gzip", "The gzip body ends too early: compress and send it whole.")


def _parts(data: bytes) -> Iterator[bytes]:
    return (data[start : start + PIECE] for start in range(0, len(data), PIECE))


def _too_large(cap: int) -> Problem:
    return Problem(413, "too-large", f"The body is larger than {cap} bytes: send it in parts.")

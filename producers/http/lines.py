"""NDJSON from pieces of a body: blocks of whole lines, decoded later and elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from producers.ndjson import LINE_MAX, Lines, lines_of, too_large

BLOCK: Final = 128 * 1024
"""Bytes from which on a block is handed out: about a thousand events."""
LINES: Final = 2000
"""The most lines of a block, however short they are."""
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole lines, the last perhaps without its line feed."""

    first: int
    """The number of the first line, from 1."""
    text: bytes

    def __len__(self) -> int:
        return len(self.text)

    def read(self) -> Lines:
        """What the lines say; blank ones are passed over."""
        return lines_of(self.text.removesuffix(b"\n").split(b"\n"), self.first)


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line that was too long to keep."""

    number: int

    def __len__(self) -> int:
        return 0

    def read(self) -> Lines:
        """Its refusal."""
        return Lines([self.number], [too_large()])


class NdjsonSplitter:
    """Holds a block, or one line of `LINE_MAX`, whatever comes."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._number = 1
        """Of the line that the rest begins with."""
        self._skipping = False

    def feed(self, piece: bytes) -> Iterator[Block | LongLine]:
        """What is complete with this piece, once it is enough for a block."""
        if self._skipping:
            _, ended, piece = piece.partition(b"\n")
            if not ended:
                return
            yield self._skipped()
        self._rest += piece
        if len(self._rest) >= BLOCK:
            yield from self._blocks(self._rest.rfind(b"\n") + 1)
            if len(self._rest) > LINE_MAX:
                self._rest.clear()
                self._skipping = True

    def end(self) -> Iterator[Block | LongLine]:
        """The last lines."""
        if self._skipping:
            yield self._skipped()
        yield from self._blocks(len(self._rest))

    def _skipped(self) -> LongLine:
        self._skipping = False
        self._number += 1
        return LongLine(self._number - 1)

    def _blocks(self, end: int) -> Iterator[Block]:
        """Take the rest up to its place `end`."""
        text = bytes(self._rest[:end])
        del self._rest[:end]
        if self._number == 1:
            text = text.removeprefix(_BOM)
        while text.count(b"\n") > LINES:
            *lines, text = text.split(b"\n", LINES)
            yield Block(self._number, b"\n".join(lines))
            self._number += LINES
        if text:
            yield Block(self._number, text)
            self._number += text.count(b"\n")

"""From pieces of a body to batches of events: NDJSON as it comes, JSON, which is held whole, at its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from functools import lru_cache
from typing import Any, Final, Protocol

from producers.http.problems import Problem
from producers.ndjson import LINE_MAX, Lines, decode_large, lines_of, too_large
from sitemap_store.errors import Refused

JSON: Final = "application/json"
NDJSON: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
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
        while text.count(b"\n") > LINES:
            *lines, text = text.split(b"\n", LINES)
            yield Block(self._number, b"\n".join(lines))
            self._number += LINES
        if text:
            yield Block(self._number, text)
            self._number += text.count(b"\n")


class Batch(Protocol):
    """Some events of a body, still raw; its length is in bytes."""

    def __len__(self) -> int: ...

    def read(self) -> Lines:
        """What they say. Raises Problem (400, 413) when that spoils the whole body."""


class Splitter(Protocol):
    """Takes a body piece by piece. Raises Problem (400, 413) for one that can't be split."""

    def feed(self, piece: bytes) -> Iterator[Batch]:
        """What is complete with this piece, once it is enough for a batch."""

    def end(self) -> Iterator[Batch]:
        """What is left at the end."""


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON body: one event, or an array of events."""

    text: bytes

    def __len__(self) -> int:
        return len(self.text)

    def read(self) -> Lines:
        """The events. Raises Problem (400, 413)."""
        try:
            value = decode_large(self.text.removeprefix(_BOM))
        except Refused as error:
            raise Problem(400, error.rule, error.detail.replace("The line", "The body", 1)) from error
        items = value if isinstance(value, list) else [value]
        if len(self.text) > LINE_MAX:
            items = [too_large() if _is_long(item) else item for item in items]
        return Lines(range(1, len(items) + 1), items)


class JsonSplitter:
    """Gives the body at its end."""

    def __init__(self) -> None:
        self._text = bytearray()

    def feed(self, piece: bytes) -> Iterator[Document]:
        """Keep a piece."""
        self._text += piece
        return iter(())

    def end(self) -> Iterator[Document]:
        """The whole body."""
        yield Document(bytes(self._text))


def _is_long(item: Any) -> bool:
    """Whether an event is longer than a line may be; what it is without extensions has other bounds."""
    return isinstance(item, dict) and bool(item.get("ext")) and len(json.dumps(item)) > LINE_MAX


def splitter(content_type: str | None, *, only: str | None = None) -> Splitter:
    """The splitter for a Content-Type. Raises Problem (415)."""
    kind, charset = _kind(content_type or "")
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise Problem(
            415,
            "charset",
            f"The charset is {charset[:20]!r}, and JSON is UTF-8: send it so, and name no other.",
        )
    if kind in NDJSON and only != JSON:
        return NdjsonSplitter()
    if (kind == JSON or kind.endswith("+json")) and only in (None, JSON):
        return JsonSplitter()
    allowed = only or f"{JSON} or {NDJSON[0]}"
    raise Problem(415, "content-type", f"The Content-Type is {kind[:40]!r}: send {allowed}, and say so.")


@lru_cache(64)
def _kind(content_type: str) -> tuple[str, str]:
    """The type and the charset; clients send the same few again and again."""
    message = Message()
    message["Content-Type"] = content_type
    charset = str(message.get_param("charset", "utf-8")).lower()
    return message.get_content_type() if content_type else "", charset

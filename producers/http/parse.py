"""From pieces of a body to single events, still raw, without ever holding the whole.

`Lines` splits NDJSON, `Document` one JSON value: an event, or an array of events. Both give `Raw` items,
whose bytes `producers.ndjson.decode` reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from email.message import Message
from typing import Final, NamedTuple, Protocol

from producers.http.problem import Problem
from producers.ndjson import DEPTH_MAX, LINE_MAX, TOKEN

JSON: Final = "application/json"
NDJSON: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
_SPACE: Final = b" \t\r\n"
_BOM: Final = b"\xef\xbb\xbf"


class Raw(NamedTuple):
    """One event as it came: its line (or place in the array) from 1; None when it was too long to keep."""

    line: int
    text: bytes | None


class Splitter(Protocol):
    """Takes a body piece by piece. Raises Problem (400) for one that can't be split."""

    strict: bool
    """Whether an event that is no JSON spoils the whole body."""

    def feed(self, piece: bytes) -> Iterator[Raw]:
        """What is complete with this piece."""

    def end(self) -> Iterator[Raw]:
        """What is left at the end."""


def splitter(content_type: str | None, *, lines_only: bool = False) -> Splitter:
    """The splitter for a Content-Type. Raises Problem (415)."""
    message = Message()
    message["Content-Type"] = content_type or ""
    kind = message.get_content_type()
    charset = str(message.get_param("charset", "utf-8")).lower()
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise Problem(415, "charset", "JSON is UTF-8: send it so, and say no other charset.")
    if content_type and kind in NDJSON:
        return Lines()
    if content_type and kind == JSON and not lines_only:
        return Document()
    known = NDJSON[0] if lines_only else f"{JSON} or {NDJSON[0]}"
    raise Problem(415, "content-type", f"The Content-Type must be {known}.")


class Lines:
    """NDJSON. A blank line is passed over; one that is too long is given without its text."""

    strict = False

    def __init__(self) -> None:
        self._rest = bytearray()
        self._number = 0
        self._too_long = False

    def feed(self, piece: bytes) -> Iterator[Raw]:
        """What is complete with this piece."""
        first, *others = piece.split(b"\n")
        self._grow(first)
        for text in others:
            yield from self._line()
            self._grow(text)

    def end(self) -> Iterator[Raw]:
        """The last line, when no line feed ended it."""
        if self._rest or self._too_long:
            yield from self._line()

    def _grow(self, text: bytes) -> None:
        if not self._too_long:
            self._rest += text
            if len(self._rest) > LINE_MAX:
                self._too_long = True
                self._rest.clear()

    def _line(self) -> Iterator[Raw]:
        self._number += 1
        text, too_long = bytes(self._rest), self._too_long
        self._rest.clear()
        self._too_long = False
        if self._number == 1:
            text = text.removeprefix(_BOM)
        if too_long:
            yield Raw(self._number, None)
        elif text.strip():
            yield Raw(self._number, text)


class Document:
    """One JSON value: an array is given element by element, everything else as it is."""

    strict = True

    def __init__(self) -> None:
        self._text = bytearray()
        self._at = 0
        """How far the text is looked through."""
        self._depth = 0
        self._array: bool | None = None
        self._over = False
        self._number = 0

    def feed(self, piece: bytes) -> Iterator[Raw]:
        """The elements that are complete with this piece."""
        self._text += piece
        if self._array is None and not self._begin():
            return
        if self._array:
            yield from self._elements()
        if self._over and self._text.strip(_SPACE):
            raise _malformed("something follows after its end")
        if len(self._text) - (self._at if self._over else 0) > LINE_MAX:
            raise Problem(413, "too-large", f"An event is longer than {LINE_MAX} bytes.")

    def end(self) -> Iterator[Raw]:
        """The value that is no array."""
        if self._array is None:
            raise _malformed("it is empty")
        if not self._array:
            yield Raw(1, bytes(self._text))
        elif not self._over:
            raise _malformed("the array has no end")

    def _begin(self) -> bool:
        if self._text.startswith(_BOM):
            del self._text[: len(_BOM)]
        del self._text[: len(self._text) - len(self._text.lstrip(_SPACE))]
        if not self._text:
            return False
        self._array = self._text[:1] == b"["
        if self._array:
            del self._text[:1]
        return True

    def _elements(self) -> Iterator[Raw]:
        start = 0
        for token in TOKEN.finditer(self._text, self._at):
            first = token[0][:1]
            if first == b'"':
                if not token[1]:
                    # Unended so far: to be looked at again with the next piece.
                    self._at = token.start()
                    break
            elif first in (b"{", b"["):
                self._depth += 1
                if self._depth >= DEPTH_MAX:
                    raise _malformed(f"it nests deeper than {DEPTH_MAX}")
            elif self._depth and first != b",":
                self._depth -= 1
            elif not self._depth:
                element = bytes(self._text[start : token.start()])
                start = token.end()
                last = first == b"]"
                if first == b"}" or (not element.strip(_SPACE) and not (last and self._number == 0)):
                    raise _malformed(f"element {self._number + 1} is missing")
                if element.strip(_SPACE):
                    self._number += 1
                    yield Raw(self._number, element)
                if last:
                    self._over = True
                    self._at = start
                    break
            self._at = token.end()
        else:
            self._at = max(self._at, start, len(self._text))
        del self._text[:start]
        self._at -= start


def _malformed(why: str) -> Problem:
    return Problem(400, "json", f"The body is not JSON: {why}.")

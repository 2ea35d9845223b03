"""One JSON value from pieces of a body: an event, or an array of events that is given in parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from producers.http.problem import Problem
from producers.ndjson import DEPTH_MAX, LINE_MAX, TOKEN, Lines, decode
from sitemap_store.errors import Refused

EVENTS: Final = 2000
"""Events at a time, at the most."""
BYTES: Final = 4 * 1024 * 1024
"""Bytes at a time, or a single event more."""
_FLAT: Final = rb'\{(?:[^{}\[\]"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+\}'
"""An object in which nothing nests, as most events are: passed over at once."""
_TOKEN: Final = re.compile(_FLAT + b"|" + TOKEN.pattern, re.DOTALL)
_SPACE: Final = b" \t\r\n"
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Elements:
    """Some elements of an array, or the one value; still raw."""

    first: int
    """The place of the first, from 1."""
    texts: list[bytes]

    def __len__(self) -> int:
        return sum(map(len, self.texts))

    def read(self) -> Lines:
        """What they say. Raises Problem (400, 413): one that is no JSON spoils the whole body."""
        return Lines(range(self.first, self.first + len(self.texts)), [_value(text) for text in self.texts])


class JsonSplitter:
    """Holds a batch of elements. Raises Problem (400, 413) for a body that can't be split."""

    def __init__(self) -> None:
        self._text = bytearray()
        self._at = 0
        """How far the text is looked through."""
        self._depth = 0
        self._array: bool | None = None
        self._over = False
        self._number = 0
        self._whole: list[bytes] = []
        """Elements that wait to be handed out."""
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[Elements]:
        """The elements that are complete with this piece, once they are enough for a batch."""
        self._text += piece
        if self._array is None and not self._begin():
            return
        if self._array:
            for element in self._elements():
                self._number += 1
                self._whole.append(element)
                self._size += len(element)
                if len(self._whole) >= EVENTS or self._size >= BYTES:
                    yield self._batch()
        if self._over and self._text.strip(_SPACE):
            raise _malformed("something follows after its end")
        if len(self._text) - (self._at if self._over else 0) > LINE_MAX:
            raise Problem(413, "too-large", f"An event is longer than {LINE_MAX} bytes.")

    def end(self) -> Iterator[Elements]:
        """The last elements, or the value that is no array."""
        if self._array is None:
            raise _malformed("it is empty")
        if not self._array:
            yield Elements(1, [bytes(self._text)])
        elif not self._over:
            raise _malformed("the array has no end")
        elif self._whole:
            yield self._batch()

    def _batch(self) -> Elements:
        batch = Elements(self._number - len(self._whole) + 1, self._whole)
        self._whole, self._size = [], 0
        return batch

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

    def _elements(self) -> Iterator[bytes]:
        start = 0
        for token in _TOKEN.finditer(self._text, self._at):
            first = token[0][:1]
            if first == b'"':
                if not token[1]:
                    # Unended so far: to be looked at again with the next piece.
                    self._at = token.start()
                    break
            elif first in (b"{", b"["):
                if self._depth + 1 >= DEPTH_MAX:
                    raise _malformed(f"it nests deeper than {DEPTH_MAX}")
                if len(token[0]) == 1:
                    self._depth += 1
            elif self._depth and first != b",":
                self._depth -= 1
            elif not self._depth:
                element = bytes(self._text[start : token.start()])
                start = token.end()
                last = first == b"]"
                if first == b"}" or (not element.strip(_SPACE) and not (last and self._number == 0)):
                    raise _malformed(f"element {self._number + 1} is missing")
                if element.strip(_SPACE):
                    yield element
                if last:
                    self._over = True
                    self._at = start
                    break
            self._at = token.end()
        else:
            self._at = max(self._at, start, len(self._text))
        del self._text[:start]
        self._at -= start


def _value(text: bytes) -> Any:
    try:
        return decode(text)
    except Refused as error:
        status = 413 if error.rule == "too-large" else 400
        detail = error.detail.replace("The line", "The body" if status == 400 else "An event", 1)
        raise Problem(status, error.rule, detail) from error


def _malformed(why: str) -> Problem:
    return Problem(400, "json", f"The body is not JSON: {why}.")

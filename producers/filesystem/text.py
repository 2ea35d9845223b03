"""Byte order marks, by which some editors say how a text is encoded."""

from __future__ import annotations

import codecs
from typing import Final

_MARKS: Final = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
MARKS: Final = tuple(_MARKS)


def unmarked(data: bytes) -> tuple[bytes, str]:
    """A text without its byte order mark, and the encoding that this names; "" where there is none."""
    if data.startswith(MARKS):
        for mark, encoding in _MARKS.items():
            if data.startswith(mark):
                return data[len(mark) :], encoding
    return data, ""

"""One JSON value of a producer's input, under caps on its length and on how deep it nests."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from sitemap_store.errors import Refused

LINE_MAX: Final = 1024 * 1024
"""The most bytes of one event."""
DEPTH_MAX: Final = 32
"""How deep arrays and objects may nest: an event with extensions needs six."""

TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)|[\[\]{}]|,', re.DOTALL)
"""A string (unended, when its group is empty), a bracket, or a comma."""

_decode: Final = json.JSONDecoder().raw_decode


def decode(raw: bytes) -> Any:
    """The value of a line of JSON in UTF-8. Raises Refused (rule "json" or "too-large")."""
    if len(raw) > LINE_MAX:
        raise too_large()
    return decode_large(raw)


def decode_large(raw: bytes) -> Any:
    """The value of JSON in UTF-8, however long. Raises Refused (rule "json")."""
    if raw.count(b"{") + raw.count(b"[") > DEPTH_MAX and _depth(raw) > DEPTH_MAX:
        raise _no_json(f"it nests deeper than {DEPTH_MAX}")
    try:
        text = raw.decode().strip()
        value, end = _decode(text)
    except (ValueError, RecursionError) as error:
        raise _no_json(str(error)) from error
    if end != len(text):
        raise _no_json(f"more follows after character {end}")
    return value


def too_large() -> Refused:
    """The refusal of an event that is too long."""
    return Refused(loc="", rule="too-large", detail=f"The line is longer than {LINE_MAX} bytes.")


def _no_json(reason: str) -> Refused:
    return Refused(loc="", rule="json", detail=f"The line is not JSON: {reason}.")


def _depth(raw: bytes) -> int:
    depth = deepest = 0
    for found in TOKEN.finditer(raw):
        if found[0] in (b"{", b"["):
            depth += 1
            deepest = max(deepest, depth)
        elif found[0] in (b"}", b"]"):
            depth -= 1
    return deepest

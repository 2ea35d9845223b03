"""JSON Pointers (RFC 6901), with `*` for every element of an array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

MISSING: Final = object()
Pointer = tuple[str, ...]


def pointer(text: str) -> Pointer:
    """Read a pointer; "" is the whole. Raises ValueError."""
    if text and not text.startswith("/"):
        raise ValueError(f"{text!r} is no JSON Pointer: it begins with /")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])


def follow(value: Any, path: Pointer) -> Any:
    """What a pointer leads to; MISSING when there is nothing."""
    for part in path:
        if isinstance(value, dict):
            value = value.get(part, MISSING)
        elif isinstance(value, list) and part.isdecimal() and part.isascii() and len(part) < 10:
            value = value[int(part)] if int(part) < len(value) else MISSING
        else:
            return MISSING
    return value


def each(value: Any, path: Pointer) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Everything that a pointer with `*` leads to, with the places in the arrays on the way."""
    if "*" not in path:
        found = follow(value, path)
        if found is not MISSING:
            yield (), found
        return
    star = path.index("*")
    array = follow(value, path[:star])
    if isinstance(array, list):
        for place, element in enumerate(array):
            for places, found in each(element, path[star + 1 :]):
                yield (place, *places), found

"""A producer's NDJSON, under caps on a line's length and on how deep it nests.

Lines are decoded many at once, where it is certain that this gives what each would give alone: one
call of the parser costs as much as the line itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, Final, NamedTuple

from sitemap_store.errors import Refused

LINE_MAX: Final = 1024 * 1024
"""The most bytes of one event."""
DEPTH_MAX: Final = 32
"""How deep arrays and objects may nest: an event with extensions needs six."""

BLOCK: Final = 256 * 1024
"""The most bytes that are read at once: some two thousand events."""

_BOM: Final = b"\xef\xbb\xbf"
_decode: Final = json.JSONDecoder().raw_decode


Parse = Callable[[Sequence[bytes]], list[Any]]
"""Reads lines: what each says, or its `Refused`."""


class Lines(NamedTuple):
    """Some lines of a stream, blank ones passed over."""

    numbers: Sequence[int]
    """The place of each in the stream, from 1."""
    items: list[Any]
    """What each says, or its `Refused`."""


def read_lines(stream: BinaryIO, parse: Parse | None = None) -> Iterator[Lines]:
    """The lines of a stream as they come: what is there is not kept waiting for more.

    `parse` reads some lines, NDJSON unless given; a byte order mark before the first is skipped. Memory
    is `BLOCK` and one line of `LINE_MAX`, whatever the stream holds.
    """
    number, rest, skipping = 1, b"", False
    read = getattr(stream, "read1", stream.read)
    while block := read(BLOCK):
        if skipping:
            _, ended, block = block.partition(b"\n")
            if not ended:
                continue
            skipping = False
        *raws, rest = (rest + block).split(b"\n")
        cut = len(rest) > LINE_MAX
        if cut:
            raws.append(rest)
            rest, skipping = b"", True
        if raws:
            yield lines_of(raws, number, parse)
            number += len(raws)
    if rest:
        yield lines_of([rest], number, parse)


def lines_of(raws: Sequence[bytes], first: int, parse: Parse | None = None) -> Lines:
    """Raw lines, the first of which has that number, decoded."""
    parse = parse or decode_many
    if first == 1 and raws[0].startswith(_BOM):
        raws = [raws[0].removeprefix(_BOM), *raws[1:]]
    if all(raws) and not any(map(bytes.isspace, raws)):
        return Lines(range(first, first + len(raws)), parse(raws))
    some = [(number, raw) for number, raw in enumerate(raws, first) if raw.strip()]
    return Lines([number for number, _ in some], parse([raw for _, raw in some]))


def urls_or_objects(raws: Sequence[bytes]) -> list[Any]:
    """Lines that are plain URLs or JSON objects: text, what the object says, or a `Refused`."""
    return [_value_or_refusal(raw) if raw.lstrip()[:1] == b"{" else _url_or_refusal(raw) for raw in raws]


def decode_many(raws: Sequence[bytes]) -> list[Any]:
    """What each line says as `decode` reads it, or its `Refused`. No line may hold a line feed.

    Read as one array when each line begins with the only "{" in it, ends with "}" and has no "[": no string
    reaches over the line feeds between them, so nothing but its own end can close what a line opened, and
    the array is valid if and only if each line is.
    """
    whole = b"[" + b"\n,\n".join(raws) + b"]"
    if (
        whole.count(b"}\n,\n{") == len(raws) - 1
        and whole.count(b"{") == len(raws)
        and whole.count(b"[") == 1
        and whole.startswith(b"[{")
        and whole.endswith(b"}]")
        and len(max(raws, key=len)) <= LINE_MAX
    ):
        try:
            values: list[Any] = json.loads(whole.decode())
            return values
        except ValueError:
            pass  # one at a time, to find out which
    return [_value_or_refusal(raw) for raw in raws]


def _value_or_refusal(raw: bytes) -> Any:
    try:
        return decode(raw)
    except Refused as refused:
        return refused.kept()


def _url_or_refusal(raw: bytes) -> Any:
    if len(raw) > LINE_MAX:
        return too_large()
    try:
        return raw.decode().strip()
    except UnicodeDecodeError:
        return Refused(loc="", rule="json", detail="The line is not UTF-8.")


def decode(raw: bytes) -> Any:
    """The value of a line of JSON in UTF-8. Raises Refused (rule "json" or "too-large")."""
    if len(raw) > LINE_MAX:
        raise too_large()
    return decode_large(raw)


def decode_large(raw: bytes) -> Any:
    """The value of JSON in UTF-8, however long. Raises Refused (rule "json")."""
    try:
        text = raw.decode().strip()
        value, end = _decode(text)
    except RecursionError:
        raise _no_json(f"it nests deeper than {DEPTH_MAX}") from None
    except ValueError as error:
        raise _no_json(str(error)) from error
    # A line with few brackets is not deep: most lines with extensions, in half the time.
    if raw.count(b"[") + raw.count(b"{") > DEPTH_MAX and _is_deep(value):
        raise _no_json(f"it nests deeper than {DEPTH_MAX}")
    if end != len(text):
        raise _no_json(f"more follows after character {end}")
    return value


def too_large() -> Refused:
    """The refusal of an event that is too long."""
    return Refused(loc="", rule="too-large", detail=f"The line is longer than {LINE_MAX} bytes.")


def _no_json(reason: str) -> Refused:
    return Refused(loc="", rule="json", detail=f"The line is not JSON: {reason}.")


def _is_deep(value: Any) -> bool:
    """Whether arrays and objects nest deeper than `DEPTH_MAX`."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(DEPTH_MAX):
        if not level:
            return False
        insides = [inner.values() if isinstance(inner, dict) else inner for inner in level]
        level = [each for inside in insides for each in inside if isinstance(each, (dict, list))]
    return bool(level)

"""Random and near-miss events: right ones with one thing wrong, or with everything. Pure."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

from tests import markdown
from tests.markdown import plain

BASE: Final = "https://wild.example.com/"
RULES: Final = frozenset(plain(row[0]) for row in markdown.table(markdown.doc("wire-format.md"), "rule"))
"""The rules that docs/wire-format.md names."""

_ODD: Final[tuple[Any, ...]] = (
    *(
        None,
        True,
        False,
        0,
        -0.0,
        1,
        1e308,
        10**30,
        "",
        " ",
        "\x00",
        "\ud800",
        "é",
        "0",
        "-",
        "add",
        [],
        [1],
        {},
        {"a": None},
    ),
    *(
        "2026-02-29",
        "2026-13-01",
        "0000-00-00",
        "9999-12-31T23:59:59Z",
        "2026-03-21T24:00:00Z",
        "2026-03-21T11:22:33",
    ),
    *(
        "1.5",
        "0.80",
        "-0.0",
        "NaN",
        "Daily",
        "always",
        "https://wild.example.com",
        "//wild.example.com/a",
        "x" * 3000,
    ),
)
_LOCS: Final = (
    *(
        "http://wild.example.com/",
        "https://WILD.example.com:443/a/../b",
        "https://wild.example.com/%zz",
        "https://wild.example.com/%",
    ),
    *(
        "https://wild.example.com:0/",
        "https://wild.example.com:65536/",
        "https://me@wild.example.com/",
        "https://wild.example.com./",
    ),
    *(
        "https://wild.example.com/" + "a" * 2022,
        "https://wild.example.com/" + "a" * 2023,
        "https://wild.example.com/\n",
    ),
    *(
        "https://wild.example.com/\ud83d\ude00",
        "https://wild.example.com/<&>'\"",
        "https://xn--.example.com/",
        "ftp://wild.example.com/",
    ),
    *(
        "https://wild.example.com/a#b",
        "https://wild.example.com/?",
        "https://wild.example.com\\a",
        "https://[::1]/",
        "https:///a",
    ),
    *(
        "https://wild.example.com/%2e%2e/%2e%2e/x",
        "https://wild.example.com/%00",
        "https://wild.example.com/\u202e",
        "/a",
        "",
    ),
)


def good(number: int) -> dict[str, Any]:
    """An event that must be accepted, whatever stands beside it."""
    return {"op": "add", "loc": f"{BASE}good/{number}", "lastmod": "2026-03-21"}


def lines(chance: random.Random, size: int, first: int) -> tuple[list[bytes], list[int]]:
    """Lines of NDJSON, and the numbers of the good events among them, from `first` on."""
    found, numbers = [], []
    for place in range(size):
        if place % 10 == 0:
            numbers.append(first + place // 10)
            found.append(json.dumps(good(numbers[-1])).encode())
        else:
            found.append(_line(chance))
    chance.shuffle(found)
    return found, numbers


def _line(chance: random.Random) -> bytes:
    event = _event(chance)
    line = json.dumps(event).encode()
    wreck = chance.choice(_WRECKS) if chance.random() < 0.25 else None
    line = wreck(chance, line) if wreck else line
    # What is empty is passed over, and what holds a line feed is two lines.
    return line.replace(b"\n", b" ").replace(b"\r", b" ").strip() or b"?"


def _event(chance: random.Random) -> dict[str, Any]:
    event: dict[str, Any] = {
        "op": chance.choice(("add", "update", "delete")),
        "loc": f"{BASE}odd/{chance.randrange(40)}" if chance.random() < 0.6 else chance.choice(_LOCS),
    }
    for field in chance.sample(_FIELDS, chance.randrange(4)):
        event[field] = chance.choice(_ODD)
    if chance.random() < 0.3:
        event["lastmod"] = f"2026-0{chance.randrange(10)}-{chance.randrange(33):02}"
    if chance.random() < 0.3:
        event["priority"] = chance.choice((0.5, 0.55, "0.5", 1, 1.1, -0.1, "1.00"))
    return event


_FIELDS: Final = (
    "op",
    "loc",
    "lastmod",
    "changefreq",
    "priority",
    "at",
    "source",
    "urgent",
    "ext",
    "Loc",
    "url",
)


def _cut(chance: random.Random, line: bytes) -> bytes:
    return line[: chance.randrange(1, len(line))]


def _flip(chance: random.Random, line: bytes) -> bytes:
    place = chance.randrange(len(line))
    return line[:place] + bytes([chance.randrange(256)]) + line[place + 1 :]


def _twice(_chance: random.Random, line: bytes) -> bytes:
    return line + line


def _nested(chance: random.Random, _line: bytes) -> bytes:
    depth = chance.choice((3, 200, 100_000))
    return b"[" * depth + b"]" * depth


def _again(chance: random.Random, line: bytes) -> bytes:
    return line[:-1] + b',"op":"' + chance.choice((b"add", b"remove")) + b'"}'


def _large(chance: random.Random, line: bytes) -> bytes:
    return line[:-1] + b" " * chance.choice((2**20 - len(line), 2**20 - len(line) + 1)) + b"}"


_WRECKS: Final[tuple[Callable[[random.Random, bytes], bytes], ...]] = (
    _cut,
    _flip,
    _twice,
    _nested,
    _again,
    _large,
)

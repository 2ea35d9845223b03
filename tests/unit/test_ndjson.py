"""NDJSON is read as if each line stood alone, however the bytes come and however many are read at once."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from producers import ndjson
from producers.ndjson import (
    BLOCK,
    DEPTH_MAX,
    LINE_MAX,
    decode,
    decode_many,
    read_lines,
    urls_or_objects,
)
from sitemap_store.errors import Refused

PLAIN = b'{"op":"add","loc":"https://example.com/a"}'

objects = st.dictionaries(
    st.sampled_from(["op", "loc", "lastmod", "}", ",{"]),
    st.one_of(st.none(), st.integers(), st.text(alphabet='{}[],:"\\n\\ aé', max_size=6)),
    max_size=3,
).map(lambda item: json.dumps(item).encode())
pieces = st.lists(
    st.sampled_from(["{", "}", "[", "]", '"', ",", ":", '"a"', "1", " ", "\\", "\r", "é"]), max_size=8
).map(lambda parts: "".join(parts).encode())
raws = st.one_of(objects, objects, pieces, st.sampled_from([PLAIN, b"null", b"\xff", b"{}\x00"]))


def alone(raw: bytes) -> Any:
    """What one line says, or how it is refused."""
    try:
        return decode(raw)
    except Refused as refused:
        return (refused.rule, refused.detail)


def shown(value: Any) -> Any:
    """A refusal as what it says, so that two can be compared."""
    return (value.rule, value.detail) if isinstance(value, Refused) else value


@given(st.lists(raws, min_size=1, max_size=6))
@example([b'{"a":"}', b'{","b":1}', b'{"c":1},{"d":1}'])
@example([b'{"a":[{}', b"{}]}", b'{"c":1},{"d":1}'])
@example([b'{"a":1},{"b":2}', b"}"])
@example([b"{}]", b"[{}"])
@example([b'{"a":1}', b'{"a":{"b":1}}'])
def test_many_lines_say_what_each_says_alone(lines: list[bytes]) -> None:
    """Also those that make a whole only together: no line can lend another its braces or its quotes."""
    assert [shown(value) for value in decode_many(lines)] == [alone(line) for line in lines]


def test_plain_lines_are_decoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a bulk load would be twice as slow, and nothing would say so."""
    monkeypatch.setattr(ndjson, "decode", lambda raw: pytest.fail("decoded one by one"))
    assert decode_many([PLAIN] * 3) == [json.loads(PLAIN)] * 3


class Slowly(io.RawIOBase):
    """A stream that gives the bytes in pieces of the given sizes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data, self._sizes = data, sizes

    def readable(self) -> bool:
        """As a pipe is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Give the next piece."""
        size = min(self._sizes.pop(0) if self._sizes else len(self._data), len(buffer), len(self._data))
        buffer[:size] = self._data[:size]
        self._data = self._data[size:]
        return size


@given(
    st.lists(st.one_of(raws, st.sampled_from([b"", b"  ", b"\r"])), max_size=12),
    st.lists(st.integers(1, 40), max_size=30),
    st.booleans(),
)
def test_lines_keep_their_numbers_however_they_come(
    lines: list[bytes], sizes: list[int], ended: bool
) -> None:
    """Blank lines count and say nothing; the last line needs no line feed."""
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    stream = io.BufferedReader(Slowly(data, sizes))
    found = [
        (number, shown(item))
        for some in read_lines(stream)
        for number, item in zip(some.numbers, some.items, strict=True)
    ]
    assert found == [(number, alone(line)) for number, line in enumerate(lines, 1) if line.strip()]


@pytest.mark.parametrize("length", [LINE_MAX, LINE_MAX + 1, LINE_MAX + BLOCK, 5 * LINE_MAX])
@pytest.mark.parametrize("ended", [True, False])
def test_a_line_that_is_too_long_is_refused_alone(length: int, ended: bool) -> None:
    """The lines around it are read, and no more of it is held than may be."""
    long = b'{"op":"' + b"x" * (length - 9) + b'"}'
    data = PLAIN + b"\n" + long + (b"\n" + PLAIN + b"\n" if ended else b"")
    items = [shown(item) for some in read_lines(io.BytesIO(data)) for item in some.items]
    assert items[0] == json.loads(PLAIN)
    assert (items[1][0] == "too-large") if length > LINE_MAX else (items[1]["op"][0] == "x")
    assert items[2:] == ([json.loads(PLAIN)] if ended else [])


def test_what_is_there_is_not_kept_waiting_for_more() -> None:
    """A line of a pipe that stays open is read when it comes."""
    stream = io.BufferedReader(Slowly(PLAIN + b"\n" + PLAIN + b"\n", [len(PLAIN) + 1]))
    first = next(read_lines(stream))
    assert list(first.numbers) == [1]


def test_nesting_is_bounded() -> None:
    """A line of brackets is refused with a sentence."""
    (refused,) = decode_many([b"[" * 100_000])
    assert isinstance(refused, Refused)
    assert str(DEPTH_MAX) in refused.detail


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_byte_order_mark_is_skipped(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Before the first line, however the bytes come; within a text it is a character like any other."""
    monkeypatch.setattr(ndjson, "BLOCK", size)
    stream = io.BytesIO(b"\xef\xbb\xbf" + PLAIN + b"\n" + PLAIN)
    items = [item for lines in read_lines(stream) for item in lines.items]
    assert items == [json.loads(PLAIN)] * 2
    alone = [item for lines in read_lines(io.BytesIO(b"\xef\xbb\xbf")) for item in lines.items]
    assert alone == []


def test_lines_may_be_urls_or_objects() -> None:
    """For commands that say the op: each line is one or the other."""
    raws = [b" https://example.com/a \r", b'{"loc":"https://example.com/b"}', b"\xff", b"{"]
    url, item, *refused = urls_or_objects(raws)
    assert (url, item) == ("https://example.com/a", {"loc": "https://example.com/b"})
    assert [each.rule for each in refused] == ["json", "json"]


@pytest.mark.parametrize(
    "line",
    [
        b"x" * 5000,
        b'{"loc": ' + b"1" * 5000,
        b"[" * 5000,
        b'"' + b"\xff" * 5000 + b'"',
        b"9" * (LINE_MAX + 1),
    ],
    ids=["no JSON", "cut off", "deep", "no UTF-8", "long"],
)
@pytest.mark.parametrize("parse", [decode_many, urls_or_objects])
def test_a_refusal_in_a_list_holds_nothing_of_the_line(parse: ndjson.Parse, line: bytes) -> None:
    """A body of long wrong lines would else take many times its size in memory."""
    for refused in parse([line, line]):
        if isinstance(refused, Refused):
            assert (refused.__traceback__, refused.__context__, refused.__cause__) == (None,) * 3
            assert len(str(refused)) < 1000

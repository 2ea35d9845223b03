"""Bodies are split into events, whatever pieces they come in."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.http.formats import BLOCK, LINES, JsonSplitter, NdjsonSplitter, Splitter, splitter
from producers.http.problems import Problem
from producers.ndjson import DEPTH_MAX, LINE_MAX, decode
from sitemap_store.errors import Refused

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def split(kind: type[Splitter], pieces: Sequence[bytes]) -> list[tuple[int, object]]:
    """All that a splitter gives: lines and what they say, or the rule of their refusal."""
    splitting = kind()
    batches = [batch for piece in pieces for batch in splitting.feed(piece)]
    read = [pair for batch in [*batches, *splitting.end()] for pair in zip(*batch.read(), strict=True)]
    return [(line, item.rule if isinstance(item, Refused) else item) for line, item in read]


def cut(text: bytes, places: Sequence[int]) -> list[bytes]:
    """A text in pieces that end at these places."""
    ends = sorted({place % (len(text) + 1) for place in places})
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


@given(
    st.lists(JSON_VALUES, max_size=6), st.lists(st.integers(0, 10**6), max_size=8), st.sampled_from([None, 1])
)
def test_array_comes_apart_into_its_elements(
    values: list[object], places: list[int], indent: int | None
) -> None:
    """An array gives its elements in order, wherever its bytes were cut."""
    text = json.dumps(values, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
    try:
        text.decode()
    except UnicodeDecodeError:
        return
    assert split(JsonSplitter, cut(text, places)) == list(enumerate(values, 1))


@given(st.lists(JSON_VALUES, max_size=6), st.lists(st.integers(0, 10**6), max_size=8))
def test_lines_come_apart(values: list[object], places: list[int]) -> None:
    """NDJSON gives its lines with their numbers; blank ones count and give nothing."""
    text = b"\r\n\n".join(json.dumps(value).encode() for value in values)
    assert split(NdjsonSplitter, cut(text, places)) == [(2 * n + 1, value) for n, value in enumerate(values)]


@given(st.binary(max_size=200), st.lists(st.integers(0, 10**6), max_size=5))
def test_no_body_breaks_the_splitter(text: bytes, places: list[int]) -> None:
    """Any bytes give the same in pieces as whole: the same events, or the same problem."""

    def tried(pieces: list[bytes]) -> object:
        try:
            return split(JsonSplitter, pieces)
        except Problem as problem:
            return problem.status

    assert tried(cut(text, places)) == tried([text])
    assert split(NdjsonSplitter, cut(text, places)) == split(NdjsonSplitter, [text])


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"  ",
        b"[",
        b"[1",
        b"[1,]",
        b"[,1]",
        b"[,]",
        b"[1}",
        b"[]x",
        b"[1]]",
        b'["a]',
        b'["\\"]',
        b"[1 ,, 2]",
    ],
)
def test_broken_array_is_malformed(text: bytes) -> None:
    """An array that is no JSON is a problem of the whole body."""
    with pytest.raises(Problem) as caught:
        split(JsonSplitter, [text])
    assert caught.value.status == 400


def test_single_value_is_one_event() -> None:
    """What is no array is given whole, a byte order mark before it left out."""
    assert split(JsonSplitter, [b"\xef\xbb\xbf \n{", b'"a":1}\n']) == [(1, {"a": 1})]
    assert split(NdjsonSplitter, [b"\xef\xbb\xbf{}\n{}"]) == [(1, {}), (2, {})]


def test_too_long_line_is_refused_and_the_next_is_read() -> None:
    """A line over the cap comes without its text, at constant memory, and the lines after it are right."""
    pieces = [b"{}\n", *[b"x" * 65536] * 40, b"\n{}\n"]
    assert split(NdjsonSplitter, pieces) == [(1, {}), (2, "too-large"), (3, {})]
    splitting = NdjsonSplitter()
    for piece in pieces[:-1]:
        list(splitting.feed(piece))
        assert len(splitting._rest) <= LINE_MAX


def test_long_bodies_come_in_batches_as_they_are_read() -> None:
    """A long body gives its events before its end, in bounded batches, whatever its lines are like."""
    for line, lines in ((b'{"op":"add","loc":"https://a.example/"}\n', 20_000), (b"7\n", 200_000)):
        splitting = NdjsonSplitter()
        batches = [batch for _ in range(0, lines, 100) for batch in splitting.feed(line * 100)]
        assert len(line) * lines - sum(map(len, batches)) < 2 * BLOCK
        assert all(len(batch) < 2 * BLOCK and len(batch.read().items) <= LINES for batch in batches)
        read = [batch.read() for batch in [*batches, *splitting.end()]]
        assert [number for each in read for number in each.numbers] == list(range(1, lines + 1))


def test_too_long_element_is_refused_alone() -> None:
    """An event that is longer than a line may be is refused, and the others of its array are not."""
    long = {"op": "add", "ext": {"images": ["x" * (2 * LINE_MAX)]}}
    assert split(JsonSplitter, [json.dumps([1, long, {"ext": {}}]).encode()]) == [
        (1, 1),
        (2, "too-large"),
        (3, {"ext": {}}),
    ]


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_json_is_refused(opening: str) -> None:
    """What nests deeper than the cap is refused as a line, and malformed in an array; texts don't count."""
    closing = {"[": "]", '{"a":': "}"}[opening]
    for depth, fine in ((DEPTH_MAX, True), (DEPTH_MAX + 1, False), (400_000 // len(opening), False)):
        text = (opening * depth + "1" + closing * depth).encode()
        if fine:
            decode(text)
        else:
            with pytest.raises(Refused) as caught:
                decode(text)
            assert caught.value.rule == "json"
            with pytest.raises(Problem):
                split(JsonSplitter, [b"[" + text + b"]"])
    assert decode(json.dumps(["[{" * 100]).encode()) == ["[{" * 100]


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 0),
        ("Application/JSON; charset=UTF-8", 0),
        ("application/x-ndjson", 0),
        ("application/x-ndjson;charset=utf8", 0),
        ("application/json; charset=latin-1", 415),
        ("application/json; charset=utf-16", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("", 415),
        (None, 415),
    ],
)
def test_content_type_decides(content_type: str | None, status: int) -> None:
    """JSON and NDJSON in UTF-8 are taken, everything else is 415: a browser's form can't reach the API."""
    try:
        splitter(content_type)
    except Problem as problem:
        assert problem.status == status
    else:
        assert status == 0

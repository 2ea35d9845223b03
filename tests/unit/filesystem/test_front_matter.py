"""The block of settings at the start of a file."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.filesystem.front_matter import FrontMatterError, front_matter


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("---\ntitle: A\ndraft: true\n---\ntext", {"title": "A", "draft": "true"}),
        ("---\r\ntitle: A\r\n---\r\ntext", {"title": "A"}),
        ("---  \ntitle: A\n...\ntext", {"title": "A"}),
        ("---\ntitle: A\n---", {"title": "A"}),
        ("\ufeff---\ntitle: A\n---\n", {"title": "A"}),
        ('+++\ntitle = "A"\ndraft = true\n+++\ntext', {"title": "A", "draft": True}),
        ('+++\r\ntitle = "A"\r\n+++\r\n', {"title": "A"}),
        ('{"title": "A", "draft": true}\ntext', {"title": "A", "draft": True}),
        ("---\n---\ntext", {}),
        ("---\ntext between rules\n---\n", {}),
        ("---\ntitle: A\nno end", {}),
        ("text\n---\ntitle: A\n---\n", {}),
        ("----\ntitle: A\n----\n", {}),
        ("{{< shortcode >}}", {}),
        ("{% include x %}", {}),
        ("{ not json", {}),
        ("", {}),
        ("---", {}),
        ("---\ndate: 0000-00-00\n---\n", {"date": "0000-00-00"}),
        ("---\ndate: 2015-10-01\n---\n", {"date": "2015-10-01"}),
        ("---\npublishDate: a\npublish-date2: b\nExpiry_Date: c\n---\n",
         {"publishdate": "a", "publishdate2": "b", "expirydate": "c"}),
        ("---\n1: a\nb: c\n---\n", {"1": "a", "b": "c"}),
        ("---\na: 010\nb: 12:30\nc: no\nd: 1_000\ne: 0x1F\nf: 1e3\ng: .inf\n---\n",
         {"a": "010", "b": "12:30", "c": "no", "d": "1_000", "e": "0x1F", "f": "1e3", "g": ".inf"}),
        ("---\na: ~\nb: null\nc:\nd: ''\n---\n", {"a": None, "b": None, "c": None, "d": ""}),
        ("---\na: !page 010\nb: !!int no\nc: !x [1, !y 2]\nd: !z {e: 007}\n---\n",
         {"a": "010", "b": "no", "c": ["1", "2"], "d": {"e": "007"}}),
        ("---\na: &x {b: 01}\nc: {<<: *x, d: on}\n---\n", {"a": {"b": "01"}, "c": {"b": "01", "d": "on"}}),
        ("---\rtitle: A\r---\r", {"title": "A"}),
        ("---\nx: !!python/object/apply:os.system ['true']\n---\n", {"x": ["true"]}),
        ("---\na: !!set {x, y}\nb: !!omap [c: 1]\nd: !!binary aGk=\n---\n",
         {"a": {"x": None, "y": None}, "b": [{"c": "1"}], "d": "aGk="}),
        ("%YAML 1.1\n---\na: b\n---\n", {}),
        ("---\n!unknown\na: !<tag:example.com,2026:x> b\n---\n", {"a": "b"}),
        ("---\nn: " + "9" * 5000 + "\n---\n", {"n": "9" * 5000}),
        ('{"a": 1.50, "b": 12, "c": NaN}', {"a": "1.50", "b": "12", "c": "NaN"}),
        ("+++\na = 1.50\nb = 12\n+++\n", {"a": "1.50", "b": 12}),
        ("---\ntitle: |\n  ---\n  in a text\nx: y\n---\n", {"title": "---\nin a text\n", "x": "y"}),
    ],
)  # fmt: skip
def test_the_fields_are_read(text: str, fields: dict[str, object]) -> None:
    """YAML, TOML and JSON give their fields under plain names; anything else gives none."""
    assert front_matter(text.encode()) == fields


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: [\n---\n",
        "---\na: b: c\n---\n",
        "---\n? [a]: b\n? {c: d}: e\n---\n",
        "---\n" + "[" * 3000 + "\n---\n",
        "+++\ntitle = \n+++\n",
        "---\na: *unknown\n---\n",
        "---\na: !undeclared!x b\n---\n",
        "+++\na = 1\na = 2\n+++\n",
    ],
)
def test_what_is_broken_is_told(text: str) -> None:
    """A block that its kind can't be read as raises one error of ours, with one line of text."""
    with pytest.raises(FrontMatterError) as caught:
        front_matter(text.encode())
    assert "\n" not in str(caught.value)


def test_a_block_in_another_encoding_is_read() -> None:
    """Latin-1 is not what it should be, yet its ASCII fields count."""
    assert front_matter("---\ntitle: mañana\ndraft: true\n---\n".encode("latin-1"))["draft"] == "true"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_hides_nothing(encoding: str) -> None:
    """What Windows editors put before the first rule is no part of the text."""
    mark = "" if encoding == "utf-8-sig" else "\ufeff"
    data = f"{mark}---\r\ntitle: é\r\n---\r\n".encode(encoding)
    assert front_matter(data) == {"title": "é"}


def test_a_text_that_is_cut_within_a_character_is_read() -> None:
    """Only the start of a file is looked at, and that may end in the middle of a character."""
    data = "---\ntitle: é\n---\nlong text é".encode()[:-1]
    assert front_matter(data) == {"title": "é"}


@given(st.binary(max_size=200), st.sampled_from([b"---\n", b"+++\n", b"{", b""]))
def test_no_bytes_make_it_fail_in_another_way(data: bytes, opener: bytes) -> None:
    """Whatever a file begins with, the answer is fields or FrontMatterError."""
    closer = {b"---\n": b"\n---\n", b"+++\n": b"\n+++\n"}.get(opener, b"")
    with contextlib.suppress(FrontMatterError):
        assert isinstance(front_matter(opener + data + closer), dict)

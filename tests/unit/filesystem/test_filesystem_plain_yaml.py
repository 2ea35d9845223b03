"""Front matter that is read without PyYAML."""

import re
from typing import Final

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from producers.filesystem.front_matter import PlainDates
from producers.filesystem.plain_yaml import read_plain

NAMES: Final = st.sampled_from(["title", "publishDate", "tags", "draft", "a", "on", "No", "null", "y", "~"])
VALUES: Final = st.sampled_from(
    [
        "", "true", "No", "off", "NULL", "~", "y", "2026-01-02", "2026-01-02 10:00:00 +0100", "10:30",
        "0", "7", "010", "0x1f", "0b1", "1_000", "1e3", "1.5", "12345678901", "1:30.5", "²", "1²",
        "An example", "a: b", "a:b", "a::", "a # b", "a#b", "C# and \u00e9", "'one'", '"two"', "'it''s'",
        '"a\\n"', '"a" b', "[]", "[a, b]", "[a, 'b', \"c d\"]", "[a, yes]", "[a,]", "[,]", "[1, 2]",
        "[a, [b]]", "[a b , c ]", "{a: b}", "- a", "-", "|", ">", "&x", "*x", "!t", "%a", "@a", "`a",
        "? a", ": a", "/blog/", "_x", "=", "<<", ".5", ".inf", "a\n  b", "\n- a", "\n  - a", "\n  a: b",
        "a,b", "a {b}", "a [b]", "a | b", "tail  ", "a\tb", "a\u2028b", "a\x85b", "\ufeffa", "a\u200bb",
        '"a: b # c"', "'a: b # c'", "['a,b']", "https://example.com/a?b=c", "a:", "''",
        "\n- a\n- b c", "\n  - a\n  - 'b'", "\n  - a\n - b", "\n - a\n   b", "\n- - a", "\n- \n- a",
        "\n-  a ", "\n- no", "\n- a\n\n- b", '""', "' a '",
    ]
)  # fmt: skip
LINES: Final = st.one_of(
    st.builds("{}: {}".format, NAMES, VALUES),
    st.builds("{}:  {}".format, NAMES, st.text(max_size=8)),
    st.builds("{}: {}".format, NAMES, st.text("ab:#'\"[],-{} \\01.", max_size=8)),
    st.sampled_from(["", "# a comment", "#", " # further in", "  ", "a:b", "- a", " a: b", "...", "---"]),
)


@given(st.lists(LINES, max_size=4).map("\n".join))
@example("title: A\ndate: 2026-01-02\ntags: [a, b]")
def test_it_gives_what_pyyaml_gives_or_nothing(block: str) -> None:
    """Whatever the lines are, a block is read as PyYAML reads it, or left to PyYAML."""
    found = read_plain(f"---\n{block}\n---\n")
    if found is not None:
        fields = re.split(r"^(?:---|\.\.\.)", block, maxsplit=1, flags=re.MULTILINE)[0]
        assert repr(found) == repr(yaml.load(fields, PlainDates) or {})


@pytest.mark.parametrize(
    "block",
    [
        "title: A b\n",
        'title: "A: b"\ndraft: false\nweight: 10\n',
        "tags: [a, 'b']\ndate: 2026-01-02\n",
        "# a\n\na:\n",
        "tags:\n  - a b\n  - 'c'\ntitle: A\n",
    ],
)
def test_usual_blocks_are_read(block: str) -> None:
    """What most pages begin with is not left to PyYAML."""
    assert read_plain(f"---\n{block}---\ntext") is not None

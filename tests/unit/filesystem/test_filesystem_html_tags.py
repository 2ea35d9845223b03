"""Tags of an HTML head that are read without libxml2."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from producers.filesystem.html_head import clear, parsed

NAMES: Final = st.sampled_from(["link", "base", "meta", "LINK", "html", "basefont"])
ATTRIBUTES: Final = st.sampled_from(
    ["rel", "href", "name", "content", "http-equiv", "property", "xml:lang", "REL", "data-a1", "a.b", ":"]
)
VALUES: Final = st.sampled_from(
    [
        "canonical",
        "/a?b=c",
        " noindex ",
        "",
        "a&amp;b",
        "&lt",
        "é",
        "a'b",
        "a>b",
        "a<b",
        "a\tb",
        "a\nb",
        "%41 #",
    ]
) | st.text(max_size=4)
QUOTED: Final = st.builds('{}{}="{}"'.format, st.sampled_from([" ", "  ", "\n", ""]), ATTRIBUTES, VALUES)
OTHERS: Final = st.sampled_from([" href=/a", " href='a'", " hidden", " =a", ' href = "a"', "/"])
TAGS: Final = st.builds(
    "<{}{}{}>".format,
    NAMES,
    st.lists(QUOTED | OTHERS, max_size=4).map("".join),
    st.sampled_from(["", "/", " /", " ", "//"]),
)


@given(st.lists(TAGS, max_size=3))
def test_clear_tags_are_what_libxml2_makes_of_them(tags: list[str]) -> None:
    """Whatever the tags are, they are read as libxml2 reads them, or left to it."""
    found = clear(tags)
    assert found is None or found == parsed(tags)


def test_the_usual_tags_are_clear() -> None:
    """What most heads hold is not left to libxml2."""
    assert clear(
        ['<link rel="canonical" href="https://example.com/">', '<meta name="robots" content="all" />']
    )

"""Addresses from rows, and which templates can make them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.database.template import Template
from sitemap_store.errors import Refused
from sitemap_store.model.urls import UrlRules, normalise

RULES = UrlRules(base="https://example.com/")


@pytest.mark.parametrize(
    ("template", "values", "path"),
    [
        ("/p/{slug}", ("tea",), "p/tea"),
        ("/{a}/{b}/", ("x", "y"), "x/y/"),
        ("/{id}-{slug}", (7, "tea"), "7-tea"),
        ("/{slug}", ("a/b",), "a%2Fb"),
        ("/{slug}", ("100%",), "100%25"),
        ("/{slug}", ("%20",), "%2520"),
        ("/{slug}", ("错",), "%E9%94%99"),
        ("/{path:raw}", ("/a/b c",), "a/b%20c"),
        ("/x/{path:raw}/", ("a/b",), "x/a/b/"),
        ("/{path:raw}", ("",), ""),
        ("/show?item={id}&v={v}", (3, "a&b=c+d"), "show?item=3&v=a%26b%3Dc%2Bd"),
        ("/{slug}", (b"caf\xc3\xa9",), "caf%C3%A9"),
    ],
)
def test_the_address_of_a_row(template: str, values: tuple[object, ...], path: str) -> None:
    """Values are encoded as one segment; raw ones keep their slashes."""
    assert Template(template).path(values) == path


@pytest.mark.parametrize("value", [None, ""])
def test_a_row_without_a_value_has_no_address(value: str | None) -> None:
    """NULL and nothing make no address."""
    assert Template("/p/{slug}").path((value,)) is None


@pytest.mark.parametrize("value", [".", ".."])
def test_a_segment_of_dots_is_refused(value: str) -> None:
    """It would be the address of another page."""
    with pytest.raises(Refused) as refused:
        Template("/p/{slug}").path((value,))
    assert refused.value.rule == "dot-segment"


@pytest.mark.parametrize("value", [b"caf\xe9", "caf\udce9"])
def test_what_is_no_utf8_makes_no_address(value: object) -> None:
    """Neither bytes nor a text that was read from such: the bytes are named."""
    with pytest.raises(Refused, match=r"caf\\xe9 is no valid UTF-8"):
        Template("/p/{slug}").path((value,))


@pytest.mark.parametrize(
    ("text", "path"),
    [("%e3%81%82", "p/%E3%81%82"), ("a-%C3%a9-z", "p/a-%C3%A9-z"), ("é b", "p/%C3%A9%20b"), ("tea", "p/tea")],
)
def test_encoded_values_stay_encoded(text: str, path: str) -> None:
    """Their hex is written in capitals, and what is not encoded is."""
    assert Template("/p/{slug:encoded}").path((text,)) == path


@pytest.mark.parametrize("text", ["50%", "%e", "%zz"])
def test_a_percent_sign_alone_is_refused_where_values_are_encoded(text: str) -> None:
    """Nothing tells what it means."""
    with pytest.raises(Refused, match="encoded"):
        Template("/p/{slug:encoded}").path((text,))


@pytest.mark.parametrize(
    ("template", "kinds", "is_ambiguous"),
    [
        ("/{a}{b}", {}, True),
        ("/{a}-{b}", {}, True),
        ("/{a}-{b}", {"a": "integer"}, False),
        ("/{a}-{b}", {"b": "integer"}, False),
        ("/{a}{b}", {"a": "integer"}, True),
        ("/{a}1{b}", {"a": "integer"}, True),
        ("/{a}{b}", {"a": "uuid"}, False),
        ("/{a}/{b}", {}, False),
        ("/{a:raw}/{b}", {}, False),
        ("/{a}/{b:raw}", {}, False),
        ("/{a:raw}/{b:raw}", {}, True),
        ("/{a:raw}?p={b}", {}, False),
        ("/s?q={a}&r={b}", {}, False),
        ("/s/{a}&{b}", {}, True),
        ("/{a}/{b}-{c}", {}, True),
        ("/{a}/{a}-{b}", {}, False),
        ("/{a}/{b}-{c}/{d}", {"c": "integer"}, False),
        ("/{a}-{a}", {}, False),
    ],
)
def test_templates_that_let_rows_share_an_address(
    template: str, kinds: dict[str, str], is_ambiguous: bool
) -> None:
    """Values must be told apart by what stands between them, or by what numbers can't hold."""
    assert bool(Template(template).ambiguity(kinds)) == is_ambiguous


def test_the_spellings_of_a_value() -> None:
    """A raw value with and without its slash; an encoded one with its hex in either case."""
    assert set(Template("/{p:raw}").spellings(("a/b",))) == {("/a/b",), ("a/b",)}
    assert set(Template("/x{p:raw}").spellings(("a/b",))) == {("a/b",)}
    assert set(Template("/{p:encoded}").spellings(("%C3%a9",))) == {("%C3%a9",), ("%C3%A9",), ("%c3%a9",)}


@pytest.mark.parametrize(
    "template", ["p/{slug}", "/p", "/{a", "/{a!r}", "/{a:>5}", "/{}", "/a b/{slug}", "/{slug}#x"]
)
def test_templates_that_cannot_work(template: str) -> None:
    """They are refused in a sentence."""
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        Template(template)


@given(
    st.sampled_from(["/{a}/{b}", "/{b}/{a:raw}", "/{a:raw}?x={b}", "/s?q={a}&r={b}", "/x/{a}/{b}-{a}"]),
    st.tuples(*[st.text("aZ9-./~%&=+;:@ ?#", max_size=4)] * 4),
)
def test_unlike_values_make_unlike_addresses(template: str, values: tuple[str, str, str, str]) -> None:
    """What `ambiguity` lets pass has two rows share an address only by the spellings that are looked up."""
    parsed = Template(template)
    assert not parsed.ambiguity({})
    one, other = (
        tuple({"a": a, "b": b}[name] for name in parsed.columns) for a, b in (values[:2], values[2:])
    )
    try:
        first, second = (
            normalise(RULES.base + (parsed.path(each) or ""), RULES).loc for each in (one, other)
        )
    except Refused:
        return
    if None not in (parsed.path(one), parsed.path(other)) and first == second:
        assert other in set(parsed.spellings(one))

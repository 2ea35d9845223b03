"""Addresses from rows, and rows from addresses."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.database.template import Template
from sitemap_store.errors import Refused
from sitemap_store.urls import UrlRules, normalise

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


def test_every_way_to_read_an_address() -> None:
    """Parts of one segment can be read in several ways."""
    assert sorted(Template("/{a}-{b}").values("x-y-z")) == [("x", "y-z"), ("x-y", "z")]
    assert Template("/{a}/{a}").values("x/y") == []
    assert Template("/{a}/{a}").values("x/x") == [("x",)]
    assert sorted(Template("/{p:raw}").values("a/b")) == [("/a/b",), ("a/b",)]
    assert Template("/p/{slug}").values("q/tea") == []
    assert Template("/p/{slug}").values("p/%FF") == []


@pytest.mark.parametrize(
    "template", ["p/{slug}", "/p", "/{a", "/{a!r}", "/{a:>5}", "/{}", "/a b/{slug}", "/{slug}#x"]
)
def test_templates_that_cannot_work(template: str) -> None:
    """They are refused in a sentence."""
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        Template(template)


texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)


@given(
    st.sampled_from(["/{a}/{b}", "/{a}-{b}", "/x/{a}.{b}.html", "/{b}/{a:raw}", "/s?q={a}&r={b}"]),
    texts,
    texts,
)
def test_the_values_of_a_row_are_among_those_of_its_address(template: str, a: str, b: str) -> None:
    """Also after the address was normalised: what was listed can be found again."""
    parsed = Template(template)
    values = tuple({"a": a, "b": b}[name] for name in parsed.columns)
    try:
        path = parsed.path(values)
        assert path is not None
        loc = normalise(RULES.base + path, RULES).loc
    except Refused:
        return
    found = parsed.values(loc.removeprefix(RULES.base))
    assert values in found or len(found) >= 64


@given(
    st.sampled_from(
        [
            "/{a}/{b}",
            "/{a}-{b}",
            "/{a}{b}",
            "/x/{a}.{b}.html",
            "/{b}/{a:raw}",
            "/{a:raw}.html",
            "/{a:raw}./y/{b}",
            "/.{a}",
            "/{a}/{a}",
            "/50%25/{a}",
            "/s?q={a}&r={b}",
            "/s?q={a:raw}",
        ]
    ),
    st.one_of(texts, st.none(), st.integers(), st.text("aZ9-./~%&=+;:@ ?#", max_size=6)),
    st.one_of(texts, st.text("aZ9-./~%&=+;:@ ?#", max_size=6)),
    st.sampled_from(
        [RULES, replace(RULES, strip_query=frozenset("q")), UrlRules(base="https://e.com/50%25/")]
    ),
)
def test_the_quick_way_to_an_address_is_the_long_ways(
    template: str, a: object, b: object, rules: UrlRules
) -> None:
    """It gives the same normalised URL, or leaves the values to the long way."""
    parsed = Template(template)
    values = tuple({"a": a, "b": b}[name] for name in parsed.columns)
    quick = parsed.quick(rules)((*values, "2026-01-01"))
    if quick is not None:
        path = parsed.path(values)
        assert path is not None
        assert quick == normalise(rules.base + path, rules).loc


@pytest.mark.parametrize(
    ("template", "values", "path"),
    [
        ("/p/{slug}", ("a-b.c~1",), "p/a-b.c~1"),
        ("/{a}/{b}/", ("x", "y"), "x/y/"),
        ("/{path:raw}", ("a/b",), "a/b"),
        ("/s?q={a}", ("x",), "s?q=x"),
        ("/p/{slug}", ("a b",), None),
        ("/p/{slug}", ("",), None),
        ("/p/{slug}", ("x" * 2040,), None),
        ("/p/{slug}", (7,), None),
        ("/{a}/{b}", ("x", 7), None),
    ],
)
def test_plain_values_take_the_quick_way(template: str, values: tuple[object, ...], path: str | None) -> None:
    """What needs encoding, is too long or no text does not."""
    found = Template(template).quick(RULES)(values)
    assert found == (None if path is None else RULES.base + path)

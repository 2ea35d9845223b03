"""Which section a URL belongs to."""

from functools import cache
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sitemap_store.errors import BadSetting
from sitemap_store.model.sections import SectionRule, Sections

HOST: Final = "https://example.com"


def sections(**patterns: str | tuple[str, ...]) -> Sections:
    """Sections by name, each with one pattern or several."""
    return Sections(
        SectionRule(name=name, patterns=(each,) if isinstance(each, str) else each)
        for name, each in patterns.items()
    )


def bad(*rules: SectionRule, default: str = "pages") -> BadSetting:
    """The error that building the sections raises."""
    with pytest.raises(BadSetting) as caught:
        Sections(rules, default)
    return caught.value


def rule(name: str, *patterns: str) -> SectionRule:
    """A section with these patterns."""
    return SectionRule(name=name, patterns=patterns)


@cache
def matches(glob: str, text: str) -> bool:
    """The plainest matcher: `**` takes any character, `*` any but a slash, the rest itself."""
    if not glob:
        return not text
    if glob.startswith("**"):
        return matches(glob.lstrip("*"), text) or (bool(text) and matches(glob, text[1:]))
    if glob.startswith("*"):
        return matches(glob[1:], text) or (bool(text) and text[0] != "/" and matches(glob, text[1:]))
    return bool(text) and glob[0] == text[0] and matches(glob[1:], text[1:])


def holds(pattern: str, target: str) -> bool:
    """Whether a pattern holds a path or a path with its query."""
    path, mark, query = target.partition("?")
    glob, wants_query, query_glob = pattern.partition("?")
    if not wants_query:
        return matches(glob, path)
    return bool(mark) and matches(glob, path) and matches(query_glob, query)


def rank(pattern: str) -> tuple[int, int, int]:
    """More literal characters, then fewer `**`, then fewer `*`: the smallest wins."""
    many = one = 0
    for run in "".join(c if c == "*" else " " for c in pattern).split():
        many, one = many + (len(run) > 1), one + (len(run) == 1)
    return -(len(pattern) - pattern.count("*")), many, one


PATTERNS = st.text(alphabet="/ab**", max_size=7).map(lambda text: "/" + text) | st.builds(
    "/{}?{}".format, st.text(alphabet="/ab*", max_size=4), st.text(alphabet="/ab*?", max_size=4)
)
TARGETS = st.builds(
    lambda path, query: f"/{path}{query}",
    st.text(alphabet="/ab", max_size=9),
    st.just("") | st.text(alphabet="/ab?", max_size=5).map(lambda text: "?" + text),
)
RULES = st.lists(st.lists(PATTERNS, min_size=1, max_size=3).map(tuple), min_size=1, max_size=4).map(
    lambda lists: [rule(f"s{number}", *each) for number, each in enumerate(lists)]
)


@given(RULES, st.lists(TARGETS, min_size=1, max_size=8))
@example([rule("s0", "/*a"), rule("s1", "/**b*a")], ["/aba", "/abba", "/b/aa", "/b/a/ba"])
@example([rule("s0", "/**a*b")], ["/a/ab", "/ab/b", "/aab?b"])
@example([rule("s0", "/*?a*")], ["/b?a", "/b?ab/", "/?b?a"])
def test_the_most_specific_pattern_wins(rules: list[SectionRule], targets: list[str]) -> None:
    """Every URL falls where trying all patterns one by one puts it, or the patterns overlap."""
    patterns = [(each, one.name) for one in rules for each in one.patterns]
    try:
        built = Sections(rules)
    except BadSetting as error:
        shared = error.detail.rpartition("both match ")[2]
        claims = [(rank(each), name) for each, name in patterns if holds(each, shared)]
        equal = {name for order, name in claims if [o for o, _ in claims].count(order) > 1}
        assert "is also in section" in error.detail or len(equal) > 1, error.detail
        return
    for target in targets:
        found = sorted((rank(each), name) for each, name in patterns if holds(each, target))
        best = {name for order, name in found if order == found[0][0]} or {"pages"}
        assert len(best) == 1, f"an overlap that was not seen: {target} in {best}"
        assert built.find(HOST + target) == best.pop(), target


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        (
            "/products/**",
            ["/products/", "/products/a", "/products/a/b", "/products/a?b=/c"],
            ["/products", "/product/a", "/a/products/b", "/Products/a", "/?/products/a"],
        ),
        ("/a/*", ["/a/", "/a/b", "/a/b?c/d"], ["/a", "/a/b/", "/a/b/c"]),
        ("/a/**/b", ["/a//b", "/a/x/b", "/a/x/y/b?q"], ["/a/b", "/a/x/bc", "/a/x/b/"]),
        ("/*.html", ["/.html", "/a.html", "/a.html.html"], ["/a/b.html", "/a.htmlx", "/axhtml"]),
        ("/**.html", ["/a/b.html", "/.html/a.html"], ["/a.html/", "/a?b.html"]),
        ("/a", ["/a", "/a?", "/a?b"], ["/a/", "/ab", "/"]),
        ("/a?", ["/a?"], ["/a", "/a?b", "/ab"]),
        ("/a?p=*", ["/a?p=", "/a?p=1&q=2?"], ["/a", "/a?q", "/a?p=1/2", "/a?x&p=1"]),
        ("/**?p=**", ["/a/b?p=1/2", "/?p="], ["/a", "/?x?p=1"]),
        ("/*a?b", ["/a?b", "/xa?b"], ["/x?a?b", "/x/a?b"]),
        ("/**a?b", ["/a?b", "/x/xa?b"], ["/x?a?b", "/x/?/a?b"]),
        ("/a.b+(c)[d]$|^", ["/a.b+(c)%5Bd%5D$%7C%5E"], ["/aXb+(c)%5Bd%5D$%7C%5E"]),
        ("/über/*", ["/%C3%BCber/x"], ["/über/x", "/uber/x"]),
        ("/%c3%bcber/%7ea", ["/%C3%BCber/~a"], []),
        ("/a#b", ["/a%23b"], ["/a"]),
        ("/a***b", ["/ab", "/a/x/b"], ["/a/x/bc"]),
        ("/**", ["/", "/a", "/a/b?c"], []),
    ],
)
def test_a_pattern_holds_what_it_says(pattern: str, inside: list[str], outside: list[str]) -> None:
    """`*` stays within its segment, `**` does not, and nothing else is special."""
    built = sections(found=pattern)
    assert {path: built.find(HOST + path) for path in inside} == dict.fromkeys(inside, "found")
    assert {path: built.find(HOST + path) for path in outside} == dict.fromkeys(outside, "pages")


@pytest.mark.parametrize(
    "origin", ["http://a.io", "https://example.com:8443", "https://[2001:db8::1]", "http://a"]
)
def test_a_pattern_begins_at_the_root_of_any_host(origin: str) -> None:
    """Scheme, host and port say nothing of the section."""
    built = sections(blog="/blog/**")
    assert built.find(f"{origin}/blog/x") == "blog"
    assert built.find(f"{origin}/x/blog/x") == "pages"


def test_more_literal_characters_come_first_then_fewer_stars() -> None:
    """Each step of the ranking decides where the one before it leaves a draw."""
    built = sections(
        long=("/shop/sale/**",), any=("/shop/**",), one=("/shop/*",), two=("/shop/*/*",), rest="/**"
    )
    expected = {
        "/shop/sale/x": "long",
        "/shop/x": "one",
        "/shop/x/y": "two",
        "/shop/x/y/z": "any",
        "/x": "rest",
    }
    assert {path: built.find(HOST + path) for path in expected} == expected


def test_the_order_of_the_rules_does_not_matter() -> None:
    """A configuration is a table, so the same sections in another order hold the same URLs."""
    rules = [rule("a", "/a/**"), rule("b", "/a/b/**", "/b/*"), rule("c", "/**", "/b/c?d")]
    paths = ["/a/x", "/a/b/x", "/b/c", "/b/c?d", "/z", "/"]
    forth, back = Sections(rules), Sections(rules[::-1])
    assert [forth.find(HOST + path) for path in paths] == ["a", "b", "b", "c", "c", "c"]
    assert [back.find(HOST + path) for path in paths] == ["a", "b", "b", "c", "c", "c"]


def test_without_rules_everything_is_in_the_default() -> None:
    """The default section needs no rule, and may have any section's name."""
    assert Sections([]).find(f"{HOST}/a") == "pages"
    assert Sections([], "all").find(f"{HOST}/a") == "all"
    assert Sections([], "all").names == ("all",)


def test_a_section_may_have_the_defaults_name() -> None:
    """It holds what its patterns say, and the rest too; without patterns it is the default."""
    built = Sections([rule("pages", "/a/**"), rule("b", "/a/b")])
    assert [built.find(HOST + path) for path in ("/a/x", "/a/b", "/z")] == ["pages", "b", "pages"]
    assert built.names == ("pages", "b")
    assert Sections([rule("pages")]).find(f"{HOST}/x") == "pages"


def test_a_url_made_to_be_slow_is_not() -> None:
    """A glob that a backtracking matcher would take ages over is decided at once."""
    built = sections(a="/**" + "*a" * 20 + "b", b="/x" + "**a*a" * 20 + "/c")
    assert built.find(f"{HOST}/{'a' * 2_000}") == "pages"
    assert built.find(f"{HOST}/x{'aa/' * 600}a") == "pages"
    assert built.find(f"{HOST}/x{'aa/' * 600}aa/c") == "b"
    assert built.find(f"{HOST}/{'a' * 2_000}b") == "a"


@pytest.mark.parametrize("name", ["a", "a1", "a_b", "products-2", "a-b-c", "a" * 40, "a__-_b"])
def test_a_section_name_is_plain(name: str) -> None:
    """Names stand in file names: letters, digits, underscores and single dashes."""
    assert sections(**{name: "/x"}).find(f"{HOST}/x") == name


@pytest.mark.parametrize(
    "name",
    [*("", "A", "1a", "_a", "-a", "a-", "a--b", "a b", "a/b", "a.b", "ä", "a\n", "a" * 41, "..")],
)
def test_any_other_section_name_is_a_bad_setting(name: str) -> None:
    """The setting is named, for a rule's name and for the default's."""
    assert bad(rule(name, "/x")).setting == f"sections.{name}.match"
    assert bad(default=name).setting == f"sections.{name}.match"


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "a",
        "*",
        "**",
        "https://example.com/a",
        "?a",
        "/%",
        "/%zz",
        "/a\n",
        "/\ud800",
        "/" + "a" * 3_000,
    ],
)
def test_a_pattern_that_fits_no_url_is_a_bad_setting(pattern: str) -> None:
    """It would hold nothing, silently, for as long as nobody looks."""
    error = bad(rule("blog", pattern))
    assert error.setting == "sections.blog.match"
    assert error.hint


def test_a_section_that_could_hold_nothing_is_a_bad_setting() -> None:
    """A section without patterns is the default or a mistake."""
    assert bad(rule("blog")).setting == "sections.blog.match"


@pytest.mark.parametrize("other", ["/blog/**", "/%62log/**", "/blog/***"])
def test_one_pattern_in_two_sections_is_a_bad_setting(other: str) -> None:
    """However it is spelled, it can belong to one of them only, and both are named."""
    error = bad(rule("blog", "/blog/**"), rule("news", other))
    named = f"{error.setting} {error.detail}"
    assert "sections.blog.match" in named or "section blog" in named
    assert "sections.news.match" in named or "section news" in named
    assert "also in section" in error.detail


def test_one_pattern_twice_in_a_section_is_fine() -> None:
    """It says the same thing twice."""
    assert sections(blog=("/blog/**", "/%62log/**")).find(f"{HOST}/blog/x") == "blog"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/a/*", "/*/a"),
        ("/a*", "/*a"),
        ("/ab/**", "/**/ab"),
        ("/a/*/c", "/*/b/c"),
        ("/*a*", "/*b*"),
        ("/a?b*", "/a?*b"),
        ("/aaaa*", "/*aa?b"),
        ("/*aa?b", "/aaaa*"),
        ("/%C3*", "/*%C3"),
    ],
)
def test_equal_patterns_that_share_a_path_are_a_bad_setting(one: str, other: str) -> None:
    """Both are named, with a path that both would hold, before anything starts."""
    assert rank(one) == rank(other)
    error = bad(rule("blog", one), rule("news", other))
    assert "overlapping sections" in error.detail
    assert repr(one) in error.detail
    assert repr(other) in error.detail
    shared = error.detail.rpartition(" ")[2]
    assert holds(one, shared)
    assert holds(other, shared)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/a/**", "/b/**"),
        ("/a/b*", "/c/*d"),
        ("/a/*", "/*b/"),
        ("/a?b", "/a?c"),
        ("/*a", "/*b"),
        ("/*/ab", "/*/a/"),
        ("/aaa*", "/b*?c"),
        ("/a", "/b"),
    ],
)
def test_equal_patterns_that_share_no_path_are_fine(one: str, other: str) -> None:
    """What cannot meet needs no ranking."""
    assert rank(one) == rank(other)
    assert sections(blog=one, news=other).find(f"{HOST}/zzz") == "pages"


def test_equal_patterns_of_one_section_may_share_paths() -> None:
    """Either way the URL is in that section."""
    assert sections(blog=("/a*", "/*a")).find(f"{HOST}/aa") == "blog"

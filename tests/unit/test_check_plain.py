"""The fast path of `sitemapd check` finds what the careful one finds."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.check import file as check_of_file
from sitemap_store.check.content import Content
from sitemap_store.check.findings import Findings
from sitemap_store.check.plain import Unsure, read_plain
from sitemap_store.check.robots import Robots
from sitemap_store.check.where import Where
from sitemap_store.model.protocol import SITEMAP_NS, XHTML_NS
from tests.check_trees import BASE, HEAD, NOW, check_written, url, urlset, write

ROBOTS: Final = "User-agent: *\nDisallow: /no\nDisallow: /*?no\nAllow: /nobody\n"
LOCS: Final = st.one_of(
    st.text("ab/é%&;?#<>. \n'\"\x0b", max_size=6),
    st.sampled_from(
        [
            "",
            "a",
            "b",
            "a.b/c",
            "a/../b",
            "%C3%A9",
            "%c3",
            "a&amp;b=%2F",
            "a&apos;b",
            "]]>",
            "no",
            "nobody",
            "x?no",
        ]
    ),
    st.integers(2_030, 2_050).map(lambda length: "a" * (length - len(BASE))),
)
BASES: Final = st.sampled_from(
    [BASE] * 9 + ["https://other.example/", "http://example.com/", "HTTPS://example.com/"]
)
LASTMODS: Final = st.sampled_from(
    [
        *(
            "2026-01-01",
            "2026-02-29",
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00:00.5+01:00",
            "2026-01-02T00:00:00.25Z",
        ),
        *("2026-09-23", "2030-01-01T00:00:00Z", "2026", " 2026-01-01", "", "x", "0000-01-01"),
    ]
)
MORE: Final = st.sampled_from(
    [
        *("", "<changefreq>daily</changefreq>", "<changefreq>x</changefreq>", "<priority>0.5</priority>"),
        *(
            "<priority>1.1</priority>",
            "<priority>0.5</priority><changefreq>daily</changefreq>",
            "<x/>",
            "<!-- -->",
        ),
    ]
)


@st.composite
def urls(draw: st.DrawFn) -> str:
    """A `<url>` that is mostly right."""
    loc = draw(BASES) + draw(LOCS)
    lastmod = f"<lastmod>{draw(LASTMODS)}</lastmod>" if draw(st.booleans()) else ""
    space = draw(st.sampled_from(["", "", "\n", "\t ", "\x0c"]))
    return f"{space}<url>{space}<loc>{loc}</loc>{space}{lastmod}{draw(MORE)}{space}</url>{space}"


XSI: Final = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
XHTML: Final = f'xmlns:xhtml="{XHTML_NS}"'
HEADS: Final = st.sampled_from(
    [
        *[HEAD] * 6,
        *(HEAD.replace("UTF-8", "utf-8"), HEAD.replace('"', "'"), "", "\ufeff" + HEAD, "\n" + HEAD),
        HEAD + '<?xml-stylesheet type="text/xsl" href="/s.xsl"?>',
        HEAD.replace("UTF-8", "UTF-16"),
    ]
)
ROOTS: Final = st.sampled_from(
    [
        *[f'urlset xmlns="{SITEMAP_NS}"'] * 6,
        f'urlset xmlns="{SITEMAP_NS}" {XSI} xsi:schemaLocation="a b"',
        f'urlset xmlns="{SITEMAP_NS}" xsi:schemaLocation="a b"',
        f'urlset xmlns="{SITEMAP_NS}" {XHTML} {XHTML}',
        'urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.8"',
    ]
)
FILES: Final = st.builds(
    lambda rows, root, head, end: urlset(*rows, root=root, head=head) + end,
    st.lists(urls(), max_size=4),
    ROOTS,
    HEADS,
    st.sampled_from(["", "", "", "\n ", "<!-- -->", "x"]),
)


@given(text=FILES, robots=st.booleans(), packed=st.booleans())
def test_both_paths_find_the_same(
    tmp_path_factory: pytest.TempPathFactory, text: str, robots: bool, packed: bool
) -> None:
    """The same findings, URLs, newest date and kinds of dates, whether or not the fast path is tried."""
    folder = tmp_path_factory.mktemp("tree")
    data = text.encode()
    write(folder, {"sitemap.xml.gz" if packed else "sitemap.xml": gzip.compress(data) if packed else data})
    if robots:
        write(folder, {"robots.txt": ROBOTS})
    fast, tree = check_written(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check_of_file, "_check_plain", lambda *_: False)
        careful, other = check_written(folder)
    assert fast == careful
    for one, two in zip(tree.files, other.files, strict=True):
        assert (one.kind, one.urls, one.newest_ms) == (two.kind, two.urls, two.newest_ms)
        assert len(one.lastmods) == len(two.lastmods)


def where() -> Where:
    """The site's own file."""
    return Where(findings=Findings(9), file="sitemap.xml", base=BASE, now_ms=NOW)


@pytest.mark.parametrize("size", [1, 7, 50, 100_000])
def test_the_fast_path_takes_what_most_sites_publish(tmp_path: Path, size: int) -> None:
    """Else a check of ten million URLs takes minutes: in pieces of any size, with all that is common."""
    rows = [
        url("a", "<lastmod>2026-01-01</lastmod>"),
        url(
            "%C3%A9?a=1&amp;b=2",
            "\n<lastmod>2026-01-02T00:00:00+00:00</lastmod><changefreq>daily</changefreq>",
        ),
        url("c.html", "<priority>0.8</priority>"),
    ]
    text = urlset(*rows).encode()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    found = list(read_plain(pieces, where()))
    assert [loc for piece in found for loc in piece.locs] == [
        f"{BASE}{path}".encode() for path in ("a", "%C3%A9?a=1&b=2", "c.html")
    ]
    assert max(piece.newest_ms for piece in found) == 1_767_312_000_000


def test_a_rule_that_allows_again_keeps_the_fast_path(tmp_path: Path) -> None:
    """robots.txt is asked only for the URLs that it may forbid, and its answer counts."""
    place = where()
    place.robots = {"https://example.com": Robots(ROBOTS, "https://example.com", "robots.txt")}
    write(tmp_path, {"a.xml": urlset(url("nobody"), url("x")), "b.xml": urlset(url("nobody"), url("x?no"))})
    assert list(read_plain(Content(tmp_path / "a.xml"), place))
    with pytest.raises(Unsure):
        list(read_plain(Content(tmp_path / "b.xml"), place))

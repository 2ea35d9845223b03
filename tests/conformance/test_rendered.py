"""Every output is held to lxml and to the project's schemas, so to the protocol."""

from __future__ import annotations

import re
from itertools import starmap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from sitemap_store.model.dates import format_instant
from sitemap_store.model.entries import Entry
from sitemap_store.model.extensions import canonical, read_extensions
from sitemap_store.model.extensions.page import Page
from sitemap_store.model.protocol import IMAGE_NS, NEWS_NS, SITEMAP_NS, STRICT, VIDEO_NS, XHTML_NS
from sitemap_store.model.site import index_file
from sitemap_store.model.style import Style
from sitemap_store.reading.reader import read_index, read_urlset
from sitemap_store.shards.render import index, sitemap_xml, urlset
from tests import strategies
from tests.examples import examples
from tests.published import NS, SITEMAPINDEX, URLSET
from tests.world import BASE, START, make_site

rows_of = st.lists(strategies.plain_entries, min_size=1, max_size=12, unique_by=lambda row: row.loc)


def _read(data: bytes) -> list[tuple[str, ...]]:
    root = etree.fromstring(data)
    return [
        tuple(url.findtext(f"{NS}{name}") or "" for name in ("loc", "lastmod", "changefreq", "priority"))
        for url in root
    ]


@given(rows_of)
@settings(max_examples=examples(300))
def test_lxml_reads_back_the_same_entries(rows: list[Entry]) -> None:
    """Whatever legal entries are rendered, a real XML parser finds them, sorted, all fields the same."""
    assert _read(urlset(rows, Style())) == [tuple(row[:4]) for row in sorted(rows)]


@given(rows_of)
@settings(max_examples=examples(200))
def test_a_rendered_file_is_valid(rows: list[Entry]) -> None:
    """Namespace, order of the children, forms of the values: by the schema."""
    URLSET.assertValid(etree.fromstring(urlset(rows, Style())).getroottree())


@given(rows_of, strategies.changefreqs, strategies.priorities)
def test_a_sections_defaults_keep_a_file_valid(rows: list[Entry], changefreq: str, priority: str) -> None:
    """What a style fills in obeys the same rules, and replaces nothing."""
    data = urlset(rows, Style(changefreq=changefreq, priority=priority))
    URLSET.assertValid(etree.fromstring(data).getroottree())
    assert _read(data) == [
        (row.loc, row.lastmod, row.changefreq or changefreq, row.priority or priority) for row in sorted(rows)
    ]


@given(rows_of)
def test_our_own_reader_finds_what_was_written(rows: list[Entry]) -> None:
    """A restore reads what a publish wrote."""
    assert [tuple(url) for url in read_urlset(urlset(rows, Style()))] == [
        (*row[:4], {}) for row in sorted(rows)
    ]


@given(st.lists(strategies.entries, min_size=1, max_size=3, unique_by=lambda row: row.loc))
@settings(max_examples=examples(200))
def test_any_mix_of_extensions_is_valid_and_reads_back_the_same(rows: list[Entry]) -> None:
    """By the schemas of each extension; what the reader finds needs no warning, and is what was rendered."""
    data = urlset(rows, Style())
    URLSET.assertValid(etree.fromstring(data).getroottree())
    for url, row in zip(read_urlset(data), sorted(rows), strict=True):
        page = Page(loc=url.loc, now=START, title_max=100)
        assert canonical(read_extensions(url.ext, page)) == row.ext
        assert page.warnings == ()


@pytest.mark.parametrize(
    ("element", "wrong"),
    [
        ("<image:image><image:loc>/a.jpg</image:loc></image:image>", "image:loc"),
        ("<image:image/>", "image:image"),
        ('<xhtml:link rel="alternate" hreflang="en_GB" href="https://example.com/"/>', "xhtml:link"),
        ("<news:news><news:title>T</news:title></news:news>", "news:news"),
        ("<video:video><video:title>T</video:title></video:video>", "video:video"),
        ("<image:image><image:loc>https://example.com/</image:loc></image:image><xhtml:link/>", "order"),
    ],
)
def test_the_schema_refuses_wrong_extensions(element: str, wrong: str) -> None:
    """A schema that takes everything would prove nothing."""
    spaces = (
        f'xmlns:image="{IMAGE_NS}" xmlns:video="{VIDEO_NS}" xmlns:news="{NEWS_NS}" xmlns:xhtml="{XHTML_NS}"'
    )
    url = f"<url><loc>https://example.com/</loc>{element}</url>"
    data = f'<urlset xmlns="{SITEMAP_NS}" {spaces}>{url}</urlset>'
    assert not URLSET.validate(etree.fromstring(data).getroottree()), wrong


@given(rows_of)
def test_no_text_holds_one_of_the_five_characters(rows: list[Entry]) -> None:
    """Taken apart by its tags, what is left of a file has quotes and brackets as entities only."""
    body = urlset(rows, Style()).decode().partition(">\n<url>")[2]
    for text in re.split(r"</?(?:url|urlset|loc|lastmod|changefreq|priority)>", body):
        assert not set("'\"<>") & set(text)
        assert "&" not in re.sub(r"&(?:amp|apos|quot|lt|gt);", "", text)


@given(rows_of)
def test_a_file_is_ascii_with_no_mark_before_its_declaration(rows: list[Entry]) -> None:
    """No byte order mark, nothing before the declaration, one line end at the end."""
    data = urlset(rows, Style())
    assert data.startswith(b'<?xml version="1.0" encoding="UTF-8"?>\n<urlset ')
    assert data.endswith(b"</url>\n</urlset>\n")
    assert data.isascii()


@given(
    st.lists(
        st.tuples(
            st.from_regex(r"\A[a-z][a-z0-9_]{0,6}(-[a-z0-9_]{1,6})?\Z"),
            st.integers(1, 10**6),
            st.integers(0, 2**41),
            st.booleans(),
        ),
        min_size=1,
        max_size=20,
        unique_by=lambda shard: shard[:2],
    )
)
def test_an_index_is_valid_and_read_back(shards: list[tuple[str, int, int, bool]]) -> None:
    """Each shard once, with its lastmod to the millisecond."""
    listed = [
        (
            BASE + make_site(gzip=gzip).shard_file(section, number),
            format_instant(lastmod, always_milliseconds=True),
        )
        for section, number, lastmod, gzip in shards
    ]
    data = index(starmap(sitemap_xml, listed))
    SITEMAPINDEX.assertValid(etree.fromstring(data).getroottree())
    assert [tuple(item) for item in read_index(data)] == listed


def test_the_largest_index_keeps_its_limits() -> None:
    """A thousand shards with the longest names stay far below the bytes that an index may have."""
    site = make_site()
    name = site.shard_file("a" * 40, 10**9)
    listed = [(f"https://{'h' * 253}/{'p' * 1000}/{name}", format_instant(START))] * STRICT.sitemaps_per_index
    assert len(index(starmap(sitemap_xml, listed))) < STRICT.bytes_per_index


@pytest.mark.parametrize(
    "urls",
    [
        "",
        "<url><lastmod>2026-01-01</lastmod><loc>https://example.com/</loc></url>",
        "<url><loc>https://example.com/ö</loc></url>",
        "<url><loc>https://example.com/a</loc><priority>1</priority></url>",
        "<url><loc>https://example.com/a</loc><lastmod>2026-01</lastmod></url>",
        "<url><loc>https://example.com/a</loc></url>" * 2,
        "<url><loc> https://example.com/a</loc></url>",
        f"<url><loc>https://example.com/{'a' * 2048}</loc></url>",
    ],
    ids=["empty", "order", "not encoded", "one decimal", "month", "twice", "space", "too long"],
)
def test_the_schema_itself_can_say_no(urls: str) -> None:
    """A schema that takes everything would prove nothing."""
    good = f'<urlset xmlns="{SITEMAP_NS}"><url><loc>https://example.com/a</loc></url></urlset>'
    assert URLSET.validate(etree.fromstring(good).getroottree())
    bad = f'<urlset xmlns="{SITEMAP_NS}">{urls}</urlset>'
    assert not URLSET.validate(etree.fromstring(bad).getroottree())


def test_no_index_file_is_listed_as_a_shard() -> None:
    """An index never lists another index: the schema of its locs takes shards only."""
    data = index([sitemap_xml(BASE + index_file(2), format_instant(START, always_milliseconds=True))])
    assert not SITEMAPINDEX.validate(etree.fromstring(data).getroottree())

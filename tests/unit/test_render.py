"""Entries to bytes."""

import json
import random
from itertools import starmap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from sitemap_store.model.entries import Entry
from sitemap_store.model.events import Event, encode, read_log
from sitemap_store.model.extensions import canonical
from sitemap_store.model.protocol import IMAGE_NS, NEWS_NS, SITEMAP_NS, VIDEO_NS, XHTML_NS
from sitemap_store.model.style import Style
from sitemap_store.model.values import escape
from sitemap_store.shards.fold import fold
from sitemap_store.shards.render import index, sitemap_xml, sized, url_xml, urlset
from sitemap_store.shards.snapshot import EMPTY
from sitemap_store.shards.snapshot import decode as decode_snapshot
from sitemap_store.shards.snapshot import encode as encode_snapshot
from tests import strategies
from tests.world import BASE, START


def test_a_file_is_written_byte_by_byte_like_this() -> None:
    """The whole of a small file: declaration, namespace, order of the children, line ends."""
    rows = [
        Entry(BASE + "b?x=1&y='2'", "2026-03-21T11:22:33+01:00"),
        Entry(BASE + "a", "2026-03-21", "daily", "0.8", 5, "cms"),
    ]
    assert urlset(rows, Style()).decode() == (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        "<url><loc>https://example.com/a</loc><lastmod>2026-03-21</lastmod>"
        "<changefreq>daily</changefreq><priority>0.8</priority></url>\n"
        "<url><loc>https://example.com/b?x=1&amp;y=&apos;2&apos;</loc>"
        "<lastmod>2026-03-21T11:22:33+01:00</lastmod></url>\n"
        "</urlset>\n"
    )


def test_no_entries_are_no_bytes() -> None:
    """An empty urlset or sitemapindex is invalid, so there is none."""
    assert urlset([], Style()) == b""
    assert index([]) == b""


def test_the_five_characters_are_entities() -> None:
    """Ampersand first, so that nothing is escaped twice."""
    assert escape("""&'"><&amp;""") == "&amp;&apos;&quot;&gt;&lt;&amp;amp;"
    assert escape("nothing to do") == "nothing to do"


@pytest.mark.parametrize(
    ("path", "written"),
    [("it's", "it&apos;s"), ("?a&b", "?a&amp;b"), ("?a&b='c'", "?a&amp;b=&apos;c&apos;"), ("plain", "plain")],
)
def test_what_a_loc_may_hold_of_them_is_escaped(path: str, written: str) -> None:
    """An apostrophe alone too, although XML would take it as it is: the protocol wants an entity."""
    assert url_xml(Entry(BASE + path), Style()) == f"<url><loc>{BASE}{written}</loc></url>\n"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40))
def test_escaped_text_comes_back_as_it_was(text: str) -> None:
    """lxml reads back what was escaped, in element text and in attributes."""
    root = etree.fromstring(f'<a b="{escape(text)}">{escape(text)}</a>')
    assert (root.text or "") == text
    assert root.get("b") == text
    assert not set("'\"<>") & set(escape(text))


@given(st.lists(strategies.plain_entries, unique_by=lambda row: row.loc), st.randoms(use_true_random=False))
def test_the_same_entries_give_the_same_bytes(rows: list[Entry], shuffler: random.Random) -> None:
    """In whatever order they come, and whatever their times and sources are."""
    others = [row._replace(at=row.at + 1, source="other") for row in rows]
    shuffler.shuffle(others)
    assert urlset(others, Style()) == urlset(rows, Style())


@given(st.lists(strategies.entries, min_size=1, unique_by=lambda row: row.loc))
def test_pieces_are_the_file_but_for_its_frame(rows: list[Entry]) -> None:
    """What a split counts is what a file weighs, extensions too, in the file's own order."""
    style = Style(changefreq="weekly")
    pieces = sized(rows, style)
    assert [piece.loc for piece in pieces] == sorted(row.loc for row in rows)
    frame = urlset(rows, style).split(b"".join(piece.xml for piece in pieces))
    assert len(frame) == 2
    assert frame[0].endswith(b">\n")
    assert frame[1] == b"</urlset>\n"


def test_a_sections_defaults_fill_what_an_entry_leaves_out() -> None:
    """An entry's own word comes first."""
    style = Style(changefreq="daily", priority="0.8")
    assert "<changefreq>daily</changefreq><priority>0.8</priority>" in url_xml(Entry(BASE + "a"), style)
    own = url_xml(Entry(BASE + "a", "", "never", "0.0"), style)
    assert "<changefreq>never</changefreq><priority>0.0</priority>" in own


def test_an_index_lists_in_the_order_that_it_is_given() -> None:
    """The whole of a small index file; its order is the caller's."""
    listed = [(BASE + "sitemap-b-1.xml", "2026-01-01T00:00:00.000Z"), (BASE + "x'&.xml", "2026-01-02")]
    assert index(starmap(sitemap_xml, listed)).decode() == (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        "<sitemap><loc>https://example.com/sitemap-b-1.xml</loc>"
        "<lastmod>2026-01-01T00:00:00.000Z</lastmod></sitemap>\n"
        "<sitemap><loc>https://example.com/x&apos;&amp;.xml</loc><lastmod>2026-01-02</lastmod></sitemap>\n"
        "</sitemapindex>\n"
    )


IMAGES = {"images": ["https://example.com/i?a&b"]}
NEWS = {
    "publication": {"name": "N & N", "language": "en"},
    "publication_date": "2026-09-21",
    "title": "é <b>",
}
VIDEO = {"thumbnail_loc": BASE + "t", "title": "T", "description": "D", "player_loc": BASE + "p"}
LINKS = [{"hreflang": "de", "href": BASE + "a"}, {"hreflang": "en", "href": BASE + "'"}]


def test_extensions_survive_from_the_event_to_the_file() -> None:
    """Event, log, fold, snapshot, file."""
    ext = canonical({"news": NEWS} | IMAGES)
    record = encode(Event("add", BASE + "a", "2026-01-01", ext=ext))
    folded = fold(EMPTY, read_log([f"{START}\n{record}".encode()]), START)
    kept = decode_snapshot(encode_snapshot(folded.snapshot)).entries
    assert json.loads(kept[BASE + "a"].ext) == IMAGES | {"news": NEWS}
    url = etree.fromstring(urlset(kept.values(), Style()))[0]
    assert [etree.QName(child).localname for child in url] == ["loc", "lastmod", "image", "news"]
    assert url.findtext(f"{{{IMAGE_NS}}}image/{{{IMAGE_NS}}}loc") == "https://example.com/i?a&b"
    assert url.findtext(f"{{{NEWS_NS}}}news/{{{NEWS_NS}}}title") == "é <b>"


def test_extensions_are_written_byte_by_byte_like_this() -> None:
    """The whole of a file with all four: namespaces and elements in one order, escaped once."""
    ext = canonical({"news": NEWS, "videos": [VIDEO], "alternates": LINKS} | IMAGES)
    assert urlset([Entry(BASE + "a", "2026-09-21", ext=ext)], Style()).decode() == (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<urlset xmlns="{SITEMAP_NS}" xmlns:xhtml="{XHTML_NS}" xmlns:image="{IMAGE_NS}"'
        f' xmlns:video="{VIDEO_NS}" xmlns:news="{NEWS_NS}">\n'
        "<url><loc>https://example.com/a</loc><lastmod>2026-09-21</lastmod>"
        '<xhtml:link rel="alternate" hreflang="de" href="https://example.com/a"/>'
        '<xhtml:link rel="alternate" hreflang="en" href="https://example.com/&apos;"/>'
        "<image:image><image:loc>https://example.com/i?a&amp;b</image:loc></image:image>"
        "<video:video><video:thumbnail_loc>https://example.com/t</video:thumbnail_loc><video:title>T</video:title>"
        "<video:description>D</video:description><video:player_loc>https://example.com/p</video:player_loc>"
        "</video:video><news:news><news:publication><news:name>N &amp; N</news:name>"
        "<news:language>en</news:language></news:publication>"
        "<news:publication_date>2026-09-21</news:publication_date><news:title>é &lt;b&gt;</news:title>"
        "</news:news></url>\n</urlset>\n"
    )


def test_only_namespaces_in_use_are_declared() -> None:
    """A file of plain URLs declares none; text that looks like an image's element declares none either."""
    plain = Entry(BASE + "a")
    image = Entry(BASE + "b", ext=canonical(IMAGES))
    news = Entry(BASE + "c", ext=canonical({"news": NEWS | {"title": "<image:image>"}}))
    for rows, used in [
        ([plain], {}),
        ([plain, image], {"image": IMAGE_NS}),
        ([plain, news], {"news": NEWS_NS}),
        ([image, news], {"image": IMAGE_NS, "news": NEWS_NS}),
    ]:
        assert etree.fromstring(urlset(rows, Style())).nsmap == {None: SITEMAP_NS} | used


@pytest.mark.parametrize("field", ["lastmod", "changefreq", "priority"])
def test_what_is_unknown_is_left_out(field: str) -> None:
    """No empty elements, and no date that was invented."""
    assert field not in url_xml(Entry(BASE + "a"), Style())

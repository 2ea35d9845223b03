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
from sitemap_store.model.protocol import IMAGE_NS, SITEMAP_NS
from sitemap_store.model.style import Extension, Style
from sitemap_store.model.wire import canonical
from sitemap_store.shards.fold import fold
from sitemap_store.shards.render import escape, frame_bytes, index, sitemap_xml, sized, url_xml, urlset
from sitemap_store.shards.snapshot import EMPTY
from sitemap_store.shards.snapshot import decode as decode_snapshot
from sitemap_store.shards.snapshot import encode as encode_snapshot
from tests import strategies
from tests.world import BASE, START

OWN_NS = "https://example.com/own-extension"


def _images(value: object) -> str:
    assert isinstance(value, list)
    return "".join(
        f"<image:image><image:loc>{escape(item['loc'])}</image:loc></image:image>" for item in value
    )


def _own(value: object) -> str:
    return f"<own:text>{escape(str(value))}</own:text>"


STYLE = Style(
    extensions={
        "image": Extension(prefix="image", namespace=IMAGE_NS, write=_images),
        "own": Extension(prefix="own", namespace=OWN_NS, write=_own),
    }
)


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


@given(st.lists(strategies.entries, unique_by=lambda row: row.loc))
def test_frame_and_pieces_are_the_file(rows: list[Entry]) -> None:
    """What a split counts is what a file weighs, to the byte, in the file's own order."""
    style = Style(changefreq="weekly")
    pieces = sized(rows, style)
    assert [piece.loc for piece in pieces] == sorted(row.loc for row in rows)
    if rows:
        assert frame_bytes(rows, style) + sum(len(piece.xml) for piece in pieces) == len(urlset(rows, style))
        assert b"".join(piece.xml for piece in pieces) in urlset(rows, style)


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


def test_extensions_survive_from_the_event_to_the_file() -> None:
    """Event, log, fold, snapshot, file: room for image, video, news and alternates without a new design."""
    ext = canonical({"own": "é & <b>", "image": [{"loc": "https://example.com/i?a&b"}]})
    record = encode(Event("add", BASE + "a", "2026-01-01", ext=ext))
    folded = fold(EMPTY, read_log([f"{START}\n{record}".encode()]), START)
    kept = decode_snapshot(encode_snapshot(folded.snapshot)).entries
    assert json.loads(kept[BASE + "a"].ext) == {
        "own": "é & <b>",
        "image": [{"loc": "https://example.com/i?a&b"}],
    }
    root = etree.fromstring(urlset(kept.values(), STYLE))
    url = root[0]
    assert [etree.QName(child).localname for child in url] == ["loc", "lastmod", "image", "text"]
    assert url.findtext(f"{{{IMAGE_NS}}}image/{{{IMAGE_NS}}}loc") == "https://example.com/i?a&b"
    assert url.findtext(f"{{{OWN_NS}}}text") == "é & <b>"


def test_only_namespaces_in_use_are_declared() -> None:
    """A file of plain URLs says nothing of extensions; one URL with an image declares images."""
    plain = Entry(BASE + "a")
    image = Entry(BASE + "b", ext=canonical({"image": [{"loc": BASE + "i.png"}]}))
    assert etree.fromstring(urlset([plain], STYLE)).nsmap == {None: SITEMAP_NS}
    assert etree.fromstring(urlset([plain, image], STYLE)).nsmap == {None: SITEMAP_NS, "image": IMAGE_NS}


def test_an_extension_that_the_style_does_not_know_is_kept_and_not_written() -> None:
    """The snapshot holds it; a style that learns it writes it."""
    row = Entry(BASE + "a", ext=canonical({"video": [], "own": 1}))
    assert urlset([row], Style()) == urlset([row._replace(ext="")], Style())
    assert b"<own:text>1</own:text>" in urlset([row], STYLE)
    assert b"video" not in urlset([row], STYLE)


@pytest.mark.parametrize("field", ["lastmod", "changefreq", "priority"])
def test_what_is_unknown_is_left_out(field: str) -> None:
    """No empty elements, and no date that was invented."""
    assert field not in url_xml(Entry(BASE + "a"), Style())

"""Reads a sitemap of another tool, in any form in which a URL can still be told from what surrounds it.

1. The content says what a file is, never its name: gzip, text, index, urlset, RSS or Atom.
2. The file is read strictly first. Only where that fails it is read again with repairs: bytes that are no
   UTF-8 as windows-1252, an ampersand that begins no entity of XML as itself. Elements that came the first
   time are not given again. Where the repairs lead no further, the first failure counts.
3. What is whole before a failure is given. A DOCTYPE is a failure: no entity is ever declared.
4. Elements count by their local names: wrong namespaces are common.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from html import unescape
from html.entities import html5
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from sitemap_store.check.content import Broken, Content
from sitemap_store.check.markup import Markup, Node
from sitemap_store.model.protocol import CURRENT, SITEMAP_NS
from sitemap_store.reading.extensions import is_extension, read_ext

FALLBACK: Final = "windows-1252"
"""How bytes are read that are no UTF-8."""

_BOM: Final = b"\xef\xbb\xbf"
_SPACE: Final = b" \t\r\n"
_LINE_MAX: Final = 8 * CURRENT.loc_max
_WIDE: Final = (
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"<\x00", "utf-16-le"),
    (b"\x00<", "utf-16-be"),
)
_STRAY: Final = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});)")
_ENTITY_MAX: Final = 12
"""Bytes from an ampersand to the end of the longest entity that `_STRAY` knows, and some more."""
_ENTITY: Final = re.compile(r"&([A-Za-z][A-Za-z0-9]{1,30};|#[0-9]{1,7};|#[xX][0-9A-Fa-f]{1,6};)")
_ESCAPED_MAX: Final = 3
"""How many times too often a value may be escaped."""
_FIELDS: Final = ("loc", "lastmod", "changefreq", "priority")
_ATOM: Final = "http://www.w3.org/2005/Atom"
_DATES: Final = ("updated", "published", "pubDate", "date")
"""The elements of a feed's entry that have its date, the best first."""

Note = Callable[[str, str], None]
"""Takes a note on the file: its code (`sitemapd.importing.report.REASONS`) and a detail."""


class Item(NamedTuple):
    """One entry as it is written, without the white space around its values."""

    loc: str
    lastmod: str = ""
    changefreq: str = ""
    priority: str = ""
    others: tuple[str, ...] = ()
    """The names of its elements that are neither the protocol's nor an extension's."""
    is_sitemap: bool = False
    """Whether an index lists it."""
    ext: Mapping[str, Any] | None = None
    """Its extensions as an event's `ext` would have them, unchecked; None for none."""


def read_items(content: Content, note: Note) -> Iterator[Item]:
    """Give the entries of a file. Raises Broken, after the entries before the fault."""
    given = 0
    try:
        for item in _read(content, note):
            yield item
            given += 1
        return
    except Broken as broken:
        if broken.code not in ("not-well-formed", "encoding"):
            raise
        failure = broken
    encoding = "utf-8" if _is_utf_8(content) else FALLBACK
    if failure.code == "encoding" and encoding != "utf-8":
        raise failure
    is_ampersand = failure.code == "not-well-formed" and encoding == "utf-8"
    oddity = ("ampersand", "") if is_ampersand else ("encoding", encoding)
    more = 0
    try:
        repaired = _read(content, lambda *_: None, encoding=encoding)
        for item in islice(repaired, given, None):
            yield item
            more += 1
    except Broken as broken:
        if not more:
            raise failure from broken
        note(*oddity)
        raise
    note(*oddity)


def _read(content: Content, note: Note, encoding: str | None = None) -> Iterator[Item]:
    """Read in an encoding and with repairs where one is given, and else strictly."""
    pieces = iter(content)
    first = next(pieces, b"")
    wide = next((name for mark, name in _WIDE if first.startswith(mark)), None)
    if wide is not None:
        note("encoding", "UTF-16")
        encoding = "utf-8"
        pieces = _transcoded(first, pieces, wide)
        first = next(pieces, b"")
    first, skipped = _trimmed(first, pieces, note)
    if not first:
        return
    if not first.startswith(b"<"):
        yield from _lines(first, pieces, note, skipped)
        return
    pieces = chain([first], pieces)
    if encoding is not None:
        pieces = _without_stray_ampersands(pieces)
    yield from _elements(pieces, note, Markup(skipped, encoding))


def _trimmed(first: bytes, pieces: Iterator[bytes], note: Note) -> tuple[bytes, int]:
    """The first piece without what may not stand before a file's text, and how many lines that was."""
    skipped = 0
    while True:
        if first.startswith(_BOM):
            note("bom", "")
            first = first.removeprefix(_BOM)
        text = first.lstrip(_SPACE)
        skipped += first[: len(first) - len(text)].count(b"\n")
        if len(text) < len(first) and text.startswith(b"<"):
            note("before-declaration", "")
        if text == first or not (first := text or next(pieces, b"")):
            return first, skipped


def _elements(pieces: Iterable[bytes], note: Note, markup: Markup) -> Iterator[Item]:
    entered = False
    for piece in chain(pieces, [b""]):
        failure = None
        try:
            nodes = markup.feed(piece, last=not piece)
        except Broken as broken:
            nodes, failure = markup.take(), broken
        if not entered and markup.root is not None:
            entered = True
            _enter(markup, note)
        yield from _items(nodes, markup.root)
        if failure is not None:
            raise failure


def _enter(markup: Markup, note: Note) -> None:
    """Take note of what is odd about the root. Raises Broken for one of something else."""
    root = markup.root
    assert root is not None
    if root.name not in ("urlset", "sitemapindex", "rss", "feed", "RDF"):
        raise Broken("no-sitemap", root.name, root.line)
    if root.name in ("urlset", "sitemapindex") and root.namespace != SITEMAP_NS:
        note("namespace", root.namespace or "none")
    if markup.encoding not in ("utf-8", "utf8", "us-ascii"):
        note("encoding", markup.encoding)


def _items(nodes: Iterable[Node], root: Node | None) -> Iterator[Item]:
    if root is None:
        return
    for node in nodes:
        if node.name in ("url", "sitemap"):
            yield _item(node, root.namespace)
        elif node.name in ("item", "entry"):
            yield _feed_item(node)


def _item(node: Node, namespace: str) -> Item:
    values: dict[str, str] = {}
    others: list[str] = []
    is_extended = False
    for child in node.children:
        if is_extension(child):
            is_extended = True
        elif child.namespace not in (namespace, SITEMAP_NS, ""):
            others.append(child.name)
        elif child.name in _FIELDS:
            if text := child.text.strip():
                values.setdefault(child.name, text)
        else:
            others.append(child.name)
    get = values.get
    return Item(
        get("loc", ""),
        get("lastmod", ""),
        get("changefreq", ""),
        get("priority", ""),
        tuple(others),
        node.name == "sitemap",
        read_ext(node) if is_extended else None,
    )


def _feed_item(node: Node) -> Item:
    """The page and the date of a feed's entry. Source: RSS 2.0; RFC 4287."""
    loc, dates = "", dict[str, str]()
    for child in node.children:
        text = child.text.strip()
        if child.name == "link" and not loc:
            if child.namespace != _ATOM:
                loc = text
            elif child.attributes.get("rel", "alternate") == "alternate":
                loc = child.attributes.get("href", "").strip()
        elif child.name in _DATES and text:
            dates.setdefault(child.name, text)
    if not loc:
        guids = (child for child in node.children if child.name == "guid")
        loc = next((each.text.strip() for each in guids if each.attributes.get("isPermaLink") != "false"), "")
    date = next((dates[name] for name in _DATES if name in dates), "")
    return Item(loc, _rfc_822(date))


def _rfc_822(date: str) -> str:
    """A date as RSS writes it in the form of a sitemap; what is no such date, as it is."""
    if not date[:1].isalpha() and "-" in date[:5]:
        return date
    try:
        return parsedate_to_datetime(date).isoformat()
    except (ValueError, OverflowError):
        return date


def _lines(first: bytes, pieces: Iterator[bytes], note: Note, number: int) -> Iterator[Item]:
    """One URL a line. Source: sitemaps.org, text file."""
    held, is_list, is_noted = b"", False, False
    for piece in chain([first], pieces, [b"\n"]):
        *lines, held = (held + piece).split(b"\n")
        if len(held) > _LINE_MAX:
            raise Broken("hostile-markup", "a line is too long", number + 1)
        for line in map(bytes.strip, lines):
            number += 1
            if not line or line.startswith(b"#"):
                continue
            if not is_list and b"://" not in line:
                raise Broken("no-sitemap", "text", number)
            is_list = True
            try:
                text = line.decode()
            except UnicodeDecodeError:
                text = line.decode(FALLBACK, "replace")
                if not is_noted:
                    is_noted = True
                    note("encoding", FALLBACK)
            yield Item(text)


def _transcoded(first: bytes, pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """UTF-16 as UTF-8. Raises Broken."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for piece in chain([first], pieces):
            if text := decoder.decode(piece):
                yield text.encode()
        decoder.decode(b"", final=True)
    except UnicodeError as error:
        raise Broken("encoding", str(error)) from error


def _is_utf_8(content: Content) -> bool:
    """Whether a file, as far as it can be unpacked, is UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in content:
            decoder.decode(piece)
    except UnicodeDecodeError:
        return False
    except Broken:
        pass
    return True


def _without_stray_ampersands(pieces: Iterable[bytes]) -> Iterator[bytes]:
    held = b""
    for piece in pieces:
        held += piece
        # An entity may reach into the next piece.
        end = held.rfind(b"&", len(held) - _ENTITY_MAX)
        end = len(held) if end < 0 else end
        if end:
            yield _STRAY.sub(b"&amp;", held[:end])
        held = held[end:]
    if held:
        yield _STRAY.sub(b"&amp;", held)


def without_entities(text: str) -> str:
    """A value that was escaped once too often, or that has entities of HTML, as it was meant."""
    for _ in range(_ESCAPED_MAX):
        plain = _ENTITY.sub(_character, text)
        if plain == text:
            break
        text = plain
    return text


def _character(match: re.Match[str]) -> str:
    # Not html.unescape on the whole text: it takes `&copy=1` of a query for an entity too.
    return html5.get(match[1], match[0]) if match[1][0] != "#" else unescape(match[0])

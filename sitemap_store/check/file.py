"""Checks one sitemap file, in one pass over its content."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal, TypeAlias

from sitemap_store.check.address import UNKNOWN, origin_of
from sitemap_store.check.content import Broken, Content
from sitemap_store.check.findings import Findings
from sitemap_store.check.markup import Markup, Node
from sitemap_store.check.plain import Unsure, read_plain
from sitemap_store.check.spill import Spill
from sitemap_store.check.url import Checked, check_url
from sitemap_store.check.where import Where
from sitemap_store.model.protocol import CURRENT, SITEMAP_NS

Kind = Literal["urlset", "sitemapindex", "text", "feed", "other"]

NEWS_MAX: Final = 1_000
"""URLs with news in one file. Source: Google, News sitemaps."""
_ITEMS: Final = {"urlset": "url", "text": "url", "sitemapindex": "sitemap"}
_FEEDS: Final = frozenset({"rss", "feed", "RDF"})
_BOM: Final = b"\xef\xbb\xbf"
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_SPACE: Final = b" \t\r\n"
_LINE_MAX: Final = 8 * CURRENT.loc_max
_TOGETHER: Final = 50_000
"""Keys that are kept together on disk."""

LinkOwner: TypeAlias = "tuple[int, str]"
"""A file's number, and the origin that its links lead to."""


@dataclass(kw_only=True)
class Facts:
    """What the check of one file leaves for the checks of the tree."""

    number: int
    content: Content
    where: Where
    address: str
    """Where it is published."""
    kind: Kind = "other"
    urls: int = 0
    newest_ms: int = 0
    """The newest lastmod in it, since 1970 UTC; 0: none."""
    lastmods: set[str] = field(default_factory=set)
    """Up to two different lastmods of its URLs; "" where one is missing."""
    sitemaps: list[Checked] = field(default_factory=list)
    """What an index lists; at most 50,000."""


def check_file(facts: Facts, urls: Spill[int], links: Spill[LinkOwner]) -> None:
    """Check a file, fill in what is known of it, and put the keys of its URLs and links into the two sets."""
    where, content = facts.where, facts.content
    if not _check_plain(facts, urls):
        _check_carefully(facts, urls, links)
    if content.is_gzip != where.file.partition("?")[0].endswith(".gz") and facts.kind != "feed":
        where.add("gzip-name", 0)
    if content.size > CURRENT.bytes_per_file:
        where.add("too-many-bytes", 0, f"{content.size:,}")
    if facts.urls > CURRENT.urls_per_file:
        where.add("too-many-urls", 0, f"{facts.urls:,}")


def locate(facts: Facts, wanted: set[int]) -> Iterator[tuple[Checked, list[str]]]:
    """Read a file again: the URLs whose key, or that of one of whose links, is wanted, with these links."""
    silent = Facts(
        number=facts.number, content=facts.content, where=_silent(facts.where), address=facts.address
    )
    for item in _Careful(silent).items():
        links = [link for link in item.links if link_key(item.loc, link) in wanted]
        if links or url_key(item.loc) in wanted:
            yield item, links


def first_locs(content: Content, file: str, most: int) -> list[str]:
    """Up to `most` addresses that a file lists first, without a finding."""
    where = Where(findings=Findings(0), file=file, base=UNKNOWN, now_ms=0)
    facts = Facts(number=0, content=content, where=where, address="")
    return [item.loc for item in islice(_Careful(facts).items(), most)]


def url_key(loc: str) -> int:
    """The key of a URL in its normal form; the same within one process only."""
    return hash(loc.encode())


def link_key(loc: str, link: str) -> int:
    """The key of a link; that of the link back differs in the last bit."""
    first, second = sorted((loc, link))
    return (hash(f"{first}\n{second}".encode()) & ~1) | (loc == first)


def _silent(where: Where) -> Where:
    return Where(findings=Findings(0), file=where.file, base=where.base, now_ms=where.now_ms)


def _check_plain(facts: Facts, urls: Spill[int]) -> bool:
    """Whether the file is plain and right; only then anything is filled in."""
    keys: array[int] = array("q")
    lastmods: set[str] = set()
    newest = 0
    try:
        for piece in read_plain(facts.content, facts.where):
            keys.extend(map(hash, piece.locs))
            if len(lastmods) < 2:
                lastmods.update(sorted(piece.lastmods)[:2])
            newest = max(newest, piece.newest_ms)
            if len(keys) > CURRENT.urls_per_file:
                return False
    except (Unsure, Broken):
        return False
    if not keys:
        return False
    urls.add(facts.number, keys)
    facts.kind, facts.urls, facts.lastmods, facts.newest_ms = "urlset", len(keys), lastmods, newest
    return True


def _check_carefully(facts: Facts, urls: Spill[int], links: Spill[LinkOwner]) -> None:
    keys: array[int] = array("q")
    link_keys: dict[str, array[int]] = {}
    held = news = 0

    def put_away() -> None:
        urls.add(facts.number, keys)
        for origin, found in link_keys.items():
            links.add((facts.number, origin), found)
        del keys[:]
        link_keys.clear()

    for item in _Careful(facts).items():
        if facts.kind == "sitemapindex":
            if len(facts.sitemaps) < CURRENT.sitemaps_per_index:
                facts.sitemaps.append(item)
            else:
                facts.where.add("too-many-sitemaps", item.line)
                break
            continue
        keys.append(url_key(item.loc))
        for link in item.links:
            link_keys.setdefault(origin_of(link), array("q")).append(link_key(item.loc, link))
        held += 1 + len(item.links)
        if held > _TOGETHER:
            put_away()
            held = 0
        if len(facts.lastmods) < 2:
            facts.lastmods.add(item.lastmod)
        facts.newest_ms = max(facts.newest_ms, item.lastmod_ms)
        news += item.is_news
        if news == NEWS_MAX + 1 and item.is_news:
            facts.where.add("extension-too-many", item.line, "news", f"{NEWS_MAX:,} a file")
    put_away()


class _Careful:
    """Reads the items of any file, with every finding in them."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._where = facts.where
        self._seen = 0
        self._skipped = 0

    def items(self) -> Iterator[Checked]:
        """Give each entry that has a usable loc; sets the kind and the number of URLs of the facts."""
        try:
            if self._where.file.partition("?")[0].removesuffix(".gz").endswith(".txt"):
                self._facts.kind = "text"
                yield from self._lines()
            else:
                yield from self._elements()
        except Broken as broken:
            self._where.add(broken.code, broken.line, "", broken.detail)
        else:
            if not self._seen and self._facts.kind in ("urlset", "sitemapindex", "text"):
                self._where.add("empty", 0)

    def _elements(self) -> Iterator[Checked]:
        pieces = self._trimmed()
        first = next(pieces, b"")
        if not first:
            self._facts.kind = "urlset"
            return
        if first.startswith(_UTF_16):
            self._where.add("encoding", 1, "UTF-16")
        markup = Markup(self._skipped)
        nodes = markup.feed(first)
        while True:
            if self._facts.kind == "other" and markup.root is not None and not self._enter(markup):
                return
            for node in nodes:
                yield from self._item(node)
            if (piece := next(pieces, None)) is None:
                break
            nodes = markup.feed(piece)
        for node in markup.feed(b"", last=True):
            yield from self._item(node)
        if markup.root is not None and markup.root.text:
            self._where.add("stray-text", markup.root.line, markup.root.text)

    def _enter(self, markup: Markup) -> bool:
        """Check the root; whether its children can be read."""
        root, where = markup.root, self._where
        assert root is not None
        if markup.encoding not in ("utf-8", "utf8", "us-ascii", "utf-16"):
            where.add("encoding", 1, markup.encoding)
        if root.name in _FEEDS:
            self._facts.kind = "feed"
            where.add("unchecked-feed", root.line, root.name)
            return False
        if root.name == "urlset" or root.name == "sitemapindex":
            self._facts.kind = "urlset" if root.name == "urlset" else "sitemapindex"
        else:
            where.add("wrong-root", root.line, root.name)
            return False
        where.namespace = root.namespace
        if root.namespace != SITEMAP_NS:
            where.add("wrong-namespace", root.line, root.namespace)
        return True

    def _item(self, node: Node) -> Iterator[Checked]:
        if node.namespace != self._where.namespace:
            if not node.namespace:
                self._where.add("unknown-element", node.line, node.name)
            return
        if node.name != _ITEMS[self._facts.kind]:
            self._where.add("unknown-element", node.line, node.name)
            return
        self._seen += 1
        self._facts.urls += node.name == "url"
        if (checked := check_url(node, self._where)) is not None:
            yield checked

    def _lines(self) -> Iterator[Checked]:
        """One URL a line. Source: sitemaps.org, text file."""
        number, held = 0, b""
        for piece in self._trimmed():
            *lines, held = (held + piece).split(b"\n")
            if len(held) > _LINE_MAX:
                raise Broken("hostile-markup", "a line is too long", number + 1)
            for line in lines:
                number += 1
                yield from self._line(line, number)
        yield from self._line(held, number + 1)

    def _line(self, line: bytes, number: int) -> Iterator[Checked]:
        if not (line := line.removesuffix(b"\r")):
            return
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise Broken("encoding", str(error), number) from error
        item, loc = Node("url", {}, number), Node("loc", {}, number)
        loc.text = text
        item.children.append(loc)
        self._where.namespace = ""
        yield from self._item(item)

    def _trimmed(self) -> Iterator[bytes]:
        """The content without what may not stand before it."""
        pieces = iter(self._facts.content)
        first = next(pieces, b"")
        if first.startswith(_BOM):
            self._where.add("bom", 1)
            first = first.removeprefix(_BOM)
        if (trimmed := first.lstrip(_SPACE)).startswith(b"<?xml") and trimmed != first:
            self._where.add("before-declaration", 1)
            self._skipped = first[: len(first) - len(trimmed)].count(b"\n")
            first = trimmed
        if first:
            yield first
        yield from pieces

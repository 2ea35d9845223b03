"""Reads sitemap and index files that come from outside, with lxml, within limits.

No DOCTYPE, no entities, no network; decompressed under a cap (protocol limits, today's reading).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from lxml import etree

from sitemap_store.errors import SitemapdError
from sitemap_store.model.protocol import CURRENT, SITEMAP_NS
from sitemap_store.reading.extensions import NAMESPACES, parsed, read_ext
from sitemap_store.shards.compression import TooLarge, gunzip_bytes

_NS = f"{{{SITEMAP_NS}}}"
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class Unreadable(SitemapdError):
    """A file is no sitemap, or a harmful one."""


class IndexedSitemap(NamedTuple):
    """One `<sitemap>` of an index."""

    loc: str
    lastmod: str


class ReadUrl(NamedTuple):
    """One `<url>` of a sitemap, as it stands there."""

    loc: str
    lastmod: str
    changefreq: str
    priority: str
    ext: Mapping[str, Any] = _NONE
    """Its extensions as an event's `ext` would have them, unchecked."""


def read_index(data: bytes) -> list[IndexedSitemap]:
    """The sitemaps that an index file lists. Raises Unreadable."""
    root = _parse(data, "sitemapindex")
    return [IndexedSitemap(_text(item, "loc"), _text(item, "lastmod")) for item in root.iter(f"{_NS}sitemap")]


def read_urlset(data: bytes) -> Iterator[ReadUrl]:
    """The URLs of a sitemap file, plain or gzip. Raises Unreadable."""
    xml = plain(data)
    root = _parse(xml, "urlset")
    extended = any(space.encode() in xml for space in NAMESPACES)
    for item in root.iter(f"{_NS}url"):
        yield ReadUrl(
            _text(item, "loc"),
            _text(item, "lastmod"),
            _text(item, "changefreq"),
            _text(item, "priority"),
            read_ext(parsed(item)) if extended else _NONE,
        )


def plain(data: bytes) -> bytes:
    """The XML of a file that may be gzip. Raises Unreadable beyond the protocol's size."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return gunzip_bytes(data, CURRENT.bytes_per_file)
    except (TooLarge, OSError, EOFError) as error:
        raise Unreadable(f"it is no sound gzip file ({error})") from error


def _parse(data: bytes, root_name: str) -> etree._Element:
    xml = plain(data)
    if len(xml) > CURRENT.bytes_per_file:
        raise Unreadable(f"it is larger than {CURRENT.bytes_per_file} bytes")
    # A raw "<!DOCTYPE" can't be text, and a NUL says that the file is not the UTF-8 it has to be.
    if b"<!DOCTYPE" in xml or b"\x00" in xml:
        raise Unreadable("it has a DOCTYPE, which no sitemap needs, or is not UTF-8")
    # Always read as UTF-8, which a sitemap has to be: whatever it declares can't hide a DOCTYPE from us.
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        huge_tree=False,
        load_dtd=False,
        remove_comments=True,
    )
    try:
        root = etree.fromstring(xml, parser)
    except etree.XMLSyntaxError as error:
        raise Unreadable(f"it is no well-formed XML ({error})") from error
    if root.tag != f"{_NS}{root_name}":
        raise Unreadable(f"its root is {root.tag}, not {root_name} of the sitemap namespace")
    return root


def _text(item: etree._Element, name: str) -> str:
    found = item.findtext(f"{_NS}{name}")
    return found.strip() if found else ""

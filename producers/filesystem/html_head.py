"""What the head of an HTML file says about being listed, read up to its body.

lxml's pull parser reads the head and stops where the body begins: at its tag, or at what no head can hold.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import urljoin

from lxml import etree

from producers.filesystem.mapping import Mapping
from producers.filesystem.text import unmarked
from sitemap_store.errors import Refused

HEAD_BYTES: Final = 512 * 1024
"""How much of a file is searched for the end of its head."""
ALTERNATES: Final = 101
IMAGES: Final = 1_001
"""One more than a URL may have, so that the rest is warned of."""
_IMAGES: Final = ("og:image", "og:image:url")
_FED: Final = 512
"""Characters that the parser gets at a time, so that it does not read far into the body."""
_MARKUP: Final = re.compile("<[!?A-Za-z]")
_HEAD: Final = ("head", "html")
"""Where an element counts; inside `noscript` or `template` it does not."""
_CHARSET: Final = re.compile(rb"""(?:charset|<\?xml[^>]*\bencoding)\s*=\s*["']?\s*([A-Za-z0-9._:-]+)""", re.I)
_CHARSET_BYTES: Final = 1024
"""Where a page has to name its charset (HTML standard, section 4.2.5.4)."""
_WIDER: Final = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874",
    "shift_jis": "cp932", "euc_kr": "cp949", "gb2312": "gb18030", "gbk": "gb18030",
}  # fmt: skip
"""What browsers read in place of a charset that is named (Encoding standard, section 4.2)."""
_LEGACY: Final = re.compile(r"(?:cp|iso8859-|koi8-|mac-|big5|euc_|iso2022_|shift_jis)\w*|gb18030|tis-620")
_WEB: Final = re.compile("https?:", re.I)
_TOKENS: Final = re.compile(r"[\s,;]+")
_REFRESH: Final = re.compile(r"\s*[0-9.]*\s*[;,]?\s*(?:url\s*=\s*)?['\"]?(?P<url>[^'\"\s]*)", re.I)


class Head(NamedTuple):
    """What was found; empty where nothing was."""

    canonical: str = ""
    base: str = ""
    refresh: str = ""
    """Where a refresh leads to; empty when it loads the same page again."""
    noindex: bool = False
    modified: str = ""
    alternates: tuple[tuple[str, str], ...] = ()
    """Each language's hreflang and address, as they are written; at most `ALTERNATES`."""
    images: tuple[str, ...] = ()
    """The addresses of `og:image`, as they are written; at most `IMAGES`."""


NO_HEAD: Final = Head()


def read_head(data: bytes) -> Head:
    """Read the start of an HTML file, without its comments, up to where its body begins."""
    found = _elements(_decoded(data[:HEAD_BYTES]))
    return _head(found) if found else NO_HEAD


def _elements(text: str) -> list[etree._Element]:
    """The elements that matter in the head that begins a page."""
    parser = etree.HTMLPullParser(("start",), tag=("base", "body", "link", "meta"), remove_comments=True)
    found: list[etree._Element] = []
    begin = _MARKUP.search(text)  # front matter before it would count as the body
    for place in range(begin.start() if begin else len(text), len(text), _FED):
        parser.feed(text[place : place + _FED])
        for _, element in parser.read_events():
            if isinstance(element, etree._Element):  # as all that start are, but their type says more
                if element.tag == "body":
                    return found
                parent = element.getparent()
                if parent is None or parent.tag in _HEAD:
                    found.append(element)
    return found


def _head(elements: Iterable[etree._Element]) -> Head:
    canonical = base = refresh = modified = ""
    noindex = False
    alternates: list[tuple[str, str]] = []
    images: list[str] = []
    for element in elements:
        get = element.get
        if element.tag == "link":
            rel = words(get("rel"))
            if not canonical and "canonical" in rel:
                canonical = get("href", "").strip()
            if "alternate" in rel and "hreflang" in element.attrib and len(alternates) < ALTERNATES:
                alternates.append((get("hreflang", "").strip(), get("href", "").strip()))
        elif element.tag == "base":
            base = base or get("href", "").strip()
        elif (name := get("name", "").strip().lower()) == "robots":
            noindex = noindex or not words(get("content")).isdisjoint(("noindex", "none"))
        elif get("http-equiv", "").strip().lower() == "refresh":
            refresh = refresh or _target(get("content", ""))
        elif get("property", name).strip() == "article:modified_time":
            modified = modified or get("content", "").strip()
        elif get("property", name).strip() in _IMAGES and len(images) < IMAGES:
            images.append(get("content", "").strip())
    return Head(canonical, base, refresh, noindex, modified, tuple(alternates), tuple(images))


def leads_elsewhere(head: Head, loc: str, mapping: Mapping) -> str:
    """Why a page at `loc` is not to be listed: "noindex", "canonical", "refresh", or "" to list it."""
    if head.noindex:
        return "noindex"
    for why, href in (("canonical", head.canonical), ("refresh", head.refresh)):
        if href and href != loc and _is_other(address_in(head, loc, href), loc, mapping):
            return why
    return ""


def address_in(head: Head, loc: str, href: str) -> str:
    """The whole address of one that a page at `loc` names."""
    return _joined(_joined(loc, head.base) if head.base else loc, href)


def _is_other(address: str, loc: str, mapping: Mapping) -> bool:
    if not _WEB.match(address):
        return False  # crawlers pass over a file: or javascript: address
    try:
        return mapping.at(address) != loc
    except Refused:
        return True


def _joined(base: str, href: str) -> str:
    try:
        return urljoin(base, href)
    except ValueError:
        return href


def _target(content: str) -> str:
    match = _REFRESH.match(content)
    return match["url"] if match else ""


def words(text: str | None) -> set[str]:
    """The words of a list such as `noindex, nofollow`, in lower case."""
    return set(_TOKENS.split(text.strip().lower())) if text else set()


def _decoded(data: bytes) -> str:
    data, encoding = unmarked(data)
    if encoding:
        return data.decode(encoding, "replace").replace("\x00", "")
    try:
        text = codecs.utf_8_decode(data, "strict", False)[0]  # it may be cut within a character
    except UnicodeDecodeError:
        text = data.decode(_charset(data), "replace")
    else:
        if "\x1b" in text and (charset := _charset(data)) == "iso2022_jp":
            text = data.decode(charset, "replace")
    return text.replace("\x00", "\ufffd")


def _charset(data: bytes) -> str:
    """The codec of the charset that a page names; what browsers take where it names none."""
    match = _CHARSET.search(data, 0, _CHARSET_BYTES)
    try:
        # Of browsers' other names, such as x-cp1251 and x-sjis, most are a codec's with that before it.
        name = codecs.lookup(match[1].decode("ascii").lower().removeprefix("x-")).name if match else "cp1252"
    except LookupError:
        return "cp1252"
    name = _WIDER.get(name, name)
    return name if _LEGACY.fullmatch(name) else "cp1252"

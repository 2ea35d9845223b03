"""What the head of an HTML file says about being listed, read up to its body.

libxml2 takes 3 to 5 µs an element, and a head has dozens of which two or three matter. So a regular
expression walks over the head's tags, past comments, scripts and titles, and picks those few. Tags
whose attributes stand in double quotes and hold neither entities nor more than ASCII are read as
they are; lxml reads the others. The walk ends where the body begins: at its tag, or at a tag that no
head can hold.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import urljoin

from lxml import etree

from producers.filesystem.mapping import Mapping
from sitemap_store.errors import Refused

FIRST_BYTES: Final = 16 * 1024
"""How much is searched at first; few heads are longer."""
HEAD_BYTES: Final = 512 * 1024
"""How much of a file is searched for the end of its head."""
_ATTRIBUTES: Final = r"""[^>"']*+(?:(?:"[^"]*"|'[^']*')[^>"']*+)*+"""
_TAG: Final = re.compile(rf"<(?:!--|([A-Za-z][^\s/>]*+){_ATTRIBUTES}>)")
_OPEN: Final = re.compile("<(?:!--|[A-Za-z])")
_UNENDED: Final = 16
"""How many tags without an end are passed over: to see that one has none, all the rest is read."""
_AHEAD: Final = 4096
# Tags that are passed over in one go, when no telling word is among them.
_SILENT: Final = re.compile(
    rf"(?:[^<]++|<(?:(?i:meta|link|html|head)(?=[\s/>]){_ATTRIBUTES}>|(?=[^A-Za-z!]|!(?!--))))*+"
)
_HEAD_TAGS: Final = frozenset({"html", "head", "meta", "link", "base", "basefont", "bgsound"})
_RAW_TAGS: Final = frozenset({"script", "style", "title", "noscript", "template", "noframes"})
_TELLING: Final = ("canonical", "robots", "refresh", "article:modified_time")
_CLEAR: Final = re.compile(r"""<(link|base|meta)((?: [a-z][a-z:-]*="[ !#-%'-;=?-~]*")*) ?/?>""")
_CLEAR_ATTRIBUTE: Final = re.compile(r'''([a-z:-]+)="([^"]*)"''')
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MARKED: Final = tuple(mark for mark, _ in _MARKS)
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


NO_HEAD: Final = Head()


def read_head(data: bytes) -> Head:
    """Read the start of an HTML file, without its comments, up to where its body begins."""
    tags = _telling_tags(data[:FIRST_BYTES])
    if tags is None:
        tags = _telling_tags(data[:HEAD_BYTES]) if len(data) > FIRST_BYTES else []
    if not tags:
        return NO_HEAD
    canonical = base = refresh = modified = ""
    noindex = False
    for tag, element in clear(tags) or parsed(tags):
        if tag == "link":
            if not canonical and "canonical" in words(element.get("rel")):
                canonical = (element.get("href") or "").strip()
            continue
        if tag == "base":
            base = base or (element.get("href") or "").strip()
            continue
        content = element.get("content") or ""
        name = (element.get("name") or "").strip().lower()
        if name == "robots":
            noindex = noindex or not words(content).isdisjoint(("noindex", "none"))
        elif (element.get("http-equiv") or "").strip().lower() == "refresh":
            refresh = refresh or _target(content)
        elif (element.get("property") or name).strip() == "article:modified_time":
            modified = modified or content.strip()
    return Head(canonical, base, refresh, noindex, modified)


def clear(tags: Iterable[str]) -> list[tuple[str, dict[str, str]]] | None:
    """The elements of some tags with their attributes; None when libxml2 has to say what they are."""
    found = []
    for tag in tags:
        match = _CLEAR.fullmatch(tag)
        if match is None:
            return None
        # Of an attribute that comes twice the first counts.
        found.append((match[1], dict(reversed(_CLEAR_ATTRIBUTE.findall(match[2])))))
    return found


def parsed(tags: Iterable[str]) -> list[tuple[str, dict[str, str]]]:
    """The elements that matter among some tags, as libxml2 reads them."""
    root = etree.HTML(f"<html><head>{''.join(tags)}</head></html>")
    return [
        (element.tag, {str(name): str(value) for name, value in element.items()})
        for element in root.iter("link", "base", "meta")
    ]


def _telling_tags(data: bytes) -> list[str] | None:
    """The tags that matter; None when there are none and the head may go on after `data`."""
    text = _decoded(data)
    lower = text.lower()
    if len(lower) != len(text):  # a few letters get longer
        text = text.encode("ascii", "xmlcharrefreplace").decode()
        lower = text.lower()
    found: list[str] = []
    if "<body" in lower and not any(map(lower.__contains__, _TELLING)):
        return found
    place = silent = unended = 0
    while opened := _OPEN.search(text, place):
        match = _TAG.match(text, opened.start())
        if match is None:
            place, unended = opened.end(), unended + 1
            if unended > _UNENDED:
                break
            continue
        start, place = match.span()
        tag = match[1]
        if tag is None:
            end = lower.find("-->", start + 2)
            place = end + 3 if end >= 0 else len(text)
            continue
        tag = tag.lower()
        if tag in _HEAD_TAGS:
            if tag == "base" or any(map(lower[start:place].__contains__, _TELLING)):
                found.append(match[0])
            if silent < place:
                silent = _silent_up_to(lower, place)
            if match := _SILENT.match(text, place, silent):
                place = match.end()
        elif tag in _RAW_TAGS:
            end = lower.find(f"</{tag}", place)
            place = end if end >= 0 else len(text)
        else:
            return found
    return None if len(data) == FIRST_BYTES else found


def _silent_up_to(lower: str, place: int) -> int:
    """Up to where there is no telling word for certain, as far as it is worth looking."""
    end = lower.find("<body", place, place + _AHEAD)
    if end < 0:
        end = min(place + _AHEAD, len(lower))
    found = [lower.find(word, place, end) for word in _TELLING]
    return min((each for each in found if each >= 0), default=end)


def leads_elsewhere(head: Head, loc: str, mapping: Mapping) -> str:
    """Why a page at `loc` is not to be listed: "noindex", "canonical", "refresh", or "" to list it."""
    if head.noindex:
        return "noindex"
    base = _joined(loc, head.base) if head.base else loc
    for why, href in (("canonical", head.canonical), ("refresh", head.refresh)):
        if href and href != loc and _is_other(_joined(base, href), loc, mapping):
            return why
    return ""


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
    if data.startswith(_MARKED):
        mark, encoding = next(each for each in _MARKS if data.startswith(each[0]))
        return data[len(mark) :].decode(encoding, "replace").replace("\x00", "")
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
        name = codecs.lookup(match[1].decode("ascii")).name if match else "cp1252"
    except LookupError:
        return "cp1252"
    name = _WIDER.get(name, name)
    return name if _LEGACY.fullmatch(name) else "cp1252"

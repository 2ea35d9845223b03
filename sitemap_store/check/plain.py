"""The fast path: a sitemap that is written plainly, and in which nothing is to be found.

Most sitemaps hold loc and lastmod alone, and most are right. `read_plain` reads such a file several times as
fast as `check_url`. It must never miss a finding: on whatever it is not sure of (another form, a wrong value,
a non-ASCII character) it raises Unsure, and the caller reads the file again the careful way. A property test
holds the two to the same result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from sitemap_store.check.url import too_far
from sitemap_store.check.where import Where
from sitemap_store.errors import Refused
from sitemap_store.model.dates import instant_ms, is_full
from sitemap_store.model.protocol import (
    CHANGEFREQS,
    CURRENT,
    IMAGE_NS,
    NEWS_NS,
    SITEMAP_NS,
    VIDEO_NS,
    XHTML_NS,
)
from sitemap_store.model.urls import UrlRules

_SPACES: Final = {
    "image": IMAGE_NS,
    "news": NEWS_NS,
    "video": VIDEO_NS,
    "xhtml": XHTML_NS,
    "xsi": "http://www.w3.org/2001/XMLSchema-instance",
}
_W: Final = rb"[ \t\r\n]"
_DECLARATION: Final = rb"<\?xml version=[\"']1\.0[\"'] encoding=[\"'](?i:utf-8)[\"']%b*\?>%b*" % (_W, _W)
_STYLESHEET: Final = rb"(?:<\?xml-stylesheet [^?<>]*\?>%b*)?" % _W
_ATTRIBUTES: Final = b"|".join(
    [
        *(f'xmlns:{name}="{re.escape(uri)}"'.encode() for name, uri in _SPACES.items()),
        rb'xsi:schemaLocation="[^"<&]*"',
    ]
)
_ROOT: Final = rb'<urlset%b+xmlns="%b"((?:%b+(?:%b))*)%b*>' % (
    _W,
    re.escape(SITEMAP_NS).encode(),
    _W,
    _ATTRIBUTES,
    _W,
)
_HEAD: Final = re.compile(_DECLARATION + _STYLESHEET + _ROOT)
_NAME: Final = re.compile(rb"[a-zA-Z:]+(?==\")")
_TAIL: Final = re.compile(rb"%b*</urlset>%b*" % (_W, _W))
_END: Final = b"</url>"
_SAFE: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&()*+,;=:@/?"
"""What a loc may hold that is its own normal form, whatever stands beside it, but for `/.` and entities."""
_HEAD_MAX: Final = 1_000
_HELD_MAX: Final = 4 * 1024 * 1024


class Plain(NamedTuple):
    """A piece of a plain file: whole `<url>` elements."""

    locs: list[bytes]
    """In their normal form."""
    lastmods: set[str]
    """Each value that occurs, "" where one is missing."""
    newest_ms: int
    """The newest lastmod since 1970 UTC; 0: none."""


class Unsure(Exception):
    """The file has to be read the careful way."""


def read_plain(pieces: Iterable[bytes], where: Where) -> Iterable[Plain]:
    """Give the URLs of a file in its pieces. Raises Unsure, and Broken as the pieces do."""
    base = where.base.encode()
    url = _pattern(base)
    held = b""
    started = False
    for piece in pieces:
        held += piece
        if not started:
            head = _HEAD.match(held)
            if head is None:
                if len(held) < _HEAD_MAX:
                    continue
                raise Unsure
            names = _NAME.findall(head[1])
            if len(set(names)) < len(names) or (b"xsi:schemaLocation" in names and b"xmlns:xsi" not in names):
                raise Unsure
            held = held[head.end() :]
            started = True
        end = held.rfind(_END) + len(_END)
        if end >= len(_END):
            yield _read(held[:end], url, where)
            held = held[end:]
        if len(held) > _HELD_MAX:
            raise Unsure
    if not started or not _TAIL.fullmatch(held):
        raise Unsure


@lru_cache(maxsize=64)
def _pattern(base: bytes) -> re.Pattern[bytes]:
    words = "|".join(CHANGEFREQS).encode()
    return re.compile(
        rb"(%b*+<url>%b*+<loc>(%b[^<]*+)</loc>%b*+"
        rb"(?:<lastmod>([^<]++)</lastmod>%b*+)?+"
        rb"(?:<changefreq>(?:%b)</changefreq>%b*+)?+"
        rb"(?:<priority>(?:0(?:\.[0-9]+)?|1(?:\.0+)?)</priority>%b*+)?+</url>)"
        % (_W, _W, re.escape(base), _W, _W, words, _W, _W)
    )


@lru_cache(maxsize=64)
def _rules(base: str) -> UrlRules:
    return UrlRules(base=base, limits=CURRENT)


def _read(text: bytes, url: re.Pattern[bytes], where: Where) -> Plain:
    rows = url.findall(text)
    if not rows:
        raise Unsure
    wholes, listed, written = zip(*rows, strict=True)
    if sum(map(len, wholes)) != len(text):
        raise Unsure
    locs: list[bytes] = list(listed)
    joined = b"\n".join(locs)
    if b"&" in joined:
        if joined.count(b"&") != joined.count(b"&amp;"):
            raise Unsure
        joined = joined.replace(b"&amp;", b"&")
        locs = joined.split(b"\n")
    if joined.translate(None, _SAFE + b"\n"):
        # Triplets, or what has to become one.
        if not joined.isascii() or not all(map(_rules(where.base).is_plain, joined.decode().split("\n"))):
            raise Unsure
    elif len(max(locs, key=len)) > CURRENT.loc_max or len(min(locs, key=len)) < CURRENT.loc_min:
        raise Unsure
    if b"/." in joined or joined.count(b"\n") != len(rows) - 1:
        raise Unsure
    robots = where.robots.get(where.origin)
    if robots and robots.maybe and robots.maybe.search(joined):
        suspects = (loc.decode() for loc in locs if robots.maybe.match(loc))
        if any(map(robots.forbids, suspects)):
            raise Unsure
    lastmods = {each.decode("ascii", "replace") for each in set(written)}
    return Plain(locs, lastmods, _newest(lastmods, where.now_ms))


def _newest(lastmods: set[str], now_ms: int) -> int:
    """The newest of some lastmods, of which "" is none. Raises Unsure for a wrong or future one."""
    forms: dict[tuple[int, str], str] = {}
    for text in lastmods:
        if text:
            if not is_full(text):
                raise Unsure
            # Of the same length and zone, the later sorts last.
            form = (len(text), text[19:])
            forms[form] = max(forms.get(form, ""), text)
    newest = 0
    for text in forms.values():
        try:
            moment = instant_ms(text)
        except Refused as refused:
            raise Unsure from refused
        if too_far(moment, text, now_ms):
            raise Unsure
        newest = max(newest, moment)
    return newest

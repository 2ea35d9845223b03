"""What a file says of itself, from its front matter and the head of its HTML."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as Fields
from datetime import date
from typing import Any, Final, NamedTuple

from producers.dates import date_text, instant
from producers.filesystem.front_matter import FrontMatterError, front_matter, plain
from producers.filesystem.html_head import IMAGES, NO_HEAD, Head, address_in, read_head, words
from producers.filesystem.inherit import NOTHING, Inherited
from producers.filesystem.source import FilesystemSource
from sitemap_store.errors import Refused
from sitemap_store.model.values import check_changefreq, check_priority

HTML: Final = (b".html", b".htm", b".xhtml", b".xht")
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_LEFT_OUT: Final = ("sitemapexclude", "excludefromsitemap", "noindex")
_OWN_LEFT_OUT: Final = ("exclude", "disable", "disabled", "noindex", "ignore")
_DRAFT_STATUS: Final = frozenset({"draft", "hidden", "private", "pending", "unlisted", "unpublished"})
_KEEPING_OUT: Final = frozenset({
    "sitemap", "draft", "published", "robots", "status", "unlisted", "headless", "render", "build",
    "permalink", "routable", "eleventyexcludefromcollections", "redirect", "redirectto", *_LEFT_OUT,
})  # fmt: skip
"""Fields without which a page is listed."""
_STYLES: Final = frozenset({"pretty", "date", "none", "ordinal", "weekdate"})
"""Jekyll's names for patterns of addresses."""
_PATTERN: Final = re.compile(r"(?<![a-z]):[A-Za-z_]|\{\{|\{%", re.I)
_WEB: Final = ("http://", "https://")
_EXPIRED: Final = ("expirydate", "unpublishdate")
_IMAGES: Final = ("images", "image")
_ADDRESSES: Final = ("url", "src", "path", "loc")
"""Where a table of an image has its address."""


class Facts(NamedTuple):
    """Everything that a file says about its entry; empty where it says nothing."""

    why: str = ""
    """Why it is not to be listed."""
    dates: tuple[str, ...] = ()
    """Its front matter's dates in the order of `lastmod_fields`, each a right lastmod."""
    modified: str = ""
    """`article:modified_time`, as a right lastmod."""
    changefreq: str = ""
    priority: str = ""
    listed_from: int = 0
    listed_until: int = 0
    address: str = ""
    slug: str = ""
    head: Head = NO_HEAD
    images: tuple[str, ...] = ()
    """What its front matter has for images, as written."""
    warnings: tuple[str, ...] = ()
    """What could not be made sense of, in sentences."""


NO_FACTS: Final = Facts()


def fields_read(source: FilesystemSource) -> frozenset[str]:
    """The fields of front matter that an entry depends on, by their plain names."""
    dates = (plain(name) for name in source.lastmod_fields)
    address = ("url", "permalink", "slug")
    images = () if source.images == "off" else _IMAGES
    return _KEEPING_OUT | {"changefreq", *address, *source.opening_fields, *_EXPIRED, *dates, *images}


def read_page(
    data: bytes, name: bytes, source: FilesystemSource, zone: str | None, inherited: Inherited = NOTHING
) -> Facts:
    """The facts in a file's bytes (its start is enough) and in what it inherits. Raises FrontMatterError."""
    own = front_matter(data) if source.front_matter else {}
    fields = inherited.under(own)
    facts = _from_fields(fields, own, source, zone) if fields else NO_FACTS
    if inherited.why:
        facts = facts._replace(why=inherited.why)
    if source.html_head and name.lower().endswith(HTML):
        head = read_head(data)
        if head is not NO_HEAD:
            facts = facts._replace(head=head, modified=date_text(head.modified, zone))
    return facts


def _from_fields(
    fields: Fields[str, object], own: Fields[str, object], source: FilesystemSource, zone: str | None
) -> Facts:
    warnings: list[str] = []
    sitemap = fields.get("sitemap")
    settings: Fields[str, object] = {}
    if isinstance(sitemap, dict):
        settings = {plain(key): value for key, value in sitemap.items() if isinstance(key, str)}
    values = [settings.get("lastmod"), *(fields.get(plain(n)) for n in source.lastmod_fields)]
    dates = [date_text(value, zone) for value in values if value is not None]
    return Facts(
        why="" if _KEEPING_OUT.isdisjoint(fields) else _why(fields, settings),
        dates=tuple(filter(None, dates)),
        changefreq=_checked(check_changefreq, settings.get("changefreq", fields.get("changefreq")), warnings),
        priority=_checked(check_priority, settings.get("priority"), warnings),
        listed_from=_first_instant(fields, source.opening_fields, zone),
        listed_until=_first_instant(fields, _EXPIRED, zone),
        address=_address(fields, own, warnings),
        slug=_slug(fields),
        images=() if source.images == "off" else _images(own),
        warnings=tuple(warnings),
    )


def _why(fields: Fields[str, object], settings: Fields[str, object]) -> str:
    flag = {name: _flag(fields.get(name)) for name in _KEEPING_OUT}
    if flag["draft"] is True or flag["published"] is False or _word(fields.get("status")) in _DRAFT_STATUS:
        return "draft"
    if flag["unlisted"] is True or flag["eleventyexcludefromcollections"] is True:
        return "unlisted"
    if _has_no_page(fields, flag):
        return "no page"
    if any(fields.get(name) and flag[name] is not False for name in ("redirect", "redirectto")):
        return "refresh"
    if any(flag[name] is True for name in _LEFT_OUT):
        return "sitemap"
    if not _robots(fields.get("robots")).isdisjoint(("noindex", "none")):
        return "noindex"
    if any(_flag(settings.get(key)) is True for key in _OWN_LEFT_OUT) or flag["sitemap"] is False:
        return "sitemap"
    return "sitemap" if _word(fields.get("sitemap")) in ("exclude", "noindex") else ""


def _has_no_page(fields: Fields[str, object], flag: Fields[str, bool | None]) -> bool:
    """Whether the generator writes no page for the file, or one that no list of pages leads to."""
    build = fields.get("build")
    kept = build if isinstance(build, dict) else {}
    choices = (fields.get("render"), kept.get("render"), kept.get("list"))
    if any(_flag(value) is False or _word(value) in ("never", "link") for value in choices):
        return True
    return flag["headless"] is True or _word(fields.get("permalink")) == "false" or flag["routable"] is False


def _word(value: object) -> str:
    """A field's text in lower case; of a boolean `true` or `false`."""
    return str(value).lower() if isinstance(value, bool) else _text(value).lower()


def _flag(value: object) -> bool | None:
    """True or False when a field says so, in one of the ways of YAML, TOML and JSON."""
    word = _word(value)
    return True if word in _TRUE else False if word in _FALSE else None


def _robots(value: object) -> set[str]:
    several = value if isinstance(value, list) else [value]
    return words(",".join(each for each in several if isinstance(each, str)))


def _checked(check: Callable[[object], str], value: object, warnings: list[str]) -> str:
    if value is None:
        return ""
    try:
        return check(value)
    except Refused as refused:
        warnings.append(refused.detail)
        return ""


def _first_instant(fields: Fields[str, object], names: tuple[str, ...], zone: str | None) -> int:
    for name in names:
        value = fields.get(name)
        if value is not None and (when := instant(value, zone)):
            return when
    return 0


def _address(fields: Fields[str, object], own: Fields[str, object], warnings: list[str]) -> str:
    for name in ("permalink", "url"):
        address = _text(fields.get(name))
        if address.lower() in ("", "true", "false"):
            continue
        if address.lower() in _STYLES or _PATTERN.search(address):
            if name in own:  # an inherited one is often a pattern
                warnings.append(f"Its {name} {address[:80]!r} is a pattern; its path decides instead.")
            continue
        return address if address.startswith(("/", *_WEB)) else f"/{address}"
    return ""


def _slug(fields: Fields[str, object]) -> str:
    slug = _text(fields.get("slug"))
    return slug if slug.startswith("/") else slug.rstrip("/")


def _images(own: Fields[str, object]) -> tuple[str, ...]:
    """The addresses in `images` or `image`: a text, a table with one, or a list of these."""
    value = next((own[name] for name in _IMAGES if own.get(name)), None)
    found = []
    for item in (value if isinstance(value, list) else [value])[:IMAGES]:
        table = {plain(key): each for key, each in item.items()} if isinstance(item, dict) else {}
        found.append(_text(next((table[name] for name in _ADDRESSES if table.get(name)), None) or item))
    return tuple(text for text in found if text.lower() not in ("", "true", "false"))


def ext_of(facts: Facts, loc: str, source: FilesystemSource) -> dict[str, Any]:
    """The extensions of a page at `loc`, as an event has them, unchecked."""
    ext: dict[str, Any] = {}
    head = facts.head
    images = (*facts.images, *(() if source.images == "off" else head.images))
    if images:
        ext["images"] = [address_in(head, loc, image) for image in images]
    if source.alternates and head.alternates:
        ext["alternates"] = [
            {"hreflang": language, "href": address_in(head, loc, href)} for language, href in head.alternates
        ]
    return ext


def _text(value: object) -> str:
    """The text of a field as it was written; empty for a list, a table, true or false."""
    if isinstance(value, date):
        return value.isoformat()  # TOML's
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 10**18 else ""
    return value.strip() if isinstance(value, str) else ""


__all__ = ["NO_FACTS", "Facts", "FrontMatterError", "ext_of", "read_page"]

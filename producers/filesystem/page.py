"""What a file says of itself, from its front matter and the head of its HTML."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as Fields
from typing import Final, NamedTuple

from producers.filesystem.dates import date_text, instant
from producers.filesystem.front_matter import FrontMatterError, front_matter, plain
from producers.filesystem.html_head import NO_HEAD, Head, read_head, words
from producers.filesystem.source import FilesystemSource
from sitemap_store.errors import Refused
from sitemap_store.values import check_changefreq, check_priority

HTML: Final = (b".html", b".htm", b".xhtml", b".xht")
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_LEFT_OUT: Final = ("sitemapexclude", "excludefromsitemap", "noindex")
_OWN_LEFT_OUT: Final = ("exclude", "disable", "disabled", "noindex")
_KEEPING_OUT: Final = frozenset({"sitemap", "draft", "published", "robots", *_LEFT_OUT})
"""Fields without which a page is listed."""
_PUBLISHED: Final = ("publishdate", "pubdate", "date")
_EXPIRED: Final = ("expirydate", "unpublishdate")


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
    opens: int = 0
    closes: int = 0
    address: str = ""
    slug: str = ""
    head: Head = NO_HEAD
    warnings: tuple[str, ...] = ()
    """What could not be made sense of, in sentences."""


NOTHING_SAID: Final = Facts()


def read_page(data: bytes, name: bytes, source: FilesystemSource, zone: str | None) -> Facts:
    """The facts in a file's bytes (its start is enough). Raises FrontMatterError."""
    fields = front_matter(data) if source.front_matter else {}
    facts = _from_fields(fields, source, zone) if fields else NOTHING_SAID
    if source.html_head and name.lower().endswith(HTML):
        head = read_head(data)
        if head is not NO_HEAD:
            facts = facts._replace(head=head, modified=date_text(head.modified, zone))
    return facts


def _from_fields(fields: Fields[str, object], source: FilesystemSource, zone: str | None) -> Facts:
    warnings: list[str] = []
    own = fields.get("sitemap")
    settings: Fields[str, object] = {}
    if isinstance(own, dict):
        settings = {plain(key): value for key, value in own.items() if isinstance(key, str)}
    values = [settings.get("lastmod"), *(fields.get(plain(n)) for n in source.lastmod_fields)]
    dates = [date_text(value, zone) for value in values if value is not None]
    return Facts(
        why="" if _KEEPING_OUT.isdisjoint(fields) else _why(fields, settings),
        dates=tuple(filter(None, dates)),
        changefreq=_checked(check_changefreq, settings.get("changefreq", fields.get("changefreq")), warnings),
        priority=_checked(check_priority, settings.get("priority"), warnings),
        opens=_first_instant(fields, _PUBLISHED, zone),
        closes=_first_instant(fields, _EXPIRED, zone),
        address=_address(fields, warnings),
        slug=_slug(fields),
        warnings=tuple(warnings),
    )


def _why(fields: Fields[str, object], settings: Fields[str, object]) -> str:
    own = fields.get("sitemap")
    if _flag(fields.get("draft")) is True or _flag(fields.get("published")) is False:
        return "draft"
    if any(_flag(fields.get(key)) is True for key in _LEFT_OUT):
        return "sitemap"
    if not _robots(fields.get("robots")).isdisjoint(("noindex", "none")):
        return "noindex"
    if any(_flag(settings.get(key)) is True for key in _OWN_LEFT_OUT) or _flag(own) is False:
        return "sitemap"
    return "sitemap" if isinstance(own, str) and own.lower() in ("exclude", "noindex") else ""


def _flag(value: object) -> bool | None:
    """True or False when a field says so, in one of the ways of YAML, TOML and JSON."""
    if isinstance(value, bool) or value in (0, 1):
        return bool(value)
    word = value.strip().lower() if isinstance(value, str) else ""
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


def _address(fields: Fields[str, object], warnings: list[str]) -> str:
    for name in ("permalink", "url"):
        value = fields.get(name)
        if not isinstance(value, str) or not value.strip():
            continue
        address = value.strip()
        if not address.startswith(("/", "http://", "https://")) or "/:" in address:
            warnings.append(f"Its {name} {address[:80]!r} is a pattern; its path decides instead.")
            continue
        return address
    return ""


def _slug(fields: Fields[str, object]) -> str:
    value = fields.get("slug")
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**18:
        return str(value)  # YAML makes a number of a slug such as 2026
    slug = value.strip() if isinstance(value, str) else ""
    return slug if slug.startswith("/") else slug.rstrip("/")


__all__ = ["NOTHING_SAID", "Facts", "FrontMatterError", "read_page"]

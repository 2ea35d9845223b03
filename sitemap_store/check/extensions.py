"""Checks the extensions of one `<url>`: alternates, images, videos and news.

Sources: Google's pages on image, video and News sitemaps and on localized versions; its two XSD files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from sitemap_store.check.address import invalid_url, normal_form
from sitemap_store.check.markup import Node
from sitemap_store.check.where import Where
from sitemap_store.errors import Refused
from sitemap_store.model.dates import instant_ms
from sitemap_store.model.extensions.codes import COUNTRIES, is_hreflang
from sitemap_store.model.protocol import IMAGE_NS, NEWS_NS, VIDEO_NS, XHTML_NS

IMAGES_MAX: Final = 1_000
VIDEOS_MAX: Final = 1_000
TAGS_MAX: Final = 32
NEWS_MS: Final = 48 * 3_600_000
"""How long an article is news."""

_YES_NO: Final = frozenset({"yes", "Yes", "YES", "no", "No", "NO"})
_RATING: Final = re.compile(r"\+?(?:[0-4](?:\.[0-9]*)?|\.[0-9]+|5(?:\.0*)?)")
_NUMBER: Final = re.compile(r"\+?[0-9]{1,18}")
_NEWS_LANGUAGE: Final = re.compile(r"zh-cn|zh-tw|[a-z]{2,3}")

Check = Callable[[Node], str | None]
"""Why an element's value is wrong, as a sentence; None for a right one."""


def check_extensions(nodes: list[Node], loc: str | None, where: Where) -> tuple[tuple[str, ...], bool]:
    """Check the extensions of a URL; the URLs of its alternates, and whether it is news."""
    counts: Counter[str] = Counter()
    alternates: list[Node] = []
    for node in nodes:
        counts[node.name] += 1
        if node.namespace == XHTML_NS:
            if node.name == "link":
                if node.attributes.get("rel") == "alternate" and "hreflang" in node.attributes:
                    alternates.append(node)
            else:
                where.add("extension-unknown", node.line, node.name)
        elif node.name != EXTENSIONS[node.namespace]:
            where.add("extension-unknown", node.line, node.name)
        elif counts[node.name] == _MOST[node.namespace] + 1:
            where.add("extension-too-many", node.line, node.name, f"{_MOST[node.namespace]:,} a URL")
        elif node.namespace == VIDEO_NS:
            _check_video(node, loc, where)
        elif node.namespace == IMAGE_NS:
            _check_children(node, _IMAGE, _IMAGE_NEEDED, where)
        else:
            _check_news(node, where)
    links = _check_alternates(alternates, loc, where) if alternates else ()
    return links, counts["news"] > 0


def _check_video(node: Node, loc: str | None, where: Where) -> None:
    found = _check_children(node, _VIDEO, _VIDEO_NEEDED, where)
    media = [each for each in (found.get("content_loc"), found.get("player_loc")) if each is not None]
    if not media:
        where.add("extension-missing", node.line, "content_loc or player_loc")
    for each in media:
        if loc is not None and each.text.strip() == loc:
            where.add("extension-value", each.line, loc, f"{each.name} is the page itself, and no video")


def _check_news(node: Node, where: Where) -> None:
    found = _check_children(node, _NEWS, _NEWS_NEEDED, where)
    if publication := found.get("publication"):
        _check_children(publication, _PUBLICATION, tuple(_PUBLICATION), where)
    published = found.get("publication_date")
    moment = _moment(published) if published else None
    if published and moment is not None and moment < where.now_ms - NEWS_MS:
        where.add("news-old", published.line, published.text.strip())


def _check_children(
    node: Node, known: Mapping[str, Check | None], needed: tuple[str, ...], where: Where
) -> dict[str, Node]:
    """Check the children against the schema, whose order `known` has; the first of each name."""
    places = {name: place for place, name in enumerate(known)}
    found: dict[str, Node] = {}
    tags = reached = 0
    for child in node.children:
        name = child.name
        if child.namespace != node.namespace or name not in known:
            where.add("extension-unknown", child.line, name)
            continue
        if places[name] < reached:
            where.add("extension-order", child.line, name)
        reached = max(reached, places[name])
        if name == "tag":
            tags += 1
            if tags == TAGS_MAX + 1:
                where.add("extension-too-many", child.line, name, f"{TAGS_MAX} a video")
        elif name in found and name not in _REPEATABLE:
            where.add("extension-repeated", child.line, name)
        found.setdefault(name, child)
        check = known[name]
        if check is None:
            where.add("extension-deprecated", child.line, name)
        elif (wrong := check(child)) is not None:
            where.add("extension-value", child.line, child.text.strip(), f"{name} {wrong}")
    for name in needed:
        if name not in found:
            where.add("extension-missing", node.line, f"{node.name} without {name}")
    return found


def _check_alternates(nodes: list[Node], loc: str | None, where: Where) -> tuple[str, ...]:
    """The alternates' URLs but the page's own, each once."""
    languages: set[str] = set()
    links: dict[str, None] = {}
    for node in nodes:
        language, href = node.attributes["hreflang"], node.attributes.get("href", "")
        if not is_hreflang(language):
            hint = "write en-GB" if language.lower() == "en-uk" else ""
            where.add("hreflang-invalid", node.line, language, hint)
        elif language.lower() in languages:
            where.add("hreflang-twice", node.line, language)
        languages.add(language.lower())
        try:
            links[normal_form(href)] = None
        except Refused as refused:
            where.add("extension-value", node.line, refused.loc, f"href: {refused.detail}")
    if loc is not None and loc not in links:
        where.add("hreflang-no-self", nodes[0].line, loc)
    return tuple(link for link in links if link != loc)


def _text(most: int | None = None) -> Check:
    def check(node: Node) -> str | None:
        text = node.text.strip()
        if not text:
            return "is empty"
        return f"has more than {most:,} characters" if most and len(text) > most else None

    return check


def _url(node: Node) -> str | None:
    return "is no URL" if not (text := node.text.strip()) else invalid_url(text)


def _number(least: int, most: int) -> Check:
    def check(node: Node) -> str | None:
        text = node.text.strip()
        if _NUMBER.fullmatch(text) and least <= int(text) <= most:
            return None
        return f"must be a whole number from {least} to {most:,}"

    return check


def _moment(node: Node) -> int | None:
    try:
        return instant_ms(node.text.strip())
    except Refused:
        return None


def _date(node: Node) -> str | None:
    return "is no date with a day, or with time and zone" if _moment(node) is None else None


def _rating(node: Node) -> str | None:
    return None if _RATING.fullmatch(node.text.strip()) else "must be a number from 0.0 to 5.0"


def _yes_no(node: Node) -> str | None:
    return None if node.text.strip() in _YES_NO else "must be yes or no"


def _one_of(names: frozenset[str]) -> Check:
    def check(node: Node) -> str | None:
        if node.attributes.get("relationship") not in ("allow", "deny"):
            return "needs the attribute relationship, allow or deny"
        unknown = [each for each in node.text.split() if each not in names]
        return f"has {unknown[0]!r}, which is no code of its list" if unknown else None

    return check


def _uploader(node: Node) -> str | None:
    info = node.attributes.get("info")
    return invalid_url(info) if info is not None else _text(255)(node)


def _publication(node: Node) -> str | None:
    return None  # its children are checked


def _news_language(node: Node) -> str | None:
    right = _NEWS_LANGUAGE.fullmatch(node.text.strip())
    return None if right else "must have two or three lower-case letters, or be zh-cn or zh-tw"


_IMAGE: Final[Mapping[str, Check | None]] = {
    "loc": _url,
    "caption": None,
    "geo_location": None,
    "title": None,
    "license": None,
}
_IMAGE_NEEDED: Final = ("loc",)
_VIDEO: Final[Mapping[str, Check | None]] = {
    "thumbnail_loc": _url,
    "title": _text(100),
    "description": _text(2_048),
    "content_loc": _url,
    "player_loc": _url,
    "duration": _number(1, 28_800),
    "expiration_date": _date,
    "rating": _rating,
    "content_segment_loc": None,
    "view_count": _number(0, 10**18),
    "publication_date": _date,
    "tag": _text(),
    "category": None,
    "family_friendly": _yes_no,
    "restriction": _one_of(COUNTRIES),
    "gallery_loc": None,
    "price": None,
    "requires_subscription": _yes_no,
    "uploader": _uploader,
    "tvshow": None,
    "platform": _one_of(frozenset({"web", "mobile", "tv"})),
    "live": _yes_no,
    "id": None,
}
"""In the order of the schema; None: search engines ignore it."""
_VIDEO_NEEDED: Final = ("thumbnail_loc", "title", "description")
_NEWS: Final[Mapping[str, Check | None]] = {
    "publication": _publication,
    "access": None,
    "genres": None,
    "publication_date": _date,
    "title": _text(),
    "keywords": None,
    "stock_tickers": None,
}
_NEWS_NEEDED: Final = ("publication", "publication_date", "title")
_PUBLICATION: Final[Mapping[str, Check | None]] = {"name": _text(), "language": _news_language}
_REPEATABLE: Final = frozenset({"tag", "price", "content_segment_loc", "id"})

EXTENSIONS: Final[Mapping[str, str]] = {
    IMAGE_NS: "image",
    VIDEO_NS: "video",
    NEWS_NS: "news",
    XHTML_NS: "link",
}
"""Each namespace's element below a URL."""
_MOST: Final[Mapping[str, int]] = {IMAGE_NS: IMAGES_MAX, VIDEO_NS: VIDEOS_MAX, NEWS_NS: 1}

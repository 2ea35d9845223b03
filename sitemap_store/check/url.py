"""Checks one `<url>` or `<sitemap>` element: its children, their order and their values."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sitemap_store.check.address import normal_form, origin_of
from sitemap_store.check.extensions import EXTENSIONS, check_extensions
from sitemap_store.check.markup import Node
from sitemap_store.check.where import Where
from sitemap_store.errors import Refused
from sitemap_store.model.dates import instant_ms, is_full, parse_lastmod
from sitemap_store.model.protocol import CHANGEFREQS

_CHILDREN: Final = {"loc": 0, "lastmod": 1, "changefreq": 2, "priority": 3}
_EXTENSION_PLACE: Final = 4
_PRIORITY: Final = re.compile(r"\+?(?:0(?:\.[0-9]*)?|\.[0-9]+|1(?:\.0*)?)")
_DAY_AHEAD_MS: Final = 14 * 3_600_000
"""How much earlier than in UTC a day begins, at most."""
_CLOCK_MS: Final = 5 * 60_000
"""By how much clocks may differ."""
_REFUSALS: Final = {"too-long": "loc-too-long", "too-short": "loc-too-short"}


class Checked(NamedTuple):
    """What the rest of a check needs of one element whose loc is a URL."""

    line: int
    loc: str
    """In its normal form."""
    lastmod: str
    """As written; "": none, or no valid one."""
    lastmod_ms: int
    """Since 1970 UTC; 0: none, or no valid one."""
    links: tuple[str, ...]
    """The URLs of its alternates but its own, in their normal form."""
    is_news: bool


def check_url(node: Node, where: Where) -> Checked | None:
    """Check an element whose children are in the namespace of `where`; None where it has no usable loc."""
    values, extensions = _children(node, where)
    loc = _check_loc(node, values.get("loc"), where)
    lastmod, moment = _check_lastmod(values.get("lastmod"), where)
    for name, check in (("changefreq", _is_changefreq), ("priority", _is_priority)):
        if (value := values.get(name)) and not check(text := value.text.strip()):
            where.add(f"{name}-invalid", value.line, text)
    links, is_news = check_extensions(extensions, loc, where) if extensions else ((), False)
    if loc is None:
        return None
    return Checked(node.line, loc, lastmod, moment, links, is_news)


def too_far(moment: int, text: str, now_ms: int) -> bool:
    """Whether a lastmod is in the future in every time zone, whatever the clocks."""
    return moment > now_ms + (_DAY_AHEAD_MS if len(text) == 10 else _CLOCK_MS)


def _children(node: Node, where: Where) -> tuple[dict[str, Node], list[Node]]:
    """The protocol's own children by name, and the extensions."""
    allowed = 2 if node.name == "sitemap" else 4
    values: dict[str, Node] = {}
    extensions: list[Node] = []
    reached = 0
    if node.text.strip():
        where.add("stray-text", node.line, node.text.strip())
    for child in node.children:
        place = _CHILDREN.get(child.name, allowed) if child.namespace == where.namespace else None
        if place is None:
            place = _EXTENSION_PLACE
            if child.namespace in EXTENSIONS:
                extensions.append(child)
            elif not child.namespace:
                where.add("unknown-element", child.line, child.name)
        elif place >= allowed:
            where.add("unknown-element", child.line, child.name)
            continue
        elif child.name in values:
            where.add("repeated-element", child.line, child.name)
            continue
        else:
            values[child.name] = child
            if child.children:
                where.add("unknown-element", child.children[0].line, child.children[0].name)
            if child.text != child.text.strip():
                where.add("padded-value", child.line, child.text)
        if place < reached:
            where.add("wrong-order", child.line, child.name)
        reached = max(reached, place)
    return values, extensions


def _check_loc(node: Node, child: Node | None, where: Where) -> str | None:
    """The normal form of a loc, or None for one that is none."""
    text = child.text.strip() if child is not None else ""
    if child is None or not text:
        where.add("missing-loc", node.line)
        return None
    try:
        loc = normal_form(text)
    except Refused as refused:
        where.add(_REFUSALS.get(refused.rule, "loc-invalid"), child.line, refused.loc, refused.detail)
        return None
    if loc != text:
        where.add("not-normalised", child.line, text, f"write {loc}")
    if not loc.startswith(where.base) and (origin := origin_of(loc)) not in where.proven:
        where.add(_outside(origin, where.origin), child.line, loc, f"the sitemap is in {where.base}")
    if node.name == "url" and (robots := where.robots.get(origin_of(loc))) and (agent := robots.forbids(loc)):
        where.add("robots-forbids", child.line, loc, f"for {agent}")
    return loc


def _outside(origin: str, own: str) -> str:
    if origin == own:
        return "outside-location"
    return "other-protocol" if origin.partition(":")[2] == own.partition(":")[2] else "other-host"


def _check_lastmod(child: Node | None, where: Where) -> tuple[str, int]:
    if child is None:
        return "", 0
    text = child.text.strip()
    try:
        written = parse_lastmod(text).text
    except Refused as refused:
        where.add("lastmod-invalid", child.line, text, refused.detail)
        return "", 0
    if not is_full(text) and written != text:
        where.add("lastmod-form", child.line, text)
    if written is None:
        return "", 0
    moment = instant_ms(written)
    if too_far(moment, written, where.now_ms):
        where.add("lastmod-future", child.line, text)
    return text, moment


def _is_changefreq(text: str) -> bool:
    return text in CHANGEFREQS


def _is_priority(text: str) -> bool:
    return _PRIORITY.fullmatch(text) is not None

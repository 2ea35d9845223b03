"""The wire format: what a producer sends, checked once and turned into events.

An event on the wire is a JSON object::

    {"op": "add", "loc": "https://…", "lastmod": "2026-03-21", "changefreq": "daily",
     "priority": 0.8, "at": "2026-03-21T11:22:33Z", "source": "cms", "urgent": false,
     "ext": {"images": ["https://…"]}, "lang": "en", "strict": false}

Only `op` and `loc` must be there. A field that is null counts as not given. What breaks a rule is
refused with the rule's name and a sentence; the other events of its batch go on. What is wrong in `ext` is
left out with a warning, unless the event is `strict`. `lang` is the page's own language, for its alternates.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sitemap_store.errors import Refused
from sitemap_store.model.dates import ParsedDate, instant_ms, is_full, parse_lastmod
from sitemap_store.model.events import FUTURE_MS, Event
from sitemap_store.model.extensions import canonical, canonical_update, read_extensions
from sitemap_store.model.extensions.page import Page
from sitemap_store.model.site import Site
from sitemap_store.model.urls import normalise, normalise_listed
from sitemap_store.model.values import check_changefreq, check_priority

QUEUE = "sitemapd"
"""The name of the RQ queue that the workers listen on."""
REWRITE_SHARDS = "worker.jobs.rewrite_shards"
PUBLISH_INDEX = "worker.jobs.publish_index"
PUSH_EVENTS = "worker.jobs.push_events"
"""The dotted names of the RQ jobs, so that producers enqueue them without importing worker."""

FIELDS = ("op", "loc", "lastmod", "changefreq", "priority", "at", "source", "urgent", "ext", "lang", "strict")
OPS = ("add", "update", "delete")

_SOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


class Checked(NamedTuple):
    """An event that keeps every rule, and what had to be changed or left out, in sentences."""

    event: Event
    warnings: tuple[str, ...]


def check(item: object, site: Site, now: int, *, source: str | None = None) -> Checked:
    """Read one decoded JSON event for a site at the time `now` (epoch milliseconds).

    `source` is the source of events that name none. A `Refused` in place of an item (a line that could not
    be decoded) is raised. Raises Refused.
    """
    if not isinstance(item, dict):
        if isinstance(item, Refused):
            raise item
        raise Refused(loc="", rule="event", detail=f"An event is a JSON object, not {_shown(item)}.")
    op, raw = item.get("op"), item.get("loc")
    if op not in OPS:
        detail = f"The op {_shown(op)} is none of add, update, delete."
        raise Refused(loc=raw if isinstance(raw, str) else "", rule="op", detail=detail)
    loc, warnings = (normalise_listed if op == "delete" else normalise)(raw, site.rules)
    lastmod = item.get("lastmod")
    fields: list[Any] = [op, loc, lastmod, None, None, None, source, None, False]
    # Most events of a bulk load say no more than this: then there is nothing left to read.
    if len(item) > 2 and not (len(item) == 3 and type(lastmod) is str and is_full(lastmod)):
        warnings += _read_others(item, fields, site, now)
    # Half the time of the constructors.
    return tuple.__new__(Checked, (tuple.__new__(Event, fields), warnings))


def _read_others(item: Mapping[Any, Any], fields: list[Any], site: Site, now: int) -> tuple[str, ...]:
    """Read what an event says beside its op and loc; returns what had to be changed, in sentences."""
    warnings: tuple[str, ...] = ()
    fields += [None, None]
    for name, value in item.items():
        reader = _READERS.get(name)
        if reader is None:
            raise _unknown(name, item["loc"])
        place, read = reader
        if place < _FIRST_READ or value is None:
            continue
        try:
            fields[place] = read(value, site, now)
        except Refused as refused:
            raise Refused(loc=fields[_LOC], rule=refused.rule, detail=refused.detail) from refused
    if fields[_LASTMOD] is not None:
        fields[_LASTMOD], warning = fields[_LASTMOD]
        if warning:
            warnings = (warning,)
    if fields[_AT] is not None and fields[_AT] > now + FUTURE_MS:
        fields[_AT] = None
        loc, at = fields[_LOC], _shown(item["at"])
        warnings += (f"The at {at} of {loc} is over five minutes ahead, so it counts as now.",)
    strict, lang = fields.pop(), fields.pop()
    if fields[_EXT] is not None:
        page = Page(
            loc=fields[_LOC],
            now=now,
            lang=lang,
            zone=site.assume_timezone,
            title_max=site.limits.video_title_max,
        )
        fields[_EXT] = _checked_ext(fields[_OP], fields[_EXT], page)
        if strict and page.warnings:
            raise Refused(loc=page.loc, rule="ext", detail=page.warnings[0])
        warnings += page.warnings
    return warnings


def check_source(source: object) -> str:
    """A source's name: 1 to 64 of letters, digits and ``. _ : -``. Raises Refused (rule "source")."""
    if not isinstance(source, str) or not _SOURCE.fullmatch(source):
        raise _wrong("source", source, "is 1 to 64 of letters, digits and . _ : -")
    return source


def check_at(at: object, assume_zone: str | None = None) -> int:
    """When an event happened, in epoch milliseconds, from a W3C date-time with a zone.

    Raises Refused (rule "at") for another form.
    """
    if not isinstance(at, str):
        raise _wrong("at", at, "is a date-time such as 2026-03-21T11:22:33Z")
    try:
        text = parse_lastmod(at, assume_zone=assume_zone).text
    except Refused as refused:
        raise Refused(loc="", rule="at", detail=refused.detail) from refused
    if text is None:
        raise _wrong("at", at, "is a full date-time such as 2026-03-21T11:22:33Z")
    return max(instant_ms(text), 0)


def _checked_ext(op: str, ext: object, page: Page) -> str | None:
    """An event's extensions as the log holds them; a delete has none. What is wrong is warned of."""
    if op == "delete":
        return None
    values = read_extensions(ext, page)
    return canonical_update(values) if op == "update" else canonical(values)


def _taken(value: object, site: Site, now: int) -> None:
    """`op` and `loc` are read before the other fields."""


def _lastmod(value: object, site: Site, now: int) -> ParsedDate:
    if not isinstance(value, str):
        raise _wrong("lastmod", value, "is text such as 2026-03-21")
    return parse_lastmod(value, assume_zone=site.assume_timezone)


def _urgent(value: object, site: Site, now: int) -> bool:
    if not isinstance(value, bool):
        raise _wrong("urgent", value, "is true or false")
    return value


def _strict(value: object, site: Site, now: int) -> bool:
    if not isinstance(value, bool):
        raise _wrong("strict", value, "is true or false")
    return value


def _lang(value: object, site: Site, now: int) -> str:
    if not isinstance(value, str):
        raise _wrong("lang", value, "is text such as en-GB")
    return value


_OP: Final = Event._fields.index("op")
_LOC: Final = Event._fields.index("loc")
_LASTMOD: Final = Event._fields.index("lastmod")
_AT: Final = Event._fields.index("at")
_EXT: Final = Event._fields.index("ext")
_FIRST_READ: Final = _LASTMOD
"""Where in an event the fields begin that are read one by one; `op` and `loc` are read before."""
_READ: Final[Mapping[str, Callable[[Any, Site, int], Any]]] = {
    "op": _taken,
    "loc": _taken,
    "lastmod": _lastmod,
    "changefreq": lambda value, site, now: check_changefreq(value),
    "priority": lambda value, site, now: check_priority(value),
    "at": lambda value, site, now: check_at(value, site.assume_timezone),
    "source": lambda value, site, now: check_source(value),
    "urgent": _urgent,
    "ext": lambda value, site, now: value,
    "lang": _lang,
    "strict": _strict,
}
_PLACES: Final = (*Event._fields, "lang", "strict")
"""The last two are read with an event, and are no part of it."""
_READERS: Final = MappingProxyType({name: (_PLACES.index(name), read) for name, read in _READ.items()})


def _unknown(name: object, raw: object) -> Refused:
    near = difflib.get_close_matches(str(name), FIELDS, n=1)
    hint = f" Did you mean {near[0]}?" if near else f" The fields are {', '.join(FIELDS)}."
    return Refused(
        loc=raw if isinstance(raw, str) else "",
        rule="field",
        detail=f"An event has no field {_shown(name)}.{hint}",
    )


def _wrong(field: str, value: object, rule: str) -> Refused:
    return Refused(loc="", rule=field, detail=f"The {field} {_shown(value)} is wrong: it {rule}.")


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "…"

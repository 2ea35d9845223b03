"""The wire format: what a producer sends, checked once and turned into events.

An event on the wire is a JSON object::

    {"op": "add", "loc": "https://…", "lastmod": "2026-03-21", "changefreq": "daily",
     "priority": 0.8, "at": "2026-03-21T11:22:33Z", "source": "cms", "urgent": false, "ext": {}}

Only `op` and `loc` must be there. A field that is null counts as not given. What breaks a rule is
refused with the rule's name and a sentence; the other events of its batch go on.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sitemap_store.errors import Refused
from sitemap_store.model.dates import ParsedDate, instant_ms, is_full, parse_lastmod
from sitemap_store.model.events import FUTURE_MS, Adds, Event
from sitemap_store.model.site import Site
from sitemap_store.model.urls import normalise, normalise_listed
from sitemap_store.model.values import check_changefreq, check_priority

QUEUE = "sitemapd"
"""The name of the RQ queue that the workers listen on."""
REWRITE_SHARDS = "worker.jobs.rewrite_shards"
PUBLISH_INDEX = "worker.jobs.publish_index"
PUSH_EVENTS = "worker.jobs.push_events"
"""The dotted names of the RQ jobs, so that producers enqueue them without importing worker."""

FIELDS = ("op", "loc", "lastmod", "changefreq", "priority", "at", "source", "urgent", "ext")
OPS = ("add", "update", "delete")
EXT_MAX = 256 * 1024
"""The most bytes of one event's `ext` as JSON."""

_SOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


class Checked(NamedTuple):
    """An event that keeps every rule, and what had to be changed or left out, in sentences."""

    event: Event
    warnings: tuple[str, ...]


def check(item: object, site: Site, now: int, *, source: str | None = None) -> Checked:
    """Read one decoded JSON event for a site at the time `now` (epoch milliseconds).

    `source` is the source of events that name none. Raises Refused.
    """
    if not isinstance(item, dict):
        raise Refused(loc="", rule="event", detail=f"An event is a JSON object, not {_shown(item)}.")
    op, raw = item.get("op"), item.get("loc")
    if op not in OPS:
        detail = f"The op {_shown(op)} is none of add, update, delete."
        raise Refused(loc=raw if isinstance(raw, str) else "", rule="op", detail=detail)
    loc, warnings = (normalise_listed if op == "delete" else normalise)(raw, site.rules)
    fields: list[Any] = [op, loc, None, None, None, None, source, None, False]
    for name, value in item.items():
        reader = _READERS.get(name)
        if reader is None:
            raise _unknown(name, raw)
        place, read = reader
        if place < _FIRST_READ or value is None:
            continue
        try:
            fields[place] = read(value, site, now)
        except Refused as refused:
            raise Refused(loc=loc, rule=refused.rule, detail=refused.detail) from refused
    if fields[_LASTMOD] is not None:
        fields[_LASTMOD], warning = fields[_LASTMOD]
        if warning:
            warnings = (*warnings, warning)
    if fields[_AT] is not None and fields[_AT] > now + FUTURE_MS:
        fields[_AT] = now
        warning = f"The at {_shown(item['at'])} of {loc} is over five minutes ahead, so it counts as now."
        warnings = (*warnings, warning)
    return Checked(Event._make(fields), warnings)


def quick(site: Site, source: str | None = None) -> Callable[[Any], Event | None]:
    """A function that gives the event of a plain item, as `check` would, and None for any other item.

    Plain is what most items of a bulk load are: an op, a loc that is normal already, and perhaps a full
    lastmod. It takes a fifth of `check`'s time.
    """
    plain, make = site.rules.is_plain, tuple.__new__
    dates: set[str] = set()

    def event_of(item: Any) -> Event | None:
        try:
            op, loc, lastmod = item["op"], item["loc"], None
            if op not in OPS or not plain(loc) or "/." in loc:
                return None
            if len(item) > _LEAST:
                lastmod = item["lastmod"]
                if len(item) > _LEAST + 1:
                    return None
                if lastmod not in dates:
                    if not is_full(lastmod):
                        return None
                    if len(dates) >= _DATES:
                        dates.clear()
                    dates.add(lastmod)
        except (TypeError, KeyError):
            return None
        return make(Event, (op, loc, lastmod, None, None, None, source, None, False))

    return event_of


def quick_adds(site: Site, source: str | None = None) -> Callable[[Sequence[Any]], Adds | None]:
    """A function that gives the adds of a batch whose items are all plain (`quick`), and None for any other.

    Either all of them have a lastmod or none has. It takes half of `quick`'s time.
    """
    plain = site.rules.is_plain
    dates: set[str] = set()

    def adds_of(items: Sequence[Any]) -> Adds | None:
        try:
            sizes = set(map(len, items))
            if sizes not in _SIZES or set(map(_OP_OF, items)) != _ADD:
                return None
            locs = list(map(_LOC_OF, items))
            if not all(map(plain, locs)) or "/." in "\n".join(locs):
                return None
            if _LEAST in sizes:
                return Adds(locs, None, source)
            lastmods = list(map(_LASTMOD_OF, items))
            new = set(lastmods).difference(dates)
            if not all(map(is_full, new)):
                return None
            if len(dates) >= _DATES:
                dates.clear()
            dates.update(new)
        except (TypeError, KeyError):
            return None
        return Adds(locs, lastmods, source)

    return adds_of


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


def check_ext(ext: object) -> str:
    """Extensions as canonical JSON; "" for none. Raises Refused (rule "ext").

    No extension is known yet, so any key is refused by name.
    """
    if not isinstance(ext, dict):
        raise _wrong("ext", ext, "is a JSON object keyed by the extension's name")
    if ext:
        raise _wrong("ext", next(iter(ext)), "names an extension that this version knows")
    return ""


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


_LEAST: Final = 2
"""How many fields an event has at the least: op and loc."""
_SIZES: Final = ({_LEAST}, {_LEAST + 1})
_OP_OF, _LOC_OF, _LASTMOD_OF = itemgetter("op"), itemgetter("loc"), itemgetter("lastmod")
_ADD: Final = {"add"}
_DATES: Final = 16_384
"""How many dates that were seen are remembered: every day of forty years."""
_LASTMOD: Final = Event._fields.index("lastmod")
_AT: Final = Event._fields.index("at")
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
    "ext": lambda value, site, now: check_ext(value),
}
_READERS: Final = MappingProxyType({name: (Event._fields.index(name), read) for name, read in _READ.items()})


def canonical(ext: Mapping[str, object]) -> str:
    """Extensions as the one JSON text that the log, the snapshot and the renderer use."""
    return json.dumps(ext, sort_keys=True, separators=(",", ":"), ensure_ascii=True) if ext else ""


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

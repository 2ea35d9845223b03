"""The fold: snapshot + log → new snapshot. Pure; the one place that says what an event does.

Rules, in the order in which they are applied to each event of the log:

1. Events apply in the order they were appended.
2. An event that carries `at` and is older than what the entry or its tombstone has, has lost the
   race and changes nothing. At the same instant the later append wins. An event without `at`
   always applies, and counts as having happened when it was appended.
3. `add` replaces the whole entry and makes its source the owner. `update` replaces the fields that
   it names, and of the extensions each that it names, and keeps the owner; of a URL that isn't there it
   makes one, like `add`.
4. `delete` leaves a tombstone for `TOMBSTONE_MS`, of a URL that was never known too: its add may
   still be on the way. A delete that names a source touches that source's entry only, and its
   tombstone holds off that source's late events only.
5. Tombstones whose time is over are dropped, and whatever is neither entry nor tombstone any more
   gives up its seat. An article that is no news any more loses its news, and stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, repeat
from operator import itemgetter
from typing import NamedTuple

from sitemap_store.model.entries import Entry, Tombstone
from sitemap_store.model.events import Event, Logged, PlainAdds, plain_adds, read_log
from sitemap_store.model.extensions import merge, news_until
from sitemap_store.shards.snapshot import Snapshot

TOMBSTONE_MS = 24 * 3600 * 1000


class Folded(NamedTuple):
    """A fold's result."""

    snapshot: Snapshot
    freed: tuple[str, ...]
    """The locs that were seen and hold no seat any more, sorted."""
    lost: int
    """How many events came too late, or were deletes of another source's entry."""
    purge_at: int | None
    """When the next tombstone's or article's time is over, in epoch milliseconds; None without any."""


def fold(snapshot: Snapshot, log: Iterable[Logged], now: int) -> Folded:
    """Apply a log to a snapshot at the time `now` (epoch milliseconds). The inputs stay as they are."""
    folding = _Folding(snapshot)
    folding.apply(log)
    return folding.result(now)


def fold_elements(snapshot: Snapshot, elements: Iterable[bytes], now: int) -> Folded:
    """As `fold`, of a log as it is stored: what is plain and new is taken a whole element at a time."""
    folding = _Folding(snapshot)
    for element in elements:
        adds = plain_adds(element)
        if adds is None or not folding.take(adds):
            folding.apply(read_log([element]))
    return folding.result(now)


class _Folding:
    """What a fold has made of a snapshot so far."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.entries = dict(snapshot.entries)
        self.graves = dict(snapshot.tombstones)
        self.seen: set[str] = set()
        """The locs that may have lost their place."""
        self.lost = 0
        self.sort = False
        self.extended = any(map(_EXT_OF, snapshot.entries.values()))
        """Whether an entry may have extensions."""

    def take(self, adds: PlainAdds) -> bool:
        """Take adds of URLs that are all new and different; False, with nothing done, when they aren't."""
        appended, source, locs, lastmods = adds
        new = set(locs)
        if (
            len(new) < len(locs)
            or not self.entries.keys().isdisjoint(new)
            or not self.graves.keys().isdisjoint(new)
        ):
            return False
        empty = repeat("")
        rows = zip(locs, lastmods, empty, empty, repeat(appended), repeat(source), empty, strict=False)
        self.entries.update(zip(locs, map(_MAKE, repeat(Entry), rows), strict=False))
        self.sort = True
        return True

    def apply(self, log: Iterable[Logged]) -> None:
        """Apply events one by one."""
        entries, graves = self.entries, self.graves
        for event, appended in log:
            loc = event.loc
            if event.ext:
                self.extended = True
            entry, grave = entries.get(loc), graves.get(loc)
            if entry is None and grave is None and event.op != "delete":
                entries[loc] = _added(event, appended if event.at is None else event.at)
                self.sort = True
                continue
            if grave and event.op != "delete" and grave.source not in ("", event.source or ""):
                grave = None
            known_at = entry.at if entry else grave.at if grave else 0
            if event.at is not None and event.at < known_at:
                self.lost += 1
                continue
            at = event.at if event.at is not None else max(appended, known_at)
            if event.op == "delete":
                self.seen.add(loc)
                if entry and event.source is not None and event.source != entry.source:
                    self.lost += 1
                    continue
                entries.pop(loc, None)
                whose = "" if grave and grave.source == "" else event.source or ""
                graves[loc] = Tombstone(loc, at, appended + TOMBSTONE_MS, whose)
            else:
                graves.pop(loc, None)
                self.sort = self.sort or entry is None
                entries[loc] = _updated(entry, event, at) if event.op == "update" else _added(event, at)

    def result(self, now: int) -> Folded:
        """The new snapshot, without the tombstones whose time is over."""
        entries, graves, seen = self.entries, self.graves, self.seen
        for loc, grave in list(graves.items()):
            if grave.until <= now:
                del graves[loc]
                seen.add(loc)
        freed = tuple(sorted(seen.difference(entries, graves)))
        if self.sort:
            entries = {loc: entries[loc] for loc in sorted(entries)}
        articles = _news(entries) if self.extended else []
        for loc, until in articles:
            if until <= now:
                entries[loc] = entries[loc]._replace(ext=merge(entries[loc].ext, '{"news":null}'))
        times = chain(
            (grave.until for grave in graves.values()), (until for _, until in articles if until > now)
        )
        return Folded(Snapshot(entries, graves), freed, self.lost, min(times, default=None))


_MAKE = tuple.__new__
_EXT_OF = itemgetter(Entry._fields.index("ext"))


def next_purge(snapshot: Snapshot) -> int | None:
    """When the first tombstone's or article's time is over, in epoch milliseconds; None without any."""
    graves = (grave.until for grave in snapshot.tombstones.values())
    return min(chain(graves, (until for _, until in _news(snapshot.entries))), default=None)


def _news(entries: Mapping[str, Entry]) -> list[tuple[str, int]]:
    """The URLs of articles, with when they are no news any more."""
    found = ((entry.loc, news_until(entry.ext)) for entry in entries.values() if entry.ext)
    return [(loc, until) for loc, until in found if until is not None]


def _added(event: Event, at: int) -> Entry:
    _op, loc, lastmod, changefreq, priority, _at, source, ext, _urgent = event
    ext = merge("", ext) if ext and event.op == "update" else ext or ""
    row = (loc, lastmod or "", changefreq or "", priority or "", at, source or "", ext)
    return tuple.__new__(Entry, row)


def _updated(entry: Entry | None, event: Event, at: int) -> Entry:
    if entry is None:
        return _added(event, at)
    return Entry(
        entry.loc,
        entry.lastmod if event.lastmod is None else event.lastmod,
        entry.changefreq if event.changefreq is None else event.changefreq,
        entry.priority if event.priority is None else event.priority,
        at,
        entry.source,
        merge(entry.ext, event.ext) if event.ext else entry.ext,
    )

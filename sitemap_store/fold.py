"""The fold: snapshot + log → new snapshot. Pure; the one place that says what an event does.

Rules, in the order in which they are applied to each event of the log:

1. Events apply in the order they were appended.
2. An event that carries `at` and is older than what the entry or its tombstone has, has lost the
   race and changes nothing. At the same instant the later append wins. An event without `at`
   always applies, and counts as having happened when it was appended.
3. `add` replaces the whole entry and makes its source the owner. `update` replaces the fields that
   it names and keeps the owner; of a URL that isn't there it makes one, like `add`.
4. `delete` leaves a tombstone for `TOMBSTONE_MS`, of a URL that was never known too: its add may
   still be on the way. A delete that names a source touches that source's entry only, and its
   tombstone holds off that source's late events only.
5. Tombstones whose time is over are dropped, and whatever is neither entry nor tombstone any more
   gives up its seat.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sitemap_store.entries import Entry, Tombstone
from sitemap_store.events import Event, Logged
from sitemap_store.snapshot import Snapshot

TOMBSTONE_MS = 24 * 3600 * 1000


class Folded(NamedTuple):
    """A fold's result."""

    snapshot: Snapshot
    freed: tuple[str, ...]
    """The locs that were seen and hold no seat any more, sorted."""
    lost: int
    """How many events came too late, or were deletes of another source's entry."""
    purge_at: int | None
    """When the next tombstone's time is over, in epoch milliseconds; None without tombstones."""


def fold(snapshot: Snapshot, log: Iterable[Logged], now: int) -> Folded:
    """Apply a log to a snapshot at the time `now` (epoch milliseconds). The inputs stay as they are."""
    entries = dict(snapshot.entries)
    graves = dict(snapshot.tombstones)
    seen: set[str] = set()
    lost = 0
    for event, appended in log:
        loc = event.loc
        seen.add(loc)
        entry, grave = entries.get(loc), graves.get(loc)
        if entry is None and grave is None and event.op != "delete":
            entries[loc] = _added(event, appended if event.at is None else event.at)
            continue
        if grave and event.op != "delete" and grave.source not in ("", event.source or ""):
            grave = None
        known_at = entry.at if entry else grave.at if grave else 0
        if event.at is not None and event.at < known_at:
            lost += 1
            continue
        at = event.at if event.at is not None else max(appended, known_at)
        if event.op == "delete":
            if entry and event.source is not None and event.source != entry.source:
                lost += 1
                continue
            entries.pop(loc, None)
            whose = "" if grave and grave.source == "" else event.source or ""
            graves[loc] = Tombstone(loc, at, appended + TOMBSTONE_MS, whose)
        else:
            graves.pop(loc, None)
            entries[loc] = _updated(entry, event, at) if event.op == "update" else _added(event, at)
    for loc, grave in list(graves.items()):
        if grave.until <= now:
            del graves[loc]
            seen.add(loc)
    freed = tuple(sorted(seen.difference(entries, graves)))
    purge_at = min((grave.until for grave in graves.values()), default=None)
    return Folded(Snapshot(entries, graves), freed, lost, purge_at)


def _added(event: Event, at: int) -> Entry:
    _op, loc, lastmod, changefreq, priority, _at, source, ext, _urgent = event
    row = (loc, lastmod or "", changefreq or "", priority or "", at, source or "", ext or "")
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
        entry.ext if event.ext is None else event.ext,
    )

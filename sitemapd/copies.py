"""What a backup holds of the shards: which copy of each counts, and which URLs moved while it was made."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Self

from sitemap_store.model.entries import Entry, digest
from sitemap_store.model.events import read_log
from sitemap_store.model.site import Site
from sitemap_store.redis.dump import ShardCopy
from sitemap_store.shards.snapshot import Snapshot, decode
from sitemapd.backup import Backup

Key = tuple[str, int]
"""A shard's section and number: its name for good."""


class Known(NamedTuple):
    """What the first pass over a backup finds out about a shard."""

    partition: int
    id: int
    place: int
    """Of its last record among the shards' records."""
    lastmod: int
    index_number: int
    listed: bool
    published: int
    """1 when it ever was, otherwise 0: generations begin anew."""


def key_of(copy: ShardCopy) -> Key | None:
    """The name of a copied shard; None for one that was gone."""
    return (copy.meta["section"], int(copy.meta["number"])) if copy.meta else None


class Late:
    """Which shard has the URLs that moved while the backup was made."""

    def __init__(self) -> None:
        self._owner: dict[bytes, tuple[int, int]] = {}
        self._gave: dict[tuple[int, int], int] = {}

    def add(self, copy: ShardCopy) -> None:
        """Note the URLs of a shard that is newer than the backup's beginning."""
        for loc in _locs(copy):
            self._owner[digest(loc)] = (copy.partition, copy.id)

    def elsewhere(self, copy: ShardCopy) -> set[str]:
        """The URLs of a copy that have their seat in another shard."""
        gone = set()
        for loc in _locs(copy) if self._owner else ():
            owner = self._owner.get(digest(loc), (copy.partition, copy.id))
            if owner != (copy.partition, copy.id):
                self._gave[copy.partition, copy.id] = owner[1]
                gone.add(loc)
        return gone

    def gave(self, copy: ShardCopy) -> int | None:
        """The shard that URLs of this one moved to."""
        return self._gave.get((copy.partition, copy.id))


def first_pass(backup: Backup) -> tuple[dict[Key, Known], Late]:
    """Where the last record of each shard is, and which URLs moved meanwhile."""
    names: dict[tuple[int, int], Key] = {}
    known: dict[Key, Known] = {}
    late = Late()
    for place, copy in enumerate(backup.shards()):
        key = key_of(copy)
        if key is None:
            if before := names.pop((copy.partition, copy.id), None):
                known.pop(before, None)
            continue
        names[copy.partition, copy.id] = key
        meta = copy.meta
        listed = bool(meta.get("file"))
        published = min(1, int(meta["published"]))
        known[key] = Known(
            copy.partition, copy.id, place, int(meta["lm"]), int(meta["index"]), listed, published
        )
        if copy.late:
            late.add(copy)
    return known, late


def without_moved(copy: ShardCopy, late: Late, now: int) -> tuple[Snapshot, list[bytes]]:
    """A copy without the URLs that moved to another shard meanwhile, and without tombstones that are over."""
    snapshot, log = decode(copy.snapshot), copy.log
    gone = late.elsewhere(copy)
    gone_graves = {loc for loc, grave in snapshot.tombstones.items() if grave.until <= now}
    if gone or gone_graves:
        snapshot = Snapshot(
            {loc: entry for loc, entry in snapshot.entries.items() if loc not in gone},
            {loc: grave for loc, grave in snapshot.tombstones.items() if loc not in gone | gone_graves},
        )
    if gone:
        log = [element for element in (_without(element, gone) for element in log) if element]
    return snapshot, log


def _without(element: bytes, gone: set[str]) -> bytes:
    """A log element without the records of some URLs; empty when none is left."""
    head, *records = element.split(b"\n")
    locs = (event.loc for event, _ in read_log([element]))
    rest = [record for record, loc in zip(records, locs, strict=True) if loc not in gone]
    return b"\n".join([head, *rest]) if rest else b""


def _locs(copy: ShardCopy) -> Iterator[str]:
    snapshot = decode(copy.snapshot)
    yield from snapshot.entries
    yield from snapshot.tombstones
    for event, _ in read_log(copy.log):
        yield event.loc


class CopiedEntries:
    """Entries by loc, on the disk: the shards that are newer in the tree may be all of a large site's."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None)  # a file of SQLite's own, which it removes
        self._db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        columns = ", ".join(f'"{name}"' for name in Entry._fields[1:])
        self._db.execute(f"CREATE TABLE entry (loc TEXT PRIMARY KEY, {columns}) WITHOUT ROWID")
        self._db.execute("BEGIN")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def add(self, entries: Iterable[Entry]) -> None:
        """Remember entries."""
        self._db.executemany("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)", entries)

    def complete(self, read: Mapping[str, Entry], site: Site, section: str) -> dict[str, Entry]:
        """Published entries with what is remembered of their URLs and no file says."""
        found: dict[str, Entry] = {}
        locs = list(read)
        for start in range(0, len(locs), 500):
            some = locs[start : start + 500]
            marks = ", ".join("?" * len(some))
            for row in self._db.execute(f"SELECT * FROM entry WHERE loc IN ({marks})", some):
                found[row[0]] = Entry._make(row)
        return {loc: _completed(entry, found.get(loc), site, section) for loc, entry in read.items()}


def _completed(shown: Entry, before: Entry | None, site: Site, section: str) -> Entry:
    if before is None:
        return shown
    style = site.style(section)
    changefreq, priority = shown.changefreq, shown.priority
    # Whether a value is the entry's own or the section's default shows in no file.
    if (before.changefreq or style.changefreq) == (changefreq or style.changefreq):
        changefreq = before.changefreq
    if (before.priority or style.priority) == (priority or style.priority):
        priority = before.priority
    return before._replace(lastmod=shown.lastmod, changefreq=changefreq, priority=priority)

"""URLs of a backup that have their seat in another shard than a copy says.

A backup copies shard after shard while they are in use (`sitemap_store.redis.dump`), and the tree may be
newer than all of it: a URL that a split or merge moved may be in two shards. The later word counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sitemap_store.model.entries import digest
from sitemap_store.model.events import read_log
from sitemap_store.redis.dump import ShardCopy
from sitemap_store.shards.snapshot import Snapshot, decode


class LateShards:
    """Which shard has the URLs that moved while the backup was made."""

    def __init__(self) -> None:
        self._owner: dict[bytes, tuple[int, int]] = {}
        self._gave: dict[tuple[int, int], int] = {}

    def add(self, copy: ShardCopy) -> None:
        """Note the URLs of a shard that is newer than the backup's beginning."""
        for loc in _locs(copy):
            self._owner[digest(loc)] = (copy.partition, copy.id)

    def elsewhere(self, copy: ShardCopy, seen: Collection[bytes] = ()) -> set[str]:
        """The URLs of a copy that have their seat in another shard, or whose digest is in `seen`."""
        gone = set()
        own = (copy.partition, copy.id)
        for loc in _locs(copy) if self._owner or seen else ():
            key = digest(loc)
            owner = self._owner.get(key, own)
            if owner != own:
                self._gave[own] = owner[1]
            if owner != own or key in seen:
                gone.add(loc)
        return gone

    def gave(self, copy: ShardCopy) -> int | None:
        """The shard that URLs of this one moved to."""
        return self._gave.get((copy.partition, copy.id))


def without_moved(copy: ShardCopy, gone: set[str], now: int) -> tuple[Snapshot, list[bytes]]:
    """Snapshot and log of a copy without some URLs, and without tombstones that are over."""
    snapshot, log = decode(copy.snapshot), copy.log
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

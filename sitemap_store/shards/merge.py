"""Which sparse shards of a section become one, and their entries together. Pure.

Neighbours are merged, by the order in which the shards were opened: their URLs came at about the same time,
so they change and go at about the same time. What moves goes to the later of them, so that whoever lists the
shards in their order meanwhile sees an entry twice and never misses one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from sitemap_store.model.entries import Entry, Tombstone
from sitemap_store.model.protocol import Limits
from sitemap_store.shards.snapshot import Snapshot

QUIET_MS = 24 * 3600 * 1000
"""How long a shard must not have changed before the keeper merges it."""


AT_ONCE = 500
"""The most shards that become one in one step, which Redis does without a break."""
SEATS = 4
"""How many times as many seats as URLs of a full shard a merged one may have: the rest are tombstones."""


class Mergeable(NamedTuple):
    """A shard that may take part in a merge: not its section's open one, and not empty."""

    id: int
    urls: int
    seats: int
    """Entries, tombstones, and URLs whose events are not folded."""
    size: int
    """Bytes of its file, before compression: more than it adds to the file of a merged shard."""
    changed: int
    """When it was rewritten last, in epoch milliseconds."""
    settled: bool
    """Nothing is wanted of it, and nothing of it waits."""


def sparse_pair(
    shards: Iterable[Mergeable], shard_size: int, limits: Limits, now: int
) -> tuple[int, int] | None:
    """The two neighbours whose merge crawlers notice least, by their ids; None when no two go together.

    Only shards that nothing has touched for `QUIET_MS`, and that together fill at most half a shard and half
    of what a file may have: a merged shard has room to be merged again, and is never split at once.
    """
    old = [each for each in sorted(shards) if each.settled and each.changed + QUIET_MS <= now]
    fitting = [
        (one.size + other.size, one.id, other.id)
        for one, other in pairwise(old)
        if _fit((one, other), shard_size // 2, limits.bytes_per_file // 2)
        and one.seats + other.seats <= shard_size
    ]
    return min(fitting)[1:] if fitting else None


def full_groups(shards: Iterable[Mergeable], shard_size: int, limits: Limits) -> list[list[Mergeable]]:
    """Neighbours that become one shard each, as many as fit; those that stay as they are, left out.

    Tombstones fill no file, and go within a day: what was deleted a moment ago does not keep shards apart.
    """
    groups: list[list[Mergeable]] = []
    group: list[Mergeable] = []
    for each in sorted(shards):
        together = (*group, each)
        fits = _fit(together, min(shard_size, limits.urls_per_file), limits.bytes_per_file)
        seats = sum(one.seats for one in together)
        if group and not (fits and seats <= SEATS * shard_size and len(group) < AT_ONCE):
            groups.append(group)
            group = []
        group.append(each)
    groups.append(group)
    return [group for group in groups if len(group) > 1]


def _fit(shards: Sequence[Mergeable], urls: int, size: int) -> bool:
    return sum(each.urls for each in shards) <= urls and sum(each.size for each in shards) <= size


def union(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The entries and tombstones of several shards as one's; no URL may be in two of them."""
    entries: dict[str, Entry] = {}
    tombstones: dict[str, Tombstone] = {}
    for snapshot in snapshots:
        entries.update(snapshot.entries)
        tombstones.update(snapshot.tombstones)
    return Snapshot({loc: entries[loc] for loc in sorted(entries)}, tombstones)

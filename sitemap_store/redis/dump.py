"""Copies a site's state while it is in use, a shard at a time.

1. A shard is copied in one transaction: meta, snapshot and log belong together, and every event whose append
   had returned before the copy began is in one of them.
2. Shards are copied in the order of their ids, and a split moves URLs into a new, higher id: none is missed.
   A URL that moves from a shard that was copied to one that was not is in both copies. A shard that is newer
   than the dump is `late`: what it holds counts, and not what an earlier copy says.
3. A merge moves URLs to the last of its shards: the others are then found empty or gone. Once one is, all
   that changed since they were copied are copied again. The last copy of a shard counts.
4. A shard that a worker has in hand, with events in its log, is copied again a moment later: from its copy
   nobody could tell which of those events the file holds that the worker is about to publish. One that does
   not come to rest within `REST_S` stays `in_hand`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sitemap_store.redis.connection import translated
from sitemap_store.redis.state import Partition
from sitemap_store.redis.store import Store

REST_S: Final = 5.0
_PAUSE_S: Final = 0.05
_FIELDS: Final = 1000
"""Fields of a hash, or elements of a list, that are read at a time."""


class ShardCopy(NamedTuple):
    """A shard at one moment."""

    partition: int
    id: int
    meta: dict[str, str]
    """Its hash; empty for one that is gone."""
    snapshot: bytes | None
    log: list[bytes]
    in_hand: bool
    late: bool


def copy_shards(partition: Partition) -> Iterator[ShardCopy]:
    """Every shard of a partition, some of them again. Memory is one shard. Raises Unavailable."""
    newest = int(partition.remembered("next") or 0)
    versions: dict[int, str | None] = {}
    busy: set[int] = set()
    empty: set[int] = set()

    def taken(shard: int) -> ShardCopy:
        copy = _copy(partition, shard, late=shard > newest)
        versions[shard] = copy.meta.get("v")
        (busy.add if copy.in_hand and copy.log else busy.discard)(shard)
        if copy.meta.get("seats", "0") == "0":
            empty.add(shard)
        return copy

    for ids in partition.shard_ids():
        for name in ids:
            yield taken(int(name))
    followed: set[int] = set()
    deadline = time.monotonic() + REST_S
    while True:
        now = _versions(partition, versions)
        empty |= {shard for shard, (_, seats) in now.items() if seats == "0"}
        again = set(busy) if time.monotonic() < deadline else set()
        if given := empty - followed:
            followed |= given
            again |= {shard for shard, (version, _) in now.items() if version != versions.get(shard)}
        elif again:
            time.sleep(_PAUSE_S)
        if not again:
            return
        for shard in sorted(again):
            yield taken(shard)


def fields_of(partition: Partition, key: str) -> dict[str, str]:
    """A small hash of a partition."""
    with translated():
        found: Any = partition.client.hgetall(key)
    return {field.decode(): value.decode() for field, value in found.items()}


def held_events(partition: Partition) -> Iterator[list[bytes]]:
    """What a restore held back and is not appended yet, some log elements at a time."""
    start = 0
    while True:
        with translated():
            found: Any = partition.client.lrange(partition.keys.held(), start, start + _FIELDS - 1)
        if not found:
            return
        yield found
        start += len(found)


def webhook_keys(store: Store) -> Iterator[tuple[str, list[bytes]]]:
    """What webhooks remember (`producers.http.webhooks`): a webhook, its fields and values in turn."""
    keys = store.partitions[0].keys
    start = keys.webhook("")
    with translated():
        names = [name.decode() for name in store.client.scan_iter(f"{_literal(start)}*", count=_FIELDS)]
    for name in sorted(names):
        cursor: Any = 0
        while True:
            with translated():
                page: Any = store.client.hscan(name, cursor, count=_FIELDS)
            cursor, found = page
            if found:
                yield name.removeprefix(start), [part for pair in found.items() for part in pair]
            if not int(cursor):
                break


def _copy(partition: Partition, shard: int, *, late: bool) -> ShardCopy:
    with translated(), partition.client.pipeline(transaction=True) as pipe:
        pipe.hgetall(partition.keys.shard(shard))
        pipe.get(partition.keys.snapshot(shard))
        pipe.lrange(partition.keys.log(shard), 0, -1)
        pipe.hexists(partition.keys.leases(), str(shard))
        meta, snapshot, log, leased = pipe.execute()
    fields = {field.decode(): value.decode() for field, value in meta.items()}
    return ShardCopy(partition.number, shard, fields, snapshot, log, bool(leased), late)


def _versions(partition: Partition, known: dict[int, str | None]) -> dict[int, tuple[str | None, str]]:
    """Version and seats of the shards that were copied, and of those that came since."""
    ids = [int(shard) for page in partition.shard_ids() for shard in page]
    found: dict[int, tuple[str | None, str]] = dict.fromkeys(known, (None, "0"))
    for start in range(0, len(ids), _FIELDS):
        some = ids[start : start + _FIELDS]
        with translated(), partition.client.pipeline(transaction=False) as pipe:
            for shard in some:
                pipe.hmget(partition.keys.shard(shard), "v", "seats")
            for shard, (version, seats) in zip(some, pipe.execute(), strict=True):
                if version is not None:
                    found[shard] = (version.decode(), seats.decode())
    return found


def _literal(text: str) -> str:
    """A pattern of KEYS and SCAN that matches just that text."""
    return "".join(f"\\{each}" if each in "*?[]\\" else each for each in text)

"""Looks through the shards of a site: what is listed where, by section, by source, and out of scope.

Each reads a bounded piece at a time, as the page shows it. All raise Unavailable when Redis is.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sitemap_store.model.entries import Entry
from sitemap_store.redis.connection import translated
from sitemap_store.redis.state import EXAMPLES
from sitemap_store.redis.store import Store

SLICE = 500
"""Index files or shards that are read in one go."""


class ShardRow(NamedTuple):
    """A published shard, as the index lists it."""

    section: str
    number: int
    lastmod: int
    file: str
    due: bool
    partition: int = 0
    shard: int = 0
    """Its id in the partition."""


def shards(store: Store) -> Iterator[ShardRow]:
    """The published shards, an index file at a time and in no order; memory is one index file."""
    for partition in store.partitions:
        with translated(), store.client.pipeline(transaction=False) as pipe:
            pipe.zrange(partition.keys.due(), 0, -1)
            pipe.hkeys(partition.keys.index_sizes())
            due, files = pipe.execute()
        waiting = set(due)
        for k in sorted(files, key=int):
            with translated():
                listed: Any = store.client.hgetall(partition.keys.listing(int(k)))
            for shard, line in listed.items():
                section, number, lastmod, file = line.decode().split(" ")
                yield ShardRow(
                    section,
                    int(number),
                    int(lastmod),
                    file,
                    shard in waiting,
                    partition.number,
                    int(shard),
                )


def section_shards(store: Store, section: str, *, after: int, limit: int) -> list[ShardRow]:
    """The first `limit` published shards of a section whose number is above `after`, by their number."""
    rows = (row for row in shards(store) if row.section == section and row.number > after)
    return heapq.nsmallest(limit, rows, key=lambda row: (row.number, row.partition))


def shard_sizes(store: Store, rows: Sequence[ShardRow]) -> list[tuple[int, int]]:
    """URLs and bytes (before gzip) of each of some shards, in one go."""
    with translated(), store.client.pipeline(transaction=False) as pipe:
        for row in rows:
            pipe.hmget(store.partitions[row.partition].keys.shard(row.shard), "urls", "bytes")
        return [(int(urls or 0), int(size or 0)) for urls, size in pipe.execute()]


class SourcePage(NamedTuple):
    """What one shard holds of a source."""

    entries: Sequence[Entry]
    section: str
    number: int
    at: tuple[int, int]
    """The partition and the id of the shard that was read."""
    more: bool
    """Whether there are shards after it that were not looked at."""


def source_page(store: Store, source: str, *, after: tuple[int, int]) -> SourcePage:
    """A source's entries in the next shard behind the place `after`, (0, 0) for the first.

    Reads the fields of up to `SLICE` shards and the entries of one at the most: a page may be empty
    and yet not the last one.
    """
    place, last = after
    for partition in store.partitions[place:]:
        keys = partition.keys
        with translated():
            ids: Any = store.client.zrangebyscore(keys.shards(), f"({last}", "+inf", start=0, num=SLICE)
            with store.client.pipeline(transaction=False) as pipe:
                for shard in ids:
                    pipe.hmget(keys.shard(shard.decode()), "sources", "section", "number")
                    pipe.llen(keys.log(shard.decode()))
                answers = pipe.execute()
        for shard, (sources, section, number), waiting in zip(ids, answers[::2], answers[1::2], strict=True):
            if waiting or source in (sources or b"").decode().split("\n"):
                found = [e for e in store.entries(partition.number, int(shard)) if e.source == source]
                more = shard != ids[-1] or len(ids) == SLICE or partition is not store.partitions[-1]
                at = partition.number, int(shard)
                return SourcePage(found, (section or b"").decode(), int(number or 0), at, more)
        if len(ids) == SLICE:
            return SourcePage((), "", 0, (partition.number, int(ids[-1])), True)
        last = 0
    return SourcePage((), "", 0, (len(store.partitions), 0), False)


def uncovered(store: Store) -> tuple[int, list[str]]:
    """How many published URLs the site no longer covers, and up to five of them."""
    total, examples = 0, list[str]()
    for partition in store.partitions:
        counts: dict[bytes, int] = {}  # a scan may give a shard twice
        with translated():
            for shard, row in store.client.hscan_iter(partition.keys.uncovered(), count=SLICE):
                if shard not in counts:
                    counts[shard], some = json.loads(row)
                    examples += some[: EXAMPLES - len(examples)]
        total += sum(counts.values())
    return total, examples

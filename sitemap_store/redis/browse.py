"""Looks through the shards of a site: what is listed where, by section, by source, and out of scope.

Each reads a bounded piece at a time, as the page shows it. All raise Unavailable when Redis is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sitemap_store.model.entries import Entry
from sitemap_store.redis.connection import translated
from sitemap_store.redis.state import EXAMPLES, Partition
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


class SizedShard(NamedTuple):
    """A published shard, and the size of its file."""

    row: ShardRow
    urls: int
    bytes: int
    """Before gzip."""


class SectionPage(NamedTuple):
    """Some published shards of a section."""

    shards: Sequence[SizedShard]
    at: tuple[int, int]
    """The partition and the id of the last shard that was read."""
    more: bool
    """Whether there are shards behind it."""


def section_page(store: Store, section: str, *, after: tuple[int, int], limit: int) -> SectionPage:
    """Up to `limit` published shards of a section behind the place `after`, (0, 0) for the first.

    Reads the fields of about `SLICE` shards of the site: a page may be empty and yet not the last one.
    """
    found: list[SizedShard] = []
    at = after
    for partition, ids, more in _slices(store, after):
        for shard, sized in zip(ids, _sized(store, partition, ids), strict=True):
            at = partition.number, shard
            if sized is not None and sized.row.section == section:
                found.append(sized)
            if len(found) == limit:
                return SectionPage(found, at, more or shard != ids[-1])
        if len(ids) == SLICE:
            return SectionPage(found, at, more)
    return SectionPage(found, at, more=False)


def published_shard(store: Store, partition: int, shard: int) -> SizedShard | None:
    """A shard by its partition and its id there; None when there is none, or it is not published."""
    if partition >= len(store.partitions):
        return None
    return _sized(store, store.partitions[partition], [shard])[0]


class SourcePage(NamedTuple):
    """What one shard holds of a source."""

    entries: Sequence[Entry]
    section: str
    number: int
    at: tuple[int, int]
    """The partition and the id of the last shard that was read; of the entries' shard, when there are any."""
    more: bool
    """Whether there are shards behind it."""


def source_page(store: Store, source: str, *, after: tuple[int, int]) -> SourcePage:
    """A source's entries in the next shard behind the place `after`, (0, 0) for the first.

    Reads the fields of about `SLICE` shards and the entries of one at the most: a page may be empty
    and yet not the last one.
    """
    at = after
    for partition, ids, more in _slices(store, after):
        with translated(), store.client.pipeline(transaction=False) as pipe:
            for shard in ids:
                pipe.hmget(partition.keys.shard(shard), "sources", "section", "number")
                pipe.llen(partition.keys.log(shard))
            answers = pipe.execute()
        for shard, (sources, section, number), waiting in zip(ids, answers[::2], answers[1::2], strict=True):
            at = partition.number, shard
            if waiting or source in (sources or b"").decode().split("\n"):
                found = [e for e in store.entries(partition.number, shard) if e.source == source]
                last = not more and shard == ids[-1]
                return SourcePage(found, (section or b"").decode(), int(number or 0), at, not last)
        if len(ids) == SLICE:
            return SourcePage((), "", 0, at, more)
    return SourcePage((), "", 0, at, more=False)


def _slices(store: Store, after: tuple[int, int]) -> Iterator[tuple[Partition, list[int], bool]]:
    """The ids of the shards behind a place, `SLICE` of a partition at a time, and whether more follow."""
    place, last = after
    for partition in store.partitions[place:]:
        more = True
        while more:
            with translated():
                some: Any = store.client.zrangebyscore(
                    partition.keys.shards(), f"({last}", "+inf", start=0, num=SLICE
                )
            more = len(some) == SLICE
            if some:
                last = int(some[-1])
                yield partition, [int(each) for each in some], more or partition is not store.partitions[-1]
        last = 0


def _sized(store: Store, partition: Partition, ids: Sequence[int]) -> list[SizedShard | None]:
    """Some shards of a partition, in one round trip; None for each that is not published."""
    keys = partition.keys
    with translated(), store.client.pipeline(transaction=False) as pipe:
        for shard in ids:
            pipe.hmget(keys.shard(shard), "section", "number", "lm", "file", "urls", "bytes")
            pipe.zscore(keys.due(), str(shard))
        answers = pipe.execute()
    found: list[SizedShard | None] = []
    for shard, (section, number, lastmod, file, urls, size), due in zip(
        ids, answers[::2], answers[1::2], strict=True
    ):
        if not file:
            found.append(None)
            continue
        row = ShardRow(
            section.decode(),
            int(number),
            int(lastmod),
            file.decode(),
            due is not None,
            partition.number,
            shard,
        )
        found.append(SizedShard(row, int(urls or 0), int(size or 0)))
    return found


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

"""One site's whole state: its partitions together, for producers and for looking things up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import redis

from sitemap_store.connection import translated
from sitemap_store.entries import Entry, digest
from sitemap_store.errors import Refused
from sitemap_store.events import Event, encode, read_log
from sitemap_store.fold import fold
from sitemap_store.site import Site
from sitemap_store.snapshot import Snapshot, decode
from sitemap_store.state import REJECTED_MAX, Clock, Partition, Wake, server_clock

BATCH = 500
"""Events per append: a script call of about 3 ms, so that no other client of Redis waits longer."""


class Found(NamedTuple):
    """An entry as it is now, unfolded events included, and where it sits."""

    entry: Entry
    section: str
    shard: int
    file: str
    """The published file that holds it, or will; empty before the first publish."""


class Store:
    """Appends events to a site and reads its state. Raises Unavailable when Redis is."""

    def __init__(self, client: redis.Redis, site: Site, *, clock: Clock = server_clock) -> None:
        self.client = client
        self.site = site
        self.partitions = tuple(Partition(client, site, p, clock=clock) for p in range(site.partitions))
        names = site.sections.names
        self._sections = names
        self._place = {name: i + 1 for i, name in enumerate(names)}

    def append(self, events: Iterable[Event], *, delay_ms: int = 0) -> list[Wake]:
        """Append checked events in their order; what was appended when it returns is never lost.

        Returns the shards that need a job now (`sitemap_store.wake`). Their rewrite waits for
        `delay_ms`, which spares half of the rewrites of a bulk load.
        """
        batches: list[list[bytes]] = [[] for _ in self.partitions]
        wakes: list[Wake] = []
        find, place, many = self.site.sections.find, self._place, len(batches) > 1
        for event in events:
            loc = event.loc
            key = digest(loc)
            batch = batches[self.site.partition(key)] if many else batches[0]
            batch.append(b"%b%c%b" % (key, place[find(loc)], encode(event).encode()))
            if len(batch) >= BATCH:
                self._flush(batches, wakes, delay_ms, only=batch)
        self._flush(batches, wakes, delay_ms)
        return wakes

    def _flush(
        self,
        batches: list[list[bytes]],
        wakes: list[Wake],
        delay_ms: int,
        only: list[bytes] | None = None,
    ) -> None:
        for partition, batch in zip(self.partitions, batches, strict=True):
            if batch and (only is None or only is batch):
                wake = partition.append(self._sections, batch, delay_ms=delay_ms)
                batch.clear()
                if wake.members:
                    wakes.append(wake)

    def find(self, loc: str) -> Found | None:
        """The entry of a normalised loc; None when the site does not list it."""
        key = digest(loc)
        partition = self.partitions[self.site.partition(key)]
        prefix = partition.prefix
        with translated():
            buckets = int(self.client.hget(f"{prefix}:state", "buckets") or 1)
            for n in (buckets, buckets + 1):
                shard = self.client.hget(f"{prefix}:d:{_bucket(key, n)}", key)
                if shard is not None:
                    break
        if shard is None:
            return None
        meta, state = self._peek(partition, int(shard))
        entry = state.entries.get(loc)
        if entry is None:
            return None
        section = meta.get(b"section", b"").decode()
        return Found(entry, section, int(shard), meta.get(b"file", b"").decode())

    def listing(self, source: str | None = None) -> Iterator[Entry]:
        """The entries of a source (None: of all), unfolded events included, a shard at a time.

        Streamed: memory is one shard. An entry whose shard is split meanwhile may come twice.
        """
        for partition in self.partitions:
            for shard in self._shards(partition):
                if source is not None and not self._may_hold(partition, shard, source):
                    continue
                _, state = self._peek(partition, shard)
                for entry in state.entries.values():
                    if source is None or entry.source == source:
                        yield entry

    def _shards(self, partition: Partition) -> Iterator[int]:
        last = 0
        while True:
            with translated():
                ids = self.client.zrangebyscore(
                    f"{partition.prefix}:shards", f"({last}", "+inf", start=0, num=500
                )
            if not ids:
                return
            for shard in ids:
                last = int(_bytes(shard))
                yield last

    def _may_hold(self, partition: Partition, shard: int, source: str) -> bool:
        with translated(), self.client.pipeline(transaction=False) as pipe:
            pipe.hget(f"{partition.prefix}:s:{shard}", "sources")
            pipe.llen(f"{partition.prefix}:log:{shard}")
            sources, waiting = pipe.execute()
        return bool(waiting) or source in (sources or b"").decode().split("\n")

    def _peek(self, partition: Partition, shard: int) -> tuple[dict[bytes, bytes], Snapshot]:
        with translated(), self.client.pipeline(transaction=True) as pipe:
            pipe.hgetall(f"{partition.prefix}:s:{shard}")
            pipe.get(f"{partition.prefix}:snap:{shard}")
            pipe.lrange(f"{partition.prefix}:log:{shard}", 0, -1)
            meta, snapshot, log = pipe.execute()
        return meta, fold(decode(snapshot), read_log(log), 0).snapshot

    def index_files(self) -> list[int]:
        """The numbers of the published index files, in their order."""
        numbers = []
        for partition in self.partitions:
            with translated():
                for k in self.client.hkeys(f"{partition.prefix}:index_sizes"):
                    if self.client.hlen(f"{partition.prefix}:idx:{int(k)}"):
                        number = (int(k) - 1) * self.site.partitions + partition.number + 1
                        numbers.append(number)
        return sorted(numbers)

    def now(self) -> int:
        """Redis' clock in epoch milliseconds, the one that all hosts share."""
        with translated():
            seconds, micros = self.client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def replay_held(self) -> list[Wake]:
        """Append what a restore held back; returns the shards that need a job."""
        wakes: list[Wake] = []
        for partition in self.partitions:
            key = f"{partition.prefix}:held"
            while True:
                with translated():
                    elements = self.client.lrange(key, 0, 255)
                if not elements:
                    break
                wakes += self.append(logged.event for logged in read_log(map(_bytes, elements)))
                with translated():
                    self.client.ltrim(key, len(elements), -1)
        return wakes

    def unsettled(self, until: int) -> int:
        """How many shards and index files still hold back something appended by `until` (epoch ms)."""
        with translated(), self.client.pipeline(transaction=False) as pipe:
            for partition in self.partitions:
                pipe.zcount(f"{partition.prefix}:pending", "-inf", until)
            return sum(pipe.execute())

    def reject(self, refused: Sequence[tuple[Refused, str]]) -> None:
        """Count refusals and keep the last ones for `sitemapd rejected`, each with its source."""
        prefix = self.partitions[0].prefix
        with translated(), self.client.pipeline(transaction=False) as pipe:
            for refusal, source in refused[-REJECTED_MAX:]:
                fields: dict[Any, Any] = {
                    "loc": _safe(refusal.loc),
                    "rule": refusal.rule,
                    "detail": _safe(refusal.detail),
                    "source": source,
                }
                pipe.xadd(f"{prefix}:rejected", fields, maxlen=REJECTED_MAX, approximate=True)
            pipe.hincrby(f"{prefix}:stats", "refused", len(refused))
            pipe.execute()

    def rejected(self, limit: int = 100) -> list[dict[str, str]]:
        """The last refusals, newest first: time (epoch ms), loc, rule, detail, source."""
        with translated():
            rows: Any = self.client.xrevrange(f"{self.partitions[0].prefix}:rejected", count=limit)
        return [
            {"time": name.decode().split("-")[0]}
            | {field.decode(): value.decode() for field, value in fields.items()}
            for name, fields in rows
        ]


def _bucket(key: bytes, buckets: int) -> int:
    """Where a digest lies in a directory of that many buckets; the scripts' own rule."""
    size = 1 << (buckets.bit_length() - 1)
    place = int.from_bytes(key[:4], "big")
    return place % (size * 2) if place % (size * 2) < buckets else place % size


def _bytes(value: object) -> bytes:
    """Redis' answer as what it is: the client never decodes."""
    return cast("bytes", value)


def _safe(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()[:2048]

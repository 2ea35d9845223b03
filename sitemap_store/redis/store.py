"""One site's whole state: its partitions together, for producers and for looking things up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple, cast

import redis

from sitemap_store.errors import Refused, Unavailable
from sitemap_store.model.entries import Entry, digest
from sitemap_store.model.events import Event, read_log
from sitemap_store.model.site import Site, index_file
from sitemap_store.redis.claims import Wake
from sitemap_store.redis.connection import translated
from sitemap_store.redis.directory import bucket_of
from sitemap_store.redis.prepare import prepare
from sitemap_store.redis.state import REJECTED_MAX, Clock, Partition, server_clock
from sitemap_store.shards.fold import fold_elements
from sitemap_store.shards.snapshot import Snapshot, decode

BATCH: Final = 500
"""Events per append: a script call of about 3 ms, so that no other client of Redis waits longer."""


class Found(NamedTuple):
    """An entry as it is now, unfolded events included, and where it sits."""

    entry: Entry
    section: str
    shard: int
    """Its id in Redis."""
    number: int
    """Its number in the section, as its file's name has it."""
    file: str
    """The published file that holds it, or will; empty before the first publish."""


class Store:
    """Appends events to a site and reads its state. Raises Unavailable when Redis is."""

    def __init__(self, client: redis.Redis, site: Site, *, clock: Clock = server_clock) -> None:
        self.client = client
        self.site = site
        self._clock = clock
        self.partitions = tuple(Partition(client, site, p, clock=clock) for p in range(site.partitions))

    def append(self, events: Iterable[Event], *, delay_ms: int = 0) -> list[Wake]:
        """Append checked events in their order; what was appended when it returns is never lost.

        Returns the shards that need a job now (`sitemap_store.redis.wake`). Their rewrite waits for
        `delay_ms`, which spares half of the rewrites of a bulk load.
        """
        return [wake for _, wake in self.append_each(events, delay_ms=delay_ms) if wake.members]

    def append_each(self, events: Iterable[Event], *, delay_ms: int = 0) -> Iterator[tuple[int, Wake]]:
        """As `append`, `BATCH` events at a time: of what is stored, how many and what it woke."""
        stream = iter(events)
        waiting: tuple[int, Callable[[], Wake]] | None = None
        try:
            # While Redis takes one batch the next is asked for and encoded.
            while batch := list(islice(stream, BATCH)):
                parts = prepare(self.site, batch)
                for number, packed in parts:
                    if waiting is not None:
                        (count, stored), waiting = waiting, None
                        yield count, stored()
                    count = len(batch) if number == parts[-1][0] else 0
                    waiting = count, self.partitions[number].begin_append(packed, delay_ms=delay_ms)
            if waiting is not None:
                (count, stored), waiting = waiting, None
                yield count, stored()
        finally:
            if waiting is not None:  # whoever gave up may begin again at once: nothing comes after that
                with suppress(Unavailable):
                    waiting[1]()

    def find(self, loc: str) -> Found | None:
        """The entry of a normalised loc; None when the site does not list it."""
        key = digest(loc)
        partition = self.partitions[self.site.partition(key)]
        seat = self._seat(partition, key)
        while seat is not None:
            meta, state = self._peek(partition, seat)
            entry = state.entries.get(loc)
            if entry is not None:
                section = meta.get(b"section", b"").decode()
                number, file = int(meta.get(b"number", 0)), meta.get(b"file", b"").decode()
                return Found(entry, section, seat, number, file)
            # A split may have moved it between the two looks.
            before, seat = seat, self._seat(partition, key)
            if seat == before:
                return None
        return None

    def _seat(self, partition: Partition, key: bytes) -> int | None:
        """The shard of a digest; a directory that grows meanwhile is looked at again."""
        buckets = 0
        while True:
            with translated():
                before, state = buckets, self.client.hget(partition.keys.state(), "buckets")
                buckets = int(state or 1)
                if buckets == before:
                    return None
                shard = self.client.hget(partition.keys.directory(bucket_of(key, buckets)), key)
            if shard is not None:
                return int(shard)

    def entries(self, partition: int, shard: int) -> list[Entry]:
        """The entries of one shard in the order of its file, unfolded events included; empty for no shard."""
        return sorted(self._peek(self.partitions[partition], shard)[1].entries.values())

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
                ids = self.client.zrangebyscore(partition.keys.shards(), f"({last}", "+inf", start=0, num=500)
            if not ids:
                return
            for shard in ids:
                last = int(_bytes(shard))
                yield last

    def _may_hold(self, partition: Partition, shard: int, source: str) -> bool:
        with translated(), self.client.pipeline(transaction=True) as pipe:
            pipe.hget(partition.keys.shard(shard), "sources")
            pipe.llen(partition.keys.log(shard))
            sources, waiting = pipe.execute()
        return bool(waiting) or source in (sources or b"").decode().split("\n")

    def _peek(self, partition: Partition, shard: int) -> tuple[dict[bytes, bytes], Snapshot]:
        with translated(), self.client.pipeline(transaction=True) as pipe:
            pipe.hgetall(partition.keys.shard(shard))
            pipe.get(partition.keys.snapshot(shard))
            pipe.lrange(partition.keys.log(shard), 0, -1)
            meta, snapshot, log = pipe.execute()
        return meta, fold_elements(decode(snapshot), log, 0).snapshot

    def files(self) -> set[str]:
        """The names of all files that are published, as the state knows them."""
        names = {index_file(number) for number in self.index_files()}
        for partition in self.partitions:
            with translated():
                for k in self.client.hkeys(partition.keys.index_sizes()):
                    for line in self.client.hvals(partition.keys.listing(int(k))):
                        names.add(_bytes(line).decode().rpartition(" ")[2])
        return names

    def index_files(self) -> list[int]:
        """The numbers of the published index files, in their order."""
        numbers = []
        for partition in self.partitions:
            with translated():
                for k in self.client.hkeys(partition.keys.index_sizes()):
                    if self.client.hlen(partition.keys.listing(int(k))):
                        number = (int(k) - 1) * self.site.partitions + partition.number + 1
                        numbers.append(number)
        return sorted(numbers)

    def now(self) -> int:
        """Redis' clock in epoch milliseconds, the one that all hosts share."""
        with translated():
            seconds, micros = self.client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def stamp(self, ago: int = 0) -> int:
        """The `at` of what was true `ago` ms ago, in epoch milliseconds: what is appended later wins over it.

        It is by Redis' clock. Where that was set back, it is the newest append's: what is true now would lose
        against that otherwise.
        """
        with translated(), self.client.pipeline(transaction=False) as pipe:
            for partition in self.partitions:
                pipe.hget(partition.keys.state(), "stamp")
            pipe.time()
            *stamps, (seconds, micros) = pipe.execute()
        newest = max(int(stamp or 0) for stamp in stamps)
        now = self._clock() or int(seconds) * 1000 + int(micros) // 1000
        return newest if newest > now else now - ago

    def has_held(self) -> bool:
        """Whether something that a restore held back is still to be appended."""
        with translated(), self.client.pipeline(transaction=False) as pipe:
            for partition in self.partitions:
                pipe.exists(partition.keys.held())
            return any(pipe.execute())

    def replay_held(self, alive: Callable[[], None] = lambda: None) -> list[Wake]:
        """Append what a restore held back, one process at a time; returns the shards that need a job.

        Each event counts as having happened when it first came, so one that came after the restore,
        or a second replay after a crash, can't be undone by it. `alive` is called before each of its steps.
        """
        wakes: list[Wake] = []
        for partition in self.partitions:
            key = partition.keys.held()
            while True:
                alive()
                with translated():
                    elements = self.client.lrange(key, 0, 31)
                if not elements:
                    break
                wakes += self.append(
                    event if event.at is not None else event._replace(at=appended)
                    for event, appended in read_log(map(_bytes, elements))
                )
                alive()
                self._trim(key, elements)
        return wakes

    def _trim(self, key: str, done: list[Any]) -> None:
        """Take elements off a list's head if they are still there: another may have been faster."""
        pipe: Any
        with translated(), self.client.pipeline() as pipe:
            while True:
                try:
                    pipe.watch(key)
                    head = pipe.lrange(key, 0, len(done) - 1)
                    pipe.multi()
                    if head == done:
                        pipe.ltrim(key, len(done), -1)
                    pipe.execute()
                except redis.WatchError:
                    continue
                return

    def unfolded(self) -> int:
        """How many events are stored and not yet folded."""
        with translated(), self.client.pipeline(transaction=False) as pipe:
            for partition in self.partitions:
                pipe.hget(partition.keys.state(), "logged")
            return sum(int(count or 0) for count in pipe.execute())

    def unsettled(self, until: int) -> int:
        """How many shards and index files still hold back something appended by `until` (epoch ms)."""
        with translated(), self.client.pipeline(transaction=False) as pipe:
            for partition in self.partitions:
                pipe.zcount(partition.keys.pending(), "-inf", until)
                pipe.exists(partition.keys.held())
            return sum(pipe.execute())

    def reject(self, refused: Sequence[tuple[Refused, str]]) -> None:
        """Count refusals and keep the last ones for `sitemapd rejected`, each with its source."""
        with translated(), self.client.pipeline(transaction=False) as pipe:
            for refusal, source in refused[-REJECTED_MAX:]:
                fields: dict[Any, Any] = {
                    "loc": _safe(refusal.loc),
                    "rule": refusal.rule,
                    "detail": _safe(refusal.detail),
                    "source": source,
                }
                pipe.xadd(self.partitions[0].keys.rejected(), fields, maxlen=REJECTED_MAX, approximate=True)
            pipe.execute()
        counts = Counter((refusal.rule, source) for refusal, source in refused)
        self.partitions[0].count_refused(counts)

    def rejected(self, limit: int = 100, *, after: str = "") -> list[dict[str, str]]:
        """The last refusals, newest first: id, time (epoch ms), loc, rule, detail, source.

        Only those after the one with the id `after`, where that is given.
        """
        low = f"({after}" if after else "-"
        with translated():
            rows: Any = self.client.xrevrange(self.partitions[0].keys.rejected(), min=low, count=limit)
        return [
            {"id": name.decode(), "time": name.decode().split("-")[0]}
            | {field.decode(): value.decode() for field, value in fields.items()}
            for name, fields in rows
        ]


def _bytes(value: object) -> bytes:
    """Redis' answer as what it is: the client never decodes."""
    return cast("bytes", value)


def _safe(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()[:2048]

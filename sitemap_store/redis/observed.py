"""What a site counted: for the status page, the metrics and `sitemapd status`.

The scripts count; the keys are in `sitemap_store.redis.keys`. A site's numbers are those of its partitions
together. All raise Unavailable when Redis is.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import redis

from sitemap_store.errors import RedisRefuses
from sitemap_store.model.entries import Entry
from sitemap_store.redis.connection import translated
from sitemap_store.redis.keys import Keys
from sitemap_store.redis.state import EXAMPLES
from sitemap_store.redis.store import Store

LAG_BOUNDS_MS = (
    *(10, 25, 50, 75, 100, 150, 200, 250, 300, 400, 500, 750),
    *(1000, 1500, 2000, 3000, 5000, 7500, 10000, 15000, 30000, 60000, 300000),
)
"""The upper bounds of the lag histograms; `LAGS` in record.lua is the same list."""
FORGET_MS = 7 * 24 * 3600 * 1000
"""How long a producer that says nothing any more is remembered."""
SLICE = 500
"""Index files or shards that are read in one go."""


class Totals(NamedTuple):
    """What was counted since the site began."""

    stats: Mapping[str, int]
    """add, update, delete, refused, rewrites, index_rewrites, bytes, released, expired."""
    accepted: Mapping[tuple[str, str], int]
    """(op, source) → accepted events; "" is no source."""
    refused: Mapping[str, int]
    """source → refused events."""
    refusals: Mapping[str, int]
    """rule → refused events."""
    lag: Mapping[str, Lag]
    """"shard" and "index" → how long changes waited until that file was published."""


class Lag(NamedTuple):
    """How often a publish's oldest event had waited how long."""

    counts: tuple[int, ...]
    """For each of LAG_BOUNDS_MS those of at most that and more than the bound before; then the rest."""
    total_ms: int

    def quantile(self, share: float) -> float | None:
        """The ms that `share` (0 to 1) of the publishes stayed under, by the bounds; None without any."""
        rank, seen, low = share * sum(self.counts), 0, 0
        if not sum(self.counts):
            return None
        for count, bound in zip(self.counts, LAG_BOUNDS_MS, strict=False):
            if count and seen + count >= rank:
                return low + (bound - low) * (rank - seen) / count
            seen, low = seen + count, bound
        return float(LAG_BOUNDS_MS[-1])


class Slot(NamedTuple):
    """The numbers of one step of a `Span`."""

    start: int
    """Epoch ms."""
    events: int
    refused: int
    rewrites: int
    lag: Lag


class Span(NamedTuple):
    """How far back the counts of a site go, and in which steps."""

    name: str
    step_ms: int
    slots: int
    key: Callable[[Keys, int], str]
    """The key of a step by its number since 1970."""


HOUR: Final = Span("hour", 60_000, 60, Keys.minute)
DAY: Final = Span("day", 900_000, 96, Keys.quarter)
MONTH: Final = Span("month", 21_600_000, 124, Keys.part)


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


class Published(NamedTuple):
    """One rewrite that changed a file."""

    cursor: str
    """Give it to `feed` to get what came after."""
    file: str
    section: str
    urls: int
    events: int
    bytes: int
    lag_ms: int
    at: int
    gone: bool
    """The shard has become empty, and its file goes."""


def totals(store: Store) -> Totals:
    """What the site counted since it began."""
    stats: Counter[str] = Counter()
    events: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    lag: Counter[str] = Counter()
    with translated(), store.client.pipeline(transaction=False) as pipe:
        for partition in store.partitions:
            keys = partition.keys
            for key in (keys.stats(), keys.events(), keys.refusals(), keys.lag()):
                pipe.hgetall(key)
        answers = pipe.execute()
    for place, into in enumerate((stats, events, rules, lag)):
        for answer in answers[place::4]:
            into.update(_counts(answer))
    stats.pop("published", None)
    accepted: dict[tuple[str, str], int] = {}
    refused: dict[str, int] = {}
    for name, count in events.items():
        op, _, source = name.partition(" ")
        if op == "refused":
            refused[source] = count
        else:
            accepted[op, source] = count
    return Totals(stats, accepted, refused, rules, {kind: _lag(lag, kind) for kind in ("shard", "index")})


def history(store: Store, now: int, span: Span = HOUR) -> tuple[tuple[Slot, ...], Lag]:
    """The steps of a span, the running one last, and the lags of the shards published in them."""
    last = now // span.step_ms
    numbers = range(last - span.slots + 1, last + 1)
    with translated(), store.client.pipeline(transaction=False) as pipe:
        for number in numbers:
            for partition in store.partitions:
                pipe.hgetall(span.key(partition.keys, number))
        answers = iter(pipe.execute())
    slots, whole = [], Counter[str]()
    for number in numbers:
        row: Counter[str] = Counter()
        for _ in store.partitions:
            row.update(_counts(next(answers)))
        lag = _lag(row, "lag")
        slots.append(Slot(number * span.step_ms, row["events"], row["refused"], row["rewrites"], lag))
        whole.update({name: count for name, count in row.items() if name.startswith("lag ")})
    return tuple(slots), _lag(whole, "lag")


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


def feed(store: Store, *, after: str = "", limit: int = 20) -> list[Published]:
    """The last `limit` rewrites, oldest first; only those after a cursor when one is given."""
    places = dict(zip(store.partitions, after.split(","), strict=False)) if _is_cursor(after) else {}
    with translated(), store.client.pipeline(transaction=False) as pipe:
        for partition in store.partitions:
            low = places.get(partition)
            pipe.xrevrange(partition.keys.feed(), "+", f"({low}" if low else "-", count=limit)
        answers = pipe.execute()
    at = [places.get(partition, "0-0") for partition in store.partitions]
    found = sorted(
        (tuple(map(int, entry.decode().split("-"))), place, entry.decode(), fields)
        for place, rows in enumerate(answers)
        for entry, fields in rows
    )
    entries = []
    for _, place, entry, fields in found:
        at[place] = entry
        row = {name.decode(): value.decode() for name, value in fields.items()}
        entries.append(
            Published(
                ",".join(at),
                row["file"],
                row["section"],
                int(row["urls"]),
                int(row["events"]),
                int(row["bytes"]),
                int(row["lag"]),
                int(row["at"]),
                row["gone"] == "1",
            )
        )
    return entries[-limit:]


def note_producer(store: Store, source: str, how: Mapping[str, object]) -> None:
    """Note how a source's watcher or relay stands; those that have long said nothing are forgotten."""
    key, now = store.partitions[0].keys.producers(), store.now()
    with translated():
        store.client.hset(key, source, json.dumps({**how, "seen": now}, default=str))
    for name, known in producers(store).items():
        if known["seen"] < now - FORGET_MS:
            with translated():
                store.client.hdel(key, name)


def producers(store: Store) -> dict[str, dict[str, Any]]:
    """source → how its watcher or relay stood when it was last heard of (`seen`, epoch ms)."""
    with translated():
        rows: Any = store.client.hgetall(store.partitions[0].keys.producers())
    return {name.decode(): json.loads(value) for name, value in sorted(rows.items())}


class Server(NamedTuple):
    """The state's Redis."""

    version: str
    used_bytes: int
    max_bytes: int
    """0: no bound."""
    policy: str | None
    """maxmemory-policy; None where the server does not tell."""
    append_only: bool | None
    writes_fine: bool
    """Its last write of the append-only file went well."""

    @property
    def safe(self) -> bool:
        """Whether it keeps what it is told, as far as it tells."""
        return self.policy in (None, "noeviction") and self.append_only is not False and self.writes_fine


def server(client: redis.Redis) -> Server:
    """How the state's Redis stands; little of it where its user may not run INFO."""
    info: dict[str, Any]
    try:
        with translated():
            info = client.info()
    except RedisRefuses as error:
        if not isinstance(error.__cause__, redis.exceptions.NoPermissionError):
            raise
        info = {}
    append_only = info.get("aof_enabled")
    policy = info.get("maxmemory_policy")
    return Server(
        str(info.get("valkey_version") or info.get("redis_version", "")),
        int(info.get("used_memory", 0)),
        int(info.get("maxmemory", 0)),
        str(policy) if policy is not None else None,
        bool(append_only) if append_only is not None else None,
        info.get("aof_last_write_status", "ok") == "ok",
    )


def run_id(client: redis.Redis) -> str:
    """What names the running process of the state's Redis: a restart or a fail-over changes it."""
    with translated():
        return str(client.info("server").get("run_id", ""))


def _is_cursor(text: str) -> bool:
    return bool(text) and all(
        part.replace("-", "", 1).isascii() and part.replace("-", "", 1).isdigit() and len(part) < 40
        for part in text.split(",")
    )


def _counts(flat: Mapping[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(value) for name, value in flat.items()}


def _lag(counts: Mapping[str, int], kind: str) -> Lag:
    names = [f"{kind} {bound}" for bound in LAG_BOUNDS_MS] + [f"{kind} inf"]
    return Lag(tuple(counts.get(name, 0) for name in names), counts.get(f"{kind} sum", 0))

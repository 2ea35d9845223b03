"""What a site counted: in all, and by the minute, the quarter of an hour and the six hours.

The scripts count; the keys are in `sitemap_store.redis.keys`. A site's numbers are those of its partitions
together. All raise Unavailable when Redis is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from sitemap_store.redis.connection import translated
from sitemap_store.redis.keys import Keys
from sitemap_store.redis.store import Store

LAG_BOUNDS_MS = (
    *(10, 25, 50, 75, 100, 150, 200, 250, 300, 400, 500, 750),
    *(1000, 1500, 2000, 3000, 5000, 7500, 10000, 15000, 30000, 60000, 300000),
)
"""The upper bounds of the lag histograms; `LAGS` in record.lua is the same list."""


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


def refused_in(store: Store, now: int, span: Span) -> int:
    """How many events were refused in the steps of a span, the running one included."""
    last = now // span.step_ms
    with translated(), store.client.pipeline(transaction=False) as pipe:
        for number in range(last - span.slots + 1, last + 1):
            for partition in store.partitions:
                pipe.hget(span.key(partition.keys, number), "refused")
        return sum(int(count or 0) for count in pipe.execute())


def _counts(flat: Mapping[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(value) for name, value in flat.items()}


def _lag(counts: Mapping[str, int], kind: str) -> Lag:
    names = [f"{kind} {bound}" for bound in LAG_BOUNDS_MS] + [f"{kind} inf"]
    return Lag(tuple(counts.get(name, 0) for name in names), counts.get(f"{kind} sum", 0))

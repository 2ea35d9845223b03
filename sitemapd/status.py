"""What `sitemapd status` reports of a site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sitemap_store.model.dates import format_instant
from sitemap_store.redis.browse import uncovered
from sitemap_store.redis.connection import translated
from sitemap_store.redis.counts import DAY, Lag, Slot, Totals, history, refused_in, totals
from sitemap_store.redis.directory import level
from sitemap_store.redis.observed import producers
from sitemap_store.redis.state import Partition
from sitemap_store.redis.store import Store

ALIVE_MS = 5000
LATE_MS = 60_000
"""A change that waits longer is a problem."""
SAMPLES = 64


class Counts(NamedTuple):
    """What a site counted, for who shows more of it than `report` does."""

    hour: tuple[Slot, ...]
    """The minutes of the last hour, the running one last."""
    lag: Lag
    """Of the last hour."""
    totals: Totals


def read_counts(store: Store, now: int) -> Counts:
    """Read the counts of a site; `now` is in epoch milliseconds."""
    return Counts(*history(store, now), totals(store))


def report(store: Store, command: str = "sitemapd", counts: Counts | None = None) -> dict[str, Any]:
    """Read the state of one site; docs/json.md has the fields, under `status`.

    `command` begins a command line about the site. `counts` are those that the caller has read already.
    """
    now = store.now()
    counts = counts or read_counts(store, now)
    sections: dict[str, dict[str, Any]] = {}
    total = {"due_shards": 0, "unfolded_events": 0, "refused": 0, "waiting_ms": 0}
    last, workers, aside = 0, set(), dict[str, str]()
    differed = dict.fromkeys(("gone", "altered", "strange", "newer"), 0)
    for partition in store.partitions:
        keys = partition.keys
        with translated(), store.client.pipeline(transaction=False) as pipe:
            pipe.smembers(keys.sections())
            pipe.zcard(keys.due())
            pipe.hget(keys.state(), "logged")
            pipe.hmget(keys.stats(), "refused", "published")
            pipe.zrangebyscore(keys.workers(), now - ALIVE_MS, "+inf")
            pipe.zrange(keys.pending(), 0, 0, withscores=True)
            pipe.hmget(keys.stats(), [f"found_{kind}" for kind in differed])
            names, due, logged, (refused, published), alive, pending, found = pipe.execute()
        for kind, count in zip(differed, found, strict=True):
            differed[kind] += int(count or 0)
        aside |= _aside(partition)
        total["due_shards"] += due
        total["unfolded_events"] += int(logged or 0)
        total["refused"] += int(refused or 0)
        if pending:
            total["waiting_ms"] = max(total["waiting_ms"], now - int(pending[0][1]))
        last = max(last, int(published or 0))
        workers.update(alive)
        for name in sorted(names):
            with translated():
                row = store.client.hgetall(keys.section(name.decode()))
            section = sections.setdefault(
                name.decode(), {"urls": 0, "shards": 0, "bytes": 0, "last_published": None}
            )
            for field in ("urls", "shards", "bytes"):
                section[field] += int(row.get(field.encode(), 0))
            if moment := int(row.get(b"published", 0)):
                text = format_instant(moment, always_milliseconds=True)
                section["last_published"] = max(section["last_published"] or "", text)
    for section in sections.values():
        seats = section["shards"] * store.site.shard_size
        section["fill"] = round(section["urls"] / seats, 3) if seats else None
    urls = sum(section["urls"] for section in sections.values())
    lag = counts.lag
    outside, examples = uncovered(store)
    return {
        "urls": urls,
        "shards": sum(section["shards"] for section in sections.values()),
        **total,
        "refused_day": refused_in(store, now, DAY),
        "last_published": format_instant(last, always_milliseconds=True) if last else None,
        "workers": len(workers),
        "aside": dict(sorted(aside.items())),
        "differed": differed,
        "uncovered": {
            "urls": outside,
            "examples": examples,
            "command": f"{command} sync --leave-scope",
        },
        "lag_ms": {"p50": _whole(lag.quantile(0.5)), "p99": _whole(lag.quantile(0.99))},
        "refusals": dict(sorted(counts.totals.refusals.items())),
        "producers": {name: _seen(how) for name, how in producers(store).items()},
        "redis_bytes_per_url": _bytes_per_url(store, urls),
        "sections": dict(sorted(sections.items())),
    }


class Problem(NamedTuple):
    """Something that an operator must mend."""

    what: str
    """What is wrong, in one or two words and the name of it."""
    detail: str
    command: str
    """What mends it, or shows more."""

    @property
    def sentence(self) -> str:
        """Both in one line."""
        return f"{self.detail} Run: `{self.command}`"


def problems(
    report: Mapping[str, Any], held: Mapping[str, Mapping[str, Any]], command: str
) -> Iterator[Problem]:
    """What is wrong with a site by its `report`, the worst first; `held` is `sitemapd.held.held_report`."""
    if report["workers"] and report["waiting_ms"] > LATE_MS:
        wait = report["waiting_ms"] / 60_000
        detail = f"The oldest change has waited for {wait:,.0f} min to be published."
        yield Problem("changes", detail, f"{command} doctor")
    yield from stuck(report, held, command)
    for source, how in report["producers"].items():
        if how.get("problem"):
            detail = f"The source {source} failed: {how['problem']}"
            yield Problem(f"source {source}", detail, f"{command} doctor")
    if (left := report["uncovered"])["urls"]:
        detail = (
            f"The site's settings no longer cover {left['urls']:,} published URLs, such as "
            f"{', '.join(left['examples'])}."
        )
        yield Problem("settings", detail, left["command"])
    if report["refused_day"]:
        detail = f"{report['refused_day']:,} events were refused in the last 24 hours."
        yield Problem("refused events", detail, f"{command} rejected")


def stuck(
    report: Mapping[str, Any], held: Mapping[str, Mapping[str, Any]], command: str
) -> Iterator[Problem]:
    """The problems that stay until somebody acts: no worker, deletes that are held back, files put aside."""
    if not report["workers"]:
        detail = "No worker was seen in the last 5 seconds: nothing is published until one runs."
        yield Problem("workers", detail, f"{command} worker")
    for source, row in held.items():
        detail = f"{row['sentence']} If that is meant, accept it."
        yield Problem(f"deletes of {source}", detail, row["command"])
    for file, reason in report["aside"].items():
        detail = (
            f"{file} can't be rendered and is put aside: {reason}. Delete the URL that is named, or update "
            "sitemapd, then rebuild."
        )
        yield Problem(file, detail, f"{command} rebuild")


def _aside(partition: Partition) -> dict[str, str]:
    """Files that can't be rendered, and why."""
    reasons = partition.aside()
    return {member.file: reasons[member.member] for member in partition.members(list(reasons))}


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _seen(how: dict[str, Any]) -> dict[str, Any]:
    return {**how, "seen": format_instant(how["seen"], always_milliseconds=True)}


def _bytes_per_url(store: Store, urls: int) -> float | None:
    """An estimate from a sample of the shards and directory buckets, on top of the small keys."""
    if not urls:
        return None
    client, total = store.client, 0.0
    for partition in store.partitions:
        keys = partition.keys
        with translated():
            buckets = int(client.hget(keys.state(), "buckets") or 1)
            shards = client.zcard(keys.shards())
            step = max(1, shards // SAMPLES)
            with client.pipeline(transaction=False) as pipe:
                for place in range(0, shards, step):
                    pipe.zrange(keys.shards(), place, place)
                ids = [row[0].decode() for row in pipe.execute() if row]
            each = [key for s in ids for key in (keys.shard(s), keys.snapshot(s), keys.log(s))]
            total += _memory(store, each) * shards / max(1, len(ids))
            size, divided = level(buckets)
            some = range(0, size, max(1, size // SAMPLES))
            places = [b + k * size for b in some for k in range(4 if b < divided else 1)]
            total += _memory(store, [keys.directory(b) for b in places]) * size / len(some)
            total += _memory(
                store, [keys.shards(), keys.due(), keys.pending(), keys.scheduled(), keys.listing(1)]
            )
    return round(total / urls, 1)


def _memory(store: Store, keys: list[str]) -> int:
    with store.client.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.memory_usage(key)
        return sum(size or 0 for size in pipe.execute())

"""The metrics for Prometheus: a collector that reads Redis at each scrape. docs/operations.md explains them.

Counters are the state's own, so a restart of this process resets none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from sitemap_store.errors import SitemapdError
from sitemap_store.redis.counts import LAG_BOUNDS_MS, Lag
from sitemap_store.redis.observed import Server
from sitemapd.web.display import millis
from sitemapd.web.views import View, Views

_SITE = ("site",)
_SECTION = ("site", "section")
_PRODUCER = ("site", "source")


class StateCollector(Collector):
    """The metrics of some sites; without `views` Redis counts as away."""

    def __init__(self, views: Views | None, sites: Iterable[str]) -> None:
        self._views = views
        self._sites = sorted(sites)

    def collect(self) -> Iterator[Metric]:
        """Read everything. With Redis away `sitemapd_redis_up` is 0, and nothing else is said."""
        up = GaugeMetricFamily("sitemapd_redis_up", "Whether the state's Redis answers.")
        if self._views is None:
            up.add_metric([], 0)
            yield up
            return
        try:
            views, server = [self._views.site(name) for name in self._sites], self._views.server()
        except SitemapdError:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        yield from _of_server(server)
        yield from _of_events(views)
        yield from _of_publishing(views)
        yield from _of_state(views)
        yield from _of_producers(views)


def _of_server(server: Server) -> Iterator[Metric]:
    yield _gauge("redis_used_bytes", "Memory that the state's Redis uses.", (), {(): server.used_bytes})
    yield _gauge("redis_max_bytes", "Its maxmemory; 0 is no bound.", (), {(): server.max_bytes})
    yield _gauge(
        "redis_safe",
        "Whether Redis stores data safely: noeviction, an append-only file, the last write succeeded.",
        (),
        {(): int(server.safe)},
    )


def _of_events(views: list[View]) -> Iterator[Metric]:
    events = CounterMetricFamily(
        "sitemapd_events",
        "Events by op, source and result; a refused one has no op.",
        labels=("site", "op", "source", "result"),
    )
    refused = CounterMetricFamily("sitemapd_refused", "Refused events by rule.", labels=("site", "rule"))
    for view in views:
        for (op, source), count in sorted(view.totals.accepted.items()):
            events.add_metric([view.name, op, source, "accepted"], count)
        for source, count in sorted(view.totals.refused.items()):
            events.add_metric([view.name, "", source, "refused"], count)
        for rule, count in sorted(view.totals.refusals.items()):
            refused.add_metric([view.name, rule], count)
    yield events
    yield refused


def _of_publishing(views: list[View]) -> Iterator[Metric]:
    lag = HistogramMetricFamily(
        "sitemapd_publish_lag_seconds",
        "How long the oldest event of a rewrite waited until the file was published.",
        labels=("site", "file"),
    )
    for view in views:
        for file, measured in sorted(view.totals.lag.items()):
            lag.add_metric([view.name, file], _buckets(measured), measured.total_ms / 1000)
    yield lag
    yield _counter(
        "shards_rewritten", "Shards whose file a worker changed, added or removed.", views, "rewrites"
    )
    yield _counter("index_rewritten", "Index files rewritten.", views, "index_rewrites")
    yield _counter("written_bytes", "Bytes written to the output.", views, "bytes")
    leases = CounterMetricFamily(
        "sitemapd_leases_taken_back",
        "Leases taken from workers that died, or that did not renew them in time.",
        labels=("site", "reason"),
    )
    for view in views:
        for reason, field in (("dead", "released"), ("expired", "expired")):
            leases.add_metric([view.name, reason], view.totals.stats.get(field, 0))
    yield leases
    differed = CounterMetricFamily(
        "sitemapd_output_differed",
        "Files in the output that differed and were replaced: gone, altered, strange (no shard has them), "
        "newer (than a Redis that lost its last changes).",
        labels=("site", "found"),
    )
    for view in views:
        for found, count in view.report["differed"].items():
            differed.add_metric([view.name, found], count)
    yield differed


def _of_state(views: list[View]) -> Iterator[Metric]:
    for name, said, field in (
        ("due_shards", "Shards and index files that wait for a rewrite.", "due_shards"),
        ("unfolded_events", "Events that are stored and not yet folded.", "unfolded_events"),
        ("workers", "Worker processes seen in the last 5 seconds.", "workers"),
    ):
        yield _gauge(name, said, _SITE, {(view.name,): view.report[field] for view in views})
    yield _gauge(
        "put_aside",
        "Files that the workers cannot render and that are put aside; `sitemapd doctor` names them.",
        _SITE,
        {(view.name,): len(view.report["aside"]) for view in views},
    )
    yield _gauge(
        "waiting_seconds",
        "How long the oldest unpublished change has waited; 0 if none waits.",
        _SITE,
        {(view.name,): view.report["waiting_ms"] / 1000 for view in views},
    )
    yield _gauge(
        "last_published_timestamp_seconds",
        "When a worker last published a file.",
        _SITE,
        {
            (view.name,): millis(moment) / 1000
            for view in views
            if (moment := view.report["last_published"]) is not None
        },
    )
    for name, said, field in (
        ("urls", "URLs that are listed.", "urls"),
        ("shards", "Shards.", "shards"),
        ("shard_bytes", "Bytes of the shards' files, before gzip.", "bytes"),
        ("shard_fill_ratio", "Share of the shards' seats that entries take.", "fill"),
    ):
        yield _gauge(
            name,
            said,
            _SECTION,
            {
                (view.name, section): row[field]
                for view in views
                for section, row in view.report["sections"].items()
                if row[field] is not None
            },
        )


def _of_producers(views: list[View]) -> Iterator[Metric]:
    rows = [((view.name, each.source), each) for view in views for each in view.producers]
    yield _gauge(
        "producer_up",
        "Whether a watcher or relay runs, reported lately and has no problem.",
        ("site", "source", "kind"),
        {(*place, each.kind): int(each.fine) for place, each in rows},
    )
    overflows = CounterMetricFamily(
        "sitemapd_watcher_overflows",
        "How often a watcher lost file events and scanned its folder again, since its start.",
        labels=_PRODUCER,
    )
    for place, each in rows:
        if each.kind == "watch":
            overflows.add_metric(place, each.facts.get("overflows", 0))
    yield overflows
    for name, said, kind, field in (
        ("watcher_held_deletes", "Deletes held back by the guard.", "watch", "held_deletes"),
        (
            "watcher_waiting_paths",
            "Paths that changed and that the watcher has not read yet.",
            "watch",
            "waiting",
        ),
        ("outbox_rows", "Rows in a database's outbox.", "relay", "lag_rows"),
        ("outbox_lag_seconds", "Age of the oldest row in a database's outbox.", "relay", "lag_seconds"),
    ):
        yield _gauge(
            name,
            said,
            _PRODUCER,
            {
                place: value
                for place, each in rows
                if each.kind == kind and isinstance(value := each.facts.get(field), int | float)
            },
        )


def _counter(name: str, said: str, views: list[View], field: str) -> Metric:
    family = CounterMetricFamily(f"sitemapd_{name}", said, labels=_SITE)
    for view in views:
        family.add_metric([view.name], view.totals.stats.get(field, 0))
    return family


def _gauge(name: str, said: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]) -> Metric:
    family = GaugeMetricFamily(f"sitemapd_{name}", said, labels=labels)
    for place, value in values.items():
        family.add_metric(place, value)
    return family


def _buckets(lag: Lag) -> list[tuple[str, float]]:
    sums, total = [], 0
    for count, bound in zip(lag.counts, (*LAG_BOUNDS_MS, None), strict=True):
        total += count
        sums.append(("+Inf" if bound is None else str(bound / 1000), float(total)))
    return sums

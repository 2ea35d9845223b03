"""The metrics: each counts what it says; docs/operations.md, the alerts and the dashboard know them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml
from prometheus_client.parser import text_string_to_metric_families

from sitemap_store.errors import Refused
from sitemap_store.model.events import Event
from sitemap_store.redis.counts import LAG_BOUNDS_MS
from sitemap_store.redis.observed import note_producer
from tests import markdown
from tests.integration.web_site import Web, add, publish, served_site, serving
from tests.markdown import ROOT
from tests.world import BASE, World, make_site

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def world(redis_url: str, tmp_path: Path) -> Iterator[World]:
    """Give an empty site by the server's own clock."""
    with redis.Redis.from_url(redis_url) as client:
        world = World(client, make_site(shard_size=3), tmp_path)
        world.now = world.store.now()
        yield world


@pytest.fixture
def web(world: World) -> Iterator[Web]:
    """Give its server."""
    with serving({"shop": served_site(world)}) as web:
        yield web


def scraped(web: Web) -> Samples:
    """Name and labels → value of every sample."""
    answer = web.ask("/metrics")
    assert answer.status == 200
    return {
        (sample.name, frozenset((k, v) for k, v in sample.labels.items() if k != "site")): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(samples: Samples, metric: str, **labels: str) -> float:
    """One sample's value."""
    return samples[f"sitemapd_{metric}", frozenset(labels.items())]


def test_events_are_counted_by_op_source_and_result(world: World, web: Web) -> None:
    """Accepted events count by op and source, refused ones by source and by rule."""
    world.store.append(
        [
            add("a", "cms"),
            add("b", "cms"),
            add("c"),
            Event("update", f"{BASE}a", "2026-04-01", source="cms"),
            Event("delete", f"{BASE}b", urgent=True),
        ]
    )
    world.store.reject(
        [(Refused(loc="x", rule="scheme", detail="No."), "cms")] * 2
        + [(Refused(loc="y", rule="host", detail="No."), "")]
    )
    samples = scraped(web)
    assert value(samples, "events_total", op="add", source="cms", result="accepted") == 2
    assert value(samples, "events_total", op="add", source="", result="accepted") == 1
    assert value(samples, "events_total", op="update", source="cms", result="accepted") == 1
    assert value(samples, "events_total", op="delete", source="", result="accepted") == 1
    assert value(samples, "events_total", op="", source="cms", result="refused") == 2
    assert value(samples, "events_total", op="", source="", result="refused") == 1
    assert value(samples, "refused_total", rule="scheme") == 2
    assert value(samples, "refused_total", rule="host") == 1
    assert value(samples, "unfolded_events") == 5
    assert value(samples, "due_shards") == 1
    assert value(samples, "waiting_seconds") >= 0


def test_sources_are_bounded(world: World) -> None:
    """Beyond a thousand kinds of source and op, further sources are counted together."""
    world.store.append([add(f"p{n}", f"source-{n}") for n in range(1100)])
    counts: dict[Any, Any] = world.client.hgetall("sm:{shop.0}:events")
    assert 1000 <= len(counts) <= 1001
    assert sum(map(int, counts.values())) == 1100
    assert int(counts[b"add *"]) >= 99


def test_publishing_is_counted(world: World, web: Web) -> None:
    """Rewrites, index rewrites and bytes count what was written; the same bytes again count nothing."""
    publish(world, *(add(f"page-{n}") for n in range(4)))
    samples = scraped(web)
    written = sum(path.stat().st_size for path in world.folder.glob("sitemap-pages-*.xml"))
    index = (world.folder / "sitemap.xml").stat().st_size
    assert value(samples, "shards_rewritten_total") == 2
    assert value(samples, "index_rewritten_total") >= 1
    assert written + index <= value(samples, "written_bytes_total") <= written + 2 * index
    assert value(samples, "urls", section="pages") == 4
    assert value(samples, "shards", section="pages") == 2
    assert value(samples, "shard_bytes", section="pages") == written
    assert value(samples, "last_published_timestamp_seconds") > 1_700_000_000
    publish(world, add("page-1"))
    assert value(scraped(web), "shards_rewritten_total") == 2


def test_lag_is_measured_from_the_oldest_event(world: World, web: Web) -> None:
    """A change that waited 4 s counts between 3 and 5 s, for its shard and for the index."""
    world.store.append([add("page")])
    world.now += 4000
    world.settle()
    samples = scraped(web)
    for file in ("shard", "index"):
        assert value(samples, "publish_lag_seconds_bucket", file=file, le="3.0") == 0
        assert value(samples, "publish_lag_seconds_bucket", file=file, le="5.0") == 1
        assert value(samples, "publish_lag_seconds_bucket", file=file, le="+Inf") == 1
        assert value(samples, "publish_lag_seconds_count", file=file) == 1
        assert 4 <= value(samples, "publish_lag_seconds_sum", file=file) < 5


def test_leases_taken_back_are_counted(world: World, web: Web) -> None:
    """A dead worker's lease counts as dead, one that ran out and was taken over as expired."""
    (partition,) = world.store.partitions
    world.store.append([add("page")])
    assert partition.claim(1, "dead") is not None
    world.release("dead")
    assert partition.claim(1, "slow") is not None
    world.now += 120_000
    assert partition.claim(1, "quick") is not None
    samples = scraped(web)
    assert value(samples, "leases_taken_back_total", reason="dead") == 1
    assert value(samples, "leases_taken_back_total", reason="expired") == 1


def test_redis_is_measured(world: World, web: Web) -> None:
    """The server's memory, its bound, and whether it keeps what it is told."""
    samples = scraped(web)
    assert value(samples, "redis_up") == 1
    assert value(samples, "redis_used_bytes") > 100_000
    assert value(samples, "redis_max_bytes") == 0
    assert value(samples, "redis_safe") == 1


def test_an_unsafe_redis_shows(world: World, web: Web) -> None:
    """With another eviction policy redis_safe is 0, and the page says what to do."""
    world.client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        assert value(scraped(web), "redis_safe") == 0
        assert "set it to noeviction" in web.page().text
    finally:
        world.client.config_set("maxmemory-policy", "noeviction")


def test_watchers_and_relays_are_measured(world: World, web: Web) -> None:
    """What a watcher or relay reports shows under its source; one with a problem is not up."""
    watch = {"state": "watching", "problem": None, "overflows": 3, "held_deletes": 7, "waiting": 2}
    note_producer(world.store, "pages", {"kind": "watch", **watch})
    relay = {"kind": "relay", "state": "running", "problem": None, "lag_rows": 12, "lag_seconds": 1.5}
    note_producer(world.store, "rows", relay)
    note_producer(world.store, "docs", {"kind": "watch", "state": "waiting", "problem": "the folder is gone"})
    samples = scraped(web)
    assert value(samples, "producer_up", source="rows", kind="relay") == 1
    assert value(samples, "producer_up", source="docs", kind="watch") == 0
    assert value(samples, "producer_up", source="pages", kind="watch") == 0, "held deletes wait for somebody"
    assert value(samples, "watcher_overflows_total", source="pages") == 3
    assert value(samples, "watcher_held_deletes", source="pages") == 7
    assert value(samples, "watcher_waiting_paths", source="pages") == 2
    assert value(samples, "outbox_rows", source="rows") == 12
    assert value(samples, "outbox_lag_seconds", source="rows") == 1.5


def test_a_producer_that_fell_silent_is_not_up(world: World, web: Web) -> None:
    """One that has not been heard of for half a minute counts as down, and after a week it is forgotten."""
    note_producer(world.store, "pages", {"kind": "watch", "state": "watching", "problem": None})
    key = "sm:{shop.0}:producers"
    how = json.loads(world.client.hget(key, "pages") or b"")
    world.client.hset(key, "pages", json.dumps({**how, "seen": how["seen"] - 31_000}))
    assert value(scraped(web), "producer_up", source="pages", kind="watch") == 0
    world.client.hset(key, "pages", json.dumps({**how, "seen": how["seen"] - 8 * 24 * 3_600_000}))
    note_producer(world.store, "other", {"kind": "watch", "state": "watching"})
    assert world.client.hkeys(key) == [b"other"]


def test_workers_are_counted(world: World, web: Web) -> None:
    """Workers that were seen in the last seconds count."""
    (partition,) = world.store.partitions
    partition.beat(["host.1", "host.2"])
    assert value(scraped(web), "workers") == 2


def test_openmetrics_is_spoken(world: World, web: Web) -> None:
    """A scraper that asks for OpenMetrics gets it."""
    publish(world, add("page"))
    answer = web.ask("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
    assert "# TYPE sitemapd_events counter" in answer.text


def test_the_script_has_the_same_bounds() -> None:
    """The list of bounds in record.lua is the one that the readers use."""
    lua = (ROOT / "sitemap_store" / "redis" / "scripts" / "record.lua").read_text("utf-8")
    found = re.search(r"LAGS = \{([\d,\s]+)\}", lua)
    assert found is not None
    assert tuple(map(int, found[1].split(","))) == LAG_BOUNDS_MS


def test_minutes_expire(world: World) -> None:
    """What is kept for the last hour goes by itself."""
    publish(world, add("page"))
    names = world.client.keys("sm:{shop.0}:min:*")
    assert names
    for name in names:
        assert 3_600_000 < world.client.pttl(name) <= 3_900_000


def documented() -> dict[str, tuple[str, str]]:
    """Metric → type and labels, as docs/operations.md lists them."""
    rows = markdown.table(markdown.doc("operations.md"), "metric")
    return {markdown.plain(row[0]): (row[1], markdown.plain(row[2])) for row in rows}


def test_every_metric_is_documented(world: World, web: Web) -> None:
    """docs/operations.md lists exactly the metrics that there are, with type and labels."""
    publish(world, add("page", "cms"))
    world.store.reject([(Refused(loc="x", rule="scheme", detail="No."), "cms")])
    facts = {"problem": None, "state": "x", "overflows": 1, "held_deletes": 0, "waiting": 0}
    note_producer(world.store, "pages", {"kind": "watch", **facts})
    note_producer(world.store, "rows", {"kind": "relay", **facts, "lag_rows": 1, "lag_seconds": 2})
    found = {}
    for family in text_string_to_metric_families(web.ask("/metrics").text):
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = (family.type, ", ".join(sorted(labels)))
    assert found == {
        name: (kind, ", ".join(sorted(filter(None, labels.split(", ")))))
        for name, (kind, labels) in documented().items()
    }


def expressions() -> Iterator[tuple[str, str]]:
    """Give each expression of the example rules and of the dashboard, with where it stands."""
    rules: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "prometheus-alerts.yml").read_text("utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    dashboard = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text("utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def test_examples_use_metrics_that_exist() -> None:
    """Every sitemapd metric in the alert rules and the dashboard is documented, and most are used."""
    known = set(documented())
    used: set[str] = set()
    for place, expression in expressions():
        names = set(re.findall(r"\bsitemapd_\w+", expression))
        assert names, place
        for name in names:
            base = re.sub(r"_(?:bucket|count|sum)$", "", name)
            assert name in known or base in known, (place, name)
            used.add(name if name in known else base)
    assert len(used) >= len(known) * 0.7, known - used


def test_alerts_say_what_to_do() -> None:
    """Each alert has a wait, a severity, a summary and a description."""
    rules: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "prometheus-alerts.yml").read_text("utf-8"))
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        assert rule["for"]
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"].endswith(".")


def test_the_dashboard_is_whole() -> None:
    """Panels have ids of their own, lie within the grid and do not overlap."""
    dashboard = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text("utf-8"))
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        squares = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert all(x < 24 for x, _ in squares)
        assert not taken & squares, panel["title"]
        taken |= squares

"""A site with a past: shards that changed at many times, an hour of events, refusals, a watcher, a relay."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import redis

from sitemap_store.errors import Refused
from sitemap_store.model.events import Event
from sitemap_store.redis.observed import note_producer
from tests.world import BASE, World, make_site

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
SECTIONS = {"products": "/products/**", "blog": "/blog/**", "help": "/help/**"}


def busy_site(client: redis.Redis, folder: Path, *, products: int = 3000, shard_size: int = 20) -> World:
    """Make it, its last event a few seconds ago."""
    dice = random.Random(5)
    site = make_site(sections=SECTIONS, shard_size=shard_size, min_interval=0.0, name="shop")
    world = World(client, site, folder)
    end = world.store.now()
    made = 0
    for ago, share in ((40 * DAY, 0.7), (5 * DAY, 0.15), (9 * HOUR, 0.08), (66 * MINUTE, 0.07)):
        world.now = end - ago
        count = round(products * share)
        _append(world, [_add(f"products/item-{n}", "catalogue") for n in range(made, made + count)])
        _append(world, [_add(f"blog/{n}", "pages") for n in range(made // 12, (made + count) // 12)])
        _append(world, [_add(f"help/{n}", "pages") for n in range(made // 30, (made + count) // 30)])
        made += count
        world.settle()
    for minute in range(58, -1, -1):
        world.now = end - minute * MINUTE - 8_000
        recent = [made - 1 - min(made - 1, int(dice.expovariate(0.02))) for _ in range(dice.randint(1, 14))]
        _append(world, [_update(f"products/item-{n}", minute) for n in recent])
        if minute % 7 == 0:
            _append(world, [_add(f"blog/new-{minute}", "pages")])
        world.now += dice.randint(20, 900)
        world.settle()
    world.now = end - 5 * MINUTE
    other = "https://shop.other.example/x"
    refused = (
        ("/tea", "not-absolute", "'/tea' is not absolute; write it from https:// on.", "cms"),
        (other, "location", f"'{other}' lies outside {BASE}.", "cms"),
        (f"{BASE}a", "lastmod", "'2026-02-29' is a date that no calendar has.", "catalogue"),
    )
    world.store.reject(
        [(Refused(loc=loc, rule=rule, detail=detail), source) for loc, rule, detail, source in refused]
    )
    well = {"state": "watching", "problem": None}
    note_producer(world.store, "pages", {"kind": "watch", **well, "files": 812, "urls": 790, "overflows": 0})
    note_producer(world.store, "catalogue", {"kind": "relay", **well, "lag_rows": 3, "lag_seconds": 0.4})
    for partition in world.store.partitions:
        partition.client.zadd(partition.keys.workers(), {"host.1": end + DAY, "host.2": end + DAY})
    world.now = 0  # Redis' own clock from here on
    return world


def publish_now(world: World, *events: Event) -> None:
    """Append events and publish them by Redis' own clock."""
    world.now = world.store.now()
    _append(world, events)
    world.settle()
    world.now = 0


def _append(world: World, events: Sequence[Event]) -> None:
    for wake in world.store.append(events):
        world.enqueue(wake)


def _add(path: str, source: str) -> Event:
    return Event("add", BASE + path, "2026-03-21", source=source)


def _update(path: str, minute: int) -> Event:
    return Event("update", BASE + path, f"2026-11-{1 + minute % 28:02}", source="catalogue")

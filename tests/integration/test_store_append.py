"""Append: durable when it returns, all or nothing, one wake-up for many events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from sitemap_store.errors import Unavailable
from sitemap_store.model.events import Event, read_log
from sitemap_store.model.site import Site
from sitemap_store.redis.state import LOG_BYTES
from sitemap_store.redis.store import BATCH
from tests.integration.store_world import (
    add,
    consistent,
    delete,
    fields,
    files,
    once_at,
    push,
    scores,
    settled,
    update,
    work,
)
from tests.published import published
from tests.redis_server import RedisServer
from tests.world import BASE, START, World, make_site

MakeWorld = Callable[[Site], World]
ELEMENT = 256 * 1024


def test_an_event_wakes_its_shard_once(make_world: MakeWorld) -> None:
    """The first append returns the shard; while its job waits, more events for it wake nothing."""
    world = make_world(make_site())
    assert [wake.members for wake in world.store.append([add("a")])] == [("1",)]
    world.now += 500
    assert world.store.append([add("b"), add("a")]) == []
    assert scores(world, "due") == {"1": START}
    assert scores(world, "pending") == {"1": START}, "since when something waits is the first event's time"
    assert world.store.unfolded() == 3


def test_a_thousand_events_for_one_shard_cost_one_rewrite(make_world: MakeWorld) -> None:
    """However many they are, they are folded together."""
    world = make_world(make_site(shard_size=1000))
    for n in range(1000):
        push(world, add(f"p{n % 100}", priority=f"0.{n % 10}"))
    assert work(world) == 2  # the shard, and the index
    assert len(published(world.folder)) == 100
    assert fields(world, "stats")["rewrites"] == "1"


def test_the_order_of_one_urls_events_is_kept(make_world: MakeWorld) -> None:
    """Whatever sections, shards and batches lie between them."""
    world = make_world(make_site(sections={"blog": "/blog/**"}, shard_size=50))
    events = []
    for n in range(2 * BATCH):
        events.append(add(f"blog/{n % 7}", priority=f"0.{n % 10}"))
        events.append(delete(f"p{n % 11}") if n % 3 else add(f"p{n % 11}", priority="0.1"))
    push(world, *events)
    expected: dict[str, str] = {}
    for event in events:
        if event.op == "delete":
            expected.pop(event.loc, None)
        else:
            expected[event.loc] = event.priority or ""
    world.settle()
    assert {loc: row[2] for loc, row in published(world.folder).items()} == expected
    consistent(world)


@pytest.mark.parametrize("count", [1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH])
def test_batches_lose_nothing_at_their_edges(make_world: MakeWorld, count: int) -> None:
    """One less, just as many and one more than one script call takes."""
    world = make_world(make_site(shard_size=200))
    push(world, *(add(f"p{n}") for n in range(count)))
    settled(world, *(f"p{n}" for n in range(count)))


def test_an_append_outlives_a_kill_of_redis(any_redis: RedisServer, make_world: MakeWorld) -> None:
    """I1: what append returned for is there after kill -9 of the server.

    With `everysec` a server that still syncs holds writes back for up to 2 s (docs/reliability.md).
    """
    world = make_world(make_site())
    world.client.config_set("appendfsync", "always")
    push(world, add("a"), add("b"))
    any_redis.restart(kill=True)
    world.client.connection_pool.disconnect()
    world.client.config_set("appendfsync", "always")
    push(world, delete("b"))
    any_redis.restart(kill=True)
    world.client.connection_pool.disconnect()
    settled(world, "a")


def test_a_full_redis_says_so_and_takes_nothing(make_world: MakeWorld) -> None:
    """All or nothing: a refused append leaves no trace, and later ones work."""
    world = make_world(make_site())
    push(world, add("a"))
    before = {key: world.client.dump(key) for key in world.client.scan_iter()}
    world.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(Unavailable, match=r"is full.*noeviction"):
            push(world, add("b"), delete("a"))
    finally:
        world.client.config_set("maxmemory", 0)
    assert {key: world.client.dump(key) for key in world.client.scan_iter()} == before
    push(world, add("c"))
    settled(world, "a", "c")


def test_a_redis_that_is_away_is_unavailable(any_redis: RedisServer, make_world: MakeWorld) -> None:
    """One error of ours, with a sentence; when Redis is back, the next append works."""
    world = make_world(make_site())
    any_redis.stop()
    try:
        with pytest.raises(Unavailable, match="can't be reached"):
            push(world, add("a"))
    finally:
        any_redis.start()
    push(world, add("b"))
    settled(world, "b")


def test_scripts_that_the_server_forgot_are_sent_again(make_world: MakeWorld) -> None:
    """A restarted or flushed script cache costs a round trip and no event."""
    world = make_world(make_site())
    push(world, add("a"))
    world.client.script_flush()
    push(world, add("b"))
    settled(world, "a", "b")


def test_a_bulk_load_waits_a_little(make_world: MakeWorld) -> None:
    """With a delay nothing is woken yet; the keeper does it when the time has come."""
    world = make_world(make_site())
    assert world.store.append([add("a")], delay_ms=150) == []
    world.keep()
    assert not world.jobs
    world.now += 150
    world.keep()
    assert list(world.jobs) == [(0, "1")]
    assert work(world) == 2


def test_a_later_event_without_delay_does_not_wait_for_the_bulk(make_world: MakeWorld) -> None:
    """The nearest time counts."""
    world = make_world(make_site())
    push(world, add("a"), delay_ms=150)
    push(world, add("b"))
    assert list(world.jobs) == [(0, "1")]


def test_events_that_come_during_a_rewrite_are_not_lost(make_world: MakeWorld) -> None:
    """Appended between claim and commit, they stay in the log and are published next."""
    world = make_world(make_site())
    push(world, add("a", priority="0.1"), add("b"))
    once_at(world, "claimed", lambda: push(world, update("a", priority="0.9"), delete("b"), add("c")))
    work(world)
    assert files(world) == {"sitemap-pages-1.xml": ["a", "c"]}
    settled(world, "a", "c")
    assert published(world.folder)[BASE + "a"] == (None, None, "0.9")
    consistent(world)


def test_a_producer_that_dies_before_it_enqueues_delays_and_loses_nothing(make_world: MakeWorld) -> None:
    """The wake-up is lost, the shard is due: the keeper finds it after a second."""
    world = make_world(make_site())
    world.store.append([add("a")])
    world.keep()
    assert not world.jobs
    world.now += 1000
    world.keep()
    assert list(world.jobs) == [(0, "1")]
    work(world)
    assert published(world.folder).keys() == {BASE + "a"}


def test_waiting_for_an_append_is_waiting_for_its_events(make_world: MakeWorld) -> None:
    """`unsettled` counts what was appended by a time, and not what came after it."""
    world = make_world(make_site(shard_size=1))
    push(world, add("a"))
    until = world.now
    world.now += 1
    push(world, add("b"))
    assert (
        world.store.unsettled(until - 1),
        world.store.unsettled(until),
        world.store.unsettled(world.now),
    ) == (*(0, 1, 2),)
    first, _ = world.jobs
    world.run(world.worker("w1"), *first)
    assert world.store.unsettled(until) == 1, "its index is not published yet"
    world.run(world.worker("w1"), 0, "i1")
    assert world.store.unsettled(until) == 0
    assert world.store.unsettled(world.now) == 1


def test_the_keeper_finds_a_lease_that_ran_out(make_world: MakeWorld) -> None:
    """Even when nothing else says that the shard is due."""
    world = make_world(make_site())
    push(world, add("a"))
    world.jobs.clear()
    part = world.store.partitions[0]
    assert part.claim(1, "vanished") is not None
    world.client.zrem(part.keys.due(), "1")
    world.now += 60_000
    world.keep()
    assert list(world.jobs) == [(0, "1")]
    settled(world, "a")


def test_the_keeper_enqueues_no_job_twice(make_world: MakeWorld) -> None:
    """Several keepers may run: what one takes, the others leave."""
    world = make_world(make_site())
    world.store.append([add("a")], delay_ms=10)
    world.now += 10
    for _ in range(3):
        world.keep()
    assert list(world.jobs) == [(0, "1")]


def test_counts_are_kept(make_world: MakeWorld, client: redis.Redis) -> None:
    """Adds, updates and deletes as they were accepted, duplicates too."""
    world = make_world(make_site())
    push(world, add("a"), add("a"), update("a"), delete("a"), delete("b", urgent=True))
    stats = fields(world, "stats")
    assert (stats["add"], stats["update"], stats["delete"]) == ("2", "1", "2")
    world.settle()
    assert world.store.unfolded() == 0


@pytest.mark.parametrize("restoring", [False, True])
def test_elements_are_cut_and_a_fold_is_bounded(make_world: MakeWorld, restoring: bool) -> None:
    """Whatever an append brings: no element is long, and no claim gives much more than the bound."""
    world = make_world(make_site(shard_size=1000))
    partition = world.store.partitions[0]
    if restoring:
        world.client.hset(partition.keys.state(), "restoring", "token")
    # An extension's room is what makes records long; 24 MB in all, one record longer than an element.
    sizes = [300_000, *(200_000 for _ in range(50)), *(1_000 for _ in range(14_000))]
    events = [Event("add", f"{BASE}p{n % 700}", ext=f"{n}{'x' * size}") for n, size in enumerate(sizes)]
    world.store.append(events)
    name = "held" if restoring else "log:1"
    elements: Any = world.client.lrange(f"{partition.keys.prefix}:{name}", 0, -1)
    assert max(map(len, elements)) < 300_100
    assert sum(len(element) > ELEMENT + 100 for element in elements) == 1, "the one long record, alone"
    assert [logged.event.ext for logged in read_log(elements)] == [event.ext for event in events]
    if not restoring:
        claim = partition.claim(1, "w")
        assert claim is not None
        assert LOG_BYTES <= sum(map(len, claim.log)) < LOG_BYTES + ELEMENT + 100_000

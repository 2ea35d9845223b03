"""When a shard is rewritten: three times at once, then once in `min_interval`; urgent deletes do not wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sitemap_store.model.site import Site
from tests.integration.store_world import add, consistent, delete, fields, once_at, push, scores, update, work
from tests.published import listed, shard_files, urls_of
from tests.world import BASE, START, World, make_site

MakeWorld = Callable[[Site], World]


def priorities(world: World) -> dict[str, str | None]:
    """Path → priority as the shard files say; the index has a pace of its own."""
    return {
        loc.removeprefix(BASE): priority
        for path in shard_files(world.folder)
        for loc, _lastmod, _changefreq, priority in urls_of(path)
    }


def keep_and_work(world: World) -> None:
    """What the workers do at this moment."""
    world.keep()
    work(world)


def burst(world: World) -> None:
    """Rewrite the first shard three times at this moment, with the URLs a, b1 and b2."""
    for path in ("a", "b1", "b2"):
        push(world, add(path))
        work(world)
    assert set(priorities(world)) == {"a", "b1", "b2"}


def test_the_first_events_are_published_at_once_and_the_next_ones_together(make_world: MakeWorld) -> None:
    """A burst of three at once and a trailing edge: four rewrites for a hundred events in a second."""
    world = make_world(make_site(min_interval=1.0))
    push(world, add("a", priority="0.0"))
    work(world)
    assert priorities(world) == {"a": "0.0"}
    for n in range(99):
        world.now += 9
        push(world, update("a", priority=f"0.{(n + 1) % 10}"))
        keep_and_work(world)
        assert priorities(world) == {"a": f"0.{min(n, 1) + 1}"}
    assert scores(world, "due")["1"] == START + 1000
    world.now = START + 999
    keep_and_work(world)
    assert priorities(world) == {"a": "0.2"}
    world.now = START + 1000
    keep_and_work(world)
    assert priorities(world) == {"a": "0.9"}
    assert fields(world, "stats")["rewrites"] == "4"


@pytest.mark.parametrize("pause", [80, 1000])
def test_an_index_file_rests_after_a_burst(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, pause: int
) -> None:
    """Three rewrites at once, then one in each pause; a clock that is set back delays none for long."""
    monkeypatch.setattr("worker.index.INDEX_SHARE", 1e9)
    monkeypatch.setattr("worker.index.INDEX_PAUSE_MAX_MS", pause)
    world = make_world(make_site(shard_size=1, min_interval=0.0))

    def lists(count: int) -> bool:
        push(world, add(f"p{world.now}-{count}"))
        keep_and_work(world)
        return len(listed(world.folder)) == count

    assert [lists(n) for n in range(1, 6)] == [True, True, True, False, False]
    world.now += pause - 1
    keep_and_work(world)
    assert len(listed(world.folder)) == 3
    world.now += 1
    keep_and_work(world)
    assert len(listed(world.folder)) == 5
    world.now += 3 * pause
    assert [lists(n) for n in range(6, 10)] == [True, True, True, False]
    world.now -= 3_600_000
    for count in (10, 11, 12):
        lists(count)
        world.now += 4 * pause
        keep_and_work(world)
        assert len(listed(world.folder)) == count


def test_a_job_that_comes_too_early_does_nothing(make_world: MakeWorld) -> None:
    """Delivered twice or late, a job can't make a shard be rewritten more often than it may."""
    world = make_world(make_site(min_interval=1.0, shard_size=10))
    burst(world)
    push(world, add("c"))
    world.now += 999
    assert world.run(world.worker("w1"), 0, "1") is False
    assert set(priorities(world)) == {"a", "b1", "b2"}
    world.now += 1
    assert world.run(world.worker("w1"), 0, "1") is True
    assert set(priorities(world)) == {"a", "b1", "b2", "c"}


def test_a_shard_that_changes_all_the_time_is_rewritten_once_an_interval(make_world: MakeWorld) -> None:
    """In the long run: the burst is not given again before the shard was quiet for as long."""
    world = make_world(make_site(min_interval=1.0))
    for n in range(200):
        push(world, update("a", lastmod=f"2026-03-21T00:{n // 60:02}:{n % 60:02}Z"))
        keep_and_work(world)
        world.now += 100
    assert int(fields(world, "stats")["rewrites"]) == 3 + 19
    world.now += 3000
    for n in range(3):
        push(world, update("a", priority=f"0.{n}", changefreq="daily"))
        keep_and_work(world)
        assert priorities(world) == {"a": f"0.{n}"}


def test_after_a_quiet_interval_an_event_is_published_at_once(make_world: MakeWorld) -> None:
    """The wait is between rewrites and not before each."""
    world = make_world(make_site(min_interval=1.0))
    push(world, add("a"))
    work(world)
    world.now += 1000
    push(world, add("b"))
    work(world)
    assert set(priorities(world)) == {"a", "b"}


@pytest.mark.parametrize("interval", [0.0, 0.25, 5.0, 3600.0])
def test_the_interval_is_the_sites(make_world: MakeWorld, interval: float) -> None:
    """From none to an hour, to the millisecond."""
    world = make_world(make_site(min_interval=interval, shard_size=10))
    burst(world)
    push(world, add("c"))
    if interval:
        world.now += round(interval * 1000) - 1
        keep_and_work(world)
        assert set(priorities(world)) == {"a", "b1", "b2"}
        world.now += 1
    keep_and_work(world)
    assert set(priorities(world)) == {"a", "b1", "b2", "c"}


def test_an_urgent_delete_skips_the_wait(make_world: MakeWorld) -> None:
    """It takes what waits for its shard along, and a plain delete does not."""
    world = make_world(make_site(min_interval=60.0))
    burst(world)
    push(world, update("a", priority="0.1"), delete("b1"))
    keep_and_work(world)
    assert set(priorities(world)) == {"a", "b1", "b2"}
    push(world, delete("b2", urgent=True))
    work(world)
    assert priorities(world) == {"a": "0.1"}


@pytest.mark.parametrize("point", ["claimed", "committed", "renamed"])
def test_an_urgent_delete_that_comes_during_a_rewrite_stays_urgent(make_world: MakeWorld, point: str) -> None:
    """It does not wait for the interval that the rewrite under way begins."""
    world = make_world(make_site(min_interval=60.0))
    burst(world)
    push(world, delete("b1", urgent=True))
    once_at(world, point, lambda: push(world, delete("b2", urgent=True)))
    work(world)
    assert set(priorities(world)) == {"a"}


def test_an_urgent_delete_in_a_bulk_load_does_not_wait_for_it(make_world: MakeWorld) -> None:
    """In one batch with other events and a delay, its shard is due at once and the others are not."""
    world = make_world(make_site(shard_size=2))
    push(world, *(add(f"p{n}") for n in range(4)))
    work(world)
    push(world, update("p0", priority="0.1"), delete("p3", urgent=True), delay_ms=150)
    work(world)
    assert set(priorities(world)) == {"p0", "p1", "p2"}
    assert priorities(world)["p0"] is None


def test_shards_do_not_wait_for_each_other(make_world: MakeWorld) -> None:
    """The interval is each shard's own."""
    world = make_world(make_site(shard_size=1, min_interval=10.0))
    push(world, add("a"))
    work(world)
    push(world, add("b"))
    work(world)
    assert set(priorities(world)) == {"a", "b"}


def test_an_event_that_comes_during_the_rewrite_waits_for_the_next(make_world: MakeWorld) -> None:
    """Its time is an interval after this rewrite, and it is not forgotten."""
    world = make_world(make_site(min_interval=1.0))
    burst(world)
    world.now += 1000
    push(world, update("a", priority="0.1"))
    once_at(world, "claimed", lambda: push(world, update("a", priority="0.2")))
    work(world)
    assert priorities(world)["a"] == "0.1"
    assert scores(world, "due") == {"1": START + 2000}
    assert scores(world, "pending")["1"] == START + 1000
    world.now += 1000
    keep_and_work(world)
    assert priorities(world)["a"] == "0.2"


def test_a_clock_that_is_set_back_delays_nothing_for_long(make_world: MakeWorld) -> None:
    """An hour back: what was due in the old time is done within seconds, and so is what comes now."""
    world = make_world(make_site(min_interval=1.0))
    push(world, add("a"))
    work(world)
    push(world, add("b"))  # waits for its interval in the old time
    world.now -= 3_600_000
    keep_and_work(world)
    assert set(priorities(world)) == {"a", "b"}
    push(world, add("c"))
    for _ in range(3):
        world.now += 500
        keep_and_work(world)
    assert set(priorities(world)) == {"a", "b", "c"}
    before = listed(world.folder)["sitemap-pages-1.xml"]
    push(world, delete("a"))
    world.now += 1500
    keep_and_work(world)
    world.now += 1500
    keep_and_work(world)
    assert set(priorities(world)) == {"b", "c"}
    world.settle()
    assert listed(world.folder)["sitemap-pages-1.xml"] > before
    consistent(world)


def test_a_lease_of_the_old_time_ends_as_soon_as_any(make_world: MakeWorld) -> None:
    """A worker that vanished just before the clock was set back holds its shard for a minute, no hour."""
    world = make_world(make_site())
    push(world, add("a"))
    assert world.store.partitions[0].claim(1, "vanished") is not None
    world.now -= 3_600_000
    for _ in range(70):
        world.now += 1000
        keep_and_work(world)
    assert set(priorities(world)) == {"a"}


def test_a_wake_up_of_the_old_time_is_lost_as_soon_as_any(make_world: MakeWorld) -> None:
    """A job that was marked just before the clock was set back, and lost, is enqueued anew."""
    world = make_world(make_site())
    world.store.append([add("a")])
    world.now -= 3_600_000
    world.keep()
    world.now += 1000
    keep_and_work(world)
    assert set(priorities(world)) == {"a"}

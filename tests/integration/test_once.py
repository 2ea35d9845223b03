"""Idempotency keys: how many are remembered."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sitemap_store.model.dates import format_instant
from sitemap_store.model.events import Event
from sitemap_store.model.site import Site
from sitemap_store.model.wire import check
from sitemap_store.redis.once import HOLD_MS, KEPT_MS, Ask, Bounds, KeyState, Once, ask_each
from tests.published import published
from tests.world import BASE, World, make_site

MakeWorld = Callable[[Site], World]


def ask(world: World, given: Ask) -> KeyState:
    """Ask about one key."""
    return ask_each(world.store, [given])[0]


def states(world: World, names: range, bounds: Bounds) -> list[str]:
    """What asking for these keys in one round trip comes to."""
    asks = [Once(str(name), bounds=bounds).take() for name in names]
    return [found.state for found in ask_each(world.store, asks)]


@pytest.mark.parametrize("bounds", [Bounds(keys=50), Bounds(bytes=50 * (225 + 101))])
def test_the_oldest_are_forgotten_first(make_world: MakeWorld, bounds: Bounds) -> None:
    """Of 300 keys whose answers take 101 bytes each, the last 50 are there, by count and by bytes."""
    world = make_world(make_site())
    for name in range(300):
        world.now += 1
        once = Once(str(name), bounds=bounds)
        assert ask(world, once.take()).state == "new"
        ask(world, once.done(b"x" * 100))
    keys = world.store.partitions[0].keys
    assert world.client.hlen(keys.once()) == world.client.zcard(keys.once_age())
    assert 48 <= world.client.hlen(keys.once()) <= 50
    answers = world.client.hvals(keys.once())
    assert world.client.get(keys.once_bytes()) == b"%d" % sum(225 + len(each) for each in answers)
    assert states(world, range(252, 300), bounds) == ["done"] * 48
    assert states(world, range(1), bounds) == ["new"]


def test_a_lower_bound_holds_soon_and_a_day_is_the_longest(make_world: MakeWorld) -> None:
    """With the next key that comes; and what is older than a day is gone though others came since."""
    world = make_world(make_site())
    states(world, range(200), Bounds())
    states(world, range(200, 201), Bounds(keys=10))
    keys = world.store.partitions[0].keys
    assert world.client.hlen(keys.once()) == 10
    world.now += KEPT_MS - 1
    states(world, range(300, 301), Bounds())
    world.now += 2
    states(world, range(400, 403), Bounds())
    assert world.client.hlen(keys.once()) == 4


def test_a_request_that_was_cut_off_keeps_its_key_for_seconds(make_world: MakeWorld) -> None:
    """Renewed while it goes on; when it falls silent, the same key may be sent again soon."""
    world = make_world(make_site())
    once, other = Once("key"), Once("key")
    taken = ask(world, once.take())
    for _ in range(5):
        world.now += HOLD_MS - 1
        assert ask(world, other.take()).state == "busy"
        ask(world, once.renew())
    world.now += HOLD_MS
    again = ask(world, other.take())
    assert (again.state, again.first) == ("again", taken.first)
    ask(world, other.done(b"answer"))
    ask(world, once.renew())
    assert ask(world, once.take()).answer == b"answer", "a renewal that comes late took the answer away"


def test_a_key_that_is_unknown_is_not_renewed(make_world: MakeWorld) -> None:
    """Redis came back without it: the next request takes it as new."""
    world = make_world(make_site())
    ask(world, Once("key").renew())
    assert ask(world, Once("key").take()).state == "new"


HOUR = 3_600_000
PATHS = [f"p/{n}" for n in range(24)]


def publish(world: World, *events: Event) -> set[str]:
    """Append events and let them be published; the paths that are listed then."""
    for wake in world.store.append(events):
        world.enqueue(wake)
    world.settle()
    return {loc.removeprefix(BASE) for loc in published(world.folder)}


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_request_that_is_sent_again_counts_though_the_clock_was_set_back(
    make_world: MakeWorld, partitions: int
) -> None:
    """Its events are newer than all that was stored before the key was first seen."""
    world = make_world(make_site(partitions=partitions))
    assert publish(world, *(Event("add", BASE + path) for path in PATHS)) == set(PATHS)
    world.now -= HOUR
    once = Once("key")
    ask(world, once.take())
    ask(world, once.release())
    again = ask(world, once.take())
    assert again.state == "again"
    assert publish(world, *(Event("delete", BASE + path, at=again.first) for path in PATHS)) == set()


def test_others_win_over_a_request_that_is_sent_again(make_world: MakeWorld) -> None:
    """What came between the first time and the second is newer."""
    world = make_world(make_site())
    publish(world, Event("add", BASE + "x"))
    taken = ask(world, Once("key").take())
    world.now += 5
    publish(world, Event("update", BASE + "x", priority="0.9"))
    assert publish(world, Event("delete", BASE + "x", at=taken.first)) == {"x"}


@pytest.mark.parametrize("ahead", [0, HOUR])
def test_what_is_said_after_the_clock_was_set_back_counts(make_world: MakeWorld, ahead: int) -> None:
    """Without an `at`, with that of a list, and with one by a producer whose clock is right."""
    world = make_world(make_site())
    publish(world, *(Event("add", BASE + path) for path in PATHS))
    world.now -= HOUR
    item = {"op": "delete", "loc": BASE + PATHS[0], "at": format_instant(world.now + HOUR + ahead)}
    by_a_right_clock, warnings = check(item, world.site, world.now)
    assert warnings
    listed = Event("delete", BASE + PATHS[2], at=world.store.stamp(ago=500))
    assert publish(world, Event("delete", BASE + PATHS[1]), by_a_right_clock, listed) == set(PATHS[3:])


def test_only_who_holds_a_key_gives_it_back(make_world: MakeWorld) -> None:
    """A release that comes late touches no hold of another request and no answer, and makes no hold."""
    world = make_world(make_site())
    first, second = Once("a"), Once("a")
    began = ask(world, first.take()).first
    ask(world, second.release())
    assert ask(world, second.take()).state == "busy"
    ask(world, first.release())
    assert ask(world, second.take()) == KeyState("again", first=began)
    ask(world, first.release())
    ask(world, first.renew())
    assert ask(world, Once("a").take()).state == "busy"
    ask(world, second.done(b"answer"))
    ask(world, second.release())
    assert ask(world, first.take()).answer == b"answer"
    ask(world, Once("b").release())
    assert ask(world, Once("b").take()).state == "new"


def test_a_request_that_asks_twice_holds_its_key(make_world: MakeWorld) -> None:
    """As when the connection broke before the first answer came, and redis-py asked again."""
    world = make_world(make_site())
    once = Once("a")
    began = ask(world, once.take()).first
    world.now += 1
    assert ask(world, once.take()) == KeyState("again", first=began)
    assert ask(world, Once("a").take()).state == "busy"

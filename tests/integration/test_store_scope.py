"""URLs that a site listed before `base_url` or `strip_query` changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from producers.sink import EventSink
from sitemap_store.model.protocol import STRICT
from sitemap_store.model.site import Site
from sitemap_store.model.urls import UrlRules
from sitemap_store.redis.browse import uncovered
from sitemap_store.redis.store import Store
from sitemap_store.redis.wake import Waker
from sitemapd.status import report
from tests.integration.store_world import add, delete, fields, push
from tests.published import published
from tests.world import BASE, World, make_site

MakeWorld = Callable[[Site], World]

OLD = ["q", "q?utm_source=x", "shop/a", "old/b"]


@pytest.mark.parametrize(
    ("rules", "gone", "warned"),
    [
        (UrlRules(base=BASE, strip_query=frozenset({"utm_source"})), "q?utm_source=x", "strip_query"),
        (UrlRules(base=BASE + "shop/"), "old/b", "outside"),
        (UrlRules(base=BASE + "shop/"), "q?utm_source=x", "outside"),
        (UrlRules(base="https://www.example.com/"), "shop/a", "outside"),
    ],
)
def test_a_delete_reaches_exactly_what_is_listed(
    make_world: MakeWorld, rules: UrlRules, gone: str, warned: str
) -> None:
    """Whatever the settings say now: that entry goes, no other does, and the answer warns."""
    world = make_world(make_site(shard_size=100))
    push(world, *map(add, OLD))
    world.settle()
    world.site = dataclasses.replace(world.site, rules=rules)
    world.store = Store(world.client, world.site, clock=lambda: world.now)
    sink = EventSink(world.store, Waker(world.client))
    world.now += 5000
    outcome = sink.push([{"op": "delete", "loc": BASE + gone}])
    assert (outcome.accepted, outcome.refused) == (1, ())
    assert warned in outcome.warnings[0]
    world.settle()
    assert set(published(world.folder)) == {BASE + path for path in OLD if path != gone}


def test_a_delete_of_a_url_that_was_never_listed_takes_nothing(make_world: MakeWorld) -> None:
    """A delete with a parameter that adds lose does not take the plain URL away."""
    rules = UrlRules(base=BASE, strip_query=frozenset({"utm_source"}))
    world = make_world(dataclasses.replace(make_site(), rules=rules))
    sink = EventSink(world.store, Waker(world.client))
    sink.push([{"op": "add", "loc": BASE + "q?utm_source=x"}])
    sink.push([{"op": "delete", "loc": BASE + "q?utm_source=x"}])
    world.settle()
    assert set(published(world.folder)) == {BASE + "q"}


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize(
    ("rules", "left"),
    [
        (UrlRules(base=BASE + "shop/"), {"q", "q?utm_source=x", "old/b"}),
        (UrlRules(base=BASE, strip_query=frozenset({"utm_source"})), {"q?utm_source=x"}),
        (UrlRules(base=BASE, cross_submission=True), set[str]()),
    ],
)
def test_what_is_no_longer_covered_is_counted_until_it_is_deleted(
    make_world: MakeWorld, rules: UrlRules, left: set[str], partitions: int
) -> None:
    """As each shard is rendered after the change; a shard that has none keeps nothing."""
    world = make_world(make_site(shard_size=2, partitions=partitions))
    push(world, *map(add, OLD))
    world.settle()
    assert uncovered(world.store) == (0, [])
    change(world, rules)
    count, examples = uncovered(world.store)
    assert (count, set(examples)) == (len(left), {BASE + path for path in left})
    command = "sitemapd --site shop sync --leave-scope"
    found = report(world.store, "sitemapd --site shop")["uncovered"]
    assert found == {"urls": count, "examples": examples, "command": command}
    push(world, *map(delete, left))
    world.settle()
    assert uncovered(world.store) == (0, [])
    assert not any(fields(world, "uncovered", partition) for partition in range(partitions))


def test_the_examples_are_five_however_many_there_are(make_world: MakeWorld) -> None:
    """Of one shard and of many; and they are counted no more once the old setting is back."""
    world = make_world(make_site(shard_size=7))
    push(world, *(add(f"p{number:02}") for number in range(30)))
    world.settle()
    before = world.site.rules
    change(world, UrlRules(base=BASE + "shop/"))
    count, examples = uncovered(world.store)
    assert (count, len(examples), len(set(examples))) == (30, 5, 5)
    change(world, before)
    assert uncovered(world.store) == (0, [])


def test_what_a_split_moves_is_counted_once(make_world: MakeWorld) -> None:
    """Where it is now."""
    world = make_world(make_site(shard_size=10))
    push(world, *(add(f"p{number}") for number in range(10)))
    world.settle()
    world.site = dataclasses.replace(world.site, limits=dataclasses.replace(STRICT, urls_per_file=5))
    change(world, UrlRules(base=BASE + "shop/"))
    assert uncovered(world.store)[0] == 10
    assert len(fields(world, "uncovered")) > 1


def test_what_a_merge_moves_is_counted_once(make_world: MakeWorld) -> None:
    """Where it is now, and nothing stays of the shard that is gone."""
    world = make_world(make_site(shard_size=3))
    push(world, *(add(f"p{number}") for number in range(9)))
    world.settle()
    change(world, UrlRules(base=BASE + "shop/"))
    push(world, *(delete(f"p{number}") for number in (1, 2, 4, 5)))
    world.settle()
    assert fields(world, "uncovered").keys() == {"1", "2", "3"}
    assert world.merge("w1", 0, 1, 2)
    world.settle()
    assert uncovered(world.store)[0] == 5
    assert fields(world, "uncovered").keys() == {"2", "3"}


def change(world: World, rules: UrlRules) -> None:
    """Start the site's services with other rules."""
    world.site = dataclasses.replace(world.site, rules=rules)
    world.store = Store(world.client, world.site, clock=lambda: world.now)
    for partition in world.store.partitions:
        partition.configure()
        partition.want_all()
    world.settle()

"""URLs that a site listed before `base_url` or `strip_query` changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from producers.sink import EventSink
from sitemap_store.model.site import Site
from sitemap_store.model.urls import UrlRules
from sitemap_store.redis.store import Store
from sitemap_store.redis.wake import Waker
from tests.integration.store_world import add, push
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

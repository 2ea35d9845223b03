"""An event touches one shard's file and the index file that lists it, and no other byte."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sitemap_store.model.events import Event
from sitemap_store.model.site import Site
from tests.integration.store_world import add, changed, consistent, delete, push, update, work
from tests.published import listed, picture, valid_now
from tests.world import World, make_site

MakeWorld = Callable[[Site], World]

EVENTS = [
    add("p1", lastmod="2026-05-05"),
    add("new"),
    update("p5", priority="0.4"),
    update("blog/2", lastmod="2026-05-05"),
    delete("p3"),
    delete("blog/0", urgent=True),
    add("blog/new", source="cms"),
    delete("p8", at=1_790_000_900_000),
]


def filled(make_world: MakeWorld, gzip: bool, index_size: int) -> World:
    """Ten pages, five posts, in seven shards, some time ago."""
    site = make_site(sections={"blog": "/blog/**"}, gzip=gzip, index_size=index_size, shard_size=3)
    world = make_world(site)
    push(world, *(add(f"p{n}") for n in range(10)), *(add(f"blog/{n}") for n in range(5)))
    world.settle()
    world.now += 5000
    return world


@pytest.mark.parametrize("index_size", [2, 1000])
@pytest.mark.parametrize("gzip", [False, True])
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: f"{event.op} {event.loc.rpartition('.com')[2]}")
def test_one_event_touches_one_shard_and_the_index_that_lists_it(
    make_world: MakeWorld, event: Event, gzip: bool, index_size: int
) -> None:
    """I5: add, update or delete: two files are others than before, in bytes, inode and mtime."""
    world = filled(make_world, gzip, index_size)
    before = picture(world.folder)
    push(world, event)
    world.settle()
    found = changed(world, before)
    indexes = {name for name in found if name.endswith(".xml") and name.count("-") < 2}
    shards = found - indexes
    assert len(shards) == 1
    assert len(indexes) == 1
    assert shards.pop() in (world.folder / indexes.pop()).read_text()
    assert len(found) == 2
    consistent(world)


def test_a_new_shard_is_there_before_the_index_names_it(make_world: MakeWorld) -> None:
    """I3: first the whole file, then the index; at every step all is valid."""
    world = filled(make_world, gzip=False, index_size=1000)
    seen: list[tuple[bool, bool]] = []

    def look(_point: str) -> None:
        valid_now(world.folder)
        name = "sitemap-pages-5.xml"
        seen.append(((world.folder / name).exists(), name in listed(world.folder)))

    world.fault = look
    push(world, *(add(f"new{n}") for n in range(5)))
    work(world)
    look("")
    assert seen == sorted(seen)
    assert set(seen) == {(False, False), (True, False), (True, True)}


def test_events_for_one_shard_touch_it_once(make_world: MakeWorld) -> None:
    """Three events in one go cost one rewrite of the one file."""
    world = filled(make_world, gzip=False, index_size=1000)
    before = picture(world.folder)
    push(world, update("p0", priority="0.1"), delete("p1"), update("p2", priority="0.2"))
    assert work(world) == 2
    assert changed(world, before) == {"sitemap-pages-1.xml", "sitemap.xml"}


@pytest.mark.parametrize(
    "order",
    [[0, 1, 2], [2, 1, 0], [1, 1, 0, 0, 2, 2], [0, 1, 2, 0, 1, 2], [2, 0, 2, 1, 0, 1]],
    ids=lambda order: "".join(map(str, order)),
)
def test_jobs_that_are_delivered_twice_in_any_order_do_as_once(
    make_world: MakeWorld, order: list[int]
) -> None:
    """Two jobs for one shard: the second finds nothing to do, and the tree is the same."""
    trees = []
    for site, jobs in (("once", [0, 1, 2]), ("twice", order)):
        world = make_world(make_site(name=site, shard_size=2))
        push(world, *(add(f"p{n}") for n in range(5)))
        woken = list(world.jobs)
        world.jobs.clear()
        assert len(woken) == 3
        ran = [world.run(world.worker(f"w{n}"), *woken[job]) for n, job in enumerate(jobs)]
        assert sum(ran) == 3
        world.settle()
        trees.append(
            {name: data for name, (data, _, _) in picture(world.folder).items() if name != "sitemap.xml"}
        )
        consistent(world)
        for path in picture(world.folder):
            (world.folder / path).unlink()
    assert trees[0] == trees[1]


def test_two_jobs_for_one_shard_at_the_same_time_do_as_one(make_world: MakeWorld) -> None:
    """While one worker is between any two steps, another takes the same job: it leaves it alone."""
    world = filled(make_world, gzip=False, index_size=1000)
    push(world, delete("p0"), add("p0", priority="0.7"))
    (job,) = world.jobs
    world.jobs.clear()
    ran: list[tuple[str, bool]] = []

    def other(point: str) -> None:
        world.fault = lambda point: None
        ran.append((point, world.run(world.worker("w2"), *job)))
        world.fault = other

    world.fault = other
    world.run(world.worker("w1"), *job)
    world.fault = lambda point: None
    assert ran == [("claimed", False), ("committed", False), ("renamed", False), ("published", False)]
    world.settle()
    consistent(world)

"""Seats are sticky: a URL keeps its file while others come and go."""

from __future__ import annotations

from collections.abc import Callable

from sitemap_store.model.site import Site
from tests.integration.store_world import (
    DAY,
    add,
    changed,
    consistent,
    delete,
    fields,
    files,
    once_at,
    push,
    seat,
    settled,
    update,
    work,
)
from tests.published import picture
from tests.world import World, make_site

MakeWorld = Callable[[Site], World]


def test_new_urls_fill_the_open_shard_and_then_the_next(make_world: MakeWorld) -> None:
    """In the order in which they came, as many as the shard takes."""
    world = make_world(make_site(shard_size=3))
    push(world, *(add(f"p{n}") for n in (5, 1, 4, 2, 3, 0, 6)))
    settled(world, *(f"p{n}" for n in range(7)))
    assert files(world) == {
        "sitemap-pages-1.xml": ["p1", "p4", "p5"],
        "sitemap-pages-2.xml": ["p0", "p2", "p3"],
        "sitemap-pages-3.xml": ["p6"],
    }
    consistent(world)


def test_nothing_moves_because_another_url_came_or_went(make_world: MakeWorld) -> None:
    """Updates, deletes and adds around it leave a URL in its file."""
    world = make_world(make_site(shard_size=3))
    push(world, *(add(f"p{n}") for n in range(9)))
    world.settle()
    before = {path: seat(world, path) for path in (f"p{n}" for n in range(9))}
    push(world, delete("p0"), delete("p4"), update("p8", priority="0.3"), add("a"), add("z"))
    world.settle()
    assert {path: seat(world, path) for path in before} == before
    assert files(world)["sitemap-pages-2.xml"] == ["p3", "p5"]


def test_a_full_shard_stays_frozen(make_world: MakeWorld) -> None:
    """Recent URLs share the recent shards, so a full one's file is not touched by new ones."""
    world = make_world(make_site(shard_size=3))
    push(world, add("a"), add("b"), add("c"))
    world.settle()
    before = picture(world.folder)
    push(world, *(add(f"p{n}") for n in range(20)))
    world.settle()
    assert "sitemap-pages-1.xml" not in changed(world, before)


def test_sections_share_no_shard(make_world: MakeWorld) -> None:
    """Each section has its own open shard and its own numbers."""
    world = make_world(make_site(sections={"blog": "/blog/**", "shop": "/shop/*"}, shard_size=2))
    push(world, *(add(f"{where}{n}") for n in range(3) for where in ("blog/", "shop/", "")))
    world.settle()
    assert files(world) == {
        "sitemap-blog-1.xml": ["blog/0", "blog/1"],
        "sitemap-blog-2.xml": ["blog/2"],
        "sitemap-pages-1.xml": ["0", "1"],
        "sitemap-pages-2.xml": ["2"],
        "sitemap-shop-1.xml": ["shop/0", "shop/1"],
        "sitemap-shop-2.xml": ["shop/2"],
    }
    consistent(world)


def test_a_deleted_url_keeps_its_seat_for_a_day(make_world: MakeWorld) -> None:
    """Deleted and added again, it is back in its old file."""
    world = make_world(make_site(shard_size=3))
    push(world, *(add(f"p{n}") for n in range(6)))
    world.settle()
    push(world, delete("p1"))
    world.settle()
    world.now += DAY - 60_000
    push(world, add("p1"))
    world.settle()
    assert files(world)["sitemap-pages-1.xml"] == ["p0", "p1", "p2"]


def test_after_a_day_the_seat_is_free(make_world: MakeWorld) -> None:
    """Added again later, the URL is a new one: it sits in the open shard."""
    world = make_world(make_site(shard_size=3))
    push(world, *(add(f"p{n}") for n in range(7)))
    world.settle()
    push(world, delete("p1"))
    world.settle()
    assert seat(world, "p1") == 1
    world.now += DAY + 1000
    world.settle()
    assert seat(world, "p1") is None
    consistent(world)
    push(world, add("p1"))
    world.settle()
    assert files(world)["sitemap-pages-1.xml"] == ["p0", "p2"]
    assert files(world)["sitemap-pages-3.xml"] == ["p1", "p6"]


def test_a_seat_that_is_given_up_in_the_open_shard_is_given_again(make_world: MakeWorld) -> None:
    """The open shard counts who sits there, not who ever did."""
    world = make_world(make_site(shard_size=3))
    push(world, add("a"), add("b"), add("c"))
    world.settle()
    push(world, delete("a"))
    world.settle()
    world.now += DAY + 1000
    world.settle()
    push(world, add("d"))
    world.settle()
    assert files(world) == {"sitemap-pages-1.xml": ["b", "c", "d"]}


def test_a_tombstone_takes_a_seat_while_it_lasts(make_world: MakeWorld) -> None:
    """Its URL may come back, so another one does not get its place."""
    world = make_world(make_site(shard_size=3))
    push(world, add("a"), add("b"), add("c"), delete("a"), add("d"))
    world.settle()
    assert files(world) == {"sitemap-pages-1.xml": ["b", "c"], "sitemap-pages-2.xml": ["d"]}


def test_a_delete_of_an_unknown_url_gives_its_seat_back(make_world: MakeWorld) -> None:
    """Nothing is kept for good of a URL that never was."""
    world = make_world(make_site())
    push(world, delete("never"), add("a"))
    settled(world, "a")
    world.now += DAY + 1000
    world.settle()
    assert seat(world, "never") is None
    assert fields(world, "state")["seats"] == "1"
    consistent(world)


def test_an_event_that_comes_while_its_seat_is_given_up_keeps_it(make_world: MakeWorld) -> None:
    """Appended between the claim that expires the tombstone and the commit that frees the seat."""
    world = make_world(make_site(shard_size=3))
    push(world, *(add(f"p{n}") for n in range(4)))
    world.settle()
    push(world, delete("p1"))
    world.settle()
    world.now += DAY + 1000
    world.keep()
    once_at(world, "claimed", lambda: push(world, add("p1")))
    work(world)
    assert seat(world, "p1") == 1
    settled(world, "p0", "p1", "p2", "p3")
    assert files(world)["sitemap-pages-1.xml"] == ["p0", "p1", "p2"]
    consistent(world)


def test_known_and_new_urls_in_one_batch_each_find_their_own_seat(make_world: MakeWorld) -> None:
    """Runs of new URLs with known ones in between, at every place in a shard."""
    world = make_world(make_site(shard_size=4))
    push(world, *(add(f"old{n}") for n in range(10)))
    world.settle()
    before = {f"old{n}": seat(world, f"old{n}") for n in range(10)}
    mixed = [add(f"new{n}") for n in range(12)]
    for n in range(10):
        mixed.insert(n * 2, update(f"old{n}", priority="0.7"))
    push(world, *mixed, *mixed)
    settled(world, *before, *(f"new{n}" for n in range(12)))
    assert {path: seat(world, path) for path in before} == before
    consistent(world)
    for paths in files(world).values():
        assert len(paths) <= 4


def test_a_url_that_other_rules_give_another_section_keeps_its_seat(make_world: MakeWorld) -> None:
    """Sections are asked for new URLs only."""
    world = make_world(make_site())
    push(world, add("blog/a"))
    world.settle()
    later = make_world(make_site(sections={"blog": "/blog/**"}))
    later.now = world.now
    push(later, update("blog/a", priority="0.4"), add("blog/b"))
    later.settle()
    assert files(later) == {"sitemap-blog-1.xml": ["blog/b"], "sitemap-pages-1.xml": ["blog/a"]}

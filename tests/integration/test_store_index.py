"""Several index files: each shard has its place in one of them, and only that one is rewritten."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sitemap_store.model.site import Site
from tests.integration.store_world import (
    add,
    changed,
    consistent,
    delete,
    fields,
    once_at,
    push,
    scores,
    settled,
    update,
    work,
)
from tests.published import NS, SITEMAPINDEX, index_files, listed, parse, picture
from tests.world import BASE, World, make_site

MakeWorld = Callable[[Site], World]


def names(world: World, index: str) -> list[str]:
    """The shard files that an index file names, in its order."""
    return [
        str(item.findtext(f"{NS}loc")).removeprefix(BASE)
        for item in parse((world.folder / index).read_bytes(), SITEMAPINDEX)
    ]


@pytest.mark.parametrize(("shards", "indexes"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (12, 6)])
def test_index_files_are_filled_one_after_the_other(make_world: MakeWorld, shards: int, indexes: int) -> None:
    """As many as an index may hold fit, one more goes to the next: sitemap.xml, sitemap-2.xml…"""
    world = make_world(make_site(shard_size=1, index_size=2))
    push(world, *(add(f"p{n:02}") for n in range(shards)))
    settled(world, *(f"p{n:02}" for n in range(shards)))
    found = [path.name for path in index_files(world.folder)]
    assert sorted(found) == sorted(["sitemap.xml", *(f"sitemap-{k}.xml" for k in range(2, indexes + 1))])
    assert world.store.index_files() == list(range(1, indexes + 1))
    assert all(1 <= len(names(world, name)) <= 2 for name in found)
    consistent(world)


def test_an_index_lists_its_shards_in_one_order(make_world: MakeWorld) -> None:
    """By section and number, as numbers and not as text."""
    world = make_world(make_site(sections={"blog": "/blog/**"}, shard_size=1))
    push(world, *(add(f"p{n}") for n in range(11)), add("blog/b"), add("blog/a"))
    world.settle()
    assert names(world, "sitemap.xml") == [
        *("sitemap-blog-1.xml", "sitemap-blog-2.xml"),
        *(f"sitemap-pages-{n}.xml" for n in range(1, 12)),
    ]


@pytest.mark.parametrize("path", [f"p{n}" for n in range(6)])
def test_an_event_rewrites_the_index_that_lists_its_shard_alone(make_world: MakeWorld, path: str) -> None:
    """I5: one shard file and one index file, whichever of them it is."""
    world = make_world(make_site(shard_size=1, index_size=2))
    push(world, *(add(f"p{n}") for n in range(6)))
    world.settle()
    before = picture(world.folder)
    push(world, update(path, priority="0.5"))
    world.settle()
    place = int(path[1:])
    index = "sitemap.xml" if place < 2 else f"sitemap-{place // 2 + 1}.xml"
    assert changed(world, before) == {index, f"sitemap-pages-{place + 1}.xml"}


def test_many_shards_share_one_rewrite_of_the_index(make_world: MakeWorld) -> None:
    """A job of twenty shards publishes the index once."""
    world = make_world(make_site(shard_size=1))
    push(world, *(add(f"p{n}") for n in range(20)))
    shards = [int(member) for _, member in world.jobs]
    world.jobs.clear()
    world.worker("w1").rewrite_shards(0, shards)
    assert len(listed(world.folder)) == 20
    assert fields(world, "stats")["index_rewrites"] == "1"


def test_a_shard_that_is_published_during_the_indexs_rewrite_comes_with_the_next(
    make_world: MakeWorld,
) -> None:
    """Its mark lies after the index's claim: the index is due again, and who waits for the event waits."""
    world = make_world(make_site(shard_size=1))
    push(world, add("a"), add("b"))
    pushed = world.now
    world.now += 50
    first, second = world.jobs.popleft(), world.jobs.popleft()
    world.run(world.worker("w1"), *first)
    index = world.jobs.popleft()

    def publish_the_other() -> None:
        world.run(world.worker("w2"), *second)

    once_at(world, "index_renamed", publish_the_other)
    world.run(world.worker("w1"), *index)
    assert "i1" in scores(world, "due")
    assert scores(world, "pending") == {"i1": pushed}
    assert world.store.unsettled(pushed) == 1
    settled(world, "a", "b")
    assert world.store.unsettled(world.now) == 0
    consistent(world)


def test_two_workers_do_not_write_one_index_at_once(make_world: MakeWorld) -> None:
    """The lease of an index file is as exclusive as a shard's."""
    world = make_world(make_site(shard_size=1))
    push(world, add("a"))
    world.run(world.worker("w1"), *world.jobs.popleft())
    part = world.store.partitions[0]
    assert part.claim_index(1, "w1") is not None
    assert part.claim_index(1, "w2") is None
    world.now += 60_000
    assert part.claim_index(1, "w2") is not None
    world.release("w1", "w2")
    settled(world, "a")


def test_the_index_stays_small_when_urls_come_and_go(make_world: MakeWorld) -> None:
    """A site that replaces all its URLs again and again keeps the index files it needs."""
    world = make_world(make_site(shard_size=1, index_size=2, min_interval=0.0))
    for round_ in range(6):
        push(world, *(add(f"r{round_}-{n}") for n in range(4)))
        world.settle()
        push(world, *(delete(f"r{round_}-{n}") for n in range(4)))
        world.settle()
        world.now += 25 * 3600 * 1000
        world.settle()
    assert len(scores(world, "shards")) <= 2
    push(world, *(add(f"last{n}") for n in range(4)))
    settled(world, *(f"last{n}" for n in range(4)))
    assert len(index_files(world.folder)) <= 3
    consistent(world)


def test_nothing_due_means_no_rewrite(make_world: MakeWorld) -> None:
    """A wake-up for an index that is up to date does nothing."""
    world = make_world(make_site(shard_size=1))
    push(world, add("a"))
    world.settle()
    before = picture(world.folder)
    assert world.run(world.worker("w1"), 0, "i1") is False
    assert world.run(world.worker("w1"), 0, "i7") is False
    assert work(world) == 0
    assert changed(world, before) == set()

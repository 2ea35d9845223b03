"""An emptied shard: out of the index first, then its file goes, then the shard itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sitemap_store.model.events import Event
from sitemap_store.model.site import Site
from tests.integration.store_world import (
    DAY,
    POINTS,
    add,
    changed,
    consistent,
    delete,
    fields,
    files,
    once_at,
    push,
    scores,
    settled,
    work,
    work_until_crash,
)
from tests.published import index_files, listed, picture, shard_files, valid_now
from tests.world import Crash, World, make_site

MakeWorld = Callable[[Site], World]


def emptied(make_world: MakeWorld) -> World:
    """A world of two shards of two URLs, the first of which was just deleted and not yet folded."""
    world = make_world(make_site(shard_size=2))
    push(world, add("a"), add("b"), add("c"))
    world.settle()
    world.now += 5000
    push(world, delete("a"), delete("b"))
    return world


def test_the_last_url_of_a_shard_is_deleted(make_world: MakeWorld) -> None:
    """I3: at every step the index names only files that are there; the file goes last."""
    world = emptied(make_world)
    seen: list[tuple[bool, bool]] = []

    def look(_point: str) -> None:
        valid_now(world.folder)
        name = "sitemap-pages-1.xml"
        seen.append((name in listed(world.folder), (world.folder / name).exists()))

    world.fault = look
    work(world)
    look("")
    assert sorted(set(seen), reverse=True) == [(True, True), (False, True), (False, False)]
    assert seen == sorted(seen, reverse=True)
    settled(world, "c")


@pytest.mark.parametrize("again", [delete("a", urgent=True), delete("a", urgent=True, source="cms")])
def test_a_shard_that_is_rewritten_before_the_index_keeps_its_old_file(
    make_world: MakeWorld, again: Event
) -> None:
    """I3: another event for the emptied shard comes while the index still names its file."""
    world = emptied(make_world)
    world.run(world.worker("w1"), *world.jobs.popleft())
    later = list(world.jobs)
    world.jobs.clear()
    push(world, again)
    assert work(world) == 1
    for partition in world.store.partitions:
        partition.want_all()
    world.run(world.worker("w1"), 0, "1")
    valid_now(world.folder)
    assert (world.folder / "sitemap-pages-1.xml").exists()
    world.jobs.extend(later)
    settled(world, "c")
    consistent(world)


def test_the_last_url_of_a_site_is_deleted(make_world: MakeWorld) -> None:
    """No empty index is published: nothing is left, and the first new URL brings all of it back."""
    world = emptied(make_world)
    push(world, delete("c"))
    settled(world)
    assert picture(world.folder) == {}
    push(world, add("d"))
    settled(world, "d")


def test_an_emptied_shards_number_is_not_given_again(make_world: MakeWorld) -> None:
    """A crawler that still knows the old file must not find other URLs under its name."""
    world = emptied(make_world)
    world.settle()
    world.now += DAY + 1000
    world.settle()
    assert scores(world, "shards").keys() == {"2"}
    assert fields(world, "s:1") == {}
    consistent(world)
    push(world, add("d"), add("e"))
    world.settle()
    assert files(world) == {"sitemap-pages-2.xml": ["c", "d"], "sitemap-pages-3.xml": ["e"]}


def test_while_a_tombstone_lasts_the_shard_stays(make_world: MakeWorld) -> None:
    """Its URL may come back into it, with a lastmod that moved on."""
    world = make_world(make_site(shard_size=2))
    push(world, add("a"), add("b"), add("c"))
    world.settle()
    before = listed(world.folder)["sitemap-pages-1.xml"]
    push(world, delete("a"), delete("b"))
    world.settle()
    assert "sitemap-pages-1.xml" not in listed(world.folder)
    push(world, add("a"))
    settled(world, "a", "c")
    assert listed(world.folder)["sitemap-pages-1.xml"] > before


def test_the_open_shard_is_not_retired(make_world: MakeWorld) -> None:
    """It is where the next new URL goes."""
    world = make_world(make_site(shard_size=5))
    push(world, add("a"), delete("a"))
    settled(world)
    world.now += DAY + 1000
    world.settle()
    assert scores(world, "shards").keys() == {"1"}
    push(world, add("b"))
    settled(world, "b")
    assert files(world) == {"sitemap-pages-1.xml": ["b"]}


@pytest.mark.parametrize("point", POINTS)
def test_a_url_that_comes_back_meanwhile_keeps_its_file(make_world: MakeWorld, point: str) -> None:
    """Added again at any point on the way out: the file is there, and the index names it."""
    world = emptied(make_world)
    once_at(world, point, lambda: push(world, add("a")))
    work(world)
    valid_now(world.folder)
    settled(world, "a", "c")
    assert files(world)["sitemap-pages-1.xml"] == ["a"]
    consistent(world)


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_on_the_way_out_leaves_no_hole(make_world: MakeWorld, point: str, nth: int) -> None:
    """Whatever step is the last, no index names a missing file, and in the end the file is gone."""
    world = emptied(make_world)
    if work_until_crash(world, point, nth):
        valid_now(world.folder)
        world.release("w1")
    settled(world, "c")
    world.now += DAY + 1000
    world.settle()
    assert scores(world, "shards").keys() == {"2"}
    consistent(world)


@pytest.mark.parametrize("gzip", [False, True])
def test_a_file_that_no_index_ever_named_goes_too(make_world: MakeWorld, gzip: bool) -> None:
    """A worker died after its first rename; then the only URL was deleted: the file is known to nobody."""
    world = make_world(make_site(shard_size=2, gzip=gzip))
    push(world, add("a"))
    with pytest.raises(Crash), world.crashing("renamed"):
        work(world)
    assert len(shard_files(world.folder)) == 1
    push(world, delete("a"))
    world.release("w1")
    settled(world)
    assert picture(world.folder) == {}
    consistent(world)


def test_an_index_file_without_shards_goes(make_world: MakeWorld) -> None:
    """With several index files, the emptied one is removed and the others are not touched."""
    world = make_world(make_site(shard_size=1, index_size=1))
    push(world, add("a"), add("b"), add("c"))
    world.settle()
    assert [path.name for path in index_files(world.folder)] == [
        *("sitemap-2.xml", "sitemap-3.xml", "sitemap.xml")
    ]
    before = picture(world.folder)
    push(world, delete("b"))
    settled(world, "a", "c")
    assert changed(world, before) == {"sitemap-2.xml", "sitemap-pages-2.xml"}
    assert world.store.index_files() == [1, 3]
    assert len(shard_files(world.folder)) == 2


def test_a_retired_shards_place_in_its_index_is_given_again(make_world: MakeWorld) -> None:
    """The index files fill up from the first, so their number does not grow with every churn."""
    world = make_world(make_site(shard_size=1, index_size=2))
    push(world, *(add(f"p{n}") for n in range(6)))
    world.settle()
    push(world, delete("p1"))
    world.settle()
    world.now += DAY + 1000
    world.settle()
    push(world, add("new"))
    world.settle()
    assert len(index_files(world.folder)) == 3
    first = (world.folder / "sitemap.xml").read_text()
    assert first.count("<sitemap>") == 2
    assert "sitemap-pages-7.xml" in first
    consistent(world)


def test_gzip_that_was_switched_on_replaces_the_files(make_world: MakeWorld) -> None:
    """The same seats under new names: the old files go once no index names them."""
    plain = make_world(make_site(shard_size=2))
    push(plain, *(add(f"p{n}") for n in range(5)))
    plain.settle()
    packed = make_world(make_site(shard_size=2, gzip=True))
    packed.now = plain.now + 5000
    for partition in packed.store.partitions:
        partition.want_all()
    packed.fault = lambda point: valid_now(packed.folder)
    packed.keep()
    work(packed)
    settled(packed, *(f"p{n}" for n in range(5)))
    assert files(packed) == {
        "sitemap-pages-1.xml.gz": ["p0", "p1"],
        "sitemap-pages-2.xml.gz": ["p2", "p3"],
        "sitemap-pages-3.xml.gz": ["p4"],
    }
    consistent(packed)

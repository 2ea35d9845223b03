"""Looking things up: one URL, and a source's whole listing, unfolded events included."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from sitemap_store.model.protocol import STRICT
from sitemap_store.model.site import Site
from sitemap_store.redis.state import Partition
from sitemap_store.shards.snapshot import Snapshot
from tests.integration.store_world import DAY, add, delete, push, update, work
from tests.world import BASE, START, World, make_site

MakeWorld = Callable[[Site], World]


def paths(world: World, source: str | None = None) -> list[str]:
    """The paths of a listing, sorted."""
    return sorted(entry.loc.removeprefix(BASE) for entry in world.store.listing(source))


def test_a_url_is_found_from_the_moment_that_it_was_appended(make_world: MakeWorld) -> None:
    """With all that is said of it, its section and shard; its file once it has one."""
    world = make_world(make_site(sections={"blog": "/blog/**"}))
    push(world, add("blog/a", lastmod="2026-01-01", changefreq="daily", priority="0.5", source="cms"))
    found = world.store.find(BASE + "blog/a")
    assert found is not None
    assert found.entry == (BASE + "blog/a", "2026-01-01", "daily", "0.5", START, "cms", "")
    assert (found.section, found.shard, found.file) == ("blog", 1, "")
    world.settle()
    found = world.store.find(BASE + "blog/a")
    assert found is not None
    assert found.file == "sitemap-blog-1.xml"


def test_what_was_just_deleted_is_not_found(make_world: MakeWorld) -> None:
    """Before its fold, as a tombstone, and when it is gone."""
    world = make_world(make_site())
    push(world, add("a"), add("b"))
    world.settle()
    push(world, delete("a"))
    assert world.store.find(BASE + "a") is None
    world.settle()
    assert world.store.find(BASE + "a") is None
    world.now += DAY + 1000
    world.settle()
    assert world.store.find(BASE + "a") is None
    assert world.store.find(BASE + "b") is not None


def test_a_listing_is_of_one_source_or_of_all(make_world: MakeWorld) -> None:
    """Over shards, sections and partitions, folded or not."""
    world = make_world(make_site(sections={"blog": "/blog/**"}, shard_size=2, partitions=2))
    push(world, *(add(f"p{n}", source="cms") for n in range(7)), *(add(f"blog/{n}") for n in range(3)))
    world.settle()
    push(
        world,
        add("p0", source="watch"),
        delete("p1", source="cms"),
        delete("p2", source="watch"),
        add("new", source="cms"),
        update("p3", source="watch", priority="0.1"),
    )
    assert paths(world, "cms") == ["new", "p2", "p3", "p4", "p5", "p6"]
    assert paths(world, "watch") == ["p0"]
    assert paths(world, "") == ["blog/0", "blog/1", "blog/2"]
    assert paths(world, "nobody") == []
    assert paths(world) == sorted([*paths(world, "cms"), *paths(world, "watch"), *paths(world, "")])
    before = paths(world)
    world.settle()
    assert paths(world) == before


def test_a_listing_is_streamed_a_shard_at_a_time(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first entry comes after one shard was read, and shards without the source are not read at all."""
    world = make_world(make_site(shard_size=2))
    push(world, *(add(f"a{n}", source="a") for n in range(6)), *(add(f"b{n}", source="b") for n in range(6)))
    world.settle()
    looked: list[int] = []
    peek = world.store._peek

    def noted(partition: Partition, shard: int) -> tuple[dict[bytes, bytes], Snapshot]:
        looked.append(shard)
        return peek(partition, shard)

    monkeypatch.setattr(world.store, "_peek", noted)
    listing = world.store.listing("b")
    assert next(listing).loc == BASE + "b0"
    assert looked == [4]
    assert len(list(listing)) == 5
    assert looked == [4, 5, 6]


def test_a_shard_that_splits_during_a_listing_hides_nothing(make_world: MakeWorld) -> None:
    """An entry that moves may come twice, and never not at all."""
    site = make_site(shard_size=100, limits=dataclasses.replace(STRICT, urls_per_file=6))
    world = make_world(site)
    push(world, *(add(f"p{n}", source="a") for n in range(6)))
    world.settle()
    listing = world.store.listing("a")
    found = {next(listing).loc}
    push(world, add("p6", source="a"))
    world.now += 2000
    world.keep()
    work(world)
    found.update(entry.loc for entry in listing)
    assert found >= {f"{BASE}p{n}" for n in range(6)}


def test_a_url_that_a_split_moves_between_two_looks_is_found(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory named the old shard; by the time that it is read, the entry is in the new one."""
    site = make_site(shard_size=100, limits=dataclasses.replace(STRICT, urls_per_file=6))
    world = make_world(site)
    push(world, *(add(f"p{n}") for n in range(6)))
    world.settle()
    peek = world.store._peek

    def late(partition: Partition, shard: int) -> tuple[dict[bytes, bytes], Snapshot]:
        monkeypatch.setattr(world.store, "_peek", peek)
        push(world, add("p6"))
        world.settle()
        return peek(partition, shard)

    monkeypatch.setattr(world.store, "_peek", late)
    found = world.store.find(BASE + "p5")
    assert found is not None
    assert found.shard == 2


def test_a_commit_between_two_looks_hides_no_source(make_world: MakeWorld) -> None:
    """Whether a shard may hold a source is one look at its snapshot's sources and its log."""
    world = make_world(make_site())
    push(world, add("a", source="old"))
    world.settle()
    push(world, add("b", source="new"))
    listing = world.store.listing("new")
    real = world.client.pipeline

    def committing(*args: object, transaction: bool = True, **more: object) -> object:
        assert transaction, "the two looks must be one"
        return real(transaction=transaction)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.client, "pipeline", committing)
        assert [entry.loc for entry in listing] == [BASE + "b"]


def test_the_clock_is_the_servers(make_world: MakeWorld) -> None:
    """Epoch milliseconds by Redis' own TIME."""
    world = make_world(make_site())
    seconds, micros = world.client.time()
    assert abs(world.store.now() - (seconds * 1000 + micros // 1000)) < 60_000

"""Shards that are rewritten together: each stands or falls by itself, and no mark comes before its file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sitemap_store.errors import Unavailable
from sitemap_store.model.site import Site
from sitemap_store.output.folder import Folder, Put
from sitemap_store.redis.claims import Claim, PublishedFile, Wake
from sitemap_store.redis.state import Partition
from tests.integration.store_world import POINTS, add, delete, push, scores, settled, work_until_crash
from tests.published import published, shard_files
from tests.world import BASE, World, make_site

MakeWorld = Callable[[Site], World]
SHARDS = 5


def several(make_world: MakeWorld) -> tuple[World, list[int]]:
    """A world with five shards that are due, and their ids."""
    world = make_world(make_site(shard_size=2))
    push(world, *(add(f"p{n}") for n in range(2 * SHARDS)))
    world.jobs.clear()
    return world, sorted(map(int, scores(world, "shards")))


def all_settled(world: World) -> None:
    """Everything is published in the end, and nothing is left over."""
    world.settle()
    settled(world, *(f"p{n}" for n in range(2 * SHARDS)))


def test_files_are_on_the_disk_before_their_marks(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are put, then the folder is synced once, then they count as published; the index comes last."""
    world, shards = several(make_world)
    steps: list[str] = []
    put, sync, mark = Folder.put, Folder.sync, Partition.published_each

    def noted_put(folder: Folder, name: str, data: bytes, worker: str) -> Put:
        steps.append("index" if name == "sitemap.xml" else "put")
        return put(folder, name, data, worker)

    def noted_sync(folder: Folder) -> None:
        steps.append("sync")
        sync(folder)

    def noted_mark(
        part: Partition, files: Sequence[tuple[Claim, PublishedFile]], worker: str
    ) -> list[tuple[bool, Wake]]:
        steps.append(f"mark {len(files)}")
        return mark(part, files, worker)

    monkeypatch.setattr(Folder, "put", noted_put)
    monkeypatch.setattr(Folder, "sync", noted_sync)
    monkeypatch.setattr(Partition, "published_each", noted_mark)
    world.worker("w1").rewrite_shards(0, [*shards, shards[0]])
    assert steps == ["put"] * SHARDS + ["sync", f"mark {SHARDS}", "index", "sync"]
    all_settled(world)


@pytest.mark.parametrize(("shard_size", "groups"), [(1, 1), (2000, 2), (5000, 5), (50_000, 5)])
def test_large_shards_are_not_held_in_memory_together(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, shard_size: int, groups: int
) -> None:
    """At most 8,000 URLs are: larger shards go one after the other."""
    world = make_world(make_site(shard_size=shard_size))
    asked: list[int] = []

    def nothing(_part: Partition, shards: list[int], _worker: str) -> list[None]:
        asked.append(len(shards))
        return [None] * len(shards)

    monkeypatch.setattr(Partition, "claim_each", nothing)
    world.worker("w1").rewrite_shards(0, range(1, 6))
    assert (len(asked), sum(asked)) == (groups, 5)


@pytest.mark.parametrize("nth", range(1, SHARDS + 1))
@pytest.mark.parametrize("point", POINTS[:4])
def test_a_crash_between_any_two_of_them_loses_nothing(make_world: MakeWorld, point: str, nth: int) -> None:
    """Whatever of them is done, the rest is done again."""
    world, shards = several(make_world)

    def job(world: World) -> None:
        world.worker("w1").rewrite_shards(0, shards)

    assert work_until_crash(world, point, nth, job)
    world.fault = lambda _: None
    assert scores(world, "shards").keys() == {str(shard) for shard in shards}
    world.release("w1")
    all_settled(world)


def test_a_file_that_cannot_be_written_holds_back_no_other(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits and is tried again."""
    world, shards = several(make_world)
    put = Folder.put

    def full(folder: Folder, name: str, data: bytes, worker: str) -> Put:
        if name == "sitemap-pages-3.xml":
            raise Unavailable(what="output", detail="the disk is full")
        return put(folder, name, data, worker)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "put", full)
        world.worker("w1").rewrite_shards(0, shards)
    assert len(published(world.folder)) == 2 * (SHARDS - 1)
    all_settled(world)


def test_files_that_may_not_be_on_the_disk_are_not_published(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that can't be synced puts all of them off, and the index does not name them."""
    world, shards = several(make_world)

    def fails(_folder: Folder) -> None:
        raise Unavailable(what="output", detail="input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "sync", fails)
        world.worker("w1").rewrite_shards(0, shards)
    assert not (Path(world.folder) / "sitemap.xml").exists()
    assert len(shard_files(world.folder)) == SHARDS
    all_settled(world)


def test_a_shard_that_changed_hands_is_left_to_the_other(make_world: MakeWorld) -> None:
    """Its lease ran out while the others were claimed; they are published all the same."""
    world, shards = several(make_world)
    taken: list[object] = []

    def fault(name: str) -> None:
        if name == "claimed" and not taken:
            world.now += 61_000
            taken.append(world.store.partitions[0].claim(shards[1], "w2"))

    world.fault = fault
    world.worker("w1").rewrite_shards(0, shards)
    assert taken[0] is not None
    assert len(published(world.folder)) == 2 * (SHARDS - 1)
    world.release("w2")
    all_settled(world)


def test_a_lost_script_is_loaded_again(make_world: MakeWorld) -> None:
    """At each of the steps."""
    world, shards = several(make_world)

    def forget(_point: str) -> None:
        world.client.script_flush()

    world.fault = forget
    world.worker("w1").rewrite_shards(0, shards)
    assert len(published(world.folder)) == 2 * SHARDS
    world.fault = lambda _: None
    push(world, delete("p0"), delete("p1"))
    world.settle()
    assert published(world.folder).keys() == {f"{BASE}p{n}" for n in range(2, 2 * SHARDS)}

"""Never publish over what we don't remember, and never let one bad thing stop the rest."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from sitemap_store.errors import Unavailable
from sitemap_store.model.site import Site
from sitemap_store.output.folder import MARKER, Put
from sitemapd.restore import restore_tree
from tests.integration.store_world import (
    add,
    changed,
    consistent,
    delete,
    fields,
    push,
    scores,
    settled,
    update,
    work,
)
from tests.published import picture, published
from tests.world import BASE, World, make_site

MakeWorld = Callable[[Site], World]


def filled(make_world: MakeWorld) -> World:
    """A world with a published tree, some time ago."""
    world = make_world(make_site(shard_size=2))
    push(world, *(add(f"p{n}") for n in range(6)))
    world.settle()
    world.now += 5000
    return world


def hours(world: World, worker: str = "w1") -> None:
    """Let workers and keepers try for a while."""
    for _ in range(20):
        world.keep()
        work(world, worker)
        world.now += 3000


@pytest.mark.parametrize("same_worker", [True, False])
def test_an_emptied_redis_publishes_nothing_over_a_full_output(
    make_world: MakeWorld, caplog: pytest.LogCaptureFixture, same_worker: bool
) -> None:
    """Redis comes up empty, one event arrives: no file changes, and the log asks for `restore`."""
    world = filled(make_world)
    hand = world.worker("w1")
    if same_worker:  # it has published before and knows the marker
        push(world, update("p0", priority="0.5"))
        while world.jobs:
            world.run(hand, *world.jobs.popleft())
    before = picture(world.folder)
    world.client.flushall()
    push(world, add("new"), delete("p0"))
    with caplog.at_level(logging.ERROR, "worker.site"):
        for _ in range(20):
            world.keep()
            while world.jobs:
                world.run(hand if same_worker else world.worker("w2"), *world.jobs.popleft())
            world.now += 3000
    assert changed(world, before) == set()
    assert "sitemapd restore" in caplog.text
    assert "Traceback" not in caplog.text
    assert fields(world, "leases") == {}
    assert world.store.unfolded() == 2
    restore_tree(world.store, world.output)
    world.adopt("state-2")
    world.store.replay_held()
    settled(world, *(f"p{n}" for n in range(1, 6)), "new")


def test_an_emptied_redis_that_is_told_to_rebuild_publishes_nothing(make_world: MakeWorld) -> None:
    """Neither shards nor the index: an empty index over a full tree would be the worst."""
    world = filled(make_world)
    before = picture(world.folder)
    world.client.flushall()
    push(world, add("new"))
    for partition in world.store.partitions:
        partition.want_all()
    hours(world)
    assert changed(world, before) == set()


def test_another_states_tree_is_not_published_over(make_world: MakeWorld) -> None:
    """Two Redis servers by mistake on one output: the marker tells whose it is."""
    world = filled(make_world)
    world.output.mark("shop", "somebody-else")
    before = picture(world.folder)
    push(world, add("new"))
    hours(world)
    assert changed(world, before) == set()
    world.output.mark("shop", "state-1")
    settled(world, *(f"p{n}" for n in range(6)), "new")


def test_a_marker_that_cannot_be_read_stops_publishing_and_no_worker(
    make_world: MakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """The lease is given back, the sentence names the file, and when it is put right all goes on."""
    world = filled(make_world)
    before = picture(world.folder)
    (world.folder / MARKER).write_text("half")
    push(world, add("new"))
    with caplog.at_level(logging.ERROR, "worker.site"):
        hours(world)
    assert changed(world, before) == set()
    assert MARKER in caplog.text
    assert fields(world, "leases") == {}
    world.output.mark("shop", "state-1")
    settled(world, *(f"p{n}" for n in range(6)), "new")


@pytest.mark.parametrize("damage", [b"damaged", b"", None])
def test_one_damaged_snapshot_stops_no_other_shard(
    make_world: MakeWorld, caplog: pytest.LogCaptureFixture, damage: bytes | None
) -> None:
    """Its file stays as it is, its events wait, its lease is given back, and the log names it."""
    world = filled(make_world)
    key = world.store.partitions[0].keys.snapshot(2)
    whole = world.client.get(key)
    assert isinstance(whole, bytes)
    before = picture(world.folder)
    world.client.set(key, whole[:-4] if damage is None else damage)
    push(world, update("p0", priority="0.1"), update("p2", priority="0.1"), update("p4", priority="0.1"))
    with caplog.at_level(logging.ERROR, "worker.site"):
        hours(world)
    assert changed(world, before) == {"sitemap-pages-1.xml", "sitemap-pages-3.xml", "sitemap.xml"}
    assert "Shard 2" in caplog.text
    assert "a snapshot is damaged" in caplog.text
    assert fields(world, "leases") == {}
    assert world.store.unfolded() == 1
    world.client.set(key, whole)
    settled(world, *(f"p{n}" for n in range(6)))
    assert {row[2] for row in published(world.folder).values()} == {None, "0.1"}
    consistent(world)


def test_an_output_that_is_away_loses_nothing(make_world: MakeWorld) -> None:
    """Unmounted for a minute: tried again every few seconds, published when it is back."""
    world = filled(make_world)
    away = world.folder.with_name("away")
    world.folder.rename(away)
    push(world, add("new"), delete("p0"))
    hours(world)
    assert not world.folder.exists()
    assert fields(world, "leases") == {}
    assert scores(world, "pending")
    away.rename(world.folder)
    settled(world, *(f"p{n}" for n in range(1, 6)), "new")
    consistent(world)


@pytest.mark.parametrize("name", ["sitemap-pages-1.xml", "sitemap.xml"])
def test_a_full_disk_loses_nothing(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A shard or the index can't be written for a while: whole old files, then whole new ones."""
    world = filled(make_world)
    before = picture(world.folder)
    put = world.output.put

    def full(file: str, data: bytes, worker: str) -> Put:
        if file == name:
            raise Unavailable(what="output", detail=f"{file}: the disk is full")
        return put(file, data, worker)

    push(world, update("p0", priority="0.1"))
    with monkeypatch.context() as patch:
        patch.setattr(world.output, "put", full)
        hours(world)
    assert name not in changed(world, before)
    assert fields(world, "leases") == {}
    settled(world, *(f"p{n}" for n in range(6)))
    assert published(world.folder)[BASE + "p0"][2] == "0.1"


def test_while_the_output_is_away_it_is_not_tried_all_the_time(
    make_world: MakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """One attempt and one sentence every three seconds for each shard."""
    world = filled(make_world)
    world.folder.rename(world.folder.with_name("away"))
    push(world, add("new"))
    with caplog.at_level(logging.ERROR, "worker.site"):
        for _ in range(90):
            world.keep()
            work(world)
            world.now += 100
    assert len(caplog.records) == 3

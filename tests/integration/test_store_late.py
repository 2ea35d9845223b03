"""A worker that stands still past its lease and wakes up late cannot leave old bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from sitemap_store.errors import Unavailable
from sitemap_store.model.events import Event
from sitemap_store.model.protocol import STRICT
from sitemap_store.model.site import Site
from sitemap_store.output.folder import Put
from sitemap_store.redis.claims import Commit
from sitemap_store.shards.snapshot import EMPTY
from tests.integration.store_world import (
    POINTS,
    add,
    changed,
    consistent,
    delete,
    fields,
    push,
    settled,
    update,
    work,
)
from tests.published import picture, published
from tests.world import BASE, Crash, World, make_site

MakeWorld = Callable[[Site], World]

CASES: dict[str, tuple[tuple[Event, ...], tuple[Event, ...], dict[str, str | None]]] = {
    "update": (
        (update("a", priority="0.1"),),
        (update("a", priority="0.2"),),
        {"a": "0.2", "b": None},
    ),
    "delete": ((update("a", priority="0.1"),), (delete("a"),), {"b": None}),
    "revive": ((delete("a"), delete("b")), (add("a", priority="0.3"),), {"a": "0.3"}),
    "empty": ((update("a", priority="0.1"),), (delete("a"), delete("b")), {}),
    "no change": ((update("a", priority="0.1"),), (), {"a": "0.1", "b": None}),
    "grow": (
        (update("a", priority="0.1"),),
        (add("c"), add("d"), add("e")),
        {"a": "0.1", "b": None, "c": None, "d": None, "e": None},
    ),
}


def stalled(world: World, point: str, newer: tuple[Event, ...], *, dies: bool) -> None:
    """The worker w1 stands still at a point for over a minute; w2 publishes what came meanwhile; w1 goes on.

    With `dies` it is killed at the next point that it reaches.
    """
    awake = False

    def fault(name: str) -> None:
        nonlocal awake
        if awake and dies:
            raise Crash(name)
        if name == point and not awake:
            world.fault = lambda point: None
            world.now += 61_000
            push(world, *newer)
            world.settle("w2")
            world.now += 61_000
            world.fault = fault
            awake = True

    world.fault = fault
    try:
        work(world, "w1")
    except Crash:
        world.release("w1")
        world.fault = lambda point: None
        # It wrote after it lost the lease and never reported: only the output shows it.
        world.scrub()
    world.fault = lambda point: None
    assert awake, f"no worker came to {point}"


@pytest.mark.parametrize("dies", [False, True], ids=["goes on", "dies"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("point", POINTS)
def test_what_a_late_worker_wrote_does_not_stay(
    make_world: MakeWorld, point: str, case: str, dies: bool
) -> None:
    """I6: stalled at any point, of a shard or of the index, for good or to die one step later."""
    first, newer, expected = CASES[case]
    site = make_site(shard_size=10, limits=dataclasses.replace(STRICT, urls_per_file=4))
    world = make_world(site)
    push(world, add("a"), add("b"))
    world.settle()
    world.now += 5000
    push(world, *first)
    stalled(world, point, newer, dies=dies)
    settled(world, *expected)
    assert {loc.removeprefix(BASE): row[2] for loc, row in published(world.folder).items()} == expected
    consistent(world)
    before = picture(world.folder)
    for partition in world.store.partitions:
        partition.want_all()
    world.settle()
    assert changed(world, before) == set(), "a rebuild found something to put right"


def test_what_a_late_worker_wrote_before_it_failed_does_not_stay(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rename came through and the folder's fsync did not: it never says that it published."""
    world = make_world(make_site())
    push(world, add("a", priority="0.1"))
    put, late = world.output.put, []

    def failing(name: str, data: bytes, worker: str) -> Put:
        if worker == "w1" and name != "sitemap.xml":
            world.now += 61_000
            push(world, update("a", priority="0.2"))
            world.settle("w2")
            put(name, data, worker)
            late.append(name)
            raise Unavailable(what="output", detail="the disk is gone")
        return put(name, data, worker)

    with monkeypatch.context() as patch:
        patch.setattr(world.output, "put", failing)
        world.run(world.worker("w1"), *world.jobs.popleft())
    assert late
    settled(world, "a")
    assert published(world.folder)[BASE + "a"][2] == "0.2"
    consistent(world)


def test_a_commit_without_the_lease_writes_nothing(make_world: MakeWorld) -> None:
    """Fenced by lease and version: the snapshot, the log and the counts stay the other worker's."""
    world = make_world(make_site())
    push(world, add("a"))
    held: dict[str, str] = {}

    def meanwhile() -> None:
        world.now += 61_000
        push(world, add("b"))
        world.settle("w2")
        held.update(fields(world, "s:1"))

    world.fault = lambda point: meanwhile() if point == "claimed" and not held else None
    world.run(world.worker("w1"), *world.jobs.popleft())
    assert {name: fields(world, "s:1")[name] for name in ("v", "published", "etag", "urls")} == {
        name: held[name] for name in ("v", "published", "etag", "urls")
    }
    settled(world, "a", "b")


def test_a_commit_after_the_lease_was_lost_is_refused_before_another_commits(make_world: MakeWorld) -> None:
    """The version alone would let it through: the one who has the lease now must not fold in vain."""
    world = make_world(make_site())
    part = world.store.partitions[0]
    push(world, add("a"))
    old = part.claim(1, "w1")
    assert old is not None
    world.now += 60_000
    new = part.claim(1, "w2")
    assert new is not None
    assert new.version == old.version
    folded = Commit(snapshot=EMPTY, size=0, etag="", freed=(), records=1, purge_at=None)
    assert part.commit(old, "w1", folded) is None
    assert part.commit(new, "w2", folded._replace(snapshot=None)) == (new.version, None)
    world.release("w1", "w2")
    settled(world, "a")


def test_a_worker_that_took_its_own_lease_again_is_not_fooled_by_its_old_claim(make_world: MakeWorld) -> None:
    """The version that it read is not the one that is there: the old fold is thrown away."""
    world = make_world(make_site())
    part = world.store.partitions[0]
    push(world, add("a"))
    old = part.claim(1, "w1")
    assert old is not None
    world.settle("w1")
    world.now += 5000
    push(world, update("a", priority="0.9"))
    assert part.claim(1, "w1") is not None
    stale = Commit(snapshot=EMPTY, size=0, etag="", freed=(), records=1, purge_at=None)
    assert part.commit(old, "w1", stale) is None
    world.release("w1")
    settled(world, "a")
    assert published(world.folder)[BASE + "a"][2] == "0.9"


def test_only_the_holder_gives_a_lease_back(make_world: MakeWorld) -> None:
    """Postponing and releasing touch the named worker's leases alone."""
    world = make_world(make_site(shard_size=1))
    part = world.store.partitions[0]
    push(world, add("a"), add("b"))
    first, second = part.claim(1, "w1"), part.claim(2, "w2")
    assert first is not None
    assert second is not None
    part.postpone("1", "w2", second.lease, 0)
    part.postpone("1", "w1", second.lease, 0)
    part.postpone("1", "w2", first.lease, 0)
    assert set(part.release(["w2", "w3"]).members) == {"2"}
    assert {name: text.split(" ", 2)[2] for name, text in fields(world, "leases").items()} == {"1": "w1"}
    assert part.holders() == {"w1"}
    world.release("w1")
    settled(world, "a", "b")
    consistent(world)


def test_a_lease_is_exclusive_until_it_ends(make_world: MakeWorld) -> None:
    """To the millisecond; then another takes over, and more is wanted of the shard."""
    world = make_world(make_site())
    part = world.store.partitions[0]
    push(world, add("a"))
    assert part.claim(1, "w1") is not None
    world.now += 59_999
    assert part.claim(1, "w2") is None
    world.now += 1
    taken = part.claim(1, "w2")
    assert taken is not None
    assert taken.generation == 2
    assert part.holders() == {"w2"}
    assert part.release(["w1"]).members == ()
    world.release("w2")
    settled(world, "a")
    consistent(world)


def test_workers_that_hold_a_lease_too_long_are_named(make_world: MakeWorld) -> None:
    """Their supervisor kills them before the lease ends; others' workers are not its business."""
    world = make_world(make_site(shard_size=1))
    part = world.store.partitions[0]
    push(world, add("a"), add("b"))
    assert part.claim(1, "w1") is not None
    assert part.claim(2, "other-host") is not None
    assert part.beat(["w1", "w2"]) == []
    world.now += 59_000
    assert part.beat(["w1", "w2"]) == ["w1"]
    world.release("w1", "other-host")
    settled(world, "a", "b")

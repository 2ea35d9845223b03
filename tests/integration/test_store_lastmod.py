"""A shard's lastmod in the index says when its file changed: exactly then, and never backwards."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from sitemap_store.model.dates import instant_ms
from sitemap_store.model.events import Event
from sitemap_store.model.site import Site
from tests.integration.store_world import (
    add,
    changed,
    consistent,
    delete,
    files,
    once_at,
    push,
    settled,
    update,
    work,
)
from tests.published import content, listed, picture, published
from tests.world import BASE, START, Crash, World, make_site

MakeWorld = Callable[[Site], World]
NAME = "sitemap-pages-1.xml"


def lastmod(world: World) -> int:
    """The first shard's lastmod in epoch milliseconds."""
    return instant_ms(listed(world.folder)[NAME])


def test_a_lastmod_is_when_the_file_changed_and_not_its_newest_page(make_world: MakeWorld) -> None:
    """To the millisecond of the rewrite, whatever dates the pages have."""
    world = make_world(make_site())
    push(world, add("a", lastmod="2099-01-01"), add("b", lastmod="1999-01-01"))
    work(world)
    assert lastmod(world) == START
    world.now += 12_345
    push(world, update("b", lastmod="2001-01-01"))
    work(world)
    assert lastmod(world) == START + 12_345


def test_the_newest_page_is_deleted(make_world: MakeWorld) -> None:
    """I4: the newest page date goes back, and the shard's lastmod moves forward."""
    world = make_world(make_site())
    push(world, add("old", lastmod="2020-01-01"), add("newest", lastmod="2026-09-01"))
    world.settle()
    before = lastmod(world)
    world.now += 5000
    push(world, delete("newest"))
    settled(world, "old")
    assert lastmod(world) > before
    assert lastmod(world) == world.now


@pytest.mark.parametrize(
    "again",
    [
        (add("a", lastmod="2026-01-01"),),
        (update("a"),),
        (update("a", lastmod="2026-01-01"),),
        (add("a", lastmod="2026-01-01", source="another"),),
        (delete("a"), add("a", lastmod="2026-01-01")),
        (delete("never-there"),),
        (add("x"), delete("x")),
        (delete("a", source="not-its-owner"),),
        (delete("a", at=START - 99_999),),
    ],
    ids=lambda events: " ".join(f"{event.op} {event.source or ''}" for event in events),
)
def test_the_same_content_again_changes_nothing(make_world: MakeWorld, again: tuple[Event, ...]) -> None:
    """I4: no byte, no mtime, no lastmod, whatever way the same content came about."""
    world = make_world(make_site())
    push(world, add("a", lastmod="2026-01-01"), add("b"))
    world.settle()
    before = picture(world.folder)
    world.now += 5000
    push(world, *again)
    settled(world, "a", "b")
    assert changed(world, before) == set()
    consistent(world)


@pytest.mark.parametrize("seed", range(6))
def test_a_lastmod_moves_if_and_only_if_the_bytes_do(make_world: MakeWorld, seed: int) -> None:
    """I4: after each of a hundred random changes, with a clock that is set forth and back."""
    shuffler = random.Random(seed)
    site = make_site(
        sections={"blog": "/blog/**"}, gzip=bool(seed % 2), index_size=2, partitions=1 + seed % 3
    )
    world = make_world(site)
    bodies: dict[str, bytes] = {}
    lastmods: dict[str, str] = {}
    moved = 0
    for _ in range(100):
        world.now += shuffler.choice([1, 900, 1100, 60_000, 3_600_000, -3_600_000, -1])
        for _ in range(shuffler.randrange(1, 4)):
            path = shuffler.choice(["p", "blog/"]) + str(shuffler.randrange(9))
            lastmod = shuffler.choice(["2026-01-01", "2026-02-02"])
            push(world, shuffler.choice([add(path, lastmod=lastmod), update(path), delete(path)]))
        world.settle()
        now = listed(world.folder)
        bodies.update(dict.fromkeys(bodies.keys() - now.keys(), b""))  # emptied: what comes back is a change
        for name, text in now.items():
            body = content(world.folder / name)
            if name in lastmods and bodies[name] == body:
                assert text == lastmods[name], f"{name} did not change, its lastmod did"
            elif name in lastmods:
                moved += 1
                assert text > lastmods[name], f"{name} changed, its lastmod did not move on"
            bodies[name], lastmods[name] = body, text
    assert moved > 20


def test_a_lastmod_never_goes_back_with_the_clock(make_world: MakeWorld) -> None:
    """An hour back: the change still moves it forward, by a millisecond."""
    world = make_world(make_site())
    push(world, add("a"))
    world.settle()
    before = lastmod(world)
    world.now -= 3_600_000
    for n in range(3):
        push(world, update("a", priority=f"0.{n}"))
        world.settle()
        assert lastmod(world) == before + n + 1


def test_a_change_that_a_crash_published_halfway_still_counts(make_world: MakeWorld) -> None:
    """The file is there, its mark is not: done again, the lastmod moves although no byte does."""
    world = make_world(make_site())
    push(world, add("a"))
    world.settle()
    before = lastmod(world)
    world.now += 5000
    push(world, add("b"))
    with pytest.raises(Crash), world.crashing("renamed"):
        work(world)
    assert files(world)[NAME] == ["a", "b"]
    assert lastmod(world) == before
    world.release("w1")
    settled(world, "a", "b")
    assert lastmod(world) > before


def test_bytes_that_went_there_and_back_moved_the_lastmod(make_world: MakeWorld) -> None:
    """A crawler may have fetched what a dying worker left: it must see that the file changed since."""
    world = make_world(make_site())
    push(world, add("a"), add("b"))
    world.settle()
    before, body = lastmod(world), content(world.folder / NAME)
    world.now += 5000
    push(world, add("c"))
    with pytest.raises(Crash), world.crashing("renamed"):
        work(world)
    assert files(world)[NAME] == ["a", "b", "c"]
    world.release("w1")
    push(world, delete("c"))
    settled(world, "a", "b")
    assert content(world.folder / NAME) == body
    assert lastmod(world) > before


def test_bytes_of_a_late_worker_moved_the_lastmod(make_world: MakeWorld) -> None:
    """It put old bytes over new ones for a moment: when they are put right, the index says so."""
    world = make_world(make_site())
    push(world, add("a"))
    world.settle()
    world.now += 5000
    newer: list[int] = []

    def meanwhile() -> None:
        world.now += 61_000
        push(world, delete("b"))
        world.keep()
        jobs = list(world.jobs)
        world.jobs.clear()
        for job in jobs:
            world.run(world.worker("w2"), *job)
        world.settle("w2")
        newer.append(lastmod(world))

    push(world, add("b"))
    once_at(world, "committed", meanwhile)
    job = world.jobs.popleft()
    world.run(world.worker("w1"), *job)
    assert files(world)[NAME] == ["a", "b"], "the late worker did put its old bytes there"
    settled(world, "a")
    assert lastmod(world) > newer[0]


def test_a_late_worker_that_changed_nothing_moves_no_lastmod(make_world: MakeWorld) -> None:
    """It woke up late, and what it would have written was there already."""
    world = make_world(make_site())
    push(world, add("a"))
    newer: list[dict[str, tuple[bytes, int, int]]] = []

    def meanwhile() -> None:
        world.now += 61_000
        world.settle("w2")
        newer.append(picture(world.folder))

    once_at(world, "committed", meanwhile)
    world.run(world.worker("w1"), *world.jobs.popleft())
    settled(world, "a")
    assert changed(world, newer[0]) == set()


def test_two_changes_in_one_millisecond_have_two_lastmods(make_world: MakeWorld) -> None:
    """A crawler that came in between sees that the file changed again."""
    world = make_world(make_site(min_interval=0.0))
    seen = []
    for n in range(5):
        push(world, update("a", priority=f"0.{n}"))
        world.keep()
        shard = [job for job in world.jobs if not job[1].startswith("i")]
        world.jobs.clear()
        for job in shard:
            world.run(world.worker("w1"), *job)
        seen.append(world.client.hget(world.store.partitions[0].keys.shard(1), "lm"))
    assert len(set(seen)) == 5
    world.settle()
    assert published(world.folder)[BASE + "a"][2] == "0.4"

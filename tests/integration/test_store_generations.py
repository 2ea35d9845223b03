"""One generation number: changed settings, records that can't be rendered, a Redis that came back younger."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest
import redis

from sitemap_store.model.site import Site
from sitemap_store.model.style import Style
from sitemap_store.redis.claims import Claim
from sitemap_store.redis.state import FAILURES
from sitemap_store.shards.snapshot import Snapshot
from tests.integration.store_world import (
    add,
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
from tests.published import index_files, listed, published
from tests.world import BASE, World, make_site
from worker import publish, shard

MakeWorld = Callable[[Site], World]


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make every rendering fail that comes to a URL, as a fault of ours would."""
    bad: set[str] = set()
    render = shard.render_shard

    def failing(site: Site, section: str, snapshot: Snapshot) -> shard.Rendered:
        if found := bad & snapshot.entries.keys():
            raise ZeroDivisionError(f"by {min(found)}")
        return render(site, section, snapshot)

    for module in (shard, publish):
        monkeypatch.setattr(module, "render_shard", failing)
    return lambda path: bad.clear() if path == "" else bad.add(BASE + path)


def rounds(world: World, count: int) -> None:
    """Let the keeper and the workers go on, some seconds at a time."""
    for _ in range(count):
        world.now += 5000
        world.keep()
        work(world)


@pytest.mark.parametrize("logged", [True, False], ids=["in the log", "in the snapshot"])
def test_a_record_that_cannot_be_rendered_stops_its_shard_alone(
    make_world: MakeWorld, poison: Callable[[str], None], caplog: pytest.LogCaptureFixture, logged: bool
) -> None:
    """I10: after three tries the shard is put aside with the record's name; the others of the job go on."""
    world = make_world(make_site(shard_size=2))
    if not logged:
        push(world, add("a"))
        world.settle()
        world.now += 5000
    poison("a")
    push(world, add("a", priority="0.1"), add("b"), add("c"), add("d"))
    work(world)
    assert not fields(world, "leases")
    assert {"c", "d"} <= {loc.removeprefix(BASE) for loc in published(world.folder)}
    rounds(world, FAILURES)
    assert fields(world, "aside")["1"].startswith("ZeroDivisionError: by https://example.com/a")
    assert "https://example.com/a" in fields(world, "aside")["1"]
    assert "1" not in scores(world, "due")
    tries = sum("can't be rendered" in record.getMessage() for record in caplog.records)
    rounds(world, 3)
    assert sum("can't be rendered" in record.getMessage() for record in caplog.records) == tries == FAILURES
    poison("")
    push(world, update("b", priority="0.9"))
    settled(world, "a", "b", "c", "d")
    assert fields(world, "aside") == {}
    consistent(world)


@pytest.mark.parametrize("step", ["commit_each", "published_each"])
def test_a_shard_that_redis_does_not_take_stops_itself_alone(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A script that fails for one of the shards of a job: no lease stays, and the others are published."""
    world = make_world(make_site(shard_size=1))
    part = world.store.partitions[0]
    right = getattr(part, step)

    def failing(works: list[tuple[Claim, object]], worker: str) -> object:
        if any(claim.id == 2 for claim, _ in works):
            raise redis.ResponseError("a script failed")
        return right(works, worker)

    with monkeypatch.context() as patch:
        patch.setattr(part, step, failing)
        push(world, *map(add, "abc"))
        for _ in range(FAILURES):
            world.worker("w1").rewrite_shards(0, [1, 2, 3])
            world.now += 5000
        assert {loc.removeprefix(BASE) for loc in published(world.folder)} == {"a", "c"}
        assert fields(world, "leases") == {}
        assert fields(world, "aside").keys() == {"2"}
    push(world, update("b", priority="0.5"))
    settled(world, "a", "b", "c")
    consistent(world)


def test_the_deletion_of_the_bad_record_brings_its_shard_back(
    make_world: MakeWorld, poison: Callable[[str], None]
) -> None:
    """A shard that is put aside is tried again with its next event."""
    world = make_world(make_site())
    poison("a")
    push(world, add("a"), add("b"))
    work(world)
    rounds(world, FAILURES)
    assert fields(world, "aside")
    push(world, delete("a"))
    settled(world, "b")
    consistent(world)


def test_a_failure_that_passes_is_forgotten(make_world: MakeWorld, poison: Callable[[str], None]) -> None:
    """Three failures in a row count, not three in all."""
    world = make_world(make_site())
    for _ in range(FAILURES + 1):
        poison("a")
        push(world, add("a", lastmod="2026-03-21"))
        work(world)
        poison("")
        rounds(world, 1)
        push(world, delete("a"))
        rounds(world, 1)
    assert fields(world, "aside") == {}


def configured(world: World) -> World:
    """As a process that has just started: its settings are those that the files follow."""
    for partition in world.store.partitions:
        if partition.configure():
            partition.want_all()
    return world


def test_a_rolling_change_of_settings_ends_as_the_new_ones_say(make_world: MakeWorld) -> None:
    """Workers of the old and the new settings side by side: the old ones render nothing any more."""
    old = configured(make_world(make_site(shard_size=2)))
    push(old, *(add(f"p{n}") for n in range(6)))
    old.settle()
    old.now += 5000
    new = make_world(make_site(shard_size=2, gzip=True, styles={"pages": Style(changefreq="daily")}))
    new.now = old.now
    new.jobs = old.jobs
    push(old, update("p0", priority="0.1"))
    once_at(old, "committed", lambda: (configured(new), None)[1])
    work(old)  # it was at work when the settings changed
    for n in range(20):
        world = (old, new)[n % 2]
        world.now = new.now = old.now = old.now + 3000
        push(world, update(f"p{n % 6}", priority=f"0.{n % 10}"))
        world.keep()
        work(world)
    settled(new, *(f"p{n}" for n in range(6)))
    assert set(listed(new.folder)) == {f"sitemap-pages-{n}.xml.gz" for n in (1, 2, 3)}
    assert {row[1] for row in published(new.folder).values()} == {"daily"}
    old.now = new.now
    push(old, update("p0", priority="1.0"))
    work(old)
    assert published(old.folder)[BASE + "p0"][2] != "1.0", "a worker with older settings rendered"
    settled(new, *(f"p{n}" for n in range(6)))
    consistent(new)


def test_a_start_that_died_before_it_marked_all_shards_is_made_good(make_world: MakeWorld) -> None:
    """Each file keeps the number of its settings: the scrubber finds those of older ones."""
    old = configured(make_world(make_site(shard_size=2)))
    push(old, *(add(f"p{n}") for n in range(6)))
    old.settle()
    new = make_world(make_site(shard_size=2, styles={"pages": Style(changefreq="daily")}))
    new.now = old.now + 5000
    for partition in new.store.partitions:
        assert partition.configure()
    new.scrub()
    settled(new, *(f"p{n}" for n in range(6)))
    assert {row[1] for row in published(new.folder).values()} == {"daily"}


def test_the_same_settings_again_change_nothing(make_world: MakeWorld) -> None:
    """A restart renders nothing."""
    world = configured(make_world(make_site()))
    push(world, add("a"))
    world.settle()
    assert [partition.configure() for partition in world.store.partitions] == [False]


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_lowered_index_size_moves_shards_one_by_one(make_world: MakeWorld, partitions: int) -> None:
    """No index file lists more than it may; each listed file is there at any time; lastmods stay."""
    old = configured(make_world(make_site(shard_size=1, index_size=8, partitions=partitions)))
    paths = [f"p{n}" for n in range(14)]
    push(old, *map(add, paths))
    old.settle()
    lastmods = listed(old.folder)
    new = make_world(make_site(shard_size=1, index_size=3, partitions=partitions))
    new.now = old.now + 5000

    def check(_point: str) -> None:
        for path in index_files(new.folder):
            for loc in re.findall(rb"<loc>[^<]*/(sitemap-[^<]*)</loc>", path.read_bytes()):
                assert (new.folder / loc.decode()).is_file()
                named.add(loc.decode())

    named: set[str] = set()
    configured(new)
    new.fault = check
    new.keep()
    work(new)
    assert named == lastmods.keys()
    settled(new, *paths)
    assert listed(new.folder) == lastmods
    assert max(path.read_bytes().count(b"<sitemap>") for path in index_files(new.folder)) <= 3
    consistent(new)


def younger(world: World, act: Callable[[], None]) -> None:
    """Do something that Redis has forgotten afterwards: it comes back with an older state."""
    names = list(world.client.scan_iter("*"))
    before = {name: (world.client.dump(name), world.client.pttl(name)) for name in names}
    act()
    for name in world.client.scan_iter("*"):
        world.client.delete(name)
    for name, (dump, ttl) in before.items():
        assert isinstance(ttl, int)
        dumped: Any = dump
        world.client.restore(name, max(0, ttl), dumped)
    world.jobs.clear()


@pytest.mark.parametrize(
    "lost",
    [
        lambda world: push(world, update("a", priority="0.9")),
        lambda world: push(world, delete("a")),
        lambda world: push(world, add("c"), add("d"), add("e")),
    ],
    ids=["update", "delete", "new shard"],
)
@pytest.mark.parametrize("index_first", [True, False])
@pytest.mark.parametrize("behind", [3_000, 3_600_000], ids=["seconds", "an hour"])
def test_no_lastmod_goes_back_when_redis_comes_back_younger(
    make_world: MakeWorld, lost: Callable[[World], None], index_first: bool, behind: int
) -> None:
    """The published index is the witness; what it shows as newer is rendered again as the state has it."""
    world = make_world(make_site(shard_size=1, index_size=10))
    push(world, add("a"), add("b"))
    world.settle()
    world.now += 5000

    def act() -> None:
        lost(world)
        world.settle()

    younger(world, act)
    shown = listed(world.folder)
    world.now -= behind  # the clock of the new primary is behind, too
    if index_first:  # the index is rewritten before the scrubber has looked
        push(world, update("b", priority="0.4"))
        work(world)
        for name, lastmod in listed(world.folder).items():
            assert lastmod >= shown.get(name, "")
    world.scrub()
    settled_paths = {"a", "b"}
    world.settle()
    now = listed(world.folder)
    for name in ("sitemap-pages-1.xml", "sitemap-pages-2.xml"):
        assert now[name] >= shown.get(name, "")
    assert {loc.removeprefix(BASE) for loc in published(world.folder)} == settled_paths


def test_an_index_with_lastmods_of_the_far_future_is_no_witness(make_world: MakeWorld) -> None:
    """Somebody altered it: it is replaced, and no lastmod follows it."""
    world = make_world(make_site())
    push(world, add("a"))
    world.settle()
    before = listed(world.folder)
    path = world.folder / "sitemap.xml"
    path.write_bytes(path.read_bytes().replace(b"2026", b"2099"))
    world.scrub()
    settled(world, "a")
    assert listed(world.folder) == before


def test_a_late_report_raises_what_is_wanted_and_clears_nothing(make_world: MakeWorld) -> None:
    """Publishing sets `published` to the generation of its claim and never higher."""
    world = make_world(make_site())
    part = world.store.partitions[0]
    push(world, add("a"))
    first = part.claim(1, "w1")
    assert first is not None
    assert first.generation == 1
    push(world, add("b"))
    world.now += 60_000
    second = part.claim(1, "w2")
    assert second is not None
    assert second.generation == 3  # an append, and a lease that was lost
    world.release("w1")
    assert int(fields(world, "s:1")["published"]) == 0
    world.release("w2")
    settled(world, "a", "b")
    meta = fields(world, "s:1")
    assert meta["wanted"] == meta["published"]
    consistent(world)


def test_a_log_larger_than_a_rewrite_may_fold_is_folded_in_parts(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left in the log is wanted still."""
    monkeypatch.setattr("sitemap_store.redis.state.LOG_BYTES", 200)
    world = make_world(make_site(shard_size=50))
    for n in range(20):
        push(world, add(f"p{n}"))
    settled(world, *(f"p{n}" for n in range(20)))
    consistent(world)


def test_limits_that_changed_apply_to_shards_that_are_there(make_world: MakeWorld) -> None:
    """Fewer URLs a file: each shard that holds more is split, new home first."""
    old = configured(make_world(make_site(shard_size=10)))
    paths = [f"p{n}" for n in range(9)]
    push(old, *map(add, paths))
    old.settle()
    site = make_site(shard_size=10)
    new = make_world(dataclasses.replace(site, limits=dataclasses.replace(site.limits, urls_per_file=4)))
    new.now = old.now + 5000
    configured(new)
    settled(new, *paths)

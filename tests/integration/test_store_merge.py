"""Sparse shards become one: no URL nowhere, none twice for good, and no file that is not needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from sitemap_store.model.protocol import STRICT
from sitemap_store.model.site import Site
from sitemapd.restore import restore_tree
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
    seat,
    settled,
    update,
    work,
    work_until_crash,
)
from tests.published import listed, picture, published, shard_files, urls_of, valid_now
from tests.world import BASE, Crash, World, make_site
from worker.merge import NOTHING_MS, PAUSE_MS
from worker.site import no_fault

MakeWorld = Callable[[Site], World]
MERGE_POINTS = ("merge_claimed", "merge_committed")


def sparse(make_world: MakeWorld, site: Site | None = None, *, quiet: bool = True) -> World:
    """Four shards of ten, of which the first three hold one URL each, and the open one two."""
    world = make_world(site or make_site(shard_size=10))
    push(world, *(add(f"p{n:02}", lastmod="2026-03-21") for n in range(32)))
    world.settle()
    push(world, *(delete(f"p{n:02}") for n in range(30) if n % 10))
    world.settle()
    if quiet:
        world.now += DAY + 1000
        world.settle()  # the tombstones end
        world.now += DAY + 1000
    return world


LIVE = ("p00", "p10", "p20", "p30", "p31")


def listed_paths(world: World) -> set[str]:
    """What a crawler finds from the index on, however often."""
    return {
        url.loc.removeprefix(BASE) for name in listed(world.folder) for url in urls_of(world.folder / name)
    }


def watch(world: World, *paths: str) -> None:
    """From now on see at every step that these URLs are listed, and that no index names a missing file."""

    def look(_point: str) -> None:
        valid_now(world.folder)
        assert set(paths) <= listed_paths(world), "a URL is listed nowhere"

    world.fault = look


def publish(world: World) -> None:
    """Go on until nothing waits, without losing the test's fault hook."""
    for _ in range(50):
        world.keep()
        work(world)
        if world.store.unsettled(world.now) == 0:
            return
        world.now += 1100
    raise AssertionError("it does not settle")


def test_two_neighbours_become_one(make_world: MakeWorld) -> None:
    """The earlier's entry goes to the later; the earlier's file, shard and place in the index go."""
    world = sparse(make_world)
    before = picture(world.folder)
    watch(world, *LIVE)
    assert world.merge("w1", 0, 1, 2)
    assert seat(world, "p00") == seat(world, "p10") == 2
    publish(world)
    settled(world, *LIVE)
    assert files(world) == {
        "sitemap-pages-2.xml": ["p00", "p10"],
        "sitemap-pages-3.xml": ["p20"],
        "sitemap-pages-4.xml": ["p30", "p31"],
    }
    assert changed(world, before) == {"sitemap-pages-1.xml", "sitemap-pages-2.xml", "sitemap.xml"}
    assert set(scores(world, "shards")) == {"2", "3", "4"}
    consistent(world)


def test_a_merge_moves_what_entries_and_tombstones_say(make_world: MakeWorld) -> None:
    """`at`, owner and every field move along: a late event loses against them as before."""
    world = make_world(make_site(shard_size=2))
    now = world.now
    push(world, add("a", at=now - 1000, source="cms", priority="0.3", lastmod="2026-03-21"))
    push(world, add("b", at=now - 1000))
    push(world, add("c", at=now - 1000), add("d"), add("e"))
    world.settle()
    push(world, delete("b", at=now - 500), delete("d", source="cms"), delete("c", at=now - 500))
    world.settle()
    before = world.store.find(BASE + "a")
    push(world, delete("d", at=now + 10))
    push(world, add("c", at=now + 20))
    world.settle()
    assert world.merge("w1", 0, 1, 2)
    world.settle()
    after = world.store.find(BASE + "a")
    assert before is not None
    assert after is not None
    assert after.entry == before.entry
    assert (before.shard, after.shard) == (1, 2)
    push(world, add("b", at=now - 700), add("d", at=now + 5), update("a", at=now - 2000, priority="0.9"))
    push(world, delete("a", source="files"))
    settled(world, "a", "c", "e")
    assert published(world.folder)[BASE + "a"] == ("2026-03-21", None, "0.3")
    consistent(world)
    world.now += DAY + 2000
    settled(world, "a", "c", "e")
    consistent(world)


@pytest.mark.parametrize("point", MERGE_POINTS)
def test_events_that_come_in_the_middle_are_not_lost(make_world: MakeWorld, point: str) -> None:
    """Events for both shards between claim and commit, and after it: they are folded where the URL sits."""
    world = sparse(make_world)
    once_at(
        world,
        point,
        lambda: push(
            world,
            update("p00", priority="0.4"),
            delete("p10"),
            add("p01"),
            update("p20", priority="0.5"),
            add("p02"),
            delete("p02"),
        ),
    )
    assert world.merge("w1", 0, 1, 2)
    settled(world, "p00", "p01", "p20", "p30", "p31")
    assert published(world.folder)[BASE + "p00"][2] == "0.4"
    assert seat(world, "p00") == 2
    consistent(world)


@pytest.mark.parametrize("point", [*MERGE_POINTS, *POINTS])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_crash_at_any_step_loses_nothing(make_world: MakeWorld, point: str, nth: int) -> None:
    """kill -9 between any two steps: each URL is listed at every moment, and once at the end."""
    world = sparse(make_world)

    def doing(world: World) -> None:
        world.merge("w1", 0, 1, 2)
        for _ in range(10):
            world.keep()
            work(world)
            world.now += 1100

    if not work_until_crash(world, point, nth, doing):
        assert nth > 1
    watch(world, *LIVE)
    valid_now(world.folder)
    assert set(LIVE) <= listed_paths(world)
    world.release("w1")
    publish(world)
    settled(world, *LIVE)
    consistent(world)
    expected = 4 if point == "merge_claimed" and nth == 1 else 3
    assert len(shard_files(world.folder)) == expected


def test_a_merge_whose_lease_was_lost_changes_nothing(make_world: MakeWorld) -> None:
    """A worker that stood still past its lease, while another took over the shard, can't commit."""
    world = sparse(make_world)

    def overtaken() -> None:
        world.now += 61_000
        push(world, update("p10", priority="0.7"))
        world.fault = no_fault
        world.keep()
        work(world, "w2")

    once_at(world, "merge_claimed", overtaken)
    assert not world.merge("w1", 0, 1, 2)
    assert seat(world, "p00") == 1
    settled(world, *LIVE)
    assert published(world.folder)[BASE + "p10"][2] == "0.7"
    assert len(shard_files(world.folder)) == 4
    consistent(world)


def test_a_merge_whose_lease_another_has_changes_nothing(make_world: MakeWorld) -> None:
    """The version alone does not tell: the other one has just claimed the shard and not yet committed."""
    world = sparse(make_world)
    part = world.store.partitions[0]

    def overtaken() -> None:
        world.now += 61_000
        assert part.claim(1, "w2") is not None

    once_at(world, "merge_claimed", overtaken)
    assert not world.merge("w1", 0, 1, 2)
    assert seat(world, "p00") == 1
    assert set(fields(world, "leases")) == {"1"}, "the other's lease was taken away"
    world.release("w2")
    settled(world, *LIVE)
    consistent(world)


def test_shards_in_use_are_not_merged(make_world: MakeWorld) -> None:
    """Due, leased, open, unknown, of another section, the same twice, or not yet done with the last merge."""
    world = sparse(make_world, make_site(shard_size=10, sections={"blog": "/blog/**"}))
    push(world, *(add(f"blog/{n}") for n in range(11)))
    world.settle()
    assert not world.merge("w1", 0, 1, 4), "the open shard"
    assert not world.merge("w1", 0, 1, 5), "another section's"
    assert not world.merge("w1", 0, 1, 99)
    assert not world.merge("w1", 0, 1, 1)
    push(world, update("p10", priority="0.1"))
    assert not world.merge("w1", 0, 1, 2), "due"
    world.settle()
    world.now += 5000
    assert world.merge("w1", 0, 1, 2)
    assert not world.merge("w1", 0, 2, 3), "not published"
    assert not world.merge("w1", 0, 1, 3), "its entries are elsewhere already"
    assert not fields(world, "leases")
    settled(world, *LIVE, *(f"blog/{n}" for n in range(11)))
    consistent(world)


def test_a_file_stays_while_the_one_that_has_its_urls_cannot_be_written(make_world: MakeWorld) -> None:
    """The merged shard's file, then its index, and only then the other's file: whoever is asked first."""
    world = sparse(make_world)
    assert world.merge("w1", 0, 1, 2)
    world.jobs.clear()
    assert not world.run(world.worker("w1"), 0, "1"), "the earlier shard waits"
    assert (world.folder / "sitemap-pages-1.xml").exists()
    world.worker("w1").rewrite_shard(0, 2)
    assert not world.run(world.worker("w1"), 0, "1"), "no index names the new file's date yet"
    assert "sitemap-pages-1.xml" in listed(world.folder)
    world.jobs.clear()
    world.worker("w1").publish_index(0, 1)
    world.now += 200
    watch(world, *LIVE)
    publish(world)
    settled(world, *LIVE)


def test_a_merged_shard_may_be_merged_again_and_its_number_is_not_given_again(make_world: MakeWorld) -> None:
    """Two and one make one; new shards get new numbers, names and dates."""
    world = sparse(make_world)
    watch(world, *LIVE)
    assert world.merge("w1", 0, 1, 2)
    publish(world)
    assert world.merge("w1", 0, 2, 3)
    publish(world)
    assert files(world)["sitemap-pages-3.xml"] == ["p00", "p10", "p20"]
    push(world, *(add(f"q{n}") for n in range(9)))
    settled(world, *LIVE, *(f"q{n}" for n in range(9)))
    assert set(files(world)) == {f"sitemap-pages-{n}.xml" for n in (3, 4, 5)}
    consistent(world)


def test_many_shards_become_one_in_one_step(make_world: MakeWorld) -> None:
    """As the command does it: the last file is written once, the others go."""
    world = sparse(make_world)
    before = picture(world.folder)
    watch(world, *LIVE)
    assert world.merge("w1", 0, 1, 2, 3)
    publish(world)
    settled(world, *LIVE)
    assert files(world)["sitemap-pages-3.xml"] == ["p00", "p10", "p20"]
    assert "sitemap-pages-4.xml" not in changed(world, before)
    consistent(world)


def test_a_merge_over_a_limit_is_not_made(make_world: MakeWorld) -> None:
    """A merged shard would be split again at once: it stays two."""
    site = make_site(shard_size=3, limits=dataclasses.replace(STRICT, urls_per_file=3))
    world = make_world(site)
    push(world, *(add(f"p{n}") for n in range(7)))
    world.settle()
    assert not world.merge("w1", 0, 1, 2)
    settled(world, *(f"p{n}" for n in range(7)))
    consistent(world)


@pytest.mark.parametrize("point", [*MERGE_POINTS, *POINTS])
@pytest.mark.parametrize("nth", [1, 2])
def test_restore_at_any_moment_gives_each_url_one_seat(make_world: MakeWorld, point: str, nth: int) -> None:
    """I7: while a URL is in two files, or the old file is not yet gone, Redis is lost and taken back."""
    world = sparse(make_world)

    def doing(world: World) -> None:
        world.merge("w1", 0, 1, 2)
        world.keep()
        work(world)
        world.now += 200
        world.keep()
        work(world)

    work_until_crash(world, point, nth, doing)
    world.fault = no_fault
    world.jobs.clear()
    world.client.flushall()
    restore_tree(world.store, world.output)
    world.adopt("state-2")
    consistent_seats = {path: seat(world, path) for path in LIVE}
    assert None not in consistent_seats.values()
    assert sorted(entry.loc for entry in world.store.listing()) == sorted(BASE + path for path in LIVE)
    push(world, update("p00", priority="0.2"))
    world.settle()
    assert published(world.folder).keys() == {BASE + path for path in LIVE}
    assert published(world.folder)[BASE + "p00"][2] == "0.2"


class TestByItself:
    """What the keeper does, slowly."""

    def test_sparse_neighbours_merge_until_no_two_fit(self, make_world: MakeWorld) -> None:
        """Under `compact_below`, old shards and not the open one; two at a time."""
        world = sparse(make_world)
        watch(world, *LIVE)
        world.merge_sparse()
        assert seat(world, "p00") == 2
        publish(world)
        world.merge_sparse()
        assert seat(world, "p20") == 3
        assert seat(world, "p10") == 2, "the merged shard was touched today"
        for _ in range(3):
            world.now += max(DAY + 1000, PAUSE_MS, NOTHING_MS)
            world.merge_sparse()
            publish(world)
        settled(world, *LIVE)
        assert set(files(world)) == {"sitemap-pages-3.xml", "sitemap-pages-4.xml"}
        consistent(world)

    def test_merges_keep_their_distance(self, make_world: MakeWorld) -> None:
        """However many keepers look, a section's next merge comes after its pause."""
        world = sparse(make_world)
        world.merge_sparse()
        part = world.store.partitions[0]
        assert part.merge_turn(NOTHING_MS)[1] is None
        world.now += PAUSE_MS
        assert part.merge_turn(NOTHING_MS)[1] == "pages"
        assert part.merge_turn(NOTHING_MS)[1] is None
        world.now += NOTHING_MS
        assert part.merge_turn(NOTHING_MS)[1] == "pages"
        world.now -= 30 * DAY
        assert part.merge_turn(NOTHING_MS)[1] == "pages", "the clock was set back"

    @pytest.mark.parametrize("below", [0.0, 0.1])
    def test_a_section_that_is_full_enough_is_left_alone(self, make_world: MakeWorld, below: float) -> None:
        """5 of 40 seats are taken, which is more than the setting says; 0 turns it off."""
        world = sparse(make_world, make_site(shard_size=10, compact_below=below))
        before = picture(world.folder)
        world.merge_sparse()
        world.settle()
        assert picture(world.folder) == before

    def test_what_was_touched_today_stays(self, make_world: MakeWorld) -> None:
        """A shard that changed today may soon change again, and has tombstones."""
        world = sparse(make_world, quiet=False)
        world.now += DAY - 60_000
        world.merge_sparse()
        world.settle()
        assert len(shard_files(world.folder)) == 4

    def test_the_emptiest_section_comes_first(self, make_world: MakeWorld) -> None:
        """Each has a turn of its own."""
        world = sparse(make_world, make_site(shard_size=10, sections={"blog": "/blog/**"}))
        push(world, *(add(f"blog/{n}") for n in range(31)))
        world.settle()
        push(world, *(delete(f"blog/{n}") for n in range(31) if n % 15))
        world.settle()
        part = world.store.partitions[0]
        assert [part.merge_turn(NOTHING_MS)[1] for _ in range(3)] == ["blog", "pages", None]


def test_a_worker_that_dies_with_a_crash_leaves_nothing_behind(make_world: MakeWorld) -> None:
    """The leases of a merge are freed with those of rewrites."""
    world = sparse(make_world)
    with pytest.raises(Crash), world.crashing("merge_claimed"):
        world.merge("w1", 0, 1, 2)
    assert set(fields(world, "leases")) == {"1", "2"}
    world.release("w1")
    settled(world, *LIVE)
    consistent(world)

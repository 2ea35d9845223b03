"""The scrubber: what is altered at the output behind our back is put right, and nothing else moves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sitemap_store.model.site import Site
from sitemap_store.redis.state import PATIENCE_MS
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
from tests.published import listed, picture, shard_files
from tests.world import World, make_site
from worker.scrub import CONTENT_EVERY_S, STRANGE_S, Findings, Scrubber

MakeWorld = Callable[[Site], World]
PATHS = [f"p{n}" for n in range(7)]
NAMES = ["sitemap-pages-1.xml", "sitemap-pages-4.xml", "sitemap.xml", "sitemap-2.xml"]


class Scrubbing:
    """A world with a published tree, and a scrubber whose clock and CPU time the test moves."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seconds = 1000.0
        self.cpu = 0.0
        self.scrubber = Scrubber(
            world.store,
            world.output,
            "host/1/a",
            clock=lambda: self.seconds,
            cpu=lambda: self.cpu,
        )

    def look(self) -> Findings:
        """One look, two seconds after the last."""
        self.seconds += 2
        return self.scrubber.look()


@pytest.fixture(params=[False, True], ids=["plain", "gzip"])
def scrubbing(request: pytest.FixtureRequest, make_world: MakeWorld) -> Scrubbing:
    """Give a tree of four shards and two index files that the scrubber has seen."""
    world = make_world(make_site(shard_size=2, index_size=2, gzip=request.param))
    push(world, *map(add, PATHS))
    world.settle()
    world.now += 5000
    found = Scrubbing(world)
    assert not found.look()
    return found


def real(world: World, name: str) -> str:
    """The name of a shard's file as this site has it."""
    return name + ".gz" if world.site.gzip and "pages" in name else name


def alter(path: Path, how: str) -> None:
    """Do something to a published file that its writer did not."""
    right = path.read_bytes()
    if how == "bytes":
        path.write_bytes(b"<html>hacked</html>")
    elif how == "one byte, same size and time":
        at = path.stat()
        path.write_bytes(right[:-20] + bytes([right[-20] ^ 1]) + right[-19:])
        os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns - 1))
    elif how == "torn":
        os.truncate(path, len(right) // 2)
    elif how == "another file renamed over it":
        other = path.with_name("other")
        other.write_bytes(right + b"<!-- -->")
        other.rename(path)
    else:
        path.unlink()
        if how == "link":
            (path.parent.parent / "elsewhere").write_bytes(right)
            path.symlink_to(path.parent.parent / "elsewhere")


@pytest.mark.parametrize(
    "how",
    ["bytes", "one byte, same size and time", "torn", "another file renamed over it", "gone", "link"],
)
@pytest.mark.parametrize("name", NAMES)
def test_what_was_altered_is_put_right_at_the_next_look(scrubbing: Scrubbing, name: str, how: str) -> None:
    """I9: the file holds what was published again; its lastmod moves unless the file was merely gone."""
    world = scrubbing.world
    name = real(world, name)
    right, lastmods = (world.folder / name).read_bytes(), listed(world.folder)
    alter(world.folder / name, how)
    found = scrubbing.look()
    assert [*found.gone, *found.altered] == [name]
    world.settle()
    assert not (world.folder / name).is_symlink()
    moved = {file for file, lastmod in listed(world.folder).items() if lastmod != lastmods[file]}
    if "pages" in name:
        assert (world.folder / name).read_bytes() == right
        assert moved == (set() if how == "gone" else {name})
    else:
        assert moved == set()
    settled(world, *PATHS)
    consistent(world)
    before = picture(world.folder)
    assert not scrubbing.look()
    assert changed(world, before) == set()


def test_a_file_that_was_altered_before_we_ran_is_found_within_the_day(scrubbing: Scrubbing) -> None:
    """Another scrubber, which never saw the file, compares all contents, and later once in half a day."""
    world = scrubbing.world
    name = real(world, NAMES[0])
    stat = (world.folder / name).stat()
    alter(world.folder / name, "one byte, same size and time")
    assert Scrubbing(world).look().altered == [name]
    world.settle()
    scrubbing.look()
    at = (world.folder / name).stat()
    data = (world.folder / name).read_bytes()
    with open(world.folder / name, "r+b") as file:  # the same inode, size and time
        file.write(data[:-20] + bytes([data[-20] ^ 1]))
    os.utime(world.folder / name, ns=(at.st_atime_ns, at.st_mtime_ns))
    assert not scrubbing.look()
    scrubbing.seconds += CONTENT_EVERY_S
    assert scrubbing.look().altered == [name]
    assert stat.st_size == at.st_size


def test_a_look_without_time_compares_suspects_alone(scrubbing: Scrubbing) -> None:
    """What a look may cost is bounded: files that nothing speaks against wait for a later look."""
    world = scrubbing.world
    ticks = iter(range(10_000))
    scrubber = Scrubber(world.store, world.output, "host/2/b", cpu=lambda: float(next(ticks)))
    found = scrubber.look()
    assert (found.same, found.altered) == (0, [])
    scrubbing.scrubber._cpu = lambda: float(next(ticks))
    alter(world.folder / real(world, NAMES[1]), "bytes")
    found = scrubbing.look()
    assert (found.same, found.altered) == (0, [real(world, NAMES[1])])


@pytest.mark.parametrize("marker", [True, False], ids=["marker too", "marker left"])
def test_a_wiped_output_is_put_back_shards_first(scrubbing: Scrubbing, marker: bool) -> None:
    """The same bytes and lastmods; at no time does an index name a file that is not there."""
    world = scrubbing.world
    before = {name: data for name, (data, _, _) in picture(world.folder).items()}
    for path in world.folder.iterdir():
        if marker or path.name != ".sitemapd":
            path.unlink()

    def check(_point: str) -> None:
        listed(world.folder)  # fails on an index that names a file which is not there

    world.fault = check
    found = scrubbing.look()
    assert set(found.gone) == before.keys()
    for _ in range(4):
        world.keep()
        work(world)
        world.now += 300
    world.settle()
    assert {name: data for name, (data, _, _) in picture(world.folder).items()} == before
    assert world.output.marker() == "state-1"
    assert not scrubbing.look()


def test_an_index_waits_for_a_missing_shard_that_cannot_be_put_back_and_not_for_ever(
    scrubbing: Scrubbing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a minute it is written without that shard; when the file is back, it is listed again."""
    world = scrubbing.world
    missing = real(world, NAMES[0])
    for path in world.folder.glob("sitemap*"):
        path.unlink()
    put = world.output.put

    def failing(name: str, data: bytes, worker: str) -> object:
        if name == missing:
            raise OSError("the disk")
        return put(name, data, worker)

    with monkeypatch.context() as patch:
        patch.setattr(world.output, "put", failing)
        scrubbing.look()
        world.keep()
        work(world)
        assert not (world.folder / "sitemap.xml").exists()
        for _ in range(4):
            world.now += PATIENCE_MS // 3
            world.keep()
            work(world)
        assert missing not in listed(world.folder)
        assert (world.folder / "sitemap.xml").exists()
    world.store.partitions[0].want_all()
    settled(world, *PATHS)


def test_a_folder_that_is_gone_is_waited_for_and_not_made(scrubbing: Scrubbing) -> None:
    """An unmounted disk must not be filled below its mount point."""
    world = scrubbing.world
    away = world.folder.with_name("away")
    world.folder.rename(away)
    assert not scrubbing.look()
    assert not world.folder.exists()
    away.rename(world.folder)
    assert not scrubbing.look()
    world.folder.rename(away)
    world.folder.mkdir()
    assert len(scrubbing.look().gone) == 6
    settled(world, *PATHS)
    shutil.rmtree(away)


def test_a_change_while_the_folder_is_gone_wants_nothing_else(scrubbing: Scrubbing) -> None:
    """The index that can't be read says nothing of the shards: they are not taken for missing."""
    world = scrubbing.world
    away = world.folder.with_name("away")
    before = fields(world, "s:2")
    push(world, update("p0", priority="0.4"))

    def unmount() -> None:
        world.folder.rename(away)

    once_at(world, "index_claimed", unmount)
    worker = world.worker("w1")  # one that has seen the marker
    while world.jobs:
        world.run(worker, *world.jobs.popleft())
    assert not world.folder.exists()
    assert "found_gone" not in fields(world, "stats")
    assert fields(world, "s:2") == before
    away.rename(world.folder)
    settled(world, *PATHS)


def test_an_output_that_another_live_process_sees_elsewhere_is_left_alone(scrubbing: Scrubbing) -> None:
    """This process is configured to another folder: it marks nothing while the other one lives."""
    world = scrubbing.world
    first = world.store.partitions[0]
    for path in world.folder.iterdir():
        path.unlink()
    first.saw_marker("other-host/7/b", there=True, within_ms=20_000)
    assert not scrubbing.look()
    assert world.output.marker() is None
    first.saw_marker("other-host/7/b", there=False, within_ms=20_000)
    assert len(scrubbing.look().gone) == 6


def test_an_output_with_the_marker_of_another_state_is_left_alone(scrubbing: Scrubbing) -> None:
    """Nothing is wanted, and nothing is marked."""
    world = scrubbing.world
    world.output.mark("shop", "another")
    shard_files(world.folder)[0].unlink()
    assert not scrubbing.look()
    assert world.output.marker() == "another"


def test_a_lost_marker_among_files_of_somebody_else_is_not_made_anew(scrubbing: Scrubbing) -> None:
    """The folder now belongs to another program."""
    world = scrubbing.world
    (world.folder / ".sitemapd").unlink()
    (world.folder / "sitemap-theirs-1.xml").write_bytes(b"<urlset/>")
    assert not scrubbing.look()
    assert world.output.marker() is None


def test_a_stranger_in_our_names_goes_after_a_while_and_another_is_named_once(scrubbing: Scrubbing) -> None:
    """A file of a section of ours that no shard has was written late; another section's is somebody's own."""
    world = scrubbing.world
    late, own = world.folder / "sitemap-pages-99.xml", world.folder / "sitemap-mine-1.xml"
    late.write_bytes(b"<urlset/>")
    own.write_bytes(b"<urlset/>")
    assert not scrubbing.look()
    scrubbing.seconds += STRANGE_S
    assert scrubbing.look().strange == [own.name, late.name]
    assert not late.exists()
    assert own.exists()
    scrubbing.seconds += STRANGE_S
    assert not scrubbing.look()
    assert fields(world, "stats")["found_strange"] == "2"
    settled_files = {path.name for path in shard_files(world.folder)} - {own.name}
    assert settled_files == set(listed(world.folder))


def test_a_file_of_an_empty_shard_goes(scrubbing: Scrubbing) -> None:
    """Written late for a shard that is empty by now, and listed nowhere."""
    world = scrubbing.world
    name = real(world, NAMES[1])
    push(world, delete("p6"))  # the open shard of the section: it stays, empty
    world.settle()
    assert not (world.folder / name).exists()
    (world.folder / name).write_bytes(b"late")
    scrubbing.look()
    settled(world, *PATHS[:6])


def test_a_worker_that_publishes_during_a_look_is_not_taken_for_a_stranger(
    scrubbing: Scrubbing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every point of a rewrite, between what the look reads of the state and of the folder."""
    world = scrubbing.world
    signatures, steps = world.output.signatures, iter(range(100))

    def meanwhile() -> object:
        push(world, update("p0", priority=f"0.{next(steps) % 10}"))
        world.now += 3000
        work(world)
        return signatures()

    found: list[Findings] = []
    for point in ("claimed", "committed", "renamed", "published", "index_renamed"):
        push(world, update("p0", lastmod=f"2026-03-{next(steps) + 1:02}"))
        world.now += 3000
        once_at(world, point, lambda: found.append(scrubbing.look()))
        work(world)
        assert found
        assert not any(found), point
    monkeypatch.setattr(world.output, "signatures", meanwhile)
    assert not scrubbing.look()
    world.settle()


def test_what_is_wanted_and_nowhere_due_is_found(scrubbing: Scrubbing) -> None:
    """A Redis that came back younger may have lost the entry: wanted > published alone is enough."""
    world = scrubbing.world
    part = world.store.partitions[0]
    push(world, update("p0", priority="0.7"))
    world.jobs.clear()
    for name in ("due", "pending", "scheduled"):
        world.client.delete(f"{part.keys.prefix}:{name}")
    assert scores(world, "due") == {}
    scrubbing.look()
    settled(world, *PATHS)
    consistent(world)


def test_check_reports_and_changes_nothing(scrubbing: Scrubbing) -> None:
    """All at once: gone, altered and strange; the output and the state stay as they are."""
    world = scrubbing.world
    alter(world.folder / real(world, NAMES[0]), "gone")
    alter(world.folder / real(world, NAMES[1]), "torn")
    (world.folder / "sitemap-pages-77.xml").write_bytes(b"x")
    before, wanted = picture(world.folder), fields(world, "s:1")
    found = scrubbing.scrubber.check()
    assert (found.gone, found.altered, found.strange) == (
        [real(world, NAMES[0])],
        [real(world, NAMES[1])],
        ["sitemap-pages-77.xml"],
    )
    assert found.same == 4
    assert changed(world, before) == set()
    assert fields(world, "s:1") == wanted
    assert not world.jobs

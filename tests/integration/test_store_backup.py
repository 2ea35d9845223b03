"""A backup is enough to go on: the same seats, sources and dates, also beside a tree that is newer."""

from __future__ import annotations

import dataclasses
import gzip
import io
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from producers.http.webhooks import KeyedUrls
from sitemap_store.errors import BadSetting, SitemapdError
from sitemap_store.model.protocol import STRICT
from sitemap_store.model.site import Site
from sitemap_store.redis import dump
from sitemap_store.redis.store import Store
from sitemap_store.shards.snapshot import Snapshot, decode, encode
from sitemapd.backup import Backup, BadBackup, back_up
from sitemapd.recovery import Recovered, restore_backup
from tests.integration.store_world import (
    DAY,
    POINTS,
    add,
    changed,
    consistent,
    delete,
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
from tests.published import listed, picture, published, urls_of
from tests.world import BASE, World, make_site

MakeWorld = Callable[[Site], World]

PATHS = [f"p{n}?a=1&b={n}" for n in range(11)] + [f"blog/{n}" for n in range(5)] + ["it's"]


def taken(world: World) -> bytes:
    """A backup's bytes."""
    file = io.BytesIO()
    back_up(world.store, file, world.now)
    return file.getvalue()


def restored(world: World, data: bytes, state_id: str = "state-2") -> Recovered:
    """Redis comes up empty, and a backup is restored into it, as the command does."""
    world.client.flushall()
    world.jobs.clear()
    found = restore_backup(world.store, world.output, Backup(io.BytesIO(data), "the backup"), world.now)
    present = set(world.output.published())
    for partition in world.store.partitions:
        partition.want_all(present)
    world.adopt(state_id)
    for wake in world.store.replay_held():
        world.enqueue(wake)
    return found


def filled(make_world: MakeWorld, site: Site | None = None) -> World:
    """A world with a published tree of several shards, sections, sources and index files."""
    world = make_world(site or make_site(sections={"blog": "/blog/**"}, index_size=3))
    push(
        world,
        *(
            add(path, lastmod="2026-01-01", priority="0.5", source=f"s{n % 3}")
            for n, path in enumerate(PATHS)
        ),
    )
    world.settle()
    world.now += 5000
    return world


def entries(world: World) -> list[tuple[object, ...]]:
    """Every entry with all that is known of it."""
    return sorted(world.store.listing())


def seats(world: World, paths: list[str]) -> dict[str, str]:
    """The section and number of the shard of each URL."""
    found = {}
    for path in paths:
        row = world.store.find(BASE + path)
        assert row is not None, path
        found[path] = row.file
    return found


@pytest.mark.parametrize("gzip", [False, True])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_backup_brings_back_all_that_is_known(make_world: MakeWorld, partitions: int, gzip: bool) -> None:
    """Entries with source and `at`, tombstones and seats; not a byte of the output changes."""
    site = make_site(sections={"blog": "/blog/**"}, index_size=3, partitions=partitions, gzip=gzip)
    world = filled(make_world, site)
    push(world, delete(PATHS[3], at=world.now - 1000), delete("never", at=world.now - 1000))
    world.settle()
    before, where, tree, lastmods = entries(world), files(world), picture(world.folder), listed(world.folder)
    found = restored(world, taken(world))
    assert (found.urls, found.newer, found.gone, found.events) == (len(PATHS) - 1, 0, 0, 0)
    world.settle()
    consistent(world)
    assert changed(world, tree) == set()
    assert entries(world) == before
    assert listed(world.folder) == lastmods
    push(world, add(PATHS[3], at=world.now - 9000), add("never", at=world.now - 9000))
    push(world, delete("it's", source="another"), *(add(f"new{n}") for n in range(7)))
    rest = [path for path in PATHS if path != PATHS[3]]
    settled(world, *rest, *(f"new{n}" for n in range(7)))
    for name, paths in where.items():
        assert set(paths) <= set(files(world)[name])
    consistent(world)


def test_a_lost_output_comes_back_byte_for_byte(make_world: MakeWorld) -> None:
    """The same files, and an index with the same lastmods."""
    world = filled(make_world)
    data = taken(world)
    tree = {path.name: path.read_bytes() for path in world.folder.iterdir() if path.name != ".sitemapd"}
    for name in tree:
        (world.folder / name).unlink()
    restored(world, data)
    world.settle()
    assert {
        path.name: path.read_bytes() for path in world.folder.iterdir() if path.name != ".sitemapd"
    } == tree
    consistent(world)


def test_events_that_are_not_folded_are_in_it(make_world: MakeWorld) -> None:
    """In their order, with their seats: of known URLs, new ones, deleted ones."""
    world = filled(make_world)
    push(world, update("it's", priority="0.1"), add("new1"), delete("blog/0"), update("it's", priority="0.2"))
    world.now += 1
    push(world, add("new2", source="cms"), delete("nowhere"))
    data = taken(world)
    rest = [path for path in PATHS if path != "blog/0"]
    found = restored(world, data)
    assert found.events == 6
    assert seat(world, "new1") is not None
    settled(world, *rest, "new1", "new2")
    assert published(world.folder)[BASE + "it's"][2] == "0.2"
    consistent(world)


def test_later_events_are_weighed_against_what_was_restored(make_world: MakeWorld) -> None:
    """A late add loses against the tombstone, a late update against `at`, a delete against a source."""
    world = filled(make_world)
    push(world, delete("blog/0"), update("it's", priority="0.9", at=world.now))
    world.settle()
    restored(world, taken(world))
    push(
        world,
        add("blog/0", at=world.now - 60_000),
        update("it's", priority="0.1", at=world.now - 60_000),
        delete(PATHS[0], source="s1"),
        delete(PATHS[1], source="s1"),
    )
    settled(world, *(path for path in PATHS if path not in ("blog/0", PATHS[1])))
    assert published(world.folder)[BASE + "it's"][2] == "0.9"
    world.now += DAY + 200_000
    world.settle()
    consistent(world)


def test_what_the_tree_has_newer_is_taken_from_the_tree(make_world: MakeWorld) -> None:
    """Its URLs, dates and seats; sources, `at` and tombstones are the backup's. The tree stays as it is."""
    world = filled(make_world)
    push(world, delete("blog/1"))
    world.settle()
    world.now += 5000
    data = taken(world)
    kept = {entry.loc: entry for entry in world.store.listing()}
    world.now += 5000
    push(
        world,
        update(PATHS[0], lastmod="2026-05-05"),
        delete(PATHS[1]),
        *(add(f"new{n}", source="s0") for n in range(9)),
    )
    world.settle()
    tree, where, lastmods = picture(world.folder), files(world), listed(world.folder)
    found = restored(world, data)
    assert found.newer > 0
    assert found.gone == 0
    world.settle()
    assert changed(world, tree) == set()
    assert listed(world.folder) == lastmods
    for entry in world.store.listing():
        if entry.loc in kept:
            assert entry._replace(lastmod="") == kept[entry.loc]._replace(lastmod="")
    consistent(world)
    push(
        world,
        add("blog/1", at=world.now - 60_000),
        delete(PATHS[2], source="other"),
        delete(PATHS[2], source="s2"),
    )
    world.settle()
    gone = {BASE + path for path in (PATHS[1], PATHS[2], "blog/1")}
    assert {BASE + path for path in PATHS} - gone <= published(world.folder).keys()
    assert not gone & published(world.folder).keys()
    for name, paths in where.items():
        assert {p for p in paths if BASE + p not in gone} <= set(files(world)[name])
    consistent(world)


@pytest.mark.parametrize("later", [0, 1, 5000], ids="{} ms later".format)
def test_a_shard_that_is_published_since_is_taken_from_the_tree(make_world: MakeWorld, later: int) -> None:
    """In the millisecond in which the backup began, too: its file is there, and the index names it."""
    world = make_world(make_site(shard_size=3))
    push(world, *(add(f"p{n}") for n in range(3)))
    world.settle()
    data, moment = taken(world), world.now
    world.now += later
    push(world, add("new1"), add("new2"))
    work(world)
    assert world.now == moment + later
    found = restored(world, data)
    assert (found.newer, found.newer_urls) == (1, 2)
    settled(world, "p0", "p1", "p2", "new1", "new2")
    consistent(world)


def test_a_shard_that_was_emptied_since_stays_away(make_world: MakeWorld) -> None:
    """The newer index lists it no more: its URLs do not come back, and its tombstones hold."""
    world = filled(make_world)
    data = taken(world)
    world.now += 5000
    push(world, *(delete(f"blog/{n}") for n in range(5)), update("it's", priority="0.7"))
    world.settle()
    world.now += 1000
    push(world, *(update(path, priority="0.6") for path in PATHS if not path.startswith("blog")))
    world.settle()
    tree = picture(world.folder)
    found = restored(world, data)
    assert found.gone == 2
    settled(world, *(path for path in PATHS if not path.startswith("blog")))
    assert changed(world, tree) == set()
    consistent(world)


def test_a_tree_that_is_older_than_the_backup_is_replaced(make_world: MakeWorld) -> None:
    """A tree that was rolled back: the backup knows better, and no lastmod goes back behind its."""
    world = filled(make_world)
    old = {path.name: path.read_bytes() for path in world.folder.iterdir()}
    world.now += 5000
    push(world, update("it's", priority="0.7"), delete("blog/0"), *(add(f"new{n}") for n in range(5)))
    world.settle()
    data, lastmods = taken(world), listed(world.folder)
    for path in world.folder.iterdir():
        path.unlink()
    for name, content in old.items():
        (world.folder / name).write_bytes(content)
    found = restored(world, data)
    assert (found.newer, found.gone) == (0, 0)
    settled(world, *(path for path in PATHS if path != "blog/0"), *(f"new{n}" for n in range(5)))
    assert all(listed(world.folder)[name] >= lastmod for name, lastmod in lastmods.items())
    consistent(world)


def test_a_file_of_the_tree_that_cannot_be_read_spoils_only_itself(make_world: MakeWorld) -> None:
    """It is named, and its shard is as the backup has it."""
    world = filled(make_world)
    data = taken(world)
    world.now += 5000
    push(world, update("it's", priority="0.7"), update("blog/0", priority="0.7"))
    world.settle()
    (world.folder / "sitemap-blog-1.xml").write_text("torn")
    found = restored(world, data)
    assert found.unreadable == ("sitemap-blog-1.xml",)
    assert found.newer == 1
    settled(world, *PATHS)
    assert published(world.folder)[BASE + "it's"][2] == "0.7"
    assert published(world.folder)[BASE + "blog/0"][2] == "0.5"
    consistent(world)


def test_a_restore_that_is_cut_short_is_done_again(make_world: MakeWorld) -> None:
    """After any shard; events that came meanwhile are kept."""
    world = filled(make_world)
    push(world, add("waits"))
    data, total = taken(world), len(scores(world, "shards"))
    for after in range(total):
        world.client.flushall()
        calls = 0

        def alive(after: int = after) -> None:
            nonlocal calls
            calls += 1
            if calls > after:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            restore_backup(world.store, world.output, Backup(io.BytesIO(data), "it"), world.now, alive=alive)
        world.store.append([add(f"between{after}")])
        found = restore_backup(world.store, world.output, Backup(io.BytesIO(data), "it"), world.now)
        assert found.urls == len(PATHS)
        for partition in world.store.partitions:
            partition.want_all(set(world.output.published()))
        world.adopt(f"state-{after}")
        world.store.replay_held()
        settled(world, *PATHS, "waits", f"between{after}")
        consistent(world)
        push(world, delete("waits"), delete(f"between{after}"))
        world.settle()


def test_a_state_that_is_remembered_is_not_restored_over(make_world: MakeWorld) -> None:
    """Nothing of it is changed."""
    world = filled(make_world)
    data = taken(world)
    with pytest.raises(SitemapdError, match="already"):
        restore_backup(world.store, world.output, Backup(io.BytesIO(data), "it"), world.now)
    settled(world, *PATHS)


def test_what_holds_no_state_is_not_backed_up(make_world: MakeWorld) -> None:
    """An empty Redis, and one that is being restored."""
    world = filled(make_world)
    data = taken(world)
    world.client.flushall()
    with pytest.raises(SitemapdError, match="no state"):
        taken(world)
    restore_backup(world.store, world.output, Backup(io.BytesIO(data), "it"), world.now)
    with pytest.raises(SitemapdError, match="nothing to back up"):
        taken(world)


def _spoiled() -> Iterator[Any]:
    yield "nothing", lambda data: b"", "no backup"
    yield "text", lambda data: b"hello\n" * 100, "no backup"
    yield "another gzip", lambda data: gzip.compress(b'{"a": 1}\n'), "no backup"
    yield "a list", lambda data: gzip.compress(b"[1]\n"), "no backup"
    yield "cut in the middle", lambda data: data[: len(data) // 2], "cut off"
    yield "its last byte", lambda data: data[:-1], "cut off"
    yield (
        "one byte of gzip's checksum",
        lambda data: data[:-8] + bytes([data[-8] ^ 1]) + data[-7:],
        "checksum",
    )
    yield "its content", lambda data: _repacked(data, lambda text: text.replace(b"blog", b"glob")), "checksum"
    yield "cut, and packed again", lambda data: _repacked(data, lambda text: text[:-200]), "checksum"
    yield "something behind", lambda data: data + gzip.compress(b"more"), "checksum"
    yield "a newer version", lambda data: _repacked(data, _newer("version")), "format version 99"
    yield "newer snapshots", lambda data: _repacked(data, _newer("snapshot")), "snapshot version 99"


def _repacked(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    return gzip.compress(change(gzip.decompress(data)))


def _newer(name: str) -> Callable[[bytes], bytes]:
    return lambda text: text.replace(f'"{name}":1'.encode(), f'"{name}":99'.encode(), 1)


@pytest.mark.parametrize(
    ("spoil", "said"), [each[1:] for each in _spoiled()], ids=[each[0] for each in _spoiled()]
)
def test_a_damaged_backup_is_refused_with_what_is_wrong(
    make_world: MakeWorld, spoil: Callable[[bytes], bytes], said: str
) -> None:
    """In one sentence, before anything of it is used."""
    world = filled(make_world)
    data = spoil(taken(world))
    with pytest.raises(BadBackup, match=said) as refused:
        Backup(io.BytesIO(data), "old.backup")
    assert str(refused.value).startswith("old.backup ")


def test_every_flipped_bit_is_found(make_world: MakeWorld) -> None:
    """Wherever it is."""
    world = filled(make_world)
    data = taken(world)
    for place in random.Random(3).sample(range(10, len(data)), 200):
        spoiled = data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]
        with pytest.raises(BadBackup):
            Backup(io.BytesIO(spoiled), "it")


def test_a_backup_of_something_else_is_refused(make_world: MakeWorld) -> None:
    """Another site, and another number of partitions; nothing is changed."""
    world = filled(make_world)
    data = taken(world)
    world.client.flushall()
    for site, said in (
        (dataclasses.replace(world.site, name="other"), "of site shop"),
        (dataclasses.replace(world.site, partitions=2), "partitions"),
    ):
        store = Store(world.client, site)
        with pytest.raises(BadSetting, match=said):
            restore_backup(store, world.output, Backup(io.BytesIO(data), "it"), world.now)
    assert world.client.dbsize() == 0


def test_the_keys_of_webhooks_are_in_it(make_world: MakeWorld) -> None:
    """An id that comes after the restore still takes its URLs down."""
    world = filled(make_world)
    KeyedUrls(world.store, "cms").write({"é": []}, {"é": [BASE + "it's", BASE + "blog/0"]})
    restored(world, taken(world))
    assert KeyedUrls(world.store, "cms").read(["é"]) == {"é": [BASE + "it's", BASE + "blog/0"]}


def split_world(make_world: MakeWorld) -> World:
    """A site whose shards split at six URLs; one of its two shards is full."""
    limits = dataclasses.replace(STRICT, urls_per_file=6)
    world = make_world(make_site(shard_size=100, limits=limits, sections={"blog": "/blog/**"}))
    push(world, *(add(f"p{n}", source="a") for n in range(6)), delete("p9"))
    push(world, add("blog/0"))
    world.settle()
    world.now += 5000
    return world


def during(monkeypatch: pytest.MonkeyPatch, nth: int, action: Callable[[], None]) -> None:
    """Do something before the nth copy of a shard."""
    copy, calls = dump._copy, 0

    def noted(*args: Any, **more: Any) -> dump.ShardCopy:
        nonlocal calls
        calls += 1
        if calls == nth:
            action()
        return copy(*args, **more)

    monkeypatch.setattr(dump, "_copy", noted)


@pytest.mark.parametrize("tree", ["the tree", "no tree"])
@pytest.mark.parametrize("point", ["committed", "published", "index_published", "never"])
def test_a_split_during_the_backup_moves_no_url_twice(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, point: str, tree: str
) -> None:
    """Copied before the split and after it: each URL has one seat, in the shard that it moved to."""
    world = split_world(make_world)

    def split() -> None:
        push(world, add("r"), update("p0", priority="0.3"), update("p5", priority="0.3"))
        assert work_until_crash(world, point, 1) == (point != "never")
        push(world, add("p4", source="b"), add("p1", source="b"))

    during(monkeypatch, 2, split)
    data = taken(world)
    assert len(scores(world, "shards")) == 3
    if tree == "no tree":
        for path in world.folder.iterdir():
            path.unlink()
    restored(world, data)
    world.settle()
    assert published(world.folder).keys() >= {BASE + path for path in ("p0", "p1", "p2", "p3", "p4", "p5")}
    consistent(world)
    push(world, *(delete(f"p{n}") for n in range(10)))
    world.settle()
    assert not {path for path in published(world.folder) if "/p" in path}
    world.now += DAY + 200_000
    world.settle()
    consistent(world)


@pytest.mark.parametrize("tree", ["the tree", "no tree"])
@pytest.mark.parametrize("nth", range(1, 6))
@pytest.mark.parametrize("point", ["merged", "committed", "renamed", "published", "index_renamed", "never"])
def test_a_merge_during_the_backup_loses_no_url(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, nth: int, point: str, tree: str
) -> None:
    """Before the copy of any shard, and however far it has come: each URL is listed, in every moment."""
    world = make_world(make_site(shard_size=3))
    paths = [f"p{n}" for n in range(13)]
    push(world, *(add(path, source="a") for path in paths))
    world.settle()
    world.now += 5000

    def merge() -> None:
        assert world.merge("w1", 0, 1, 3)
        if point != "merged":
            world.keep()
            work_until_crash(world, point, 1)

    during(monkeypatch, nth, merge)
    data = taken(world)
    if tree == "no tree":
        for path in world.folder.iterdir():
            path.unlink()
    restored(world, data)

    def listed_now(_point: str = "") -> None:
        assert tree == "no tree" or urls_in(world) == {BASE + path for path in paths}

    world.fault = listed_now
    world.keep()
    work(world)
    world.settle()
    assert urls_in(world) == {BASE + path for path in paths}
    settled(world, *paths)
    consistent(world)


def urls_in(world: World) -> set[str]:
    """The URLs that a crawler finds at this moment; a move may list one twice."""
    return {url.loc for name in listed(world.folder) for url in urls_of(world.folder / name)}


def test_a_shard_that_gives_its_urls_to_an_earlier_one_hides_none(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found empty when its turn comes: what changed meanwhile is copied again."""
    world = filled(make_world, make_site(shard_size=3))
    part = world.store.partitions[0]
    push(world, delete(PATHS[0]))
    world.settle()
    world.now += DAY + 1000
    world.settle()

    def merge() -> None:
        """What a merge leaves: the URLs of shard 6 in shard 1, whose version is another."""
        keys = part.keys
        entries = {
            **decode(client.get(keys.snapshot(1))).entries,
            **decode(client.get(keys.snapshot(6))).entries,
        }
        client.set(keys.snapshot(1), encode(Snapshot(dict(sorted(entries.items())), {})))
        client.hincrby(keys.shard(1), "v", 1)
        client.delete(keys.shard(6), keys.snapshot(6))
        client.zrem(keys.shards(), 6)

    client: Any = world.client
    during(monkeypatch, 4, merge)
    data = taken(world)
    found = restored(world, data)
    assert found.urls == len(PATHS) - 1
    world.settle()
    assert published(world.folder).keys() == {BASE + path for path in PATHS[1:]}
    consistent(world)


def test_a_shard_in_hand_is_copied_again_when_it_rests(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker has claimed it and publishes a part of its log: what is published later is not undone."""
    world = filled(make_world)
    push(world, update("it's", priority="0.1"))
    number = seat(world, "it's")
    claim = world.store.partitions[0].claim(number or 0, "w")
    assert claim is not None
    push(world, update("it's", priority="0.2"))

    def rest(seconds: float) -> None:
        world.store.partitions[0].postpone(str(number), "w", claim.lease, 0)
        world.settle()

    monkeypatch.setattr(time, "sleep", rest)
    data = taken(world)
    push(world, update("it's", priority="0.3"))
    world.settle()
    found = restored(world, data)
    assert (found.newer, found.events) == (1, 0)
    settled(world, *PATHS)
    assert published(world.folder)[BASE + "it's"][2] == "0.3"


def test_a_shard_that_stays_in_hand_keeps_its_events(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can tell which of them are in what was published since: none is lost."""
    world = filled(make_world)
    monkeypatch.setattr(dump, "REST_S", 0.0)
    push(world, add("blog/0", priority="0.1"))
    data = b""

    def take() -> None:
        nonlocal data
        push(world, add("blog/1", priority="0.2"))
        data = taken(world)

    once_at(world, "claimed", take)
    work(world)
    found = restored(world, data)
    assert (found.newer, found.events) == (1, 2)
    settled(world, *PATHS)
    assert published(world.folder)[BASE + "blog/0"][2] == "0.1"
    assert published(world.folder)[BASE + "blog/1"][2] == "0.2"
    consistent(world)


def test_events_that_come_while_a_backup_is_made_cost_nothing(make_world: MakeWorld, redis_url: str) -> None:
    """A load runs with splits and retirements: what was there before is in it, and each URL once."""
    limits = dataclasses.replace(STRICT, urls_per_file=6)
    world = make_world(make_site(shard_size=4, limits=limits, min_interval=0.0, partitions=2))
    base = [f"p{n}" for n in range(120)]
    push(world, *(add(path, source="cms") for path in base))
    world.settle()
    stop = threading.Event()

    def load() -> None:
        dice = random.Random(5)
        with redis.Redis.from_url(redis_url) as client:
            other = World(client, world.site, world.folder, now=world.now)
            while not stop.is_set():
                other.now += 500
                some = [f"{dice.choice(base)}/{dice.randint(0, 9)}" for _ in range(5)]
                push(other, *(add(path) for path in some), delete(some[0]), update(dice.choice(base)))
                work(other)
                other.keep()
            world.now = other.now

    thread = threading.Thread(target=load)
    thread.start()
    try:
        copies = [taken(world) for _ in range(5)]
    finally:
        stop.set()
        thread.join()
    world.settle()
    now, lastmods = published(world.folder), listed(world.folder)
    tree = {path.name: path.read_bytes() for path in world.folder.iterdir()}
    for number, data in enumerate(copies):
        replaced(world, tree)
        restored(world, data, f"state-{number}")
        world.settle()
        consistent(world)
        assert published(world.folder) == now
        assert listed(world.folder) == lastmods
        replaced(world, {})
        restored(world, data, f"state-alone-{number}")
        world.settle()
        consistent(world)
        assert {BASE + path for path in base} <= published(world.folder).keys()


def replaced(world: World, tree: dict[str, bytes]) -> None:
    """Have exactly these files at the output."""
    for path in world.folder.iterdir():
        path.unlink()
    for name, content in tree.items():
        (world.folder / name).write_bytes(content)


@pytest.mark.parametrize("point", [*POINTS, "never"])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("move", ["split", "merge"])
def test_a_move_since_the_backup_that_is_half_published_leaves_one_seat(
    make_world: MakeWorld, move: str, nth: int, point: str
) -> None:
    """Redis is lost while the old file and the new one list the same URLs."""
    if move == "split":
        world = split_world(make_world)
    else:
        world = make_world(make_site(shard_size=6))
        push(world, *(add(f"p{n}", source="a") for n in range(8)))
        world.settle()
        push(world, *(delete(f"p{n}") for n in range(8) if n not in (0, 5, 6, 7)))
        world.settle()
    data, listed_before = taken(world), {entry.loc for entry in world.store.listing()}
    world.now += 5000
    if move == "merge":
        push(world, *(add(f"q{n}") for n in range(12)))
        world.settle()

    def doing(world: World) -> None:
        if move == "split":
            push(world, add("r"))
        else:
            assert world.merge("w1", 0, 1, 2)
            world.keep()
        work(world)
        world.now += 1100
        world.keep()
        work(world)

    died = work_until_crash(world, point, nth, doing)
    assert died or point == "never" or nth == 2
    restored(world, data)
    rows = [entry.loc for entry in world.store.listing()]
    world.settle()
    assert listed_before <= published(world.folder).keys()
    assert len(rows) == len(set(rows)), "a URL has two seats"
    assert len(published(world.folder)) == sum(len(files(world)[name]) for name in listed(world.folder))
    consistent(world)
    assert {entry.source for entry in world.store.listing() if entry.loc == BASE + "p5"} == {"a"}

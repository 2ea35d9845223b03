"""Limits: what fits, what splits, and that a split loses nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from sitemap_store.errors import Unavailable
from sitemap_store.model.extensions import canonical
from sitemap_store.model.extensions.codes import LANGUAGES
from sitemap_store.model.protocol import STRICT, Limits
from sitemap_store.model.site import Site
from sitemap_store.output.folder import Put
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
from tests.published import content, listed, picture, published, shard_files, urls_of
from tests.world import BASE, World, make_site

MakeWorld = Callable[[Site], World]


def limits(*, urls: int = 50_000, size: int = 10_485_760) -> Limits:
    """The strict limits with fewer URLs or bytes a file."""
    return dataclasses.replace(STRICT, urls_per_file=urls, bytes_per_file=size)


def size_of(*paths: str) -> int:
    """The bytes of a file with these URLs and nothing else said of them."""
    frame = len(
        '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="'
        'http://www.sitemaps.org/schemas/sitemap/0.9">\n</urlset>\n'
    )
    return frame + sum(len(f"<url><loc>{BASE}{path}</loc></url>\n") for path in paths)


@pytest.mark.parametrize(("count", "shards"), [(49_999, 1), (50_000, 1), (50_001, 2)])
def test_as_many_urls_as_a_file_may_hold_fit_and_one_more_does_not(
    make_world: MakeWorld, count: int, shards: int
) -> None:
    """49,999 and 50,000 are one file, 50,001 are two; the full one is not touched by the one more."""
    world = make_world(make_site(shard_size=50_000))
    push(world, *(add(f"p/{n}") for n in range(49_999)))
    world.settle()
    if count > 49_999:
        push(world, add("p/49999"))
        world.settle()
    before = picture(world.folder)
    if count > 50_000:
        push(world, add("p/50000"))
        world.settle()
        assert changed(world, before) == {"sitemap-pages-2.xml", "sitemap.xml"}
    assert len(published(world.folder)) == count
    assert len(shard_files(world.folder)) == shards


@pytest.mark.parametrize("allowed", [3, 4, 5, 50])
def test_a_shard_that_outgrows_its_urls_splits(make_world: MakeWorld, allowed: int) -> None:
    """From one file less than the limit, over it, to many times over: no URL missing, none twice."""
    for count in (allowed - 1, allowed, allowed + 1, 2 * allowed, 7 * allowed + 3):
        site = make_site(name=f"s{count}", shard_size=1000, limits=limits(urls=allowed))
        world = make_world(site)
        paths = [f"p{n:04}" for n in range(count)]
        push(world, *map(add, reversed(paths)))
        settled(world, *paths)
        found = files(world)
        assert all(1 <= len(urls) <= allowed for urls in found.values())
        assert (len(found) == 1) == (count <= allowed)
        consistent(world)
        push(world, *map(delete, paths))
        settled(world)


def test_exactly_the_bytes_fit_and_one_more_splits(make_world: MakeWorld) -> None:
    """The limit is inclusive, and counted before compression."""
    paths = ["a", "b", "c&amp", "d'"]
    exact = limits(size=size_of("a", "b", "c&amp;amp", "d&apos;"))
    world = make_world(make_site(shard_size=10, limits=exact))
    push(world, *map(add, paths))
    settled(world, *paths)
    (only,) = shard_files(world.folder)
    assert len(content(only)) == exact.bytes_per_file
    push(world, delete("a"), add("aa"))
    settled(world, "aa", *paths[1:])
    assert len(shard_files(world.folder)) == 2
    assert all(len(content(path)) <= exact.bytes_per_file for path in shard_files(world.folder))
    consistent(world)


def test_bytes_are_counted_after_escaping(make_world: MakeWorld) -> None:
    """An ampersand weighs five bytes."""
    world = make_world(make_site(shard_size=10, limits=limits(size=size_of("a" * 10, "b" * 10))))
    push(world, add("a" * 10), add("b" * 9 + "&"))
    settled(world, "a" * 10, "b" * 9 + "&")
    assert len(shard_files(world.folder)) == 2


@pytest.mark.parametrize("gzip", [False, True])
def test_an_update_that_makes_a_file_too_large_splits_it(make_world: MakeWorld, gzip: bool) -> None:
    """No new URL is needed: dates alone can do it, however well they compress."""
    paths = [f"p{n}" for n in range(8)]
    world = make_world(make_site(shard_size=10, limits=limits(size=size_of(*paths)), gzip=gzip))
    push(world, *map(add, paths))
    world.settle()
    assert len(shard_files(world.folder)) == 1
    push(world, *(update(path, lastmod="2026-03-21") for path in paths))
    settled(world, *paths)
    assert {row[0] for row in published(world.folder).values()} == {"2026-03-21"}
    assert len(shard_files(world.folder)) == 2
    consistent(world)


def test_a_split_is_local(make_world: MakeWorld) -> None:
    """The first part stays in its file, the rest gets a new one, and no other file is touched."""
    site = make_site(shard_size=4, limits=limits(urls=4), sections={"blog": "/blog/**"})
    world = make_world(site)
    push(world, *(add(f"p{n}") for n in range(10)), *(add(f"blog/{n}") for n in range(4)))
    world.settle()
    before = picture(world.folder)
    smaller = dataclasses.replace(site, limits=limits(urls=3))
    world.site = smaller
    push(world, update("blog/3", priority="0.1"))
    world.settle()
    assert files(world)["sitemap-blog-1.xml"] == ["blog/0", "blog/1"]
    assert files(world)["sitemap-blog-2.xml"] == ["blog/2", "blog/3"]
    assert changed(world, before) == {"sitemap-blog-1.xml", "sitemap-blog-2.xml", "sitemap.xml"}


def test_new_urls_go_to_the_new_shard_after_a_split(make_world: MakeWorld) -> None:
    """The open shard that split is not the open one any more, or it would split again and again."""
    world = make_world(make_site(shard_size=100, limits=limits(urls=4)))
    push(world, *(add(f"p{n}") for n in range(5)))
    world.settle()
    first = files(world)["sitemap-pages-1.xml"]
    push(world, add("a"))
    world.settle()
    assert files(world)["sitemap-pages-1.xml"] == first
    assert seat(world, "a") == seat(world, "p4") == 2


def test_seats_follow_the_entries_that_moved(make_world: MakeWorld) -> None:
    """An update of a moved URL changes its new file only."""
    world = make_world(make_site(shard_size=100, limits=limits(urls=4)))
    push(world, *(add(f"p{n}") for n in range(5)))
    world.settle()
    assert seat(world, "p4") == 2
    before = picture(world.folder)
    push(world, update("p4", priority="0.9"))
    world.settle()
    assert changed(world, before) == {"sitemap-pages-2.xml", "sitemap.xml"}
    assert published(world.folder)[BASE + "p4"] == (None, None, "0.9")


def test_events_of_entries_that_move_meanwhile_are_not_lost(make_world: MakeWorld) -> None:
    """Appended between claim and commit of the split: they follow their URLs into the new shard's log."""
    world = make_world(make_site(shard_size=100, limits=limits(urls=4)))
    push(world, *(add(f"p{n}") for n in range(6)))
    meanwhile = [
        *(update(f"p{n}", priority=f"0.{n}") for n in range(6)),
        delete("p5"),
        delete("p0"),
        add("new"),
        update("p4", lastmod="2026-01-01"),
    ]
    once_at(world, "claimed", lambda: push(world, *meanwhile))
    work(world)
    assert scores(world, "shards").keys() == {"1", "2"}
    settled(world, "p1", "p2", "p3", "p4", "new")
    assert published(world.folder)[BASE + "p4"] == ("2026-01-01", None, "0.4")
    assert published(world.folder)[BASE + "p1"] == (None, None, "0.1")
    consistent(world)


def test_events_of_entries_that_moved_before_the_new_file_is_there_are_not_lost(
    make_world: MakeWorld,
) -> None:
    """Appended after the commit of the split, while neither file is written."""
    world = make_world(make_site(shard_size=100, limits=limits(urls=4)))
    push(world, *(add(f"p{n}") for n in range(6)))
    once_at(
        world,
        "committed",
        lambda: push(world, *(update(f"p{n}", priority=f"0.{n}") for n in range(6)), delete("p5")),
    )
    work(world)
    settled(world, *(f"p{n}" for n in range(5)))
    assert {loc[-1]: row[2] for loc, row in published(world.folder).items()} == {
        str(n): f"0.{n}" for n in range(5)
    }
    consistent(world)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("nth", [1, 2])
def test_a_crash_in_a_split_loses_nothing_and_doubles_nothing(
    make_world: MakeWorld, point: str, nth: int
) -> None:
    """At each point of the first and of the second shard that the split rewrites."""
    world = make_world(make_site(shard_size=100, limits=limits(urls=4)))
    paths = [f"p{n}" for n in range(6)]
    push(world, *map(add, paths))
    if work_until_crash(world, point, nth):
        listed(world.folder)
        world.release("w1")
    settled(world, *paths)
    consistent(world)


def test_the_new_file_is_there_before_the_old_one_loses_its_urls(make_world: MakeWorld) -> None:
    """At every moment each URL is in a file at the least; twice for a moment, and never nowhere."""
    site = make_site(shard_size=100, limits=limits(urls=6))
    world = make_world(site)
    paths = {f"p{n}" for n in range(6)}
    push(world, *map(add, sorted(paths)))
    world.settle()
    world.now += 5000
    looks = 0

    def look(_point: str) -> None:
        nonlocal looks
        looks += 1
        assert paths <= {path for urls in files(world).values() for path in urls}

    world.fault = look
    push(world, add("p6"))
    work(world)
    assert looks > 6
    assert len(shard_files(world.folder)) == 2


def test_tombstones_stay_behind_and_end_in_their_time(make_world: MakeWorld) -> None:
    """After a split and a day nothing is left to do: no shard is rewritten for a tombstone it never had."""
    world = make_world(make_site(shard_size=100, limits=limits(urls=4)))
    push(world, *(add(f"p{n}") for n in range(4)), delete("p0"), delete("p9"))
    world.settle()
    push(world, *(add(f"q{n}") for n in range(3)))
    world.settle()
    assert len(shard_files(world.folder)) == 2
    world.now += DAY + 1000
    world.settle()
    assert scores(world, "purge") == {}
    assert seat(world, "p0") is None
    assert seat(world, "p9") is None
    rewrites = fields(world, "stats")["rewrites"]
    for _ in range(5):
        world.now += 1000
        world.keep()
        assert not world.jobs
    assert fields(world, "stats")["rewrites"] == rewrites
    consistent(world)


def test_one_url_that_is_larger_than_a_file_may_be_is_not_split(make_world: MakeWorld) -> None:
    """There is nothing to divide; the limits of a loc keep it from happening in real life."""
    world = make_world(make_site(shard_size=10, limits=limits(size=100)))
    push(world, add("a"))
    settled(world, "a")


def crawled(world: World) -> set[str]:
    """The paths in the files that the index names, each once or more often."""
    return {
        loc.removeprefix(BASE) for name in listed(world.folder) for loc, *_ in urls_of(world.folder / name)
    }


@pytest.mark.parametrize("first", [True, False], ids=["old part first", "new part first"])
@pytest.mark.parametrize("point", ["committed", "renamed", "published", "index_claimed", "index_renamed"])
def test_a_crash_in_a_split_leaves_no_url_nowhere(make_world: MakeWorld, point: str, first: bool) -> None:
    """Whichever part is rewritten first afterwards: the old file stays until an index names the new one."""
    world = make_world(make_site(shard_size=10, limits=limits(urls=6)))
    paths = {f"p{n}" for n in range(6)}
    push(world, *map(add, sorted(paths)))
    world.settle()
    world.now += 5000
    push(world, add("p6"), add("p7"))
    assert work_until_crash(world, point, 1)
    world.jobs.clear()
    world.release("w1")

    def check(_point: str) -> None:
        assert crawled(world) >= paths

    world.fault = check
    for _ in range(30):
        world.now += 100
        order = sorted(
            (int(member) for member in scores(world, "due") if member.isdigit()), reverse=not first
        )
        for shard in order:
            world.run(world.worker("w2"), 0, str(shard))
            check("")
        if not first:
            work(world, "w2")
    settled(world, *paths, "p6", "p7")
    consistent(world)


def test_a_split_whose_new_part_cannot_be_written_changes_nothing(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file can't be put there (the disk is full for it alone): the old file stays whole."""
    world = make_world(make_site(shard_size=10, limits=limits(urls=6)))
    paths = {f"p{n}" for n in range(6)}
    push(world, *map(add, sorted(paths)))
    world.settle()
    world.now += 5000
    put = world.output.put

    def failing(name: str, data: bytes, worker: str) -> Put:
        if name == "sitemap-pages-2.xml":
            raise Unavailable(what="output", detail="the disk is full")
        return put(name, data, worker)

    with monkeypatch.context() as patch:
        patch.setattr(world.output, "put", failing)
        push(world, add("p6"), add("p7"))
        for _ in range(5):
            work(world)
            assert crawled(world) >= paths
            world.now += 4000
            world.keep()
    settled(world, *paths, "p6", "p7")
    consistent(world)


def images(count: int) -> str:
    """Extensions of as many images, of a hundred bytes of XML each."""
    return canonical({"images": [f"https://cdn.example.net/{n:04}/".ljust(48, "i") for n in range(count)]})


def languages(path: str) -> str:
    """Extensions of thirty languages, of over 3,000 bytes of XML."""
    found = [
        {"hreflang": language, "href": f"{BASE}{language}/{path}".ljust(60, "x")}
        for language in sorted(LANGUAGES)[:29]
    ]
    return canonical({"alternates": [*found, {"hreflang": "x-default", "href": BASE + path}]})


def test_extensions_that_make_a_file_too_large_split_it_where_it_is(make_world: MakeWorld) -> None:
    """Their bytes count. The URLs that stay keep their seats and their file, and no other file is touched."""
    paths = [f"p{n}" for n in range(6)]
    world = make_world(make_site(shard_size=6, limits=limits(size=5_000)))
    push(world, *map(add, [*paths, "q0", "q1"]))
    world.settle()
    before = picture(world.folder)
    push(world, *(update(path, ext=images(9)) for path in paths))
    settled(world, *paths, "q0", "q1")
    assert changed(world, before) == {"sitemap-pages-1.xml", "sitemap-pages-3.xml", "sitemap.xml"}
    assert all(len(content(path)) <= 5_000 for path in shard_files(world.folder))
    assert [seat(world, path) for path in ("p0", "p1", "p2", "q0", "q1")] == [1, 1, 1, 2, 2]
    assert b"<image:" in content(world.folder / "sitemap-pages-3.xml")
    consistent(world)
    push(world, update("p0", lastmod="2026-03-21"))
    world.settle()
    found = world.store.find(BASE + "p0")
    assert found is not None
    assert found.entry.ext == images(9)


def test_a_thousand_urls_in_thirty_languages_are_one_file(make_world: MakeWorld) -> None:
    """Under the strict limits, at the default size of a shard."""
    world = make_world(make_site(shard_size=1_000))
    paths = [f"p{n:03}" for n in range(1_000)]
    push(world, *(add(path, ext=languages(path)) for path in paths))
    world.settle()
    assert {name: len(urls) for name, urls in files(world).items()} == {"sitemap-pages-1.xml": 1_000}


def test_urls_with_a_thousand_images_each_split_under_the_strict_limits(make_world: MakeWorld) -> None:
    """Twelve megabytes in one shard become two files, and nothing is lost."""
    world = make_world(make_site(shard_size=1_000))
    paths = [f"p{n:03}" for n in range(120)]
    push(world, *(add(path, ext=images(1_000)) for path in paths))
    settled(world, *paths)
    found = [content(path) for path in shard_files(world.folder)]
    assert len(found) == 2
    assert all(len(data) <= STRICT.bytes_per_file for data in found)
    assert sum(data.count(b"<image:loc>") for data in found) == 120_000
    consistent(world)

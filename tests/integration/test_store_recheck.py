"""`rebuild`: everything is rendered again through the same fold, and only what differs is replaced."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from sitemap_store.model.site import Site
from sitemap_store.model.style import Style
from tests.integration.store_world import add, changed, consistent, fields, push, scores, settled, update
from tests.published import listed, picture, published
from tests.world import BASE, World, make_site

MakeWorld = Callable[[Site], World]
PATHS = [f"p{n}" for n in range(7)]


def filled(make_world: MakeWorld, site: Site | None = None) -> World:
    """A world with a published tree, some time ago."""
    world = make_world(site or make_site(shard_size=2, index_size=2))
    push(world, *map(add, PATHS))
    world.settle()
    world.now += 5000
    return world


def recheck(world: World) -> int:
    """Mark everything and let the workers do it; how many shards were marked."""
    marked = sum(partition.want_all() for partition in world.store.partitions)
    world.settle()
    return marked


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("gzip", [False, True])
def test_a_rebuild_of_what_is_right_changes_nothing(
    make_world: MakeWorld, gzip: bool, partitions: int
) -> None:
    """No byte, no mtime, no inode, no lastmod; and nothing is left to do."""
    world = filled(make_world, make_site(shard_size=2, index_size=2, gzip=gzip, partitions=partitions))
    before = picture(world.folder)
    assert recheck(world) == len([name for name in before if "pages" in name])
    assert changed(world, before) == set()
    consistent(world)


@pytest.mark.parametrize(
    "name", ["sitemap-pages-1.xml", "sitemap-pages-4.xml", "sitemap.xml", "sitemap-2.xml"]
)
@pytest.mark.parametrize("how", ["bytes", "one byte", "empty", "gone", "link"])
def test_what_was_tampered_with_is_put_right_and_nothing_else_is_touched(
    make_world: MakeWorld, name: str, how: str
) -> None:
    """A shard or an index file, changed or missing: the very same bytes are back.

    Readers may have had the wrong bytes of a changed shard, so its lastmod moves; not that of a missing one.
    """
    world = filled(make_world)
    path, right = world.folder / name, (world.folder / name).read_bytes()
    before, lastmods = picture(world.folder), listed(world.folder)
    if how == "bytes":
        path.write_bytes(b"<html>hacked</html>")
    elif how == "one byte":
        path.write_bytes(right[:-20] + bytes([right[-20] ^ 1]) + right[-19:])
    elif how == "empty":
        os.truncate(path, 0)
    else:
        path.unlink()
        if how == "link":
            (world.folder.parent / "elsewhere").write_bytes(right)
            path.symlink_to(world.folder.parent / "elsewhere")
    recheck(world)
    assert path.read_bytes() == right
    assert not path.is_symlink()
    moved = {name} if "pages" in name and how != "gone" else set()
    assert {shard for shard, lastmod in listed(world.folder).items() if lastmod != lastmods[shard]} == moved
    touched = changed(world, before) - {name}
    assert len(touched) == len(moved)
    assert touched <= {"sitemap.xml", "sitemap-2.xml"}
    settled(world, *PATHS)


def test_an_output_that_was_emptied_is_filled_again(make_world: MakeWorld) -> None:
    """All files come back as they were, lastmods too."""
    world = filled(make_world)
    before = {name: data for name, (data, _, _) in picture(world.folder).items()}
    for name in before:
        (world.folder / name).unlink()
    recheck(world)
    assert {name: data for name, (data, _, _) in picture(world.folder).items()} == before


def test_a_setting_that_the_files_depend_on_takes_effect(make_world: MakeWorld) -> None:
    """A section's new default changes its files and their lastmod; another section is not touched."""
    world = make_world(make_site(sections={"blog": "/blog/**"}))
    push(world, add("a"), add("blog/b"), add("blog/c", changefreq="never"))
    world.settle()
    before, lastmods = picture(world.folder), listed(world.folder)
    later = make_world(make_site(sections={"blog": "/blog/**"}, styles={"blog": Style(changefreq="daily")}))
    later.now = world.now + 5000
    recheck(later)
    assert changed(later, before) == {"sitemap-blog-1.xml", "sitemap.xml"}
    assert listed(later.folder)["sitemap-blog-1.xml"] > lastmods["sitemap-blog-1.xml"]
    assert published(later.folder)[BASE + "blog/b"][1] == "daily"
    assert published(later.folder)[BASE + "blog/c"][1] == "never"


def test_events_go_on_during_a_rebuild(make_world: MakeWorld) -> None:
    """What is pushed after the mark and before the work is published with it."""
    world = filled(make_world)
    for partition in world.store.partitions:
        partition.want_all()
    push(world, update("p0", priority="0.3"), add("new"))
    settled(world, *PATHS, "new")
    assert published(world.folder)[BASE + "p0"][2] == "0.3"
    consistent(world)


def test_a_rebuild_of_many_shards_marks_each_once(make_world: MakeWorld) -> None:
    """More shards than one script call marks at a time."""
    world = make_world(make_site(shard_size=1))
    push(world, *(add(f"p{n}") for n in range(1203)))
    assert sum(partition.want_all() for partition in world.store.partitions) == 1203
    assert all(int(fields(world, f"s:{shard}")["wanted"]) >= 2 for shard in scores(world, "shards"))


def test_a_rebuild_of_nothing_does_nothing(make_world: MakeWorld) -> None:
    """A site without URLs has no files to compare."""
    world = make_world(make_site())
    assert recheck(world) == 0
    assert picture(world.folder) == {}

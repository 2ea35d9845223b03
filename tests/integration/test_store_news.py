"""News goes 48 hours after its publication: at its time, once, and the URL stays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from sitemap_store.model.dates import format_instant
from sitemap_store.model.extensions import canonical
from sitemap_store.model.protocol import STRICT
from sitemap_store.model.site import Site
from sitemapd.restore import restore_tree
from tests.integration.store_world import (
    POINTS,
    add,
    changed,
    consistent,
    files,
    push,
    scores,
    seat,
    settled,
    update,
    work,
    work_until_crash,
)
from tests.published import content, listed, picture, shard_files
from tests.world import World, make_site

MakeWorld = Callable[[Site], World]
HOUR = 3_600_000


def article(published: int) -> str:
    """Extensions of an article that was published then (epoch ms), and an image."""
    news = {
        "publication": {"name": "The Example", "language": "en"},
        "publication_date": format_instant(published),
        "title": "Kettles boil",
    }
    return canonical({"news": news, "images": ["https://x.example/a.jpg"]})


def news(world: World) -> int:
    """How many articles are published as news."""
    return sum(content(path).count(b"<news:news>") for path in shard_files(world.folder))


def test_e17_the_news_goes_at_the_48th_hour(make_world: MakeWorld) -> None:
    """The file that holds it is written once, and its lastmod moves once; no other file is touched."""
    world = make_world(make_site(shard_size=2))
    until = world.now + 60_000
    push(world, add("a", ext=article(until - 48 * HOUR)), add("b"), add("c"))
    world.settle()
    assert news(world) == 1
    before, tree = listed(world.folder), picture(world.folder)
    world.now = until - 1
    world.settle()
    assert changed(world, tree) == set()
    world.now = until
    settled(world, "a", "b", "c")
    assert news(world) == 0
    assert changed(world, tree) == {"sitemap-pages-1.xml", "sitemap.xml"}
    assert b"<image:loc>" in content(world.folder / "sitemap-pages-1.xml")
    assert b"news" not in content(world.folder / "sitemap-pages-1.xml")
    after = listed(world.folder)
    assert after["sitemap-pages-1.xml"] > before["sitemap-pages-1.xml"]
    assert scores(world, "purge") == {}
    tree = picture(world.folder)
    world.now += 72 * HOUR
    world.settle()
    assert changed(world, tree) == set()


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_while_news_goes_leaves_none(make_world: MakeWorld, point: str) -> None:
    """Whatever step it comes at: the next worker ends with the same file."""
    world = make_world(make_site())
    until = world.now + 60_000
    push(world, add("a", ext=article(until - 48 * HOUR)))
    world.settle()
    world.now = until
    world.keep()
    assert work_until_crash(world, point, 1)
    world.now += 61_000
    settled(world, "a")
    assert news(world) == 0
    assert scores(world, "purge") == {}


def test_each_article_goes_at_its_own_time(make_world: MakeWorld) -> None:
    """A later one, and one that an update brings, keep their time."""
    world = make_world(make_site())
    begin = world.now
    push(world, add("a", ext=article(begin - 47 * HOUR)), add("b", ext=article(begin - 46 * HOUR)), add("c"))
    world.settle()
    push(world, update("c", ext=article(begin - 45 * HOUR)))
    world.settle()
    left = []
    for hours in (0, 1, 2, 3):
        world.now = begin + hours * HOUR + 30_000
        world.settle()
        left.append(news(world))
    assert left == [3, 2, 1, 0]


def test_news_goes_that_a_split_moved(make_world: MakeWorld) -> None:
    """The new shard knows when."""
    limits = dataclasses.replace(STRICT, urls_per_file=2)
    world = make_world(make_site(shard_size=4, limits=limits))
    until = world.now + 60_000
    push(world, *(add(path, ext=article(until - 48 * HOUR)) for path in "abcd"))
    world.settle()
    assert len(files(world)) == 2
    assert news(world) == 4
    world.now = until
    settled(world, *"abcd")
    assert news(world) == 0


def test_news_goes_that_a_merge_moved(make_world: MakeWorld) -> None:
    """The merged shard knows when."""
    world = make_world(make_site(shard_size=1))
    until = world.now + 60_000
    push(world, add("a", ext=article(until - 48 * HOUR)), add("b"), add("c"))
    world.settle()
    assert world.merge("w1", 0, 1, 2)
    settled(world, *"abc")
    assert seat(world, "a") == 2
    world.now = until
    settled(world, *"abc")
    assert news(world) == 0
    consistent(world)


def test_news_goes_that_a_restore_took_back(make_world: MakeWorld) -> None:
    """As what was published, and then at its time."""
    world = make_world(make_site())
    until = world.now + 60_000
    push(world, add("a", ext=article(until - 48 * HOUR)))
    world.settle()
    world.client.flushall()
    world.jobs.clear()
    restore_tree(world.store, world.output)
    world.adopt("state-2")
    work(world)
    assert news(world) == 1
    world.now = until
    settled(world, "a")
    assert news(world) == 0

"""The published tree alone is enough to go on: the same seats, and no event lost on the way."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from sitemap_store.errors import SitemapdError
from sitemap_store.model.entries import Entry
from sitemap_store.model.events import Event
from sitemap_store.model.extensions import canonical
from sitemap_store.model.site import Site
from sitemap_store.model.style import Style
from sitemap_store.redis.claims import Restored, Wake
from sitemap_store.redis.state import Partition
from sitemap_store.redis.store import Store
from sitemapd.restore import discard_tree, restore_tree
from tests.integration.store_world import (
    add,
    changed,
    consistent,
    delete,
    fields,
    files,
    push,
    seat,
    settled,
    update,
    work,
)
from tests.published import listed, picture, published
from tests.world import BASE, Crash, World, make_site

MakeWorld = Callable[[Site], World]

PATHS = [f"p{n}?a=1&b={n}" for n in range(11)] + [f"blog/{n}" for n in range(5)] + ["it's"]


def forget(world: World) -> None:
    """Redis comes up empty."""
    world.client.flushall()
    world.jobs.clear()


def finish(world: World, state_id: str = "state-2") -> None:
    """The end of a restore: the state gets its id, and what was held back is appended."""
    world.adopt(state_id)
    for wake in world.store.replay_held():
        world.enqueue(wake)


def restore(world: World) -> None:
    """A whole restore."""
    restore_tree(world.store, world.output)
    finish(world)


def filled(make_world: MakeWorld, site: Site | None = None) -> World:
    """A world with a published tree of several shards, sections and index files."""
    world = make_world(site or make_site(sections={"blog": "/blog/**"}, index_size=3))
    push(world, *(add(path, lastmod="2026-01-01", priority="0.5") for path in PATHS))
    world.settle()
    world.now += 5000
    return world


@pytest.mark.parametrize("gzip", [False, True])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_restore_gives_every_url_its_old_seat(make_world: MakeWorld, partitions: int, gzip: bool) -> None:
    """I7: the same file for each URL, not a byte changed, and then events go on as if nothing had been."""
    site = make_site(sections={"blog": "/blog/**"}, index_size=3, partitions=partitions, gzip=gzip)
    world = filled(make_world, site)
    before, tree = files(world), picture(world.folder)
    forget(world)
    restore(world)
    world.settle()
    consistent(world)
    assert changed(world, tree) == set()
    for partition in world.store.partitions:
        partition.want_all()
    world.settle()
    assert changed(world, tree) == set()
    push(world, *(update(path, priority="0.9") for path in PATHS), *(add(f"new{n}") for n in range(20)))
    settled(world, *PATHS, *(f"new{n}" for n in range(20)))
    after = files(world)
    for name, paths in before.items():
        assert set(paths) <= set(after[name])
    assert {row[0] for loc, row in published(world.folder).items() if "new" not in loc} == {"2026-01-01"}
    consistent(world)


def test_lastmods_go_on_where_they_were(make_world: MakeWorld) -> None:
    """I4: a restore moves none, and the next change moves its shard's forward, an hour back too."""
    world = filled(make_world)
    before = listed(world.folder)
    forget(world)
    restore(world)
    world.settle()
    assert listed(world.folder) == before
    world.now -= 3_600_000
    push(world, update("it's", priority="0.1"))
    world.settle()
    after = listed(world.folder)
    moved = {name for name in before if before[name] != after[name]}
    assert len(moved) == 1
    assert all(after[name] > before[name] for name in moved)


def test_new_urls_go_to_the_last_shard_with_room(make_world: MakeWorld) -> None:
    """The highest number of a section is its open shard again, and later numbers are new ones."""
    world = make_world(make_site(shard_size=3))
    push(world, *(add(f"p{n}") for n in range(7)))
    world.settle()
    forget(world)
    restore(world)
    push(world, *(add(f"q{n}") for n in range(4)))
    world.settle()
    assert files(world)["sitemap-pages-3.xml"] == ["p6", "q0", "q1"]
    assert files(world)["sitemap-pages-4.xml"] == ["q2", "q3"]


def test_what_a_section_says_by_default_is_not_the_entrys_own(make_world: MakeWorld) -> None:
    """After a restore the default can still be changed."""
    site = make_site(styles={"pages": Style(changefreq="daily", priority="0.5")})
    world = make_world(site)
    push(world, add("a"), add("b", changefreq="weekly", priority="0.5"))
    world.settle()
    forget(world)
    restore(world)
    found = world.store.find(BASE + "a")
    assert found is not None
    assert found.entry[:4] == (BASE + "a", "", "", "")
    found = world.store.find(BASE + "b")
    assert found is not None
    assert found.entry[:4] == (BASE + "b", "", "weekly", "")


EXT = canonical(
    {
        "alternates": [{"hreflang": "de", "href": BASE + "a"}],
        "images": ["https://cdn.example.net/a?b&c"],
        "videos": [
            {"thumbnail_loc": BASE + "t", "title": "'T'", "description": "é", "player_loc": BASE + "p"}
        ],
        "news": {
            "publication": {"name": "N", "language": "en"},
            "publication_date": "2026-09-21",
            "title": "<T>",
        },
    }
)


def test_extensions_are_taken_back_as_they_were_published(make_world: MakeWorld) -> None:
    """The same entry, and the same bytes."""
    world = make_world(make_site())
    push(world, add("a", ext=EXT), add("b"))
    world.settle()
    tree = picture(world.folder)
    forget(world)
    restore(world)
    for path, ext in (("a", EXT), ("b", "")):
        found = world.store.find(BASE + path)
        assert found is not None
        assert found.entry.ext == ext
    push(world, update("b", lastmod="2026-01-01"))
    world.settle()
    push(world, update("b", lastmod=""))
    world.settle()
    assert picture(world.folder)["sitemap-pages-1.xml"][0] == tree["sitemap-pages-1.xml"][0]


def test_an_extension_that_breaks_a_rule_is_left_out_of_a_restore(make_world: MakeWorld) -> None:
    """Counted, and the file is written again without it."""
    world = make_world(make_site())
    push(world, add("a", ext=EXT))
    world.settle()
    file = world.folder / "sitemap-pages-1.xml"
    file.write_bytes(file.read_bytes().replace(b"https://cdn.example.net/a?b&amp;c", b"/a.jpg"))
    forget(world)
    assert restore_tree(world.store, world.output).skipped == 1
    finish(world)
    world.settle()
    assert b"image" not in file.read_bytes()
    assert b"video:title" in file.read_bytes()


@pytest.mark.parametrize("after", range(6))
def test_a_restore_that_crashes_is_done_again(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Killed after any shard: the second run starts over and ends in the same state."""
    world = filled(make_world)
    before, tree = files(world), picture(world.folder)
    forget(world)
    real, calls = Partition.restore, 0

    def crashing(self: Partition, shard: Restored, token: str) -> bool:
        nonlocal calls
        if calls == after:
            raise Crash("restore")
        calls += 1
        return real(self, shard, token)

    with monkeypatch.context() as patch:
        patch.setattr(Partition, "restore", crashing)
        with pytest.raises(Crash):
            restore_tree(world.store, world.output)
    push(world, add("between"))
    restore(world)
    settled(world, *PATHS, "between")
    assert files(world) == before | {"sitemap-pages-5.xml": ["between"]}
    assert changed(world, tree) == {"sitemap-pages-5.xml", "sitemap-3.xml"}
    consistent(world)


def test_a_restore_over_a_state_that_is_remembered_is_refused(make_world: MakeWorld) -> None:
    """Restoring twice: the second one says so and changes nothing."""
    world = filled(make_world)
    forget(world)
    restore(world)
    push(world, add("later"))
    with pytest.raises(SitemapdError, match="restored or begun already"):
        restore_tree(world.store, world.output)
    settled(world, *PATHS, "later")


def test_a_call_that_is_repeated_after_a_time_out_changes_nothing(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """redis-py sends a command again when no answer came: each shard is still taken in once."""
    world = filled(make_world)
    tree = picture(world.folder)
    forget(world)
    real = Partition.restore

    def twice(self: Partition, shard: Restored, token: str) -> bool:
        real(self, shard, token)
        return real(self, shard, token)

    monkeypatch.setattr(Partition, "restore", twice)
    restore(world)
    for partition in world.store.partitions:
        partition.want_all()
    settled(world, *PATHS)
    assert changed(world, tree) == set()
    consistent(world)


def test_events_that_came_before_the_restore_are_kept(make_world: MakeWorld) -> None:
    """Pushed into the empty Redis: known and new URLs, deletes too, in several appends."""
    world = filled(make_world)
    before = {path: next(name for name, paths in files(world).items() if path in paths) for path in PATHS}
    forget(world)
    push(world, update(PATHS[0], priority="0.1"), delete("it's"), add("new"))
    push(world, update(PATHS[0], priority="0.2"), delete("blog/0"))
    assert work(world) == 0
    restore(world)
    settled(world, *(path for path in PATHS if path not in ("it's", "blog/0")), "new")
    assert published(world.folder)[BASE + PATHS[0]] == ("2026-01-01", None, "0.2")
    assert PATHS[0] in files(world)[before[PATHS[0]]]
    consistent(world)


def test_events_that_come_during_the_restore_wait_for_its_end(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each shard comes an event for a URL of every shard: none gets a second seat."""
    world = filled(make_world)
    tree = files(world)
    forget(world)
    real, calls = Partition.restore, 0

    def busy(self: Partition, shard: Restored, token: str) -> bool:
        nonlocal calls
        calls += 1
        events = [update(path, priority=f"0.{calls}") for path in PATHS] + [add(f"new{calls}")]
        assert world.store.append(events) == [], "nothing is woken while the restore goes on"
        return real(self, shard, token)

    monkeypatch.setattr(Partition, "restore", busy)
    restore_tree(world.store, world.output)
    assert world.store.unsettled(world.now) > 0, "`wait` must not call this settled"
    finish(world)
    settled(world, *PATHS, *(f"new{n}" for n in range(1, calls + 1)))
    assert {row[2] for loc, row in published(world.folder).items() if "new" not in loc} == {f"0.{calls}"}
    for name, paths in tree.items():
        assert set(paths) <= set(files(world)[name])
    consistent(world)


def test_what_came_after_the_restore_is_not_undone_by_what_waited(make_world: MakeWorld) -> None:
    """The held events are older, although they are appended later; a second replay is no different."""
    world = filled(make_world)
    forget(world)
    push(world, delete("it's"), update("blog/0", priority="0.1"), add("x"), delete("blog/1"))
    restore_tree(world.store, world.output)
    held = world.client.lrange(world.store.partitions[0].keys.held(), 0, -1)
    assert held
    world.now += 1000
    world.adopt("state-2")
    push(world, add("it's"), update("blog/0", priority="0.2"), delete("x"))
    for wake in world.store.replay_held():
        world.enqueue(wake)
    world.settle()
    first = published(world.folder)
    assert first.keys() == {BASE + path for path in PATHS if path != "blog/1"}
    assert first[BASE + "blog/0"][2] == "0.2"
    world.client.rpush(world.store.partitions[0].keys.held(), *held)
    world.store.replay_held()
    world.settle()
    assert published(world.folder) == first


def test_many_held_events_are_replayed_in_their_order(make_world: MakeWorld) -> None:
    """More than one round of the replay takes at a time."""
    world = filled(make_world)
    forget(world)
    for n in range(600):
        world.now += 1
        world.store.append([update("it's", priority=f"0.{n % 10}"), add(f"q{n % 30}")])
    restore(world)
    world.settle()
    assert published(world.folder)[BASE + "it's"][2] == "0.9"
    assert len(published(world.folder)) == len(PATHS) + 30
    assert fields(world, "held") == {}


def test_entries_that_break_a_rule_are_left_out_and_the_file_is_put_right(make_world: MakeWorld) -> None:
    """A tree that somebody edited: foreign and doubled URLs go, the rest stays where it was."""
    world = filled(make_world)
    name = "sitemap-blog-1.xml"
    text = (world.folder / name).read_text()
    extra = (
        "<url><loc>https://other.example/</loc></url>\n<url><loc>https://example.com/it&apos;s</loc></url>\n"
    )
    (world.folder / name).write_text(text.replace("</urlset>", extra + "</urlset>"))
    forget(world)
    restored = restore_tree(world.store, world.output)
    assert (restored.urls, restored.skipped) == (len(PATHS), 1 + 1)
    finish(world)
    settled(world, *PATHS)
    assert BASE + "it's" in published(world.folder)
    consistent(world)


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda folder: (folder / "sitemap-pages-1.xml").unlink(), "sitemap-pages-1.xml"),
        (lambda folder: (folder / "sitemap-pages-1.xml").write_text("<html/>"), "sitemap-pages-1.xml"),
        (lambda folder: (folder / "sitemap.xml").write_text("half"), "sitemap.xml"),
        (
            lambda folder: (folder / "sitemap.xml").write_text(
                (folder / "sitemap.xml").read_text().replace("https://example.com/", "https://other.example/")
            ),
            "not ours",
        ),
    ],
    ids=["missing", "no sitemap", "broken index", "another site's"],
)
def test_a_tree_that_cannot_be_read_is_not_restored(
    make_world: MakeWorld, spoil: Callable[[object], object], named: str
) -> None:
    """One sentence that names the file; nothing is published, and once it is put right it works."""
    world = filled(make_world)
    whole = {path.name: path.read_bytes() for path in world.folder.iterdir()}
    spoil(world.folder)
    forget(world)
    push(world, add("new"))
    spoilt = picture(world.folder)
    with pytest.raises(SitemapdError, match=named):
        restore_tree(world.store, world.output)
    world.keep()
    work(world)
    assert changed(world, spoilt) == set()
    for name, data in whole.items():
        (world.folder / name).write_bytes(data)
    restore(world)
    settled(world, *PATHS, "new")


def test_a_tree_that_may_go_is_removed_from_the_index_on(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`restore --discard`: at no moment an index names a missing file."""
    world = filled(make_world)
    gone: list[str] = []
    remove = world.output.remove

    def noted(name: str) -> None:
        gone.append(name)
        remove(name)
        listed(world.folder)

    monkeypatch.setattr(world.output, "remove", noted)
    count = len(picture(world.folder))
    assert discard_tree(world.output) == count == len(gone)
    assert picture(world.folder) == {}


def test_a_full_rebuild_from_the_sources_gives_the_same_urls(make_world: MakeWorld) -> None:
    """I7: what came in a hundred steps, with deletes and updates, equals what a fresh site gets at once."""
    shuffler = random.Random(11)
    world = make_world(make_site(sections={"blog": "/blog/**"}, min_interval=0.0))
    truth: dict[str, Event] = {}
    for _ in range(120):
        path = shuffler.choice(["blog/", "p"]) + str(shuffler.randrange(25))
        source = "blog" if path.startswith("blog") else "pages"
        if shuffler.random() < 0.35:
            push(world, delete(path, source=source))
            truth.pop(path, None)
        else:
            event = add(path, lastmod=f"2026-01-{shuffler.randrange(1, 29):02}", source=source)
            push(world, event)
            truth[path] = event
        if shuffler.random() < 0.3:
            world.settle()
    world.settle()
    incremental = published(world.folder)
    listings = {
        source: sorted(entry.loc for entry in world.store.listing(source)) for source in ("blog", "pages")
    }
    discard_tree(world.output)
    forget(world)
    world.adopt("state-2")
    push(world, *truth.values())
    world.settle()
    assert published(world.folder) == incremental
    assert listings == {
        source: sorted(event.loc for event in truth.values() if event.source == source)
        for source in ("blog", "pages")
    }


def test_a_restored_entry_is_what_the_file_said(make_world: MakeWorld) -> None:
    """Nobody vouches for it: the next sync or add gives it a source again."""
    world = filled(make_world)
    forget(world)
    restore(world)
    assert {entry.loc for entry in world.store.listing("")} == {BASE + path for path in PATHS}
    for path in PATHS:
        found = world.store.find(BASE + path)
        assert found is not None
        assert found.entry == Entry(BASE + path, "2026-01-01", "", "0.5")
        assert path in files(world)[found.file]
        assert seat(world, path) == found.shard


@pytest.mark.parametrize("urls", [12_000, 50_000])
def test_a_shard_of_any_size_is_restored(make_world: MakeWorld, urls: int) -> None:
    """Up to the most URLs that a file may hold; its directory is as deep as one that grew."""
    world = make_world(make_site(shard_size=50_000))
    push(world, *(add(f"p{n}") for n in range(urls)))
    world.settle()
    tree = picture(world.folder)
    forget(world)
    restore(world)
    push(world, add("new"), update("p7", priority="0.7"))
    world.settle()
    found = published(world.folder)
    assert len(found) == urls + 1
    assert found[BASE + "p7"][2] == "0.7"
    assert tree.keys() <= picture(world.folder).keys()
    consistent(world)


def test_a_restore_that_another_overtook_says_so(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it still sends is refused, also while the other is under way; nothing is lost or doubled."""
    world = filled(make_world)
    forget(world)
    push(world, add("new"))
    real, calls = Partition.restore, 0

    def overtaken(self: Partition, shard: Restored, token: str) -> bool:
        nonlocal calls
        calls += 1
        if calls == 3:
            monkeypatch.setattr(Partition, "restore", meanwhile)
            restore_tree(world.store, world.output)
        return real(self, shard, token)

    def meanwhile(self: Partition, shard: Restored, token: str) -> bool:
        assert real(self, shard, "of the first") is False
        return real(self, shard, token)

    monkeypatch.setattr(Partition, "restore", overtaken)
    with pytest.raises(SitemapdError, match="another restore"):
        restore_tree(world.store, world.output)
    finish(world)
    settled(world, *PATHS, "new")
    consistent(world)


def test_two_replays_at_once_lose_nothing(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one has appended the other takes off the list only if it is still there."""
    world = filled(make_world)
    forget(world)
    names = [f"new{n}" for n in range(700)]
    for name in names:
        push(world, add(name))
    restore_tree(world.store, world.output)
    world.adopt("state-2")
    real = Store.append

    def both(store: Store, events: Any) -> list[Wake]:
        monkeypatch.setattr(Store, "append", real)
        wakes = store.append(events)
        return wakes + store.replay_held()

    monkeypatch.setattr(Store, "append", both)
    for wake in world.store.replay_held():
        world.enqueue(wake)
    assert not world.store.has_held()
    settled(world, *PATHS, *names)

"""A change of what pages inherit is seen as it happens, and costs a look at those pages alone."""

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from producers.filesystem.cache import Cache, Row
from producers.filesystem.examine import Examiner, Look
from producers.filesystem.problems import Problem
from producers.filesystem.root import Root
from producers.filesystem.scan import Scanner
from producers.filesystem.selection import Selection
from producers.filesystem.sender import Sender
from producers.filesystem.walk import Tree
from producers.guard import Guard
from tests.integration.filesystem_world import BASE, World, until

DRAFTS = "---\ncascade: {draft: true}\n---\n"


@pytest.fixture
def world(tmp_path: Path, redis_url: str) -> Iterator[World]:
    """Give a folder and a site; watchers end with the test."""
    world = World(tmp_path / "world", redis_url)
    yield world
    world.close()


@pytest.fixture(params=["never", "always"])
def polling(request: pytest.FixtureRequest) -> str:
    """Give both ways to notice changes."""
    return str(request.param)


def test_a_cascade_comes_changes_moves_and_goes(world: World, polling: str) -> None:
    """Every way in which an `_index.md` may change is seen on the pages below it."""
    for path in ("a/one.md", "a/b/two.md", "c/three.md", "d/_index.md"):
        world.write(path)
    world.watch(generator="hugo", polling=polling, max_delete=1.0)
    world.until_urls("a/one", "a/b/two", "c/three", "d/")
    world.write("a/_index.md", DRAFTS)
    world.until_urls("c/three", "d/")
    world.write("a/b/_index.md", "---\ncascade: {draft: false}\n---\n")
    world.until_urls("a/b/", "a/b/two", "c/three", "d/")
    (world.content / "a/_index.md").rename(world.content / "c/_index.md")
    world.until_urls("a/one", "a/b/", "a/b/two", "d/")
    (world.content / "c").rename(world.content / "e")
    world.until_urls("a/one", "a/b/", "a/b/two", "d/")
    (world.content / "e/_index.md").unlink()
    world.until_urls("a/one", "a/b/", "a/b/two", "d/", "e/three")
    world.write("_index.md", DRAFTS)
    world.until_urls("a/b/", "a/b/two")


def test_a_bundle_comes_and_goes(world: World, polling: str) -> None:
    """The files beside a new index.md are pages no more, until it goes."""
    world.write("a/one.md")
    world.write("a/b/two.md")
    world.watch(generator="hugo", polling=polling, max_delete=1.0)
    world.write("a/index.md")
    world.until_urls("a/")
    (world.content / "a/index.md").unlink()
    world.until_urls("a/one", "a/b/two")


@pytest.mark.parametrize(
    ("generator", "parent", "hiding", "other"),
    [
        ("eleventy", "a/a.json", '{"permalink": false}', "{}"),
        ("eleventy", "a/a.11tydata.json", '{"eleventyExcludeFromCollections": true}', '{"x": 1}'),
        ("eleventy", "a/one.json", '{"permalink": false}', '{"title": "One"}'),
        ("jekyll", "_config.yml", "defaults: [{scope: {path: a}, values: {published: false}}]", "title: x"),
    ],
)
def test_other_generators_parents_are_watched_too(
    world: World, polling: str, generator: str, parent: str, hiding: str, other: str
) -> None:
    """Data files and `_config.yml` are no pages, and their changes are seen all the same."""
    world.write("a/one.md")
    world.write("b/two.md")
    world.watch(generator=generator, polling=polling, max_delete=1.0)
    world.write(parent, hiding)
    world.until_urls("b/two")
    world.write(parent, other)
    world.until_urls("a/one", "b/two")
    world.write(parent, hiding)
    world.until_urls("b/two")
    (world.content / parent).unlink()
    world.until_urls("a/one", "b/two")


def test_a_change_while_nobody_watched_is_found(world: World) -> None:
    """What a page inherited is remembered with it; a restart with nothing changed reads and sends nothing."""
    for path in ("a/one.md", "a/two.md", "b/three.md"):
        world.write(path)
    world.write("a/_index.md", DRAFTS)
    world.watch(generator="hugo", max_delete=1.0)
    world.until_urls("b/three")
    assert world.watchers.pop().stop()
    world.write("a/_index.md", "---\ntitle: A\n---\n")
    world.watch(generator="hugo", max_delete=1.0)
    world.until_urls("a/", "a/one", "a/two", "b/three")
    assert world.watchers.pop().stop()
    with world.nothing_sent():
        world.watch(generator="hugo", max_delete=1.0)


def test_only_the_pages_below_are_read_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those beside it, and none at all for a change that concerns no entry."""
    for path in ("a/one.md", "a/b/two.md", "c/three.md", "_index.md", "a/_index.md"):
        old = world.write(path)
        os.utime(old, (1_600_000_000, 1_600_000_000))
    time.sleep(0.2)  # times that are younger prove nothing, and such a file is read again anyhow
    read: list[bytes] = []
    examine = Examiner.examine

    def noted(self: Examiner, look: Look) -> Row | None:
        read.append(look.path)
        return examine(self, look)

    monkeypatch.setattr(Examiner, "examine", noted)
    world.watch(generator="hugo", max_delete=1.0)
    read.clear()
    with world.nothing_sent():
        os.utime(
            world.write("a/_index.md", "---\ncascade: {type: docs}\n---\n"), (1_600_000_000, 1_600_000_000)
        )
    assert {path for path in read if b"marker" not in path} == {b"a/_index.md"}
    read.clear()
    world.write("a/_index.md", DRAFTS)
    world.until_urls(*{url for url in world.urls() if not url.startswith("a/")})
    assert set(read) == {b"a/_index.md", b"a/one.md", b"a/b/two.md"}


def test_a_broken_parent_keeps_its_pages_as_they_were(world: World) -> None:
    """A new page waits until somebody mends the file; the log names it once."""
    world.write("a/one.md")
    world.write("b/two.md")
    watcher = world.watch(generator="hugo", max_delete=1.0)
    world.write("a/_index.md", "---\ncascade: [\n---\n")
    until(lambda: "a/_index.md" in str(watcher.health()["last_warning"]))
    world.write("a/new.md")
    world.write("b/new.md")
    world.until_urls("a/one", "b/two", "b/new")
    world.write("a/_index.md", "---\ncascade: {draft: false}\n---\n")
    world.until_urls("a/", "a/one", "a/new", "b/two", "b/new")


@contextmanager
def scanner_of(world: World, **options: str) -> Iterator[Scanner]:
    """A scanner of the folder, without the thread and the watches of a watcher."""
    source = world.source(**options)
    guard = Guard(world.publisher.store, source.name, "watch", share=source.max_delete)
    root, cache, problems = Root(source.directory, source.name), Cache(None), list[Problem]()
    selection = Selection(source.include, source.left_out, source.generator)
    with closing(cache):
        yield Scanner(
            root,
            Tree(source, root.path, selection=selection, report=problems.append, watch=None),
            selection,
            Examiner(source, world.site, settle_ns=0, report=problems.append),
            cache,
            Sender(source.name, world.publisher, cache, problems.append, guard),
            lambda: int(time.time() * 1000),
        )


def test_a_look_before_the_first_scan_came_to_a_folder_waits_for_it(world: World) -> None:
    """What a folder hides is known when the scan has been there: no draft is published for a moment."""
    world.write("a/one.md")
    world.write("z/_index.md", DRAFTS)
    world.write("z/two.md")
    world.write("y/.sitemapignore", "three.md")
    world.write("y/three.md")
    with scanner_of(world, generator="hugo") as scanner:

        def between() -> None:
            scanner.look([b"z/two.md", b"y/three.md", b"a/one.md"])

        scanner.scan(send=True, between=between)
    assert world.urls() == {"a/one"}
    assert [event.loc for event in world.publisher.events] == [BASE + "a/one"]


@pytest.mark.parametrize("change", ["written", "removed", "moved"])
def test_what_a_look_finds_during_a_scan_stays(world: World, change: str) -> None:
    """What the scan read of the file before, and had not sent yet, is not sent after it."""
    one = world.write("a/one.md", "---\nlastmod: 2026-01-01\n---\n")
    world.write("b/two.md", "---\nlastmod: 2026-01-01\n---\n")
    with scanner_of(world) as scanner:
        turns = iter(("", "a", "b"))

        def between() -> None:
            if next(turns) == "a":  # which was read now; b was not
                if change == "written":
                    one.write_text("---\nlastmod: 2026-02-02\n---\n")
                elif change == "removed":
                    one.unlink()
                else:
                    one.rename(world.content / "b/three.md")
                scanner.look([b"a/one.md", b"b/three.md"])

        scanner.scan(send=True, between=between)
    found = {path: entry.lastmod for path, entry in world.entries().items()}
    first = {
        "written": {"a/one": "2026-02-02"},
        "removed": {},
        "moved": {"b/three": "2026-01-01"},
    }
    assert found == {**first[change], "b/two": "2026-01-01"}


@pytest.mark.parametrize("first", ["1-one.md", "10/one.md", "Z.md"])
def test_a_file_that_comes_before_what_changes_its_folder_is_looked_at_once_more(
    world: World, first: str
) -> None:
    """In the order of their names it was read by the old rules: that is not what stays known of it."""
    page, rules = world.write(f"a/{first}", "one"), world.write("a/_index.md", DRAFTS)
    url = f"a/{first.removesuffix('.md')}"
    with scanner_of(world, generator="hugo") as scanner:
        scanner.scan(send=True, between=lambda: None)
        assert url not in world.urls()
        changed = [f"a/{first}".encode(), b"a/_index.md"]
        page.write_text("other")
        rules.write_text("---\ndraft: false\n---\n")
        scanner.look(changed)
        assert url in world.urls()
        page.write_text("---\ndraft: true\n---\n")
        scanner.look(changed[:1])
        assert url not in world.urls()
        page.write_text("one")
        scanner.look(changed[:1])
        assert url in world.urls()
        page.write_text("another")
        rules.write_text(DRAFTS)
        scanner.look(changed)
        assert url not in world.urls()

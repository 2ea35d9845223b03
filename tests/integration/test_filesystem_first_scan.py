"""The first scan comes to what a scan of a source that is watched already comes to."""

import os
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from producers.filesystem import scan
from producers.filesystem.cache import COLUMNS, Cache, Row
from sitemap_store.errors import Unavailable
from sitemap_store.model.entries import Entry
from sitemap_store.model.events import Event
from sitemap_store.redis.claims import Wake
from sitemap_store.redis.prepare import Packed
from sitemap_store.redis.state import Partition
from tests.examples import examples
from tests.integration.filesystem_world import BASE, World, until

NAMES: Final = [b"a.html", b"a.md", b"index.html", b"index.md", b"ma\xf1a.html", "é b.md".encode(), b"x.txt"]
FOLDERS: Final = [b"", b"a", b"a-b", b"a/c", b"\xff\xfe", b"a.html"]
TEXTS: Final = [
    "text",
    "---\ndraft: true\n---\n",
    "---\npermalink: /a\nlastmod: 2024-01-02\n---\n",
    "---\npermalink: /a\nlastmod: 2025-03-04\nsitemap: {priority: 0.3}\n---\n",
    "---\nexpiryDate: 2020-01-01\n---\n",
    "---\nexpiryDate: 2090-01-01\ndate: 2021-05-06\n---\n",
    "---\npublishDate: 2090-01-01\n---\n",
    "---\npermalink: https://other.example/\n---\n",
]
trees = st.dictionaries(
    st.tuples(st.sampled_from(FOLDERS), st.sampled_from(NAMES)), st.sampled_from(TEXTS), max_size=14
)


@pytest.fixture
def world(tmp_path: Path, redis_url: str) -> Iterator[World]:
    """Give a folder and a site; watchers end with the test."""
    world = World(tmp_path / "world", redis_url)
    yield world
    world.close()


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a scan of a few files be one of many chunks."""
    monkeypatch.setattr(scan, "CHUNK", 2)


def scanned(
    folder: Path, content: Path, url: str, *, watched: int | None = None, **options: Any
) -> tuple[list[Any], dict[str, Entry]]:
    """The cache's rows and the state after a first scan, which then has nothing left to send.

    With `watched`, how many files there are, an empty folder is watched first and then swapped for the tree.
    """
    world = World(folder, url)
    world.content.rmdir()
    empty, link = folder / "empty", folder / "link"
    empty.mkdir()
    world.content.symlink_to(content if watched is None else empty)
    try:
        # Later, so that all times are old enough to be kept.
        watcher = world.watch(clock=lambda: time.time() + 60, **options)
        if watched is not None:
            link.symlink_to(content)
            link.rename(world.content)
            until(lambda: watcher.health()["files_scanned"] == watched)
        assert watcher.stop()
        sent = world.sent()
        again = world.watch(clock=lambda: time.time() + 60, **options)
        assert world.sent() == sent
        assert again.health()["urls"] == len(world.urls())
        assert again.stop()
        (file,) = world.state_dir.glob("*.sqlite")
        with sqlite3.connect(file) as db:
            rows = db.execute(f"SELECT {COLUMNS} FROM files ORDER BY dir, name").fetchall()
        db.close()
        return rows, {name: entry._replace(at=0) for name, entry in world.entries().items()}
    finally:
        world.close()
        world.publisher.store.client.flushall()


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees, st.booleans())
def test_it_comes_to_what_a_later_scan_comes_to(redis_url: str, tree: dict[Any, str], reads: bool) -> None:
    """The same rows and the same state, whatever the names, and however many files share an address."""
    folder = Path(tempfile.mkdtemp())
    content = folder / "tree"
    content.mkdir()
    try:
        for number, ((inside, name), text) in enumerate(tree.items()):
            path = os.path.join(os.fsencode(content), inside, name)
            if os.path.isdir(path) or os.path.isfile(os.path.dirname(path)):
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
            os.utime(path, (1_700_000_000 + number * 977 % 7,) * 2)
        options = {"front_matter": reads, "html_head": reads, "strip_extension": True}
        first = scanned(folder / "first", content, redis_url, **options)
        assert first == scanned(folder / "second", content, redis_url, watched=len(first[0]), **options)
    finally:
        shutil.rmtree(folder)


def test_each_url_is_sent_once(world: World) -> None:
    """Though the tree is remembered in many chunks."""
    for number in range(20):
        world.write(f"{number % 3}/{number}.html")
    world.watch()
    assert len(world.urls()) == world.sent() == 20


def test_a_source_that_the_state_knows_is_compared(world: World) -> None:
    """Without its cache a source still deletes what has no file any more."""
    world.publisher.send([Event("add", BASE + "gone.html", source="pages")])
    world.write("a.html")
    world.watch()
    assert world.urls() == {"a.html"}


def test_what_redis_did_not_take_is_sent_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was remembered of the files does not count as sent."""
    for number in range(12):
        world.write(f"{number}/a.html")
    append, failed = Partition.begin_append, threading.Event()

    def fails(partition: Partition, packed: Packed, *, delay_ms: int = 0) -> Callable[[], Wake]:
        if len(world.events_of("3/a.html")) == 1 and not failed.is_set():
            failed.set()
            raise Unavailable(what="redis", detail="it is away")
        return append(partition, packed, delay_ms=delay_ms)

    monkeypatch.setattr(Partition, "begin_append", fails)
    watcher = world.watch(ready=False)
    until(failed.is_set)
    world.settle()
    until(lambda: watcher.ready.is_set() and watcher.health()["problem"] is None)
    assert watcher.health()["urls"] == 12


def test_a_full_disk_is_one_sentence_and_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scan ends with the cache's own error, and the next one completes it."""
    for number in range(12):
        world.write(f"{number}/a.html")
    put, full = Cache.put, threading.Event()

    def fails(cache: Cache, rows: Sequence[Row]) -> None:
        if any(row.dir == b"3" for row in rows) and not full.is_set():
            full.set()
            raise sqlite3.OperationalError("database or disk is full")
        put(cache, rows)

    monkeypatch.setattr(Cache, "put", fails)
    watcher = world.watch(ready=False)
    until(lambda: "can't be used (database or disk is full)" in str(watcher.health()["problem"]))
    until(watcher.ready.is_set)
    world.settle()


def test_a_stop_in_the_middle_ends_the_scan(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not sent is sent after the next start."""
    for number in range(40):
        world.write(f"{number}/a.html")
    append = Partition.begin_append

    def slow(partition: Partition, packed: Packed, *, delay_ms: int = 0) -> Callable[[], Wake]:
        time.sleep(0.1)
        return append(partition, packed, delay_ms=delay_ms)

    with monkeypatch.context() as patch:
        patch.setattr(Partition, "begin_append", slow)
        patch.setattr("producers.difference.CHUNK", 2)
        watcher = world.watch(ready=False)
        until(world.sent)
        assert watcher.stop()
        assert not watcher.ready.is_set()
    assert len(world.urls()) < 40
    world.watch()
    world.settle()
    assert len(world.urls()) == 40

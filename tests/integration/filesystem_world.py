"""A content folder that is really watched, a real Redis, and what a plain look at the folder says."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from producers.filesystem import FilesystemSource, Watcher
from producers.sink import EventSink
from sitemap_store.model.entries import Entry
from sitemap_store.model.events import Event
from sitemap_store.model.sections import Sections
from sitemap_store.model.site import Site
from sitemap_store.model.urls import UrlRules
from sitemap_store.redis.connection import connect
from sitemap_store.redis.store import Store
from sitemap_store.redis.wake import Waker

BASE: Final = "https://example.com/"
PATIENCE: Final = 30.0
"""Seconds until a condition that does not come true is a failure."""


def until(holds: Callable[[], object], what: object = "") -> None:
    """Wait until a condition holds; `what`, called if it is callable, says what is missing."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(what() if callable(what) else what or "it never came true")
        time.sleep(0.005)


class Recorder(EventSink):
    """A publisher that notes every event that goes through it, and can be made to wait."""

    def __init__(self, store: Store, waker: Waker) -> None:
        super().__init__(store, waker)
        self.events: list[Event] = []
        self.gate = threading.Event()
        self.gate.set()

    def send(self, events: Any, *, bulk: bool = False) -> int:
        self.gate.wait()
        several = list(events)
        before = len(self.events)
        self.events += several  # first: whoever sees them in the state finds them noted
        try:
            return super().send(several, bulk=bulk)
        except BaseException:
            del self.events[before:]
            raise


class World:
    """One content folder and one site. Times in the source are short, so that tests are."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.folder = folder
        self.content = folder / "content"
        self.content.mkdir(parents=True, exist_ok=True)
        self.state_dir = folder / "state"
        self.client = connect(redis_url, timeout=10.0)
        self.site = Site(name="main", rules=UrlRules(base=BASE), sections=Sections(()), assume_timezone=None)
        self.publisher = Recorder(Store(self.client, self.site), Waker(self.client))
        self.publisher.store.partitions[0].adopt("first")
        self.watchers: list[Watcher] = []
        self.generator = ""

    def source(self, **options: Any) -> FilesystemSource:
        """A source on the content folder."""
        defaults: dict[str, Any] = {"name": "pages", "directory": self.content, "rescan_interval": 0}
        quick: dict[str, Any] = {"debounce": 0.03, "debounce_max": 0.3, "poll_interval": 0.05}
        return FilesystemSource(**(defaults | quick | options))

    def watch(self, *, accept_deletes: bool = False, ready: bool = True, **options: Any) -> Watcher:
        """Start a watcher, and wait until it is ready."""
        clock = options.pop("clock", time.time)
        self.generator = options.get("generator", "")
        watcher = Watcher(
            self.source(**options),
            self.publisher,
            state_dir=self.state_dir,
            accept_deletes=accept_deletes,
            clock=clock,
        )
        watcher.start()
        self.watchers.append(watcher)
        if ready:
            until(watcher.ready.is_set, watcher.health)
        return watcher

    def close(self) -> None:
        """Stop what was started."""
        self.publisher.gate.set()
        for watcher in self.watchers:
            assert watcher.stop()
        self.client.close()

    def write(self, path: str | bytes, text: str = "text") -> Path:
        """Write a file of the content folder, making its folders."""
        file = self.content / os.fsdecode(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def entries(self) -> dict[str, Entry]:
        """What the state holds of the source, by path below the site."""
        return {entry.loc.removeprefix(BASE): entry for entry in self.publisher.store.listing("pages")}

    def urls(self) -> set[str]:
        """The paths below the site that the state holds of the source."""
        return set(self.entries())

    def until_urls(self, *paths: str) -> None:
        """Wait until the state holds exactly these."""
        wanted = set(paths)
        until(lambda: self.urls() == wanted, lambda: self.difference(wanted))

    def settle(self, root: Path | None = None) -> None:
        """Wait until the state holds what a plain look at the folder says, and nothing waits."""

        def truth() -> set[str]:
            return plain_look(root or self.content, self.generator)

        def settled() -> bool:
            return self.urls() == truth() and not any(each.health()["waiting"] for each in self.watchers)

        until(settled, lambda: self.difference(truth()))

    def difference(self, wanted: set[str]) -> str:
        """What is missing and what is too much."""
        found = self.urls()
        health = [watcher.health() for watcher in self.watchers]
        missing, surplus = sorted(wanted - found)[:20], sorted(found - wanted)[:20]
        return f"{len(found)} found; missing {missing}, too much {surplus}; {health}"

    def events_of(self, path: str) -> list[str]:
        """The ops that were sent of one URL, in their order."""
        return [event.op for event in self.publisher.events if event.loc == BASE + path]

    def sent(self) -> int:
        """How many events were sent so far."""
        return len(self.publisher.events)

    @contextmanager
    def nothing_sent(self) -> Iterator[None]:
        """Check that no event is sent by what happens within, up to a marker file that comes after."""
        before = self.sent()
        yield
        marker = f"marker-{before}-{time.monotonic_ns()}.html"
        self.write(marker)
        until(lambda: marker in self.urls(), f"{marker} never came")
        new = self.publisher.events[before:]
        assert [event.loc for event in new] == [BASE + marker], new


def plain_look(root: Path, generator: str = "") -> set[str]:
    """The URLs of a folder of Markdown and HTML files, as a few lines see it: the oracle."""
    return set(plain_pages(root, generator).values())


def plain_pages(root: Path, generator: str = "") -> dict[bytes, str]:
    """The listed files of a folder and their URLs.

    A file's second line may be `draft: ` or `cascade: {draft: }`, with true or false.
    """
    top = os.path.realpath(os.fsencode(root))
    texts: dict[bytes, bytes] = {}
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if not name.startswith(b".")]
        for name in files:
            path = os.path.join(folder, name)
            if name.startswith(b".") or name.endswith((b"~", b".tmp")) or os.path.islink(path):
                continue
            if name.endswith((b".html", b".md")):
                with suppress(FileNotFoundError), open(path, "rb") as file:
                    texts[os.path.relpath(path, top)] = file.read()
    return {path: _address(path) for path in texts if not _is_hidden(path, texts, generator)}


def _address(path: bytes) -> str:
    folder, name = os.path.split(path)
    if name in (b"index.html", b"index.md", b"_index.md"):
        path = os.path.join(folder, b"")
    return quote(path.removesuffix(b".md"), safe="/!$&'()*+,;=:@~")


def _is_hidden(path: bytes, texts: dict[bytes, bytes], generator: str) -> bool:
    above, name = os.path.split(path)
    own, inherited = texts[path], b""
    here = above
    while generator == "hugo":
        is_bundle = os.path.join(here, b"index.md") in texts
        is_bundle |= texts.get(os.path.join(here, b"index.html"), b"").startswith(b"---")
        if here and is_bundle and (here != above or name not in (b"index.md", b"index.html", b"_index.md")):
            return True
        branch = texts.get(os.path.join(here, b"_index.md"), b"")
        if b"\ncascade: " in branch:
            inherited = inherited or branch
        if not here:
            break
        here = os.path.dirname(here)
    return b"\ndraft: true" in own or (b"\ndraft: " not in own and b"{draft: true}" in inherited)

"""Keeps one content directory and a site's state alike, on a thread of its own.

A session (`session`) watches one root. When that root is swapped, or events were lost, the next
session begins: it watches, scans and reconciles from nothing. Whatever else fails is said once, and
tried again with growing pauses. Nothing is lost by that, because what was not sent is not
remembered either.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from producers.filesystem.cache import Cache
from producers.filesystem.dirty import Dirty
from producers.filesystem.scan import RootChanged
from producers.filesystem.session import PAUSES, Session
from producers.filesystem.source import FilesystemSource
from producers.filesystem.standing import Standing
from producers.filesystem.troubles import Troubles
from producers.guard import Guard, digest_of
from producers.sink import EventSink
from sitemap_store.errors import Unavailable

log = logging.getLogger(__name__)

FACTS: Final = 2
"""Goes up when files are to be read anew because they are understood differently."""


class Watcher:
    """Watches one source for one site, from `start` to `stop`."""

    def __init__(
        self,
        source: FilesystemSource,
        publisher: EventSink,
        *,
        state_dir: Path | None = None,
        accept_deletes: bool = False,
        command: str = "sitemapd",
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`state_dir` keeps the cache (None: for this run only). `accept_deletes` lets the first
        reconcile delete more than `max_delete`. `command` begins a command line about the site. `clock` gives
        seconds since 1970.
        """
        self.source = source
        self._publisher = publisher
        self._site = publisher.store.site
        self._state_dir = state_dir
        self._standing = Standing(
            labels={"site": self._site.name, "source": source.name},
            dirty=Dirty(source.debounce, source.debounce_max, clock=monotonic),
            troubles=Troubles(source, publisher),
            guard=Guard(
                publisher.store,
                source.name,
                "watch",
                share=source.max_delete,
                addresses=digest_of(
                    source.url,
                    source.index_files,
                    source.strip_extension,
                    source.trailing_slash,
                    self._site.rules.base,
                ),
                command=command,
            ),
            clock=clock,
            monotonic=monotonic,
            accept=accept_deletes,
        )
        self._thread: threading.Thread | None = None

    @property
    def ready(self) -> threading.Event:
        """Set once the first difference between disk and state has been sent."""
        return self._standing.ready

    def start(self) -> None:
        """Begin to watch, on a thread of its own, which lives until `stop`. Once only."""
        name = f"watch-{self._site.name}-{self.source.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> bool:
        """End the thread; returns whether it ended within `timeout` seconds."""
        self._standing.stopping.set()
        self._standing.dirty.rouse()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def rescan(self) -> None:
        """Look at the whole tree again and compare it with the site's state, as soon as may be."""
        self._standing.rescan_asked = True
        self._standing.dirty.rouse()

    def health(self) -> dict[str, Any]:
        """How it stands, for `sitemapd status`; docs/filesystem.md has the fields."""
        status = dict(self._standing.status)
        if self._thread is None or not self._thread.is_alive():
            status["state"] = "stopped"
        return {
            "site": self._site.name,
            "source": self.source.name,
            "directory": str(self.source.directory),
            "ready": self.ready.is_set(),
            "waiting": len(self._standing.dirty),
            "last_trouble": self._standing.troubles.last or None,
            **status,
        }

    def _run(self) -> None:
        standing, pause = self._standing, 0.0
        standing.say(state="starting", problem=None, held_deletes=0)
        while not standing.stopping.is_set():
            state = "waiting"
            try:
                with closing(self._cache()) as cache:
                    standing.cold = not cache.adopt(self._settings())
                    pause = self._sessions(cache, pause)
                continue
            except Unavailable as error:
                problem = str(error)
            except sqlite3.OperationalError as error:
                problem = f"{self._file()} can't be used ({error})"
                if "locked" in str(error):
                    problem += ": another sitemapd watches this source"
            except sqlite3.DatabaseError as error:
                problem = f"{self._file()} is damaged ({error}) and is made anew"
                self._discard()
            except Exception:
                # A bug must not end the watching: the next session starts from what is on disk.
                log.exception(
                    "Watching %s failed.", self.source.directory, extra=self._standing.extra("source_failed")
                )
                problem, state = "it failed for a reason that the log tells", "failed"
            pause = min(max(pause * 2, PAUSES[0]), PAUSES[1])
            self._wait(problem, pause, state)

    def _sessions(self, cache: Cache, pause: float) -> float:
        standing = self._standing
        while not standing.stopping.is_set():
            try:
                Session(self.source, self._publisher, cache, standing).run()
            except RootChanged:
                standing.reconcile_due = True
            except Unavailable as error:  # the directory is not there
                pause = min(max(pause * 2, PAUSES[0]), 2.0)
                self._wait(str(error), pause)
                continue
            pause = 0.0
        return pause

    def _wait(self, problem: str, pause: float, state: str = "waiting") -> None:
        standing = self._standing
        if standing.status.get("problem") != problem:
            log.error("%s. Trying again.", problem, extra=self._standing.extra("source_waits"))
        standing.say(state=state, problem=problem)
        standing.reconcile_due = True
        standing.stopping.wait(pause)

    def _cache(self) -> Cache:
        file = self._file()
        if file is not None:
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise Unavailable(
                    what="data_dir", detail=f"{file.parent} can't be made ({error.strerror})"
                ) from error
        return Cache(file)

    def _file(self) -> Path | None:
        if self._state_dir is None:
            return None
        return self._state_dir / f"watch-{self._site.name}-{self.source.name}.sqlite"

    def _discard(self) -> None:
        file = self._file()
        if file is not None:
            for suffix in ("", "-wal", "-shm", "-journal"):
                file.with_name(file.name + suffix).unlink(missing_ok=True)

    def _settings(self) -> str:
        """Everything that a row depends on beside its file."""
        source, rules = self.source, self._site.rules
        what = (
            FACTS, source.url, source.index_files, source.strip_extension, source.trailing_slash,
            source.front_matter, source.html_head, source.generator, source.service_pages,
            source.lastmod, source.lastmod_fields,
            rules.base, rules.cross_submission, sorted(rules.strip_query), rules.limits,
            self._site.assume_timezone,
        )  # fmt: skip
        return hashlib.blake2b(repr(what).encode(), digest_size=16).hexdigest()

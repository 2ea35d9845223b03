"""Keeps one content directory and a site's state alike, with a cache of what was known of its files.

`folder` has what happens while the directory stays the same. When it is swapped, or events were lost, it is
opened anew: watched, scanned and compared from nothing.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from producers.filesystem.cache import Cache
from producers.filesystem.folder import WatchedFolder, WatchState
from producers.filesystem.pending import PendingPaths
from producers.filesystem.problems import ProblemLog
from producers.filesystem.source import FilesystemSource
from producers.filesystem.walk import WatchLimit
from producers.guard import Guard, digest_of
from producers.runner import Runner, SourceChanged
from producers.sink import EventSink
from sitemap_store.errors import Unavailable

log = logging.getLogger(__name__)

FACTS: Final = 2
"""Goes up when files are to be read anew because they are understood differently."""
LONGEST_PAUSE: Final = 2.0
"""Seconds before a directory that is not there is looked for again."""
LIMIT_RETRY: Final = 600.0
"""Seconds after which a watch table that was full is tried again."""


class Watcher(Runner[WatchState]):
    """Watches one source for one site, from `start` to `stop`."""

    def __init__(
        self,
        source: FilesystemSource,
        sink: EventSink,
        *,
        state_dir: Path | None = None,
        accept_deletes: bool = False,
        configured: Collection[str] | None = None,
        command: str = "sitemapd",
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`state_dir` keeps the cache (None: for this run only). `accept_deletes` lets the first
        comparison delete more than `max_delete`. `configured` are the names of all sources of the site,
        by which a renamed one is recognised. `command` begins a command line about the site. `clock`
        gives seconds since 1970.
        """
        self.source = source
        self._site = sink.store.site
        self._state_dir = state_dir
        self._cache: Cache | None = None
        addresses = source.url, source.index_files, source.strip_extension, source.trailing_slash
        guard = Guard(
            sink.store,
            source.name,
            "watch",
            share=source.max_delete,
            addresses=digest_of(*addresses, self._site.rules.base),
            place=digest_of(source.directory.absolute()),
            configured=configured,
            command=command,
        )
        wake = threading.Event()
        state = WatchState(
            site=self._site.name,
            source=source.name,
            pending=PendingPaths(source.debounce, source.debounce_max, clock=monotonic, notify=wake.set),
            problems=ProblemLog(source, sink),
            guard=guard,
            wake=wake,
            clock=clock,
            monotonic=monotonic,
            accept=accept_deletes,
        )
        state.update(held_deletes=0)
        super().__init__(state, "watch", sink, longest_pause=LONGEST_PAUSE, has_outbox=False)

    def rescan(self) -> None:
        """Look at the whole tree again, and try again to watch it; compare it with the site's state."""
        self.state.limited_until = 0.0
        super().rescan()

    def health(self) -> dict[str, Any]:
        """How it stands, for `sitemapd status`; docs/filesystem.md has the fields."""
        more = {
            "directory": str(self.source.directory),
            "waiting": len(self.state.pending),
            "last_warning": self.state.problems.last or None,
        }
        return {**more, **super().health()}

    def run_session(self) -> None:
        """Watch with the cache, which is made anew when it is damaged. Raises what ends it."""
        state, file = self.state, None
        if self._state_dir is not None:
            file = self._state_dir / f"watch-{self.site}-{self.source.name}.sqlite"
        try:
            with closing(self._open_cache(file)) as self._cache:
                while not state.stopping.is_set():
                    try:
                        super().run_session()
                    except SourceChanged:
                        state.compare_due = True
                    except WatchLimit as error:
                        self._limit(error)
                        state.compare_due = True
        except sqlite3.OperationalError as error:
            locked = ": another sitemapd watches this source" if "locked" in str(error) else ""
            raise Unavailable(what=str(file), detail=f"can't be used ({error}){locked}") from error
        except sqlite3.DatabaseError as error:
            if file is not None:
                for suffix in ("", "-wal", "-shm", "-journal"):
                    file.with_name(file.name + suffix).unlink(missing_ok=True)
            raise Unavailable(
                what=str(file), detail=f"is damaged ({error}); the watcher makes a new one"
            ) from error

    def open(self) -> WatchedFolder:
        """Open the directory. Raises Unavailable, or WatchLimit."""
        assert self._cache is not None
        return WatchedFolder(self.source, self._sink, self._cache, self.state)

    def _open_cache(self, file: Path | None) -> Cache:
        if file is not None:
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise Unavailable(
                    what="data_dir", detail=f"{file.parent} can't be made ({error.strerror})"
                ) from error
        cache = Cache(file, digests="content" in self.source.lastmod)
        self.state.cold = not cache.adopt(self._settings()) or cache.is_empty()
        return cache

    def _limit(self, error: WatchLimit) -> None:
        state = self.state
        state.lasting_problem = str(error)
        state.limited_until = state.monotonic() + LIMIT_RETRY
        state.update(problem=state.lasting_problem)
        log.error(
            "%s can't be watched as a whole: %s. Until then it is polled every %g s.",
            self.source.directory,
            error.detail,
            self.source.poll_interval,
            extra=state.extra("watch_limit"),
        )

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

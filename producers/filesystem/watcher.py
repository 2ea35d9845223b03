"""Keeps one content directory and a site's state alike.

A session (`session`) watches one root. When that root is swapped, or events were lost, the next session
begins: it watches, scans and compares from nothing.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from producers.filesystem.cache import Cache
from producers.filesystem.dirty import Dirty
from producers.filesystem.scan import RootChanged
from producers.filesystem.session import Session
from producers.filesystem.source import FilesystemSource
from producers.filesystem.state import WatchState
from producers.filesystem.troubles import Troubles
from producers.guard import Guard, digest_of
from producers.runner import Runner
from producers.sink import EventSink
from sitemap_store.errors import Unavailable

FACTS: Final = 2
"""Goes up when files are to be read anew because they are understood differently."""
LONGEST_PAUSE: Final = 2.0
"""Seconds before a directory that is not there is looked for again."""


class Watcher(Runner[WatchState]):
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
        comparison delete more than `max_delete`. `command` begins a command line about the site. `clock`
        gives seconds since 1970.
        """
        self.source = source
        self._publisher = publisher
        self._site = publisher.store.site
        self._state_dir = state_dir
        addresses = source.url, source.index_files, source.strip_extension, source.trailing_slash
        state = WatchState(
            site=self._site.name,
            source=source.name,
            dirty=Dirty(source.debounce, source.debounce_max, clock=monotonic),
            troubles=Troubles(source, publisher),
            guard=Guard(
                publisher.store,
                source.name,
                "watch",
                share=source.max_delete,
                addresses=digest_of(*addresses, self._site.rules.base),
                command=command,
            ),
            clock=clock,
            monotonic=monotonic,
            accept=accept_deletes,
        )
        state.update(held_deletes=0)
        super().__init__(state, "watch", longest_pause=LONGEST_PAUSE, has_outbox=False)

    def rescan(self) -> None:
        """Look at the whole tree again and compare it with the site's state, as soon as may be."""
        self.state.rescan_asked = True
        self.state.rouse()

    def health(self) -> dict[str, Any]:
        """How it stands, for `sitemapd status`; docs/filesystem.md has the fields."""
        more = {
            "directory": str(self.source.directory),
            "waiting": len(self.state.dirty),
            "last_trouble": self.state.troubles.last or None,
        }
        return {**more, **super().health()}

    def run_session(self) -> None:
        """One cache, and one root after the other. Raises Unavailable."""
        state, file = self.state, self._file()
        try:
            with closing(self._cache()) as cache:
                state.cold = not cache.adopt(self._settings()) or cache.is_empty()
                while not state.stopping.is_set():
                    try:
                        Session(self.source, self._publisher, cache, state).run()
                    except RootChanged:
                        state.compare_due = True
        except sqlite3.OperationalError as error:
            locked = ": another sitemapd watches this source" if "locked" in str(error) else ""
            raise Unavailable(what=str(file), detail=f"can't be used ({error}){locked}") from error
        except sqlite3.DatabaseError as error:
            self._discard()
            raise Unavailable(what=str(file), detail=f"is damaged ({error}) and is made anew") from error

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

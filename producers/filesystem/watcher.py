"""Keeps one content directory and a site's state alike, with a cache of what was known of its files.

`folder` has what happens while the directory stays the same. When it is swapped, or events were lost, it is
opened anew: watched, scanned and compared from nothing.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, Unpack

from producers.filesystem.cache import Cache
from producers.filesystem.folder import WatchedFolder, WatchState
from producers.filesystem.pending import PendingPaths
from producers.filesystem.problems import ProblemLog
from producers.filesystem.source import FilesystemSource
from producers.filesystem.walk import WatchLimit
from producers.runner import Runner, RunnerOptions, SourceChanged
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

    kind = "watch"
    longest_pause = LONGEST_PAUSE
    has_outbox = False

    def __init__(
        self,
        source: FilesystemSource,
        sink: EventSink,
        *,
        state_dir: Path,
        **options: Unpack[RunnerOptions],
    ) -> None:
        """`state_dir` keeps the cache."""
        self.source = source
        addresses = source.url, source.index_files, source.strip_extension, source.trailing_slash
        place = (source.directory.absolute(),)
        super().__init__(WatchState, source, sink, addresses=addresses, place=place, **options)
        state = self.state
        state.pending = PendingPaths(
            source.debounce, source.debounce_max, clock=state.monotonic, notify=state.rouse
        )
        state.problems = ProblemLog(source, sink)
        self._file = state_dir / f"watch-{self.site}-{source.name}.sqlite"

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

    def open(self) -> WatchedFolder:
        """Open the cache and the directory. Raises Unavailable, WatchLimit or sqlite3.DatabaseError."""
        folder = self._file.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(what="data_dir", detail=f"{folder} can't be made ({error.strerror})") from error
        with ExitStack() as stack:
            cache = stack.enter_context(closing(Cache(self._file, digests="content" in self.source.lastmod)))
            cache.adopt(self._settings())
            watched = WatchedFolder(self.source, self._sink, cache, self.state)
            stack.pop_all()
            return watched

    @contextmanager
    def translated(self) -> Iterator[None]:
        """A cache that is damaged is made anew, and a folder that can't be watched as a whole is polled."""
        try:
            yield
        except WatchLimit as error:
            self._limit(error)
            raise SourceChanged from error
        except sqlite3.OperationalError as error:
            locked = ": another sitemapd watches this source" if "locked" in str(error) else ""
            detail = f"can't be used ({error}){locked}"
            raise Unavailable(what=str(self._file), detail=detail) from error
        except sqlite3.DatabaseError as error:
            for suffix in ("", "-wal", "-shm", "-journal"):
                self._file.with_name(self._file.name + suffix).unlink(missing_ok=True)
            detail = f"is damaged ({error}); the watcher makes a new one"
            raise Unavailable(what=str(self._file), detail=detail) from error

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

"""Watching one root: from its first scan until it is swapped, lost or given up.

A round of the loop does what is due, in this order, and then waits until a path is ripe or `LOOK`
has passed:

1. Is the directory still the one that is watched, and were no events lost? Otherwise the session is
   over, and the next one begins with a scan.
2. Is a scan due: the first, one that was asked for, `rescan_interval`, polling? Folders are watched
   as the scan comes to them. Files that it misses are not believed to be gone before its end, and
   not at all when they are too many (`max_delete`).
3. Is a reconcile due: after a full scan, and after Redis was away? The rows are compared with what
   the site's state holds of this source, and the difference is sent.
4. Ripe paths are looked at and what changed is sent; so is what comes or goes by its own dates.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from producers.filesystem.cache import Cache
from producers.filesystem.dirty import Dirty
from producers.filesystem.examine import Examiner
from producers.filesystem.ledger import Ledger
from producers.filesystem.mounts import find_silent_mount
from producers.filesystem.scan import RootChanged, Scanner
from producers.filesystem.selection import IGNORE_FILE, Selection, never_a_page
from producers.filesystem.source import FilesystemSource
from producers.filesystem.troubles import Troubles
from producers.filesystem.walk import WatchLimit
from producers.push import Publisher
from sitemap_store.errors import Unavailable

if sys.platform == "linux":
    from producers.filesystem.inotify import WatchTable

log = logging.getLogger(__name__)

LOOK: Final = 0.25
"""Seconds between two looks at the directory itself."""
BATCH: Final = 5000
"""Paths that are looked at in one go."""
PAUSES: Final = (0.2, 30.0)
"""The first and the longest pause, in seconds, before what failed is tried again."""
HELD_RESCAN: Final = 60.0
LIMIT_RETRY: Final = 600.0
"""Seconds after which a watch table that was full is tried again."""
FULL_TABLE: Final = "the kernel gives no more inotify watches"
COUNT_EVERY: Final = 5.0
_SETTLE_NS: Final = 100_000_000
_SETTLE_POLLED_NS: Final = 2_500_000_000
"""How old a file's times must be to prove anything; FAT keeps them in steps of two seconds."""


@dataclass(slots=True, kw_only=True)
class Standing:
    """What outlives a session."""

    dirty: Dirty
    troubles: Troubles
    clock: Callable[[], float]
    monotonic: Callable[[], float]
    accept: bool
    cold: bool = True
    rescan_asked: bool = False
    reconcile_due: bool = True
    limited_until: float = 0.0
    stopping: threading.Event = field(default_factory=threading.Event)
    ready: threading.Event = field(default_factory=threading.Event)
    status: dict[str, Any] = field(default_factory=dict)

    def now(self) -> int:
        """The time in epoch milliseconds."""
        return int(self.clock() * 1000)


class Session:
    """One root of one source. Not started when the directory is not there: raises Unavailable."""

    def __init__(
        self, source: FilesystemSource, publisher: Publisher, cache: Cache, standing: Standing
    ) -> None:
        self._source = source
        self._publisher = publisher
        self._cache = cache
        self._standing = standing
        self._root, self._identity = find_root(source)
        self._lost = ""
        self._next_scan: float | None = 0.0
        self._full = True
        self._held_said = -1
        self._pause = 0.0
        self._counted = float("-inf")
        self._changed = True
        self._limit: str | None = None
        why = self._why_polling()
        self._table = None if why else self._watch_table()
        if self._table is None:
            why = why or FULL_TABLE
        self._ledger = Ledger(source, publisher, cache)
        self._scanner = Scanner(
            source,
            self._root,
            selection=Selection(source.include, source.exclude),
            examiner=Examiner(
                source,
                publisher.store.site,
                settle_ns=_SETTLE_POLLED_NS if why else _SETTLE_NS,
                report=standing.troubles.report,
            ),
            cache=cache,
            ledger=self._ledger,
            report=standing.troubles.report,
            clock=standing.now,
            same_root=self._same_root,
            watch=self._table.watch if self._table else None,
        )
        self._say(mode="polling" if why else "events", mode_because=why or "inotify")

    def run(self) -> None:
        """Watch until told to stop. Raises RootChanged when the next session is to begin."""
        standing = self._standing
        try:
            while not standing.stopping.is_set():
                try:
                    self._round()
                except WatchLimit as error:
                    self._full_table(error)
                    raise RootChanged from error
                except Unavailable as error:
                    self._failed(error)
                    standing.stopping.wait(self._pause)
                else:
                    self._recovered()
        finally:
            standing.dirty.clear()
            if self._table is not None:
                self._table.close()

    def _round(self) -> None:
        standing, dirty = self._standing, self._standing.dirty
        if self._lost or (self._table is not None and not self._table.alive):
            lost = self._lost or "the thread that reads file events ended"
            log.warning(
                "File events were lost (%s); %s is watched and scanned anew.",
                lost,
                self._source.directory,
                extra=self._extra("events_lost"),
            )
            raise RootChanged
        if not self._same_root() or self._may_watch_again():
            raise RootChanged
        if standing.rescan_asked or dirty.overflowed:
            standing.rescan_asked = False
            dirty.clear()
            self._full, self._next_scan = True, 0.0
        now = standing.monotonic()
        if self._next_scan is not None and now >= self._next_scan:
            self._scan()
        if standing.reconcile_due:
            self._reconcile()
        self._live()
        if self._cache_turns():
            self._changed = True
        standing.troubles.flush()
        self._count()
        dirty.wait(self._patience())

    def _scan(self) -> None:
        standing = self._standing
        started = standing.monotonic()
        full = self._full
        self._say(state="scanning")
        files = self._scanner.scan(send=not full, between=self._between)
        if full:
            standing.reconcile_due = True
        else:
            held = self._ledger.believe_missed(accept=False)
            self._hold(held)
        took = standing.monotonic() - started
        self._say(state="watching", files_scanned=files, scan_seconds=round(took, 3))
        self._full = False
        self._next_scan = self._when_next(took)
        self._changed = True

    def _when_next(self, took: float) -> float | None:
        now = self._standing.monotonic()
        interval = self._source.rescan_interval or None
        if self._table is None:
            # A poll is a scan; one every `rescan_interval` is compared with the state too.
            if interval and now - self._last_full() >= interval:
                self._full = True
            return now + max(self._source.poll_interval, 3 * took)
        self._full = True
        if self._standing.status.get("held_deletes"):
            interval = min(interval or HELD_RESCAN, HELD_RESCAN)
        return now + interval if interval else None

    def _last_full(self) -> float:
        return float(self._standing.status.get("_reconciled", float("-inf")))

    def _between(self) -> None:
        if self._standing.stopping.is_set():
            raise RootChanged
        if self._standing.ready.is_set():
            self._live()

    def _reconcile(self) -> None:
        standing = self._standing
        result = self._ledger.reconcile(accept=standing.accept, cold=standing.cold)
        standing.reconcile_due = standing.cold = standing.accept = False
        standing.status["_reconciled"] = standing.monotonic()
        self._hold(result.held)
        self._changed = True
        if result.added or result.deleted or not standing.ready.is_set():
            log.info(
                "%s: %d URLs added or updated, %d deleted, of %d known.",
                self._source.directory,
                result.added,
                result.deleted,
                result.listed,
                extra=self._extra("reconciled"),
            )
        if not standing.ready.is_set():
            standing.troubles.flush()
            self._count()
            standing.ready.set()

    def _live(self) -> None:
        dirty = self._standing.dirty
        while taken := dirty.take(BATCH):
            try:
                if self._scanner.look(taken):
                    self._changed = True
            except BaseException:
                dirty.put_back(taken)
                raise

    def _cache_turns(self) -> int:
        return self._scanner.turn(self._standing.now())

    def _patience(self) -> float:
        longest = LOOK
        if self._next_scan is not None:
            longest = min(longest, self._next_scan - self._standing.monotonic())
        return max(longest, 0.0)

    def _hold(self, held: int) -> None:
        self._say(held_deletes=held)
        if held and held != self._held_said:
            log.error(
                "%d URLs have no file any more, which is more than max_delete lets a scan delete. "
                "They stay in the sitemap. If the files of %s are gone for good, start once with "
                "--accept-deletes; if a disk is not mounted, mount it.",
                held,
                self._source.directory,
                extra=self._extra("deletes_held"),
            )
        elif not held and self._held_said > 0:
            log.info("The missing files are back.", extra=self._extra("deletes_released"))
        self._held_said = held

    def _same_root(self) -> bool:
        try:
            found = os.stat(self._source.directory)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def _why_polling(self) -> str:
        if self._source.polling == "always":
            return "polling is set to always"
        if sys.platform != "linux":
            return "this system has no inotify"
        if self._standing.monotonic() < self._standing.limited_until:
            self._limit = self._standing.status.get("watch_limit")
            return FULL_TABLE
        silent = find_silent_mount(self._root) if self._source.polling == "auto" else None
        return f"{silent[0]} is {silent[1]}, which tells no changes" if silent else ""

    def _may_watch_again(self) -> bool:
        standing = self._standing
        if self._table is not None or not standing.limited_until:
            return False
        if standing.rescan_asked or standing.monotonic() >= standing.limited_until:
            standing.limited_until = 0.0
        return not standing.limited_until

    def _watch_table(self) -> WatchTable | None:
        try:
            return WatchTable(
                self._root,
                mark=self._standing.dirty.mark,
                matters=_matters,
                lost=self._lose,
                follow=self._source.follow_symlinks,
            )
        except WatchLimit as error:
            self._full_table(error)
            return None

    def _lose(self, sentence: str) -> None:
        self._lost = sentence
        self._standing.dirty.rouse()

    def _full_table(self, error: WatchLimit) -> None:
        standing = self._standing
        standing.limited_until = standing.monotonic() + LIMIT_RETRY
        self._limit = str(error)
        self._say(problem=self._limit, watch_limit=self._limit)
        log.error(
            "%s can't be watched whole: %s. Until then it is polled every %g s.",
            self._source.directory,
            error.detail,
            self._source.poll_interval,
            extra=self._extra("watch_limit"),
        )

    def _failed(self, error: Unavailable) -> None:
        standing = self._standing
        standing.reconcile_due = True
        self._pause = min(max(self._pause * 2, PAUSES[0]), PAUSES[1])
        text = str(error)
        if standing.status.get("problem") != text:
            log.warning("%s. Trying again.", text, extra=self._extra("source_waits"))
        self._say(state="waiting", problem=text)

    def _recovered(self) -> None:
        self._pause = 0.0
        if self._standing.status.get("problem") not in (None, self._limit):
            self._say(state="watching", problem=self._limit)
            log.info("%s is up to date again.", self._source.directory, extra=self._extra("back"))

    def _count(self) -> None:
        now = self._standing.monotonic()
        if self._changed and now - self._counted >= COUNT_EVERY:
            files, urls, unlisted = self._cache.counts()
            self._say(files=files, urls=urls, unlisted=unlisted)
            self._counted, self._changed = now, False

    def _say(self, **fields: object) -> None:
        self._standing.status = self._standing.status | fields

    def _extra(self, action: str) -> dict[str, str]:
        site = self._publisher.store.site.name
        return {"action": action, "site": site, "source": self._source.name}


def find_root(source: FilesystemSource) -> tuple[bytes, tuple[int, int]]:
    """The directory without links, and which one it is. Raises Unavailable."""
    try:
        root = os.path.realpath(os.fsencode(source.directory))
        found = os.stat(root)
        with os.scandir(root):
            pass
    except OSError as error:
        raise Unavailable(
            what=f"watch.{source.name}.directory",
            detail=f"{source.directory} can't be listed ({error.strerror})",
        ) from error
    return root, (found.st_dev, found.st_ino)


def _matters(name: bytes) -> bool:
    return name == IGNORE_FILE or not never_a_page(name)

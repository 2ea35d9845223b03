"""Watching one root: from its first scan until it is swapped, lost or given up.

A round of the loop does what is due, in this order, and then waits until a path is ripe or `LOOK`
has passed:

1. Is the directory still the one that is watched, and were no events lost? Otherwise the session is
   over, and the next one begins with a scan.
2. Is a scan due: the first, one that was asked for, `rescan_interval`, polling? Folders are watched
   as the scan comes to them. Files that it misses are not believed to be gone before its end, and
   not at all when they are too many (`max_delete`). Where neither cache nor state knows anything
   of the source, what is found is sent at once and needs no reconcile.
3. Is a reconcile due: after a full scan, after Redis was away, or when it came up with another
   state? The rows are compared with what the state holds of this source; the difference is sent.
4. Ripe paths are looked at and what changed is sent; so is what comes or goes by its own dates.

A little longer than most modules: it is one loop, and what its steps share is one object's state.
"""

from __future__ import annotations

import logging
import sys
from typing import Final

from producers.difference import Compared
from producers.filesystem.cache import Cache
from producers.filesystem.examine import Examiner
from producers.filesystem.history import History
from producers.filesystem.ledger import Ledger
from producers.filesystem.messages import log_limited, log_lost, log_unlisted
from producers.filesystem.root import Root
from producers.filesystem.scan import RootChanged, Scanner
from producers.filesystem.selection import Selection
from producers.filesystem.source import FilesystemSource
from producers.filesystem.state import WatchState
from producers.filesystem.walk import WatchLimit
from producers.runner import PAUSES, REDIS_PAUSE
from producers.sink import EventSink
from sitemap_store.errors import RedisUnavailable, Unavailable

if sys.platform == "linux":
    from producers.filesystem.inotify import WatchTable

log = logging.getLogger(__name__)

LOOK: Final = 0.25
"""Seconds between two looks at the directory itself."""
ASK_STATE: Final = 5.0
"""Seconds between two looks at whether the state is still the one that was written to."""
BATCH: Final = 5000
"""Paths that are looked at in one go."""
HELD_RESCAN: Final = 60.0
"""Seconds between two scans while deletes are held back."""
LIMIT_RETRY: Final = 600.0
"""Seconds after which a watch table that was full is tried again."""
COUNT_EVERY: Final = 5.0
SETTLE_NS: Final = 100_000_000
SETTLE_POLLED_NS: Final = 2_500_000_000
"""How old a file's times must be to prove anything; FAT keeps them in steps of two seconds."""


class Session:
    """One root of one source. Raises Unavailable at once when the directory is not there."""

    def __init__(
        self, source: FilesystemSource, publisher: EventSink, cache: Cache, state: WatchState
    ) -> None:
        self._source = source
        self._publisher = publisher
        self._cache = cache
        self._state = state
        self._root = Root(source.directory, source.name)
        self._lost = ""
        self._next_scan: float | None = 0.0
        self._full, self._pause = True, 0.0
        self._counted = self._asked = float("-inf")
        self._changed = True
        self._state_id: str | None = None
        self._selection = Selection(source.include, source.left_out, source.generator)
        why = state.limited or self._root.why_polling(source.polling)
        self._table = None if why else self._watch_table()
        if self._table is None:
            why = why or str(state.limited)
        report = state.troubles.report
        self._history: History | None = None
        if "git" in source.lastmod:
            self._history = History(source.directory, self._root.path, cache, state)
        self._ledger = Ledger(source, publisher, cache, report, state.guard)
        self._scanner = Scanner(
            source,
            self._root,
            selection=self._selection,
            examiner=Examiner(
                source,
                publisher.store.site,
                settle_ns=SETTLE_POLLED_NS if self._table is None else SETTLE_NS,
                report=report,
                committed=None if self._history is None else self._history.date,
            ),
            cache=cache,
            ledger=self._ledger,
            report=report,
            clock=state.now,
            watch=None if self._table is None else self._table.watch,
        )
        state.update(mode="polling" if self._table is None else "events", mode_because=why)

    def run(self) -> None:
        """Watch until told to stop. Raises RootChanged when the next session is to begin."""
        state = self._state
        try:
            while not state.stopping.is_set():
                try:
                    self._round()
                except WatchLimit as error:
                    self._full_table(error)
                    raise RootChanged from error
                except Unavailable as error:
                    self._failed(error)
                    state.stopping.wait(self._pause)
                else:
                    self._recovered()
                    state.dirty.wait(self._patience())
        finally:
            if self._table is not None:
                self._table.close()
            state.dirty.clear()

    def _round(self) -> None:
        state = self._state
        self._check_watch()
        self._ask_state()
        for path in self._history.changed() if self._history else ():
            state.dirty.mark(path)
        if state.dirty.overflowed:
            state.overflowed()
        if state.guard.is_accepted():
            state.rescan_asked = True
        if state.rescan_asked or state.dirty.overflowed:
            state.rescan_asked = False
            state.dirty.clear()
            self._full, self._next_scan = True, 0.0
        if self._next_scan is not None and state.monotonic() >= self._next_scan:
            self._scan()
        if state.compare_due:
            self._reconcile()
        self._live()
        if self._scanner.turn(state.now()):
            self._changed = True
        state.troubles.flush()
        self._count()

    def _check_watch(self) -> None:
        state = self._state
        if self._table is None:
            if state.limited and (state.rescan_asked or state.monotonic() >= state.limited_until):
                state.limited = None
                raise RootChanged
        elif self._lost or not self._table.alive:
            state.overflowed()
            log_lost(self._lost or "the thread that reads them ended", self._source.directory, state)
            raise RootChanged
        if not self._root.same():
            raise RootChanged

    def _ask_state(self) -> None:
        # Redis may have come up empty, or restored to another day, without ever being away.
        now = self._state.monotonic()
        if now - self._asked < ASK_STATE:
            return
        found = self._publisher.store.partitions[0].state_id()
        if self._state_id is not None and found != self._state_id:
            self._state.compare_due = True
        self._state_id, self._asked = found, now

    def _scan(self) -> None:
        state, full = self._state, self._full
        started = state.monotonic()
        state.update(state="scanning")
        if self._is_first():
            files, result = self._ledger.load(self._scanner.first(self._between))
            self._reconciled(result)
        else:
            files = self._scanner.scan(send=state.ready.is_set(), between=self._between)
            believed = full or self._ledger.believe_missed()
            held = state.guard.held is not None
            if full or self._may_release(files) or not (believed or held):
                state.compare_due = True
        took = state.monotonic() - started
        state.update(state="watching", files_scanned=files, scan_seconds=round(took, 3))
        self._changed = True
        self._next_scan, self._full = self._when_next(took)

    def _is_first(self) -> bool:
        # A state without an id could be lost meanwhile and never be missed, so that one is compared.
        known = self._state.ready.is_set() or self._state_id is None
        return not known and self._ledger.knows_nothing()

    def _may_release(self, files: int) -> bool:
        # A poll may not know the files whose deletes a comparison held back: only the next one tells.
        state = self._state
        since = state.monotonic() - state.compared
        changed = files != state.status.get("files_scanned")
        return state.guard.held is not None and (changed or since >= HELD_RESCAN)

    def _when_next(self, took: float) -> tuple[float | None, bool]:
        state, interval = self._state, self._source.rescan_interval
        now = state.monotonic()
        if self._table is None:
            # A poll is a scan; once in `rescan_interval` it is compared with the state too.
            full = bool(interval) and not state.compare_due
            full = full and now - state.compared >= interval
            return now + max(self._source.poll_interval, 3 * took), full
        return (now + interval if interval else None), True

    def _between(self) -> None:
        if self._state.stopping.is_set():
            raise RootChanged
        if self._state.ready.is_set():
            self._live()

    def _reconcile(self) -> None:
        state = self._state
        self._reconciled(self._ledger.reconcile(accept=state.accept, cold=state.cold))

    def _reconciled(self, result: Compared) -> None:
        state = self._state
        state.compare_due = state.cold = state.accept = False
        state.compared = state.monotonic()
        state.update(held_deletes=result.held)
        if result.held:
            soon = state.monotonic() + HELD_RESCAN
            self._next_scan = soon if self._next_scan is None else min(self._next_scan, soon)
        self._changed = True
        sent = result.added + result.updated
        if sent or result.deleted or not state.ready.is_set():
            log.info(
                "%s: %d URLs added or updated, %d deleted, of %d known.",
                self._source.directory,
                sent,
                result.deleted,
                result.listed,
                extra=state.extra("reconciled"),
            )
        if not state.ready.is_set():
            state.troubles.flush()
            self._count()
            log_unlisted(self._source.directory, state)
            state.ready.set()

    def _live(self) -> None:
        dirty = self._state.dirty
        while taken := dirty.take(BATCH):
            try:
                if self._scanner.look(taken):
                    self._changed = True
            except BaseException:
                dirty.put_back(taken)
                raise

    def _patience(self) -> float:
        longest = LOOK
        if self._next_scan is not None:
            longest = min(longest, self._next_scan - self._state.monotonic())
        return max(longest, 0.0)

    def _watch_table(self) -> WatchTable | None:
        try:
            return WatchTable(
                self._root.path,
                mark=self._state.dirty.mark,
                matters=self._matters,
                lost=self._lose,
                follow=self._source.follow_symlinks,
            )
        except WatchLimit as error:
            self._full_table(error)
            return None

    def _lose(self, sentence: str) -> None:
        self._lost = sentence
        self._state.dirty.rouse()

    def _full_table(self, error: WatchLimit) -> None:
        state = self._state
        state.limited = str(error)
        state.limited_until = state.monotonic() + LIMIT_RETRY
        log_limited(error, self._source, state)

    def _failed(self, error: Unavailable) -> None:
        state = self._state
        state.compare_due = True
        longest = REDIS_PAUSE if isinstance(error, RedisUnavailable) else PAUSES[1]
        self._pause = min(max(self._pause * 2, PAUSES[0]), longest)
        text = str(error)
        if state.status.get("problem") != text:
            log.warning("%s. Trying again.", text, extra=state.extra("source_waits"))
        state.update(state="waiting", problem=text)

    def _recovered(self) -> None:
        state, self._pause = self._state, 0.0
        if state.status.get("problem") not in (None, state.limited):
            log.info("%s is up to date again.", self._source.directory, extra=state.extra("back"))
        if state.status.get("problem") != state.limited:
            state.update(state="watching", problem=state.limited)

    def _count(self) -> None:
        now = self._state.monotonic()
        if self._changed and now - self._counted >= COUNT_EVERY:
            files, urls, unlisted = self._cache.counts()
            self._state.update(files=files, urls=urls, unlisted=unlisted)
            self._counted, self._changed = now, False

    def _matters(self, name: bytes, is_folder: bool) -> bool:
        # What a link leads to may be a folder, though its name says nothing of it.
        return self._selection.matters(name, is_folder or self._source.follow_symlinks)

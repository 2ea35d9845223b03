"""A watched folder that is open: what the runner asks of it.

1. The folder is open from its first scan until it is swapped, lost or given up. Folders are watched as the
   scan comes to them. Files that it misses are not believed to be gone before its end, and not at all when
   they are too many (`max_delete`).
2. Changes are the paths that were named by events and have been quiet since, and what git says. Where the
   kernel tells of no changes, the whole tree is looked at every `poll_interval`.
3. What comes or goes by its own dates is sent as time passes.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from producers.difference import Difference
from producers.filesystem.cache import Cache
from producers.filesystem.examine import Examiner
from producers.filesystem.git import GitDates
from producers.filesystem.pending import PendingPaths
from producers.filesystem.problems import ProblemLog
from producers.filesystem.root import Root
from producers.filesystem.scan import Scanner
from producers.filesystem.selection import Selection
from producers.filesystem.sender import Sender
from producers.filesystem.source import FilesystemSource
from producers.filesystem.walk import Tree
from producers.runner import OpenSource, SourceChanged, SourceState
from producers.sink import EventSink

if sys.platform == "linux":
    from producers.filesystem.inotify import WatchTable

log = logging.getLogger(__name__)

CHECK_ROOT: Final = 0.25
"""Seconds between two looks at the directory itself."""
BATCH: Final = 5000
"""Paths that are looked at in one go."""
COUNT_EVERY: Final = 5.0
SETTLE_NS: Final = 100_000_000
SETTLE_POLLED_NS: Final = 2_500_000_000
"""How old a file's times must be to prove anything; FAT keeps them in steps of two seconds."""
WHOLE_TREE: Final = b""
"""The path that stands for every file there is."""


@dataclass(slots=True, kw_only=True)
class WatchState(SourceState):
    """The pending paths, and what was found out about the directory."""

    pending: PendingPaths = field(init=False)
    problems: ProblemLog = field(init=False)
    limited_until: float = 0.0
    """Until when, on the monotonic clock, the source is polled because the watch table was full."""


class WatchedFolder(OpenSource[bytes]):
    """One root of one source. Raises Unavailable at once when the directory is not there."""

    working = "watching"

    def __init__(self, source: FilesystemSource, sink: EventSink, cache: Cache, state: WatchState) -> None:
        self._source = source
        self._store = sink.store
        self._cache = cache
        self._state = state
        self.compare_interval = source.rescan_interval
        self._lost = ""
        self._next_poll = 0.0
        self._counted, self._counted_writes = float("-inf"), -1
        root = Root(source.directory, source.name)
        report = state.problems.report
        self._table, why = None, state.lasting_problem or root.why_polling(source.polling)
        self._selection = Selection(source.include, source.left_out, source.generator)
        self._git = GitDates(root.path, cache, state) if "git" in source.lastmod else None
        if not why:
            self._table = WatchTable(
                root.path,
                add=state.pending.add,
                matters=self._matters,
                lost=self._lose,
                follow=source.follow_symlinks,
            )
        tree = Tree(
            source,
            root.path,
            selection=self._selection,
            report=report,
            watch=None if self._table is None else self._table.watch,
        )
        examiner = Examiner(
            source,
            sink.store.site,
            settle_ns=SETTLE_POLLED_NS if self._table is None else SETTLE_NS,
            report=report,
            committed=None if self._git is None else self._git.date,
        )
        self._sender = Sender(source.name, sink, cache, report, state.guard)
        self._scanner = Scanner(root, tree, self._selection, examiner, cache, self._sender, state.now)
        self._difference = Difference(source.name, cache.db, ordered=False)
        state.update(mode="polling" if why else "events", mode_because=why)

    def close(self) -> None:
        """Give the watches back to the kernel, and close the cache."""
        if self._table is not None:
            self._table.close()
        self._state.pending.clear()
        self._cache.close()

    def changes(self) -> list[bytes]:
        """The paths that may have changed and are quiet now."""
        state = self._state
        if self._table is not None and (self._lost or not self._table.alive):
            self._count_lost()
            log.warning(
                "The watcher lost file events of %s (%s) and scans the folder again.",
                self._source.directory,
                self._lost or "the thread that reads them ended",
                extra=state.extra("events_lost"),
            )
            raise SourceChanged
        if state.lasting_problem and state.monotonic() >= state.limited_until:
            state.lasting_problem = None
            raise SourceChanged
        self._scanner.check_root()
        self._note_commits()
        if state.pending.overflowed:
            self._count_lost()
            state.pending.clear()
            state.compare_due = True
        if state.ready.is_set():
            self._scanner.turn(state.now())
        if self._table is None and not state.compare_due and state.monotonic() >= self._next_poll:
            return [WHOLE_TREE]
        return state.pending.take(BATCH)

    def look(self, keys: Sequence[bytes]) -> int:
        """Look at the paths, and send what changed."""
        if WHOLE_TREE in keys:
            self._poll()
            return 0
        try:
            return self._scanner.look(keys)
        except BaseException:
            self._state.pending.put_back(keys)
            raise

    @contextmanager
    def list_all(self) -> Iterator[Difference]:
        """Scan the tree; what it missed is forgotten once its deletes were sent."""
        difference, state = self._difference, self._state
        self._note_commits()
        self._scan(send=state.ready.is_set())
        difference.forget_have()
        for name in filter(None, (self._source.name, state.guard.find_former())):
            difference.have(self._store.listing(name))
        if not self._cache.note("compared") and difference.listed():
            self._cache.take_dates()
        self._sender.report_shared()
        yield difference
        # What is held back stays in the cache, so that a file which comes back is known.
        self._cache.drop_missed(accepted=state.guard.held is not None)
        difference.forget_have()
        self._cache.set_note("compared", "yes")

    def wait(self) -> None:
        """Wait until a path is ripe, or the directory is to be looked at again."""
        state, longest = self._state, CHECK_ROOT
        if self._table is None:
            longest = min(longest, max(self._next_poll - state.monotonic(), 0.0))
        state.rest(min(longest, state.pending.next_ripe()))

    def update_status(self) -> None:
        """Log problems; count files and URLs every few seconds."""
        state = self._state
        state.problems.flush()
        now, writes = state.monotonic(), self._cache.db.total_changes
        first = not state.ready.is_set()
        if first or (writes != self._counted_writes and now - self._counted >= COUNT_EVERY):
            files, urls, unlisted = self._cache.counts()
            state.update(files=files, urls=urls, unlisted=unlisted)
            self._counted, self._counted_writes = now, writes
        if first:
            self._report_unlisted(files, unlisted)

    def _scan(self, *, send: bool) -> None:
        state = self._state
        started = state.monotonic()
        state.update(state="scanning")
        files = self._scanner.scan(send=send, between=self._between)
        took = state.monotonic() - started
        state.update(state="watching", files_scanned=files, scan_seconds=round(took, 3))
        self._next_poll = state.monotonic() + max(self._source.poll_interval, 3 * took)

    def _poll(self) -> None:
        state = self._state
        before = state.status.get("files_scanned")
        self._scan(send=True)
        believed = self._sender.believe_missed()
        if not believed if state.guard.held is None else before != state.status["files_scanned"]:
            # Too much is missing, or some of the files came back whose deletes are held back.
            state.compare_due = True

    def _note_commits(self) -> None:
        for path in self._git.changed() if self._git else ():
            self._state.pending.add(path)

    def _count_lost(self) -> None:
        state = self._state
        state.update(overflows=state.status.get("overflows", 0) + 1)

    def _between(self) -> None:
        state = self._state
        if state.stopping.is_set():
            raise SourceChanged
        if state.ready.is_set() and (paths := state.pending.take(BATCH)):
            self.look(paths)

    def _lose(self, sentence: str) -> None:
        self._lost = sentence
        self._state.rouse()

    def _matters(self, name: bytes, is_folder: bool) -> bool:
        # What a link leads to may be a folder, though its name says nothing of it.
        return self._selection.matters(name, is_folder or self._source.follow_symlinks)

    def _report_unlisted(self, files: int, unlisted: dict[str, int]) -> None:
        # That is often a setting and not what was meant.
        if 2 * sum(unlisted.values()) > files:
            log.warning(
                "Most files of %s are not listed: %s of %d.",
                self._source.directory,
                ", ".join(f"{why} {count}" for why, count in sorted(unlisted.items())),
                files,
                extra=self._state.extra("mostly_unlisted"),
            )

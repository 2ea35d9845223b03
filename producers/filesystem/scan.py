"""Compares files with their rows in the cache, and sends what differs.

Full scans and looks at pending paths happen on one thread and take turns: between two folders of a
scan, ripe paths are looked at. So that the scan does not take back what such a look found, what the scan
has read so far is sent before it, the look tells it which folders exist (`_visited`), and the cache
strikes the files that are there after all.
"""

from __future__ import annotations

import math
import os
import stat as st
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from producers.filesystem.cache import Cache, Row
from producers.filesystem.examine import Examiner, Look
from producers.filesystem.paths import is_below, joined, split, upwards
from producers.filesystem.root import Root
from producers.filesystem.selection import Selection
from producers.filesystem.sender import Changes, Sender
from producers.filesystem.walk import FolderListing, Tree
from producers.runner import SourceChanged

CHUNK: Final = 1000
"""Rows that are remembered, or sent, at a time."""


class Scanner:
    """Compares the files of one source, on one root, with their rows."""

    def __init__(
        self,
        root: Root,
        tree: Tree,
        selection: Selection,
        examiner: Examiner,
        cache: Cache,
        sender: Sender,
        clock: Callable[[], int],
    ) -> None:
        self._root = root
        self._tree = tree
        self._selection = selection
        self._examiner = examiner
        self._cache = cache
        self._sender = sender
        self._clock = clock
        self._visited: set[bytes] | None = None
        self._flush_scan: Callable[[], object] = lambda: None
        self._knows_rules = False
        self._changes_seen = -1
        self._nothing_turns: tuple[float, float] = (0, 0)

    def scan(self, *, send: bool, between: Callable[[], None]) -> int:
        """Look at the whole tree; returns how many files are pages by their names.

        With `send` what is new or changed is sent at once, without it only remembered. Files that
        are gone are noted as missed in the cache and nothing more. `between` is called between
        folders. Raises SourceChanged, or Unavailable when the directory can't be read.
        """
        files = 0
        batch: Changes = {}
        self._cache.find_all()
        self._visited = set()
        take_in = self._sender.change if send else self._sender.remember
        self._flush_scan = lambda: self._flush(batch, take_in)
        try:
            for listed, missed in self._compared(b"", batch, self._visited):
                files += len(listed.files)
                self._cache.miss(missed)
                if len(batch) >= CHUNK:
                    self._flush(batch, take_in)
                between()
            self._flush(batch, take_in)
        finally:
            self._visited = None
            self._flush_scan = lambda: None
        self.check_root()
        self._knows_rules = True
        return files

    def look(self, paths: Iterable[bytes]) -> int:
        """Look at paths that something happened to, and send what changed; returns the events.

        A path that ends with a slash is a folder whose permissions changed. Raises SourceChanged
        before anything is sent when the directory is another one by now.
        """
        self.check_root()
        self._flush_scan()
        # A folder that the scan under way has not come to is left to it: it knows then what those above say.
        comes = self._visited if not self._knows_rules else None
        ordered = [path for path in sorted(paths) if comes is None or split(path)[0] in comes]
        # First what concerns whole folders: no file is read by rules that have changed, and none is read
        # twice, since what was read first would be remembered last.
        sent, covered = 0, set[bytes]()
        for folder in sorted(self._whole_folders(ordered)):
            if covered.isdisjoint(upwards(folder)):
                sent += self._subtree(folder)
                covered.add(folder)
        batch: Changes = {}
        for path in ordered:
            folder, name = split(path)
            if not name or not covered.isdisjoint(upwards(path)):
                continue
            if self._scan_path(folder, name, batch):
                sent += self._subtree(path)
                covered.add(path)  # it comes before what is in it
            if len(batch) >= CHUNK:
                sent += self._send(batch)
        return sent + self._send(batch)

    def _whole_folders(self, paths: Iterable[bytes]) -> set[bytes]:
        """The folders that have to be looked at with all that is in them."""
        found = set()
        for folder, name in map(split, paths):
            if self._tree.concerns_others(folder, name) if name else self._tree.unlock(folder):
                found.add(folder)
        return found

    def _scan_path(self, folder: bytes, name: bytes, batch: Changes) -> bool:
        """Compare the file of one name with the cache; True when the name is a folder."""
        try:
            found = self._tree.find(folder, name)
        except OSError:
            return False
        if found is not None and st.S_ISDIR(found.st_mode):
            return True
        old, row = self._cache.get(folder, name), None
        if (
            found is not None
            and st.S_ISREG(found.st_mode)
            and self._selection.is_page(folder, name)
            and self._selection.reaches(folder)
        ):
            row = self._examine(folder, name, found, old, self._clock())
        if row is not None:
            batch[folder, name] = row, old
            if self._visited is not None:
                self._visited.add(folder)
        elif old is not None:
            batch[folder, name] = None, old
        _add_gone(batch, self._cache.below(joined(folder, name)))  # it may have been a folder
        return False

    def turn(self, now: int) -> int:
        """Send what comes and goes by its own dates by `now` (epoch ms); returns the events.

        The rows are asked only when the next of their dates has come, or they changed since.
        """
        writes = self._cache.db.total_changes
        if writes == self._changes_seen and self._nothing_turns[0] <= now < self._nothing_turns[1]:
            return 0
        rows = self._cache.turned(now)
        sent = self._sender.change({(row.dir, row.name): (row, row) for row in rows}) if rows else 0
        until = self._cache.next_turn(now)
        self._nothing_turns = now, math.inf if until is None else until
        self._changes_seen = self._cache.db.total_changes
        return sent

    def _subtree(self, start: bytes) -> int:
        batch: Changes = {}
        if not self._selection.reaches(start):
            _add_gone(batch, self._cache.below(start))
            return self._send(batch)
        sent = 0
        file = self._cache.get(*split(start)) if start else None
        if file is not None:
            _add_gone(batch, [file])
        for _, gone in self._compared(start, batch, set()):
            _add_gone(batch, gone)
            if len(batch) >= CHUNK:
                sent += self._send(batch)
        return sent + self._send(batch)

    def _compared(
        self, start: bytes, batch: Changes, visited: set[bytes]
    ) -> Iterator[tuple[FolderListing, list[Row]]]:
        """Take in a folder and all below, folder by folder; gives the rows of files that are gone too.

        `visited` are the folders that are there; the walk adds those that it comes to.
        """
        unread: list[bytes] = []
        for listed in self._tree.walk(start, unread):
            visited.add(listed.folder)
            if self._visited is not None:
                self._visited.add(listed.folder)
            yield listed, self._compare(listed, batch)
        for folder in self._cache.folders(start):
            if folder not in visited and not is_below(folder, unread):
                yield FolderListing(folder, [], []), list(self._cache.folder(folder).values())

    def _compare(self, listed: FolderListing, batch: Changes) -> list[Row]:
        """Take in what is new or changed in a folder; returns the rows of files that are gone."""
        folder = listed.folder
        known = self._cache.folder(folder)
        for name in listed.unknown:
            known.pop(name, None)
        unchanged, inherited = self._examiner.unchanged, self._tree.inheritance.of
        for name, found in listed.files:
            old = known.pop(name, None)
            if old is not None and unchanged(old, found, inherited(folder, name)):
                continue
            row = self._examine(folder, name, found, old, self._clock())
            if row is None:
                if old is not None:
                    known[name] = old
            elif row is not old:
                batch[folder, name] = row, old
        return list(known.values())

    def _examine(
        self, folder: bytes, name: bytes, found: os.stat_result, old: Row | None, now: int
    ) -> Row | None:
        inherited = self._tree.inheritance.of(folder, name)
        return self._examiner.examine(Look(self._root.path, folder, name, found, old, now, inherited))

    def _send(self, batch: Changes) -> int:
        return self._flush(batch, self._sender.change)

    def _flush(self, batch: Changes, take_in: Callable[[Changes], int]) -> int:
        if not batch:
            return 0
        self.check_root()
        sent = take_in(batch)
        batch.clear()
        return sent

    def check_root(self) -> None:
        """Raise SourceChanged when the directory is another one by now."""
        if not self._root.same():
            raise SourceChanged


def _add_gone(batch: Changes, rows: Iterable[Row]) -> None:
    """Add files that are gone, but for those that were found under the same name."""
    for row in rows:
        batch.setdefault((row.dir, row.name), (None, row))

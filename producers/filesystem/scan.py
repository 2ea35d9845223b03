"""Looks at paths, folders and the whole tree, and hands what it finds to the ledger.

Full scans and looks at dirty paths happen on one thread and take turns: between two folders of a
scan, ripe paths are looked at. So that the scan does not take back what such a look found, the look
tells it which folders exist (`_visited`), and the ledger strikes the files that are there after all.

A little longer than most modules: scans and looks share what was visited, locked and taken by links.
"""

from __future__ import annotations

import math
import os
import stat as st
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from producers.filesystem.cache import Cache, Row
from producers.filesystem.examine import Examiner
from producers.filesystem.ledger import Ledger
from producers.filesystem.links import Links
from producers.filesystem.root import Root
from producers.filesystem.selection import IGNORE_FILE, SWAPPED, Selection
from producers.filesystem.source import FilesystemSource
from producers.filesystem.troubles import Trouble
from producers.filesystem.walk import Listed, is_gone, walk
from sitemap_store.errors import Unavailable

CHUNK: Final = 1000
"""Rows that are remembered, or sent, at a time."""
FIRST_CHUNK: Final = 2000
"""The same in a first scan, which holds two of them."""


class RootChanged(Exception):
    """The directory is not the one that this look began with."""


class Scanner:
    """One source's eyes, on one root."""

    def __init__(
        self,
        source: FilesystemSource,
        root: Root,
        *,
        selection: Selection,
        examiner: Examiner,
        cache: Cache,
        ledger: Ledger,
        report: Callable[[Trouble], None],
        clock: Callable[[], int],
        watch: Callable[[bytes], None] | None,
    ) -> None:
        self._source = source
        self._home = root
        self._root = root.path
        self._selection = selection
        self._examiner = examiner
        self._cache = cache
        self._ledger = ledger
        self._report = report
        self._clock = clock
        self._watch = watch
        self._visited: set[bytes] | None = None
        self._locked: set[bytes] = set()
        self._links = Links(root.path, selection, report) if source.follow_symlinks else None
        self._turned = -1
        self._asleep: tuple[float, float] = (0, 0)

    def scan(self, *, send: bool, between: Callable[[], None]) -> int:
        """Look at the whole tree; returns how many files are pages by their names.

        With `send` what is new or changed is sent at once, without it only remembered. Files that
        are gone are noted as missed in the cache and nothing more. `between` is called between
        folders. Raises RootChanged, or Unavailable when the directory can't be read.
        """
        files, unread = 0, []
        rows: list[Row] = []
        before: list[Row | None] = []
        self._ledger.comparison.find_all()
        self._visited = set()
        try:
            for listed in self._walk(b""):
                if listed.error is not None:
                    unread.append(listed.folder)
                    self._unlisted(listed.folder, listed.error)
                    continue
                self._visited.add(listed.folder)
                files += len(listed.files)
                unread += self._unknown(listed)
                missed = self._compare(listed, rows, before)
                self._ledger.comparison.miss((row.dir, row.name) for row in missed)
                if len(rows) >= CHUNK:
                    self._flush(rows, before, send=send)
                between()
            self._flush(rows, before, send=send)
            for folder in self._cache.folders():
                if folder not in self._visited and not _is_below(folder, unread):
                    self._ledger.comparison.miss((folder, name) for name in self._cache.folder(folder))
        finally:
            self._visited = None
        self._check_root()
        return files

    def first(self, between: Callable[[], None]) -> Iterator[list[Row]]:
        """`scan` when nothing is known of any file: the rows of the whole tree, a chunk at a time.

        Nothing is looked up, sent or remembered. Raises as `scan` does, before the chunk that it had.
        """
        rows: list[Row] = []
        for listed in self._walk(b""):
            if listed.error is not None:
                self._unlisted(listed.folder, listed.error)
                continue
            self._unknown(listed)
            now = self._clock()  # what changes while its folder is read counts as too fresh
            examined = (
                self._examiner.examine(self._root, listed.folder, name, found, None, now)
                for name, found in listed.files
            )
            rows += filter(None, examined)
            if len(rows) >= FIRST_CHUNK:
                self._check_root()
                yield rows
                rows = []
            between()
        self._check_root()
        yield rows

    def look(self, paths: Iterable[bytes]) -> int:
        """Look at paths that something happened to, and send what changed; returns the events.

        A path that ends with a slash is a folder whose permissions changed. Raises RootChanged
        before anything is sent when the directory is another one by now.
        """
        self._check_root()
        sent = 0
        rows: list[Row] = []
        gone: list[Row] = []
        before: list[Row | None] = []
        covered: set[bytes] = set()
        for path in sorted(paths):  # a folder comes before what is in it
            if covered and not covered.isdisjoint(_above(path)):
                continue
            if path.endswith(b"/"):
                sent += self._unlock(path[:-1])
                continue
            slash = path.rfind(b"/")
            folder, name = path[: max(slash, 0)], path[slash + 1 :]
            if name in (IGNORE_FILE, SWAPPED):
                sent += self._subtree(folder)
                covered.add(folder)
                continue
            try:
                found = os.stat(self._root + b"/" + path, follow_symlinks=self._source.follow_symlinks)
            except OSError as error:
                if not is_gone(error):
                    self._unseen(folder, name, error)
                    continue
                found = None
            if found is not None and st.S_ISDIR(found.st_mode):
                covered.add(path)
                sent += self._subtree(path)
                continue
            old = self._cache.get(folder, name)
            row = None
            if (
                found is not None
                and st.S_ISREG(found.st_mode)
                and self._selection.is_page(folder, name)
                and self._selection.reaches(folder)
            ):
                row = self._examiner.examine(self._root, folder, name, found, old, self._clock())
            if row is not None:
                rows.append(row)
                before.append(old)
                if self._visited is not None:
                    self._visited.add(folder)
            elif old is not None:
                gone.append(old)
            gone.extend(self._cache.below(path))  # it may have been a folder
            if len(rows) + len(gone) >= CHUNK:
                sent += self._send(rows, gone, before)
        return sent + self._send(rows, gone, before)

    def turn(self, now: int) -> int:
        """Send what comes and goes by its own dates by `now` (epoch ms); returns the events.

        The rows are asked only when the next of their dates has come, or they changed since.
        """
        writes = self._cache.db.total_changes
        if writes == self._turned and self._asleep[0] <= now < self._asleep[1]:
            return 0
        rows = self._cache.turned(now)
        sent = self._ledger.change(rows, (), rows) if rows else 0
        until = self._cache.next_turn(now)
        self._asleep = now, math.inf if until is None else until
        self._turned = self._cache.db.total_changes
        return sent

    def _subtree(self, start: bytes) -> int:
        if not self._selection.reaches(start):
            return self._send([], list(self._cache.below(start)), [])
        sent, unread = 0, []
        visited: set[bytes] = set()
        rows: list[Row] = []
        gone: list[Row] = []
        before: list[Row | None] = []
        above = start[: max(start.rfind(b"/"), 0)]
        file = self._cache.get(above, start[len(above) :].lstrip(b"/")) if start else None
        if file is not None:
            gone.append(file)
        for listed in self._walk(start):
            if listed.error is not None:
                unread.append(listed.folder)
                self._unlisted(listed.folder, listed.error)
                continue
            visited.add(listed.folder)
            if self._visited is not None:
                self._visited.add(listed.folder)
            unread += self._unknown(listed)
            gone.extend(self._compare(listed, rows, before))
            if len(rows) + len(gone) >= CHUNK:
                sent += self._send(rows, gone, before)
        for folder in self._cache.folders(start):
            if folder not in visited and not _is_below(folder, unread):
                gone.extend(self._cache.folder(folder).values())
        return sent + self._send(rows, gone, before)

    def _walk(self, start: bytes) -> Iterator[Listed]:
        return walk(
            self._root, start, self._selection, watch=self._watch, links=self._links, report=self._report
        )

    def _compare(
        self,
        listed: Listed,
        rows: list[Row],
        before: list[Row | None],
    ) -> list[Row]:
        folder = listed.folder
        known = self._cache.folder(folder)
        for name, _ in listed.unknown:
            known.pop(name, None)
        examine, unchanged, clock = self._examiner.examine, self._examiner.unchanged, self._clock
        for name, found in listed.files:
            old = known.pop(name, None)
            if old is not None and unchanged(old, found):
                continue
            row = examine(self._root, folder, name, found, old, clock())
            if row is None:
                if old is not None:
                    known[name] = old
            elif row is not old:
                rows.append(row)
                before.append(old)
        return list(known.values())

    def _flush(self, rows: list[Row], before: list[Row | None], *, send: bool) -> None:
        if send:
            self._send(rows, [], before)
        elif rows:
            self._check_root()
            self._ledger.remember(rows)
            rows.clear()
            before.clear()

    def _send(self, rows: list[Row], gone: list[Row], before: list[Row | None]) -> int:
        if not rows and not gone:
            return 0
        self._check_root()
        there = {(row.dir, row.name) for row in rows}
        sent = self._ledger.change(rows, [row for row in gone if (row.dir, row.name) not in there], before)
        rows.clear()
        gone.clear()
        before.clear()
        return sent

    def _unlock(self, folder: bytes) -> int:
        """Look into a folder whose permissions changed, if that is what kept us out."""
        locked = [each for each in self._locked if _is_below(each, (folder,))]
        if not locked:
            return 0
        self._locked.difference_update(locked)
        return self._subtree(folder)

    def _unknown(self, listed: Listed) -> list[bytes]:
        """Report the names that can't be looked at; returns their paths."""
        return [self._unseen(listed.folder, name, error) for name, error in listed.unknown]

    def _unseen(self, folder: bytes, name: bytes, error: OSError) -> bytes:
        path = folder + b"/" + name if folder else name
        self._locked.add(folder)
        detail = f"can't be looked at ({error.strerror}), so what was known of it stays"
        self._report(Trouble(path, "unreadable", detail))
        return path

    def _unlisted(self, folder: bytes, error: OSError) -> None:
        self._locked.add(folder)
        if not folder:
            raise Unavailable(
                what=f"watch.{self._source.name}.directory",
                detail=f"{self._source.directory} can't be listed ({error.strerror}): let the user "
                "that sitemapd runs as read it",
            )
        detail = f"can't be listed ({error.strerror}), so what was known of it stays"
        self._report(Trouble(folder, "unreadable", detail))

    def _check_root(self) -> None:
        if not self._home.same():
            raise RootChanged


def _above(path: bytes) -> Iterator[bytes]:
    """A path itself and the folders above it."""
    yield b""
    while path:
        yield path
        path = path[: max(path.rfind(b"/"), 0)]


def _is_below(path: bytes, folders: Iterable[bytes]) -> bool:
    return any(not f or path == f or path.startswith(f + b"/") for f in folders)

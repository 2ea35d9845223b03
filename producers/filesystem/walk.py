"""Walks a tree: each folder is watched first, then listed, then given to the caller.

Where links are followed each real folder is entered once, under one path; else a link to a parent, or two to
one tree, would grow without end:

1. A link to the directory itself, or to a folder above it, is not followed.
2. A folder of the tree that is entered by its own path is not entered by a link.
3. Of several ways to one folder outside, the first in the order of the walk is taken, until the next
   full walk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from producers.filesystem.generators import is_parent
from producers.filesystem.inherit import Inheritance
from producers.filesystem.page import fields_read
from producers.filesystem.paths import is_below, is_gone, joined, read_start
from producers.filesystem.problems import Problem, shown
from producers.filesystem.selection import IGNORE_FILE, SWAPPED, Selection
from producers.filesystem.source import FilesystemSource
from sitemap_store.errors import Unavailable

IGNORE_BYTES: Final = 1 << 20
"""How much of a `.sitemapignore` is read."""


class WatchLimit(Unavailable):
    """The kernel gives this user no more inotify watches or instances."""


class FolderListing(NamedTuple):
    """A folder, the files in it that are pages by their names, and the names that can't be looked at."""

    folder: bytes
    files: list[tuple[bytes, os.stat_result]]
    unknown: list[bytes]


class Tree:
    """The files of one source below `root`, and what files of its folders say of others.

    `watch` gets each folder before it is listed; `report` what can't be looked at, once.
    """

    def __init__(
        self,
        source: FilesystemSource,
        root: bytes,
        *,
        selection: Selection,
        report: Callable[[Problem], None],
        watch: Callable[[bytes], None] | None,
    ) -> None:
        self._source = source
        self._root = root
        self._selection = selection
        self._report = report
        self._watch = watch
        self._follow = source.follow_symlinks
        self._entered: dict[tuple[int, int], bytes] = {}
        self._generator = source.generator if source.front_matter else ""
        self.inheritance = Inheritance(
            self._generator, root, wanted=fields_read(source), report=report, follow=self._follow
        )
        self._locked: set[bytes] = set()

    def walk(self, start: bytes, unread: list[bytes]) -> Iterator[FolderListing]:
        """The folders from `start` on downwards, each before those below it, by name.

        A folder that is gone before it is listed is left out. Paths that can't be looked at go to `unread`.
        Raises Unavailable when the root can't be listed, and WatchLimit when it can't be watched.
        """
        if not start:
            self._entered.clear()
        stack = [start]
        while stack:
            folder = stack.pop()
            try:
                entries = self._entries(folder)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                unread.append(folder)
                self._cannot_list(folder, error)
                continue
            files: list[tuple[bytes, os.stat_result]] = []
            unknown: list[bytes] = []
            below: list[bytes] = []
            for entry in entries:
                name = entry.name
                try:
                    if entry.is_file(follow_symlinks=self._follow):
                        if self._selection.is_page(folder, name):
                            files.append((name, entry.stat(follow_symlinks=self._follow)))
                    elif entry.is_dir(follow_symlinks=self._follow) and self._selection.enters(folder, name):
                        below.append(joined(folder, name))
                except OSError as error:
                    if not is_gone(error):
                        unknown.append(name)
                        unread.append(joined(folder, name))
                        self._cannot_look(folder, name, error)
            stack += sorted(below, reverse=True)
            yield FolderListing(folder, files, unknown)

    def _entries(self, folder: bytes) -> list[os.DirEntry[bytes]]:
        """What is in a folder, from now on watched, and of which it is known what the folder says of it."""
        path = joined(self._root, folder)
        if self._follow and folder and (other := self._other_way(folder, path)):
            detail = f"leads to {other}; each folder is looked at once, so this way is not followed"
            self._report(Problem(folder, "link", detail))
            return []
        if self._watch is not None:
            self._watch(folder)
        with os.scandir(path) as listing:
            entries = list(listing)
        names = [entry.name for entry in entries]
        text = None
        if IGNORE_FILE in names:
            try:
                text = read_start(joined(path, IGNORE_FILE), IGNORE_BYTES)
            except OSError as error:
                # Without it private pages would be listed.
                raise OSError(error.errno, f"{error.strerror}: {IGNORE_FILE.decode()}") from error
        for sentence in self._selection.set_ignore(folder, text):
            self._report(Problem(joined(folder, IGNORE_FILE), "ignore file", sentence))
        self.inheritance.learn(folder, names)
        return entries

    def _other_way(self, folder: bytes, path: bytes) -> str:
        """Where a link leads that is not followed; "" to enter the folder. Raises OSError when it is gone."""
        real = os.path.realpath(path)
        if real == path:
            return ""
        if is_below(self._root, (real.rstrip(b"/"),)):
            return "the directory itself or a folder above it"
        inside = real[len(self._root) + 1 :]
        if is_below(real, (self._root,)) and self._selection.reaches(inside):
            return shown(inside)
        identity = _identity(real)
        first = self._entered.setdefault(identity, folder)
        with suppress(OSError):
            if first == folder or _identity(joined(self._root, first)) == identity:
                return "" if first == folder else f"what {shown(first)} leads to"
        self._entered[identity] = folder
        return ""

    def find(self, folder: bytes, name: bytes) -> os.stat_result | None:
        """What there is under a name; None for nothing. Raises OSError, reported, when that is not known."""
        try:
            return os.stat(joined(self._root, joined(folder, name)), follow_symlinks=self._follow)
        except OSError as error:
            if is_gone(error):
                return None
            self._cannot_look(folder, name, error)
            raise

    def concerns_others(self, folder: bytes, name: bytes) -> bool:
        """Whether other files of the folder have to be looked at too since that file changed."""
        if name in (IGNORE_FILE, SWAPPED):
            return True
        return is_parent(self._generator, name) and self.inheritance.learn(folder)

    def unlock(self, folder: bytes) -> bool:
        """Whether the permissions of a folder were what kept us out of it, or of one below."""
        locked = [each for each in self._locked if is_below(each, (folder,))]
        self._locked.difference_update(locked)
        return bool(locked)

    def _cannot_look(self, folder: bytes, name: bytes, error: OSError) -> None:
        self._locked.add(folder)
        detail = f"can't be looked at ({error.strerror}), so what was known of it stays"
        self._report(Problem(joined(folder, name), "unreadable", detail))

    def _cannot_list(self, folder: bytes, error: OSError) -> None:
        self._locked.add(folder)
        if not folder:
            raise Unavailable(
                what=f"watch.{self._source.name}.directory",
                detail=f"{self._source.directory} can't be listed ({error.strerror}): let the user "
                "that sitemapd runs as read it",
            )
        detail = f"can't be listed ({error.strerror}), so what was known of it stays"
        self._report(Problem(folder, "unreadable", detail))


def _identity(path: bytes) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino

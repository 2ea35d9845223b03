"""One root's files: what a walk finds, what each page inherits, and what can't be looked at."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from producers.filesystem.generators import is_parent
from producers.filesystem.inherit import Inheritance, Inherited
from producers.filesystem.links import Links
from producers.filesystem.page import fields_read
from producers.filesystem.paths import is_below, is_gone, joined
from producers.filesystem.selection import IGNORE_FILE, SWAPPED, Selection
from producers.filesystem.source import FilesystemSource
from producers.filesystem.troubles import Trouble
from producers.filesystem.walk import Listed, walk
from sitemap_store.errors import Unavailable


class Tree:
    """The files of one source below `root`. `watch` gets each folder before it is listed."""

    def __init__(
        self,
        source: FilesystemSource,
        root: bytes,
        *,
        selection: Selection,
        report: Callable[[Trouble], None],
        watch: Callable[[bytes], None] | None,
    ) -> None:
        self._source = source
        self._root = root
        self._selection = selection
        self._report = report
        self._watch = watch
        self._links = Links(root, selection, report) if source.follow_symlinks else None
        self._generator = source.generator if source.front_matter else ""
        self._inheritance = Inheritance(
            self._generator, root, wanted=fields_read(source), report=report, follow=source.follow_symlinks
        )
        self._locked: set[bytes] = set()

    def walk(self, start: bytes, unread: list[bytes]) -> Iterator[Listed]:
        """The folders from `start` on downwards that can be listed, each before those below it.

        Paths that can't be looked at go to `unread`. Raises Unavailable when the root can't be listed.
        """
        for listed in walk(
            self._root,
            start,
            self._selection,
            watch=self._watch,
            learn=self._inheritance.learn,
            links=self._links,
            report=self._report,
        ):
            if listed.error is not None:
                unread.append(listed.folder)
                self._cannot_list(listed.folder, listed.error)
                continue
            unread += [self._cannot_look(listed.folder, name, error) for name, error in listed.unknown]
            yield listed

    def find(self, folder: bytes, name: bytes) -> tuple[os.stat_result | None, bool]:
        """What there is under a name, and whether that could be told; links are followed where they count."""
        try:
            path = self._root + b"/" + joined(folder, name)
            return os.stat(path, follow_symlinks=self._source.follow_symlinks), True
        except OSError as error:
            if is_gone(error):
                return None, True
            self._cannot_look(folder, name, error)
            return None, False

    def is_page(self, folder: bytes, name: bytes) -> bool:
        """Whether a file is a page by its name and those of the folders above it."""
        return self._selection.is_page(folder, name) and self._selection.reaches(folder)

    def reaches(self, folder: bytes) -> bool:
        """Whether a folder is entered."""
        return self._selection.reaches(folder)

    def inherited(self, folder: bytes, name: bytes) -> Inherited:
        """What a file inherits from those of the folders above it."""
        return self._inheritance.of(folder, name)

    def concerns_others(self, folder: bytes, name: bytes) -> bool:
        """Whether other files of the folder have to be looked at too since that file changed."""
        if name in (IGNORE_FILE, SWAPPED):
            return True
        return is_parent(self._generator, name) and self._inheritance.learn(folder)

    def unlock(self, folder: bytes) -> bool:
        """Whether the permissions of a folder were what kept us out of it, or of one below."""
        locked = [each for each in self._locked if is_below(each, (folder,))]
        self._locked.difference_update(locked)
        return bool(locked)

    def _cannot_look(self, folder: bytes, name: bytes, error: OSError) -> bytes:
        path = joined(folder, name)
        self._locked.add(folder)
        detail = f"can't be looked at ({error.strerror}), so what was known of it stays"
        self._report(Trouble(path, "unreadable", detail))
        return path

    def _cannot_list(self, folder: bytes, error: OSError) -> None:
        self._locked.add(folder)
        if not folder:
            raise Unavailable(
                what=f"watch.{self._source.name}.directory",
                detail=f"{self._source.directory} can't be listed ({error.strerror}): let the user "
                "that sitemapd runs as read it",
            )
        detail = f"can't be listed ({error.strerror}), so what was known of it stays"
        self._report(Trouble(folder, "unreadable", detail))

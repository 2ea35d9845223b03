"""One walk of a tree: each folder is watched first, then listed, then given to the caller."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from producers.filesystem.links import Links
from producers.filesystem.paths import is_gone, joined, read_start
from producers.filesystem.selection import IGNORE_FILE, Selection
from producers.filesystem.troubles import Trouble
from sitemap_store.errors import Unavailable

IGNORE_BYTES: Final = 1 << 20
"""How much of a `.sitemapignore` is read."""


class WatchLimit(Unavailable):
    """The kernel gives this user no more inotify watches or instances."""


class Listed(NamedTuple):
    """A folder and the files in it that are pages by their names."""

    folder: bytes
    files: list[tuple[bytes, os.stat_result]]
    error: OSError | None = None
    """Why the folder could not be listed: what is in it, and below, is not known."""
    unknown: tuple[tuple[bytes, OSError], ...] = ()
    """Names in it that are there and can't be looked at."""


def walk(
    root: bytes,
    start: bytes,
    selection: Selection,
    *,
    watch: Callable[[bytes], None] | None = None,
    learn: Callable[[bytes, list[bytes]], object] = lambda folder, names: None,
    links: Links | None = None,
    report: Callable[[Trouble], None] = lambda trouble: None,
) -> Iterator[Listed]:
    """The folders from `start` (relative to `root`) on downwards, each before those below it, by name.

    A folder that is gone before it is listed is left out. `selection` learns the `.sitemapignore` files on
    the way; `learn` gets each folder and the names in it before its files are. With `links`, links are
    followed, where it enters what they lead to. `watch` may raise WatchLimit, which ends the walk.
    """
    follow = links is not None
    if links is not None and not start:
        links.clear()
    stack = [start]
    while stack:
        folder = stack.pop()
        path = root + b"/" + folder if folder else root
        files: list[tuple[bytes, os.stat_result]] = []
        try:
            if links is not None and folder and not links.enters(folder):
                continue
            if watch is not None:
                watch(folder)
            with os.scandir(path) as listing:
                entries = list(listing)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield Listed(folder, files, error)
            continue
        names = [entry.name for entry in entries]
        try:
            text = read_start(path + b"/" + IGNORE_FILE, IGNORE_BYTES) if IGNORE_FILE in names else None
        except OSError as error:
            # Without it private pages would be listed.
            yield Listed(folder, files, OSError(error.errno, f"{error.strerror}: {IGNORE_FILE.decode()}"))
            continue
        for sentence in selection.set_ignore(folder, text):
            report(Trouble(joined(folder, IGNORE_FILE), "ignore file", sentence))
        learn(folder, names)
        unknown: list[tuple[bytes, OSError]] = []
        below: list[bytes] = []
        for entry in entries:
            name = entry.name
            try:
                if entry.is_file(follow_symlinks=follow):
                    if selection.is_page(folder, name):
                        files.append((name, entry.stat(follow_symlinks=follow)))
                elif entry.is_dir(follow_symlinks=follow) and selection.enters(folder, name):
                    below.append(joined(folder, name))
            except OSError as error:
                if not is_gone(error):
                    unknown.append((name, error))
        stack += sorted(below, reverse=True)
        yield Listed(folder, files, unknown=tuple(unknown))

"""Which folders are entered where links are followed: each real folder once, under one path.

1. A link to the directory itself, or to a folder above it, is not followed.
2. A folder of the tree that is entered by its own path is not entered by a link.
3. Of several ways to one folder outside, the first in the order of the walk is taken, until the next
   full walk. Without these rules a link to a parent, or two to one tree, would grow without end.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from producers.filesystem.problems import Problem, shown
from producers.filesystem.selection import Selection


class Links:
    """The ways that were taken on one root. `report` is told of a link that isn't followed."""

    def __init__(self, root: bytes, selection: Selection, report: Callable[[Problem], None]) -> None:
        self._root = root
        self._selection = selection
        self._report = report
        self._taken: dict[tuple[int, int], bytes] = {}

    def clear(self) -> None:
        """Forget the ways outside: a full walk is about to take them anew."""
        self._taken.clear()

    def enters(self, folder: bytes) -> bool:
        """Whether a folder is entered by this path (relative to the root). Raises OSError when it is gone."""
        path = self._root + b"/" + folder
        real = os.path.realpath(path)
        if real == path:
            return True
        other = self._other_way(folder, real)
        if other:
            detail = f"leads to {other}; each folder is looked at once, so this way is not followed"
            self._report(Problem(folder, "link", detail))
        return not other

    def _other_way(self, folder: bytes, real: bytes) -> str:
        if (self._root + b"/").startswith(real.rstrip(b"/") + b"/"):
            return "the directory itself or a folder above it"
        if real.startswith(self._root + b"/"):
            inside = real[len(self._root) + 1 :]
            return shown(inside) if self._selection.reaches(inside) else self._taken_by(folder, real)
        return self._taken_by(folder, real)

    def _taken_by(self, folder: bytes, real: bytes) -> str:
        found = os.stat(real)
        identity = found.st_dev, found.st_ino
        first = self._taken.setdefault(identity, folder)
        if first == folder:
            return ""
        try:
            then = os.stat(self._root + b"/" + first)
        except OSError:
            then = None
        if then is None or (then.st_dev, then.st_ino) != identity:
            self._taken[identity] = folder
            return ""
        return f"what {shown(first)} leads to"

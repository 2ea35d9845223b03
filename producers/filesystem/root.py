"""The directory itself: which one it is, and whether the kernel tells of changes in it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from producers.filesystem.mounts import find_silent_mount
from sitemap_store.errors import Unavailable


class Root:
    """A directory as it is now: `path` without links. Raises Unavailable when it can't be listed."""

    def __init__(self, directory: Path, source: str) -> None:
        self._directory = directory
        try:
            self.path = os.path.realpath(os.fsencode(directory))
            found = os.stat(self.path)
            with os.scandir(self.path):
                pass
        except OSError as error:
            raise Unavailable(
                what=f"watch.{source}.directory",
                detail=f"{directory} can't be listed ({error.strerror})",
            ) from error
        self._identity = found.st_dev, found.st_ino

    def same(self) -> bool:
        """Whether the directory's name still leads to this very directory."""
        try:
            found = os.stat(self._directory)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def why_polling(self, setting: str) -> str:
        """Why changes must be looked for; empty when the kernel tells of them."""
        if setting == "always":
            return "polling is set to always"
        if sys.platform != "linux":
            return "this system has no inotify"
        silent = find_silent_mount(self.path) if setting == "auto" else None
        return f"{silent[0]} is {silent[1]}, which tells no changes" if silent else ""

"""Git's dates for a session: asked for when HEAD moves; when git fails, those that are known stay."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from producers.filesystem.cache import Cache
from producers.filesystem.git import Commits, GitError
from producers.filesystem.state import WatchState

log = logging.getLogger(__name__)

RETRY: Final = 30.0
"""Seconds after which git is asked again when it failed."""


class History:
    """The commits of a source's directory, where its lastmod is to come from git."""

    def __init__(self, directory: Path, root: bytes, cache: Cache, state: WatchState) -> None:
        self._directory = directory
        self._root = root
        self._cache = cache
        self._state = state
        self._commits: Commits | None = None
        self._said = ""
        self._again = float("-inf")

    def date(self, folder: bytes, name: bytes) -> int:
        """When a commit last changed a file, in epoch milliseconds; 0 when none is known."""
        query = "SELECT at FROM commits WHERE dir = ? AND name = ?"
        found = self._cache.db.execute(query, (folder, name)).fetchone()
        return int(found[0]) if found else 0

    def changed(self) -> list[bytes]:
        """The known files whose date changed since the last call, as paths."""
        now = self._state.monotonic()
        if now < self._again:
            return []
        try:
            if self._commits is None:
                self._commits = self._opened()
            found = self._commits.refresh() if self._commits.moved() else []
        except GitError as error:
            self._commits, self._again = None, now + RETRY
            if not self._state.stopping.is_set():
                self._fails(error)
            return []
        self._said = ""
        return [folder + b"/" + name if folder else name for folder, name in found]

    def _opened(self) -> Commits:
        commits = Commits(self._root, self._cache, stopping=self._state.stopping.is_set)
        if commits.shallow:
            log.warning(
                "%s is a shallow clone, so files that did not change within it keep the date that is "
                "known, or have none from git. Fetch the whole history (git fetch --unshallow).",
                self._directory,
                extra=self._state.extra("git_shallow"),
            )
        return commits

    def _fails(self, error: GitError) -> None:
        if str(error) == self._said:
            return
        self._said = str(error)
        log.error(
            "lastmod is to come from git, but %s has no history that can be read: %s. Dates that are known "
            "stay; for other files the next of the lastmod choices decides.",
            self._directory,
            error,
            extra=self._state.extra("git_failed"),
        )

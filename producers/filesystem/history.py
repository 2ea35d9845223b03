"""Git's dates for a session: asked for when HEAD moves, done without when git fails."""

from __future__ import annotations

import logging
from pathlib import Path

from producers.filesystem.cache import Cache
from producers.filesystem.git import Commits, GitError
from producers.filesystem.standing import Standing

log = logging.getLogger(__name__)


class History:
    """The commits of a source's directory, where its lastmod is to come from git."""

    def __init__(self, directory: Path, root: bytes, cache: Cache, standing: Standing) -> None:
        self._directory = directory
        self._standing = standing
        self._commits: Commits | None = None
        try:
            self._commits = Commits(root, cache, stopping=standing.stopping.is_set)
        except GitError as error:
            self._fails(error)
            return
        if self._commits.shallow:
            log.warning(
                "%s is a shallow clone, so the dates of files that are older than it are wrong. "
                "Fetch the whole history (git fetch --unshallow).",
                directory,
                extra=standing.extra("git_shallow"),
            )

    def date(self, folder: bytes, name: bytes) -> int:
        """When a commit last touched a file, in epoch milliseconds; 0 when none is known."""
        return 0 if self._commits is None else self._commits.date(folder, name)

    def changed(self) -> list[bytes]:
        """The known files whose date changed since the last call, as paths."""
        if self._commits is None or not self._commits.moved():
            return []
        try:
            found = self._commits.refresh()
        except GitError as error:
            self._commits = None
            if not self._standing.stopping.is_set():
                self._fails(error)
            return []
        return [folder + b"/" + name if folder else name for folder, name in found]

    def _fails(self, error: GitError) -> None:
        log.error(
            "lastmod is to come from git, but %s has no history that can be read: %s. The next of "
            "the lastmod choices decides.",
            self._directory,
            error,
            extra=self._standing.extra("git_failed"),
        )

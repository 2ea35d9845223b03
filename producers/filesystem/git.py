"""When a commit last changed each file, as `git log -1 --format=%cI -- FILE` says, for all files at once.

1. All files of HEAD start at it. At each commit, newest first, a file goes on to the first parent that
   has it just so; where no parent has, the commit is the one that changed it. That is git's own rule
   (git-log(1), "History simplification"), so a merge that left a file alone is no change, and one that
   mixed two changes is.
2. The dates are kept in the cache, with the commit that they were read up to. A later HEAD is read down to
   that commit, and files that reach it keep their dates. When a file goes past it (a branch was
   switched, history was rewritten) the whole history is read again.
3. Where the history of a shallow clone ends, nothing is known of a file: it keeps the date that it had.
4. When git fails, all dates stay as they are.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from producers.filesystem.cache import Cache
from producers.filesystem.paths import joined, split
from producers.runner import SourceState

log = logging.getLogger(__name__)

RETRY: Final = 30.0
"""Seconds after which git is asked again when it failed."""
BATCH: Final = 1000
"""Commits that one `git diff-tree` compares with their parents."""
_KEEP: Final = -1
"""In place of a date: the one that is known, if any."""


class GitError(Exception):
    """Git is not installed, or the directory is in no repository that it may read."""


class _Commit(NamedTuple):
    id: str
    when: int
    """Epoch milliseconds."""
    parents: list[str]


class GitDates:
    """The dates of the files below `root`, from the repository that it lies in."""

    def __init__(self, root: bytes, cache: Cache, state: SourceState) -> None:
        self._root = root
        self._cache = cache
        self._state = state
        self._places: list[bytes] = []
        self._seen: tuple[object, ...] | None = None
        self._retry = float("-inf")
        self._failure = ""

    def date(self, folder: bytes, name: bytes) -> int:
        """When a commit last changed a file, in epoch milliseconds; 0 when none is known."""
        query = "SELECT at FROM commits WHERE dir = ? AND name = ?"
        found = self._cache.db.execute(query, (folder, name)).fetchone()
        return int(found[0]) if found else 0

    def changed(self) -> list[bytes]:
        """The known files whose date changed since the last call, as paths."""
        state, now = self._state, self._state.monotonic()
        if now < self._retry or self._signature() == self._seen:
            return []
        first = self._seen is None
        try:
            found = self.refresh()
        except GitError as error:
            self._seen, self._retry = None, now + RETRY
            if not state.stopping.is_set() and str(error) != self._failure:
                self._failure = str(error)
                log.error(
                    "lastmod of %s is to come from git, but its directory has no history that can be read: "
                    "%s. Known dates stay; for other files the next of the lastmod choices decides.",
                    state.source,
                    error,
                    extra=state.extra("git_failed"),
                )
            return []
        self._failure = ""
        if first and self._ends():
            log.warning(
                "The directory of %s is in a shallow clone, so files that did not change within it keep the "
                "date that is known, or have none from git. Fetch the whole history (git fetch --unshallow).",
                state.source,
                extra=state.extra("git_shallow"),
            )
        return [joined(folder, name) for folder, name in found]

    def refresh(self) -> list[tuple[bytes, bytes]]:
        """Read what is new; returns the files, by folder and name, whose date changed. Raises GitError."""
        self._locate()
        signature = self._signature()
        head = self._head()
        ends = self._ends()
        mark = hashlib.blake2b(ends, digest_size=8).hexdigest() if ends else ""
        known, _, known_mark = self._cache.note("git").partition(" ")
        changed: list[tuple[bytes, bytes]] = []
        if head and (head, mark) != (known, known_mark):
            ending = frozenset(ends.decode("ascii", "replace").split())
            dates = self._dates(head, known, ending) if known and mark == known_mark else None
            changed = self._take(self._dates(head, "", ending) if dates is None else dates)
            self._cache.set_note("git", f"{head} {mark}")
        self._seen = signature
        return changed

    def _dates(self, head: str, since: str, ends: frozenset[str]) -> dict[bytes, int] | None:
        """The date of each file of `head`; None when `since` does not tell enough."""
        listed = self._git("ls-tree", "-r", "-z", "--name-only", head)
        dates: dict[bytes, int] = {}
        active = {head: set(filter(None, listed.split(b"\x00")))}
        if since and not self._has(since):
            return None
        for commit, changes in self._history(head, since):
            paths = active.pop(commit.id, set())
            if not commit.parents:
                dates.update(dict.fromkeys(paths, _KEEP if commit.id in ends else commit.when))
                paths = set()
            for parent, changed in zip(commit.parents, changes, strict=True):
                if not paths:
                    break
                others = paths & changed
                paths -= others
                if not paths:
                    paths = others
                    continue
                fewer, more = sorted((active.get(parent, set()), paths), key=len)
                more |= fewer
                active[parent] = more
                paths = others
            dates.update(dict.fromkeys(paths, commit.when))
            if not active:
                break
        for commit_id, paths in active.items():
            if paths and commit_id != since:
                return None
            dates.update(dict.fromkeys(paths, _KEEP))
        return dates

    def _history(self, head: str, since: str) -> Iterator[tuple[_Commit, list[set[bytes]]]]:
        """The commits from `head` on, children first, and what of each differs from each parent."""
        commits = self._commits(head, since)
        while batch := list(islice(commits, BATCH)):
            pairs = [(commit.id, parent) for commit in batch for parent in commit.parents]
            differences = iter(self._differences(pairs))
            for commit in batch:
                yield commit, [next(differences) for _ in commit.parents]

    def _commits(self, head: str, since: str) -> Iterator[_Commit]:
        revisions = [head, f"^{since}"] if since else [head]
        listed = self._git("rev-list", "--topo-order", "--parents", "--timestamp", *revisions).decode()
        for line in listed.splitlines():
            when, commit, *parents = line.split(" ")
            yield _Commit(commit, int(when) * 1000, parents)

    def _differences(self, pairs: list[tuple[str, str]]) -> list[set[bytes]]:
        if self._state.stopping.is_set():
            raise GitError("reading the history was stopped")
        if not pairs:
            return []
        asked = "".join(f"{commit} {parent}\n" for commit, parent in pairs).encode()
        answer = self._git(
            "diff-tree", "--stdin", "--always", "-r", "-z", "--name-only", "--no-renames", "--relative",
            asked=asked,
        )  # fmt: skip
        found: list[set[bytes]] = []
        for token in answer.split(b"\x00"):
            # No file is named by the commit that it is in: the name would change the commit.
            if len(found) < len(pairs) and token == pairs[len(found)][0].encode():
                found.append(set())
            elif token:
                found[-1].add(token)
        if len(found) != len(pairs):
            raise GitError("git diff-tree did not answer as it was asked")
        return found

    def _take(self, dates: dict[bytes, int] | None) -> list[tuple[bytes, bytes]]:
        db = self._cache.db
        rows = ((*split(path), at) for path, at in (dates or {}).items())
        with self._cache.change():
            db.execute("DELETE FROM temp.fresh")
            db.executemany("INSERT OR REPLACE INTO temp.fresh VALUES (?, ?, ?)", rows)
            db.execute(
                "UPDATE temp.fresh SET at = coalesce((SELECT at FROM commits AS c "
                "WHERE c.dir = fresh.dir AND c.name = fresh.name), 0) WHERE at = ?",
                (_KEEP,),
            )
            changed = db.execute(
                "SELECT dir, name FROM files AS f WHERE "
                "(SELECT at FROM temp.fresh WHERE dir = f.dir AND name = f.name) IS NOT "
                "(SELECT at FROM commits WHERE dir = f.dir AND name = f.name)"
            ).fetchall()
            db.execute("DELETE FROM commits")
            db.execute("INSERT INTO commits SELECT * FROM temp.fresh")
            db.execute("DELETE FROM temp.fresh")
            # A file without times counts as changed at the next look.
            db.executemany("UPDATE files SET ctime = 0 WHERE dir = ? AND name = ?", changed)
        return changed

    def _locate(self) -> None:
        names = [b"HEAD", b"logs/HEAD", b"packed-refs", b"shallow"]
        branch = self._git("rev-parse", "--symbolic-full-name", "HEAD").strip()
        if branch not in (b"", b"HEAD"):
            names.append(branch)
        found = self._git("rev-parse", *(part for name in names for part in (b"--git-path", name)))
        self._places = [os.path.join(self._root, place) for place in found.split(b"\n") if place]

    def _ends(self) -> bytes:
        """The commits at which a shallow clone's history ends, a line each; empty for a whole one."""
        try:
            with open(self._places[3], "rb") as file:
                return file.read()
        except OSError:
            return b""

    def _has(self, commit: str) -> bool:
        try:
            self._git("cat-file", "-e", f"{commit}^{{commit}}")
        except GitError:
            return False
        return True

    def _head(self) -> str:
        try:
            return self._git("rev-parse", "--verify", "-q", "HEAD").strip().decode()
        except GitError:
            return ""  # no commit yet

    def _signature(self) -> tuple[object, ...]:
        found: list[object] = []
        for place in self._places:
            try:
                state = os.stat(place)
            except OSError:
                found.append(None)
            else:
                found.append((state.st_ino, state.st_mtime_ns, state.st_size))
        return tuple(found)

    def _git(self, *args: str | bytes, asked: bytes = b"") -> bytes:
        try:
            done = subprocess.run(
                ["git", "-C", self._root, *args],
                input=asked,
                capture_output=True,
                check=True,
                env=_environment(),
            )
        except OSError as error:
            raise GitError(f"git can't be run ({error.strerror})") from error
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode("utf-8", "replace").strip().splitlines()
            raise GitError(said[0] if said else f"git ended with {error.returncode}") from error
        return done.stdout


def _environment() -> dict[str, str]:
    return os.environ | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}

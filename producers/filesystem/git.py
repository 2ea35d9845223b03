"""When each file was last touched by a commit, from one pass over `git log`.

The dates are kept in the cache together with the commit they were read up to. A later HEAD that
follows from that commit is read from there on; any other (a branch was switched, history was
rewritten) makes a new pass, since a file's last commit may then be an older one.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from typing import IO, Final

from producers.filesystem.cache import Cache

_HEADER: Final = b"\x01"
_CHUNK: Final = 1 << 16


class GitError(Exception):
    """Git is not installed, or the directory is in no repository that it may read."""


class Commits:
    """The commits of the repository that a directory lies in. Raises GitError when there is none.

    `stopping` ends a pass early.
    """

    def __init__(self, root: bytes, cache: Cache, *, stopping: Callable[[], bool]) -> None:
        self._root = root
        self._cache = cache
        self._stopping = stopping
        found = self._git("rev-parse", "--git-path", "HEAD", "--git-path", "logs/HEAD")
        branch = self._git("rev-parse", "--symbolic-full-name", "HEAD").strip()
        places = found.split(b"\n")[:2]
        if branch not in (b"", b"HEAD"):
            places.append(self._git("rev-parse", "--git-path", branch).strip())
        self._places = [os.path.join(root, place) for place in places]
        self._seen: tuple[object, ...] = ()
        self.shallow = self._git("rev-parse", "--is-shallow-repository").strip() == b"true"

    def moved(self) -> bool:
        """Whether HEAD may have moved since `refresh`: a look at three files."""
        return self._signature() != self._seen

    def refresh(self) -> list[tuple[bytes, bytes]]:
        """Read what is new; returns the files, by folder and name, whose date changed by it."""
        signature = self._signature()
        head = self._head()
        known = self._cache.note("git")
        changed: list[tuple[bytes, bytes]] = []
        if head != known:
            since = known if known and head and self._follows(known, head) else ""
            changed = self._take(self._touched(since, head), whole=not since)
            self._cache.set_note("git", head)
        self._seen = signature
        return changed

    def date(self, folder: bytes, name: bytes) -> int:
        """When a commit last touched a file, in epoch milliseconds; 0 for never."""
        query = "SELECT at FROM commits WHERE dir = ? AND name = ?"
        found = self._cache.db.execute(query, (folder, name)).fetchone()
        return int(found[0]) if found else 0

    def _take(self, touched: Iterator[tuple[bytes, bytes, int]], *, whole: bool) -> list[tuple[bytes, bytes]]:
        db = self._cache.db
        differ = "SELECT dir, name FROM (SELECT * FROM temp.fresh EXCEPT SELECT * FROM commits)"
        if whole:
            differ += " UNION SELECT dir, name FROM commits EXCEPT SELECT dir, name FROM temp.fresh"
        with self._cache.change():
            db.execute("DELETE FROM temp.fresh")
            # The newest commit comes first and stays.
            db.executemany("INSERT OR IGNORE INTO temp.fresh VALUES (?, ?, ?)", touched)
            changed = db.execute(f"SELECT dir, name FROM files WHERE (dir, name) IN ({differ})").fetchall()
            if whole:
                db.execute("DELETE FROM commits")
            db.execute("REPLACE INTO commits SELECT * FROM temp.fresh")
            db.execute("DELETE FROM temp.fresh")
            # A file without times counts as changed at the next look.
            db.executemany("UPDATE files SET ctime = 0 WHERE dir = ? AND name = ?", changed)
        return changed

    def _touched(self, since: str, head: str) -> Iterator[tuple[bytes, bytes, int]]:
        if not head:
            return
        revisions = f"{since}..{head}" if since else head
        command = self._command(
            "log", "-z", "--format=%x01%ct", "--name-status", "--no-renames", "--relative",
            revisions, "--", ".",
        )  # fmt: skip
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment()
        ) as process:
            when, status = 0, b""
            for token in _tokens(process.stdout):
                if self._stopping():
                    process.kill()
                    raise GitError("git log was told to stop")
                if status:
                    # 0: the last commit that touched it took it away.
                    folder, _, name = token.rpartition(b"/")
                    yield folder, name, 0 if status == b"D" else when
                    status = b""
                elif token.startswith(_HEADER):
                    when = int(token[1:]) * 1000
                else:
                    status = token.strip(b"\n")
        if process.returncode:
            raise GitError(f"git log ended with {process.returncode}")

    def _head(self) -> str:
        try:
            return self._git("rev-parse", "--verify", "-q", "HEAD").strip().decode()
        except GitError:
            return ""  # no commit yet

    def _follows(self, before: str, after: str) -> bool:
        try:
            self._git("merge-base", "--is-ancestor", before, after)
        except GitError:
            return False
        return True

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

    def _command(self, *args: str | bytes) -> list[str | bytes]:
        return ["git", "-C", self._root, *args]

    def _git(self, *args: str | bytes) -> bytes:
        try:
            done = subprocess.run(
                self._command(*args),
                stdin=subprocess.DEVNULL,
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


def _tokens(stream: IO[bytes] | None) -> Iterator[bytes]:
    rest = b""
    while stream is not None and (chunk := stream.read(_CHUNK)):
        *tokens, rest = (rest + chunk).split(b"\x00")
        yield from tokens


def _environment() -> dict[str, str]:
    return os.environ | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}

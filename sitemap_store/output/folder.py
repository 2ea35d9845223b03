"""The folder that the sitemaps are published in.

Rules:

1. A file is whole or not there: temp file beside the target, fsync, rename, fsync of the folder.
2. Only names that sitemapd gives are read, written or removed; a name can't lead out of the folder.
3. Bytes that are there already are not written again, so neither mtime nor inode changes.
4. The marker `.sitemapd` says whose state the published tree belongs to (site and state id). An output
   with sitemaps but without our marker is somebody else's, and is left alone.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, NamedTuple

from sitemap_store.errors import BadSetting, SitemapdError, Unavailable
from sitemap_store.model.site import INDEX_FILE, SHARD_NAME

MARKER = ".sitemapd"
FILE_MODE = 0o644
_TEMP = ".sitemapd-"


class NotOurs(SitemapdError):
    """The output holds files that sitemapd must not touch."""


class Put(StrEnum):
    """What publishing a file did to the output."""

    SAME = "same"
    """These bytes were there already; nothing was written."""
    NEW = "new"
    """There was no such file."""
    OVER = "over"
    """Other bytes were there."""


class Signature(NamedTuple):
    """What tells, without reading it, that a file may not be the one that it was."""

    inode: int
    size: int
    modified_ns: int


class OpenFile(NamedTuple):
    """A published file as it was when it was opened: a later rename does not change it."""

    file: BinaryIO
    size: int
    modified_ns: int
    inode: int


class Folder:
    """One site's output folder. Raises Unavailable when the folder can't be read or written now."""

    def __init__(self, path: Path, *, sync: bool = True, file_mode: int = FILE_MODE) -> None:
        self.path = path
        self._sync = sync
        self.file_mode = file_mode
        """Of published files, whatever the umask; folders that `prepare` makes can be entered as widely."""

    def prepare(self) -> None:
        """Make the folder and see that it can be written. Raises BadSetting when it can't."""
        try:
            made = [each for each in (self.path, *self.path.parents) if not each.exists()]
            self.path.mkdir(parents=True, exist_ok=True)
            for each in made:
                each.chmod(0o700 | self.file_mode | (self.file_mode & 0o444) >> 2)
            probe = self.path / f"{_TEMP}probe-{os.getpid()}.tmp"
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise BadSetting(
                setting="output",
                detail=f"the folder {self.path} can't be written ({error.strerror}).",
                hint="Make it writable for the user that runs sitemapd, or set another folder.",
            ) from error

    def put(self, name: str, data: bytes, worker: str) -> Put:
        """Publish a file, whole or not at all. It outlives a loss of power once `sync` has returned."""
        target = self._target(name)
        with self._translated(name):
            done = _compare(target, data)
            if done is not Put.SAME:
                self._replace(target, data, self.path / f"{_TEMP}{worker}@{name}.tmp")
            else:
                self._allow(target)
            return done

    def _replace(self, target: Path, data: bytes, temp: Path) -> None:
        try:
            with open(temp, "wb", opener=_create) as file:
                os.fchmod(file.fileno(), self.file_mode)
                file.write(data)
                if self._sync:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temp, target)
        except BaseException:
            with suppress(OSError):
                temp.unlink()
            raise

    def _allow(self, target: Path) -> None:
        """Give a file of an earlier run its mode; another user's keeps its own."""
        if stat.S_IMODE(target.stat().st_mode) != self.file_mode:
            with suppress(PermissionError):
                target.chmod(self.file_mode)

    def sync(self) -> None:
        """Bring the names of all files that were put to the disk."""
        with self._translated("the folder"):
            self._sync_folder()

    def remove(self, name: str) -> None:
        """Remove a published file; one that is gone already is fine."""
        with self._translated(name):
            self._target(name).unlink(missing_ok=True)
            self._sync_folder()

    def read(self, name: str) -> bytes | None:
        """A published file's bytes; None when there is none."""
        with self._translated(name):
            try:
                return self._target(name).read_bytes()
            except FileNotFoundError:
                return None

    def open(self, name: str) -> OpenFile | None:
        """A published file, open for reading; None when there is none.

        What is no regular file (a symlink that somebody put there, a pipe) counts as not there. The
        caller closes it.
        """
        with self._translated(name):
            try:
                handle = os.open(self._target(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO):
                    return None
                raise
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                os.close(handle)
                return None
            return OpenFile(os.fdopen(handle, "rb"), found.st_size, found.st_mtime_ns, found.st_ino)

    def modified(self, name: str) -> float | None:
        """When a published file last changed, in epoch seconds; None when there is none."""
        with self._translated(name):
            try:
                return self._target(name).stat().st_mtime
            except FileNotFoundError:
                return None

    def published(self) -> list[str]:
        """The names of the published files, index files first."""
        with self._translated("."):
            names = os.listdir(self.path) if self.path.is_dir() else []
        found = [name for name in names if _is_published_name(name)]
        return sorted(found, key=lambda name: (SHARD_NAME.fullmatch(name) is not None, name))

    def signatures(self) -> dict[str, Signature] | None:
        """Every published file's signature, in one pass over the folder; None when there is no folder.

        What is no regular file (a symlink that somebody put there) is left out: it counts as not there.
        """
        found: dict[str, Signature] = {}
        with self._translated("."):
            try:
                entries = os.scandir(self.path)
            except (FileNotFoundError, NotADirectoryError):
                return None
            with entries:
                for entry in entries:
                    if not _is_published_name(entry.name):
                        continue
                    with suppress(FileNotFoundError):  # it was removed meanwhile
                        at = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(at.st_mode):
                            found[entry.name] = Signature(at.st_ino, at.st_size, at.st_mtime_ns)
        return found

    def marker(self) -> str | None:
        """The id of the state that the published tree belongs to; None without a marker."""
        with self._translated(MARKER):
            try:
                content = json.loads((self.path / MARKER).read_bytes())
                return str(content["state"])
            except FileNotFoundError:
                return None
            except (ValueError, KeyError, TypeError) as error:
                raise NotOurs(
                    f"{self.path / MARKER} can't be read ({error}): it is not a marker of sitemapd"
                ) from error

    def mark(self, site: str, state_id: str) -> None:
        """Write the marker of a state."""
        text = json.dumps({"site": site, "state": state_id}) + "\n"
        with self._translated(MARKER):
            self._replace(self.path / MARKER, text.encode(), self.path / f"{_TEMP}marker-{os.getpid()}.tmp")
            self._sync_folder()

    def sweep(self, worker: str) -> None:
        """Remove the temp files of a worker that is dead."""
        with self._translated("."):
            for temp in self.path.glob(f"{_TEMP}{worker}@*.tmp"):
                temp.unlink(missing_ok=True)

    def _target(self, name: str) -> Path:
        if not (INDEX_FILE.fullmatch(name) or SHARD_NAME.fullmatch(name)):
            raise NotOurs(f"{name!r} is not the name of a file that sitemapd publishes")
        return self.path / name

    def _sync_folder(self) -> None:
        if not self._sync:
            return
        handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    @contextmanager
    def _translated(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno == errno.ENOSPC:
                reason = "the disk is full"
            raise Unavailable(what=f"output {self.path}", detail=f"{name}: {reason}") from error


def _create(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _is_published_name(name: str) -> bool:
    return bool(INDEX_FILE.fullmatch(name) or SHARD_NAME.fullmatch(name))


def _compare(target: Path, data: bytes) -> Put:
    try:
        if target.is_symlink() or target.stat().st_size != len(data) or target.read_bytes() != data:
            return Put.OVER
        return Put.SAME
    except FileNotFoundError:
        return Put.NEW

"""The directory itself: which one it is, and whether the kernel tells of changes in it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final

from sitemap_store.errors import Unavailable

MOUNTINFO: Final = "/proc/self/mountinfo"
# What is changed by others behind this kernel's back: servers, hypervisors and user space.
_SILENT: Final = """
    9p afs afp beegfs ceph cifs coda davfs drvfs fakeowner fuse fuseblk gfs2 glusterfs gpfs grpcfuse lustre
    ncpfs nfs nfs4 ocfs2 osxfs prl_fs smb2 smb3 smbfs vboxsf virtiofs vmhgfs wslfs
"""
_MOUNT: Final = re.compile(rb"(?:\S+ ){4}(\S+) .*? - ([^\s.]+)(\S*) ")
"""A line of that table: where, and what kind of file system (`fuse.sshfs`). Source: proc_pid_mountinfo(5)."""
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")


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
        if setting == "never":
            return ""
        try:
            silent = silent_mount(self.path, Path(MOUNTINFO).read_bytes())
        except OSError:
            return ""  # where there is no such table
        return f"{silent[0]} is {silent[1]}, which tells no changes" if silent else ""


def silent_mount(directory: bytes, mountinfo: bytes) -> tuple[str, str] | None:
    """The mount point and type of a file system at, or below, a directory that tells no changes.

    `directory` is absolute and without links, `mountinfo` the text of /proc/self/mountinfo. None
    when the kernel tells of all changes.
    """
    holding, below = (b"", "", ""), []
    prefix = directory.rstrip(b"/") + b"/"
    for match in filter(None, map(_MOUNT.match, mountinfo.splitlines())):
        point = _OCTAL.sub(lambda octal: bytes([int(octal[1], 8)]), match[1])
        found = point, match[2].decode("ascii", "replace"), match[3].decode("ascii", "replace")
        if prefix.startswith(point.rstrip(b"/") + b"/"):
            if len(point) >= len(holding[0]):  # a later mount on the same point covers it
                holding = found
        elif point.startswith(prefix):
            below.append(found)
    for point, kind, more in (holding, *below):
        if kind in _SILENT.split():
            return os.fsdecode(point), kind + more
    return None

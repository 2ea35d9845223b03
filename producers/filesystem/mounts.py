"""Mounts whose changes inotify does not report, because they are made on another machine."""

from __future__ import annotations

import os
import re
from typing import Final

MOUNTINFO: Final = "/proc/self/mountinfo"
# What is changed by others behind this kernel's back: servers, hypervisors and user space.
_SILENT: Final = """
    9p afs afp beegfs ceph cifs coda davfs drvfs fakeowner gfs2 glusterfs gpfs grpcfuse lustre ncpfs
    nfs nfs4 ocfs2 osxfs prl_fs smb2 smb3 smbfs vboxsf virtiofs vmhgfs wslfs
"""
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")


def silent_mount(directory: bytes, mountinfo: bytes) -> tuple[str, str] | None:
    """The mount point and type of a file system at, or below, a directory that tells no changes.

    `directory` is absolute and without links, `mountinfo` the text of /proc/self/mountinfo. None
    when the kernel tells of all changes. Source: proc_pid_mountinfo(5).
    """
    holding, below = (b"", ""), []
    prefix = directory.rstrip(b"/") + b"/"
    for line in mountinfo.splitlines():
        fields = line.split(b" ")
        try:
            dash = fields.index(b"-", 6)
            point, kind = _OCTAL.sub(_byte, fields[4]), fields[dash + 1].decode("ascii", "replace")
        except (ValueError, IndexError):
            continue
        if prefix.startswith(point.rstrip(b"/") + b"/"):
            if len(point) >= len(holding[0]):  # a later mount on the same point covers it
                holding = (point, kind)
        elif point.startswith(prefix):
            below.append((point, kind))
    for point, kind in (holding, *below):
        if kind in _SILENT.split() or kind.split(".")[0] in ("fuse", "fuseblk"):
            return os.fsdecode(point), kind
    return None


def find_silent_mount(directory: bytes) -> tuple[str, str] | None:
    """`silent_mount` of this machine; None where there is no such table."""
    try:
        with open(MOUNTINFO, "rb") as table:
            return silent_mount(os.path.realpath(directory), table.read())
    except OSError:
        return None


def _byte(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 8)])

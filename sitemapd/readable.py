"""Whether another user, such as a web server's, can read what is published."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from sitemap_store.errors import SitemapdError
from sitemap_store.output.folder import Folder


def check_readable(folder: Folder, user: str | None) -> str:
    """A sentence that says who can read the published files. Raises SitemapdError when `user` can't.

    Goes by the modes of the files and of each folder above them. Without a user: any other user, and then a
    folder above the output that is closed is said and no error, since a web server may be of our own user.
    """
    output = folder.path.absolute()
    wanted = 0o004 if user is None else 0o444
    files = [output / name for name in folder.published() if folder.file_mode & wanted]
    who, uid, groups = _principal(user)
    closed = [f"{path} ({_mode(path)})" for path in files if not _may(path, 4, uid, groups)]
    if closed:
        raise SitemapdError(f"{who} can't read {_some(closed)}: `chmod o+r` them, or see to file_mode")
    above = [output, *output.parents]
    closed = [f"{path} ({_mode(path)})" for path in above if not _may(path, 1, uid, groups)]
    if closed and user is not None:
        raise SitemapdError(
            f"{who} can't enter {_some(closed)}: `chmod o+x` it, or publish to another folder"
        )
    if closed:
        return f"{who} can't enter {_some(closed)}, so a web server must be of a user who can"
    return f"{who} can read it"


def _principal(user: str | None) -> tuple[str, int | None, set[int]]:
    if user is None:
        return "another user", None, set()
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        raise SitemapdError(f"there is no user {user!r} on this machine") from None
    return user, found.pw_uid, set(os.getgrouplist(user, found.pw_gid))


def _may(path: Path, bit: int, uid: int | None, groups: set[int]) -> bool:
    """Whether the one class of the mode that a user belongs to has the bit (4 to read, 1 to enter)."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return True  # it has gone since it was listed
    if uid == 0:
        return True
    if found.st_uid == uid:
        return bool(found.st_mode & bit << 6)
    if found.st_gid in groups:
        return bool(found.st_mode & bit << 3)
    return bool(found.st_mode & bit)


def _mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"


def _some(found: list[str]) -> str:
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return ", ".join(found[:3]) + more

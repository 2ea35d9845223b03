"""Paths below a source's directory, as bytes: a folder and a name, of which the root's folder is empty."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator


def joined(folder: bytes, name: bytes) -> bytes:
    """The path of a name in a folder."""
    return folder + b"/" + name if folder and name else folder or name


def split(path: bytes) -> tuple[bytes, bytes]:
    """The folder and the name in a path."""
    folder, _, name = path.rpartition(b"/")
    return folder, name


def upwards(path: bytes) -> Iterator[bytes]:
    """A path and the folders above it, the root last."""
    while path:
        yield path
        path = split(path)[0]
    yield b""


def is_below(path: bytes, folders: Iterable[bytes]) -> bool:
    """Whether a path is one of some folders, or lies in it."""
    return any(not folder or path == folder or path.startswith(folder + b"/") for folder in folders)


def is_gone(error: OSError) -> bool:
    """Whether an error says that there is nothing: gone, or a link to nowhere or to itself."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def is_file(path: bytes, *, follow: bool) -> bool:
    """Whether there is a file; without `follow` a link is none. Raises OSError when that is not known."""
    try:
        return stat.S_ISREG(os.stat(path, follow_symlinks=follow).st_mode)
    except OSError as error:
        if is_gone(error):
            return False
        raise


def read_start(path: bytes, most: int) -> bytes:
    """Up to `most` bytes of a file; none when there is no file. Raises OSError."""
    try:
        # Not to hang on a pipe of that name.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if is_gone(error):
            return b""
        raise
    try:
        return os.read(descriptor, most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)

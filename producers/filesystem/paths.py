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


def read_start(path: bytes, most: int, *, follow: bool = True) -> bytes | None:
    """Up to `most` bytes of a file; None when it is no file, or without `follow` a link. Raises OSError."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # not to hang on a pipe of that name
    try:
        descriptor = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    except OSError as error:
        if is_gone(error) or error.errno == errno.ENXIO:
            return None
        raise
    try:
        return os.read(descriptor, most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)

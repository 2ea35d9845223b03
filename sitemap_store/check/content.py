"""Reads a file in pieces, decompressed where it is gzip, at most `READ_MAX` bytes of it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from sitemap_store.errors import SitemapdError

READ_MAX: Final = 256 * 1024 * 1024
"""Uncompressed bytes that are read of one file."""
PIECE: Final = 256 * 1024
"""Uncompressed bytes in one piece, at most."""
GZIP_MAGIC: Final = b"\x1f\x8b"


class Broken(SitemapdError):
    """A file cannot be read to its end: `code` is the rule that it breaks, at `line` (0: the whole file)."""

    def __init__(self, code: str, detail: str, line: int = 0) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.line = line


class Content:
    """The uncompressed bytes of one file; each iteration reads the file anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_gzip = False
        """Whether the bytes are gzip; known from the first piece on."""
        self.size = 0
        """Uncompressed bytes that the last iteration gave."""

    def __iter__(self) -> Iterator[bytes]:
        """Give pieces of 1 to `PIECE` bytes. Raises Broken, after the pieces before the fault."""
        self.size = 0
        try:
            with self.path.open("rb") as file:
                self.is_gzip = file.read(2) == GZIP_MAGIC
                file.seek(0)
                for piece in _unpacked(file) if self.is_gzip else iter(lambda: file.read(PIECE), b""):
                    left = READ_MAX - self.size
                    self.size += min(len(piece), left)
                    yield piece[:left]
                    if len(piece) > left:
                        raise Broken("too-large-to-read", "")
        except OSError as error:
            raise Broken("unreadable", error.strerror or str(error)) from error

    def head(self, most: int) -> bytes:
        """The first `most` bytes, or fewer where the file is shorter or damaged."""
        head = b""
        try:
            for piece in self:
                head += piece
                if len(head) >= most:
                    break
        except Broken:
            pass
        return head[:most]


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    """The content of a gzip file of one or more members."""
    member = zlib.decompressobj(31)
    packed = b""
    try:
        while packed or (packed := file.read(PIECE)):
            if member.eof:
                if not packed.startswith(GZIP_MAGIC[: len(packed)]):
                    raise Broken("gzip-broken", "other bytes follow the data")
                member = zlib.decompressobj(31)
            if piece := member.decompress(packed, PIECE):
                yield piece
            packed = member.unused_data if member.eof else member.unconsumed_tail
        while not member.eof and (piece := member.decompress(b"", PIECE)):
            yield piece
    except zlib.error as error:
        raise Broken("gzip-broken", str(error)) from error
    if not member.eof:
        raise Broken("gzip-broken", "the data is cut off")

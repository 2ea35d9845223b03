"""Deterministic gzip: no name, no time, so the same bytes give the same file."""

from __future__ import annotations

import gzip

GZIP_LEVEL = 6


def gzip_bytes(data: bytes) -> bytes:
    """A gzip file of `data` with mtime 0 and no name (RFC 1952)."""
    return gzip.compress(data, GZIP_LEVEL, mtime=0)


class TooLarge(ValueError):
    """Decompressed data is larger than the caller allows."""


def gunzip_bytes(data: bytes, most: int) -> bytes:
    """The content of a gzip file, at most `most` bytes of it.

    Raises TooLarge beyond that, and OSError or EOFError for what is no whole gzip file.
    """
    import io

    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise TooLarge(f"decompresses to more than {most} bytes")
    return content

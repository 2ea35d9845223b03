"""Where the directory keeps a digest: buckets that grow by splitting one after the other (`common.lua`)."""

from __future__ import annotations


def level(buckets: int) -> tuple[int, int]:
    """A directory's size, a power of four, and how many buckets of that size are divided into four.

    The scripts' own rule (`common.lua`): the other parts of bucket b are b + size, b + 2 size and b + 3 size.
    """
    size = 4 ** ((buckets.bit_length() - 1) // 2)
    return size, (buckets - size) // 3


def bucket_of(key: bytes, buckets: int) -> int:
    """Where a digest lies in a directory of that many buckets."""
    size, divided = level(buckets)
    place = int.from_bytes(key[:4], "big")
    return place % size if place % size >= divided else place % (size * 4)

"""Sets of 64-bit keys that do not fit into memory, in one temporary file.

1. `add` writes one block: the sorted keys of one owner (a sitemap file). It remembers where in the block each
   of `_RANGES` equal ranges of the key space begins.
2. A question goes through the ranges, several at a time so that at most `_TOGETHER` keys are in memory, and
   reads of each block only the keys of these ranges.
3. A key is a keyed hash of a URL (Python's own, another key in each process), so nobody can make two URLs
   collide on purpose; among ten million URLs, two collide by chance once in 300,000 runs.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator
from itertools import pairwise
from typing import Final, Generic, NamedTuple, TypeVar

Owner = TypeVar("Owner", bound=Hashable)

_RANGES: Final = 64
_BOUNDS: Final = [(step << 58) - (1 << 63) for step in range(1, _RANGES)]
_TOGETHER: Final = 250_000
_KEY: Final = 8
"""Bytes of a key."""


class _Block(NamedTuple, Generic[Owner]):
    owner: Owner
    offset: int
    starts: array[int]
    """The place of each range's first key, and the number of keys."""


class Found(NamedTuple, Generic[Owner]):
    """What a question found: how many keys in all, and by owner those that there was room for."""

    total: int
    owners: dict[Owner, set[int]]


class Spill(Generic[Owner]):
    """Keys by owner. `close` removes the file."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="sitemapd-check-")  # noqa: SIM115 - it lives as long as this
        self._size = 0
        self._blocks: list[_Block[Owner]] = []

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def add(self, owner: Owner, keys: Iterable[int]) -> None:
        """Keep the keys (signed, 64 bits) of an owner, which may have several blocks."""
        block = array("q", sorted(keys))
        starts = array("I", [0, *(bisect_left(block, bound) for bound in _BOUNDS), len(block)])
        self._file.write(block.tobytes())
        self._blocks.append(_Block(owner, self._size, starts))
        self._size += _KEY * len(block)

    def repeated(self, most: int) -> Found[Owner]:
        """Keys that stand more than once, counted without the first; owners for `most` keys."""
        count = 0
        owners: dict[Owner, set[int]] = {}
        for first, last in self._groups():
            seen: set[int] = set()
            twice: set[int] = set()
            for _, keys in self._read(first, last):
                new = set(keys)
                if len(new) < len(keys):
                    twice.update(key for key, after in pairwise(keys) if key == after)
                twice |= seen & new
                count += len(keys) - len(new) + len(seen & new)
                seen |= new
            most -= self._place(twice, most, first, last, owners)
        return Found(count, owners)

    def unmatched(self, most: int, asked: set[Owner]) -> Found[Owner]:
        """Keys of some owners whose twin (another last bit) nobody has; owners for `most` keys."""
        count = 0
        owners: dict[Owner, set[int]] = {}
        for first, last in self._groups():
            asked_for: set[int] = set()
            seen: set[int] = set()
            for owner, keys in self._read(first, last):
                seen.update(keys)
                if owner in asked:
                    asked_for.update(keys)
            alone = {key for key in asked_for if key ^ 1 not in seen}
            count += len(alone)
            most -= self._place(alone, most, first, last, owners)
        return Found(count, owners)

    def _place(self, keys: set[int], most: int, first: int, last: int, owners: dict[Owner, set[int]]) -> int:
        """Add the owners of up to `most` of the keys; how many that were."""
        keys = set(sorted(keys)[:most]) if most > 0 else set()
        if keys:
            for owner, held in self._read(first, last):
                if here := keys.intersection(held):
                    owners.setdefault(owner, set()).update(here)
        return len(keys)

    def _groups(self) -> Iterator[tuple[int, int]]:
        """Neighbouring ranges that fit into memory together: the first, and the one after the last."""
        self._file.flush()
        first = together = 0
        for number in range(_RANGES):
            size = sum(block.starts[number + 1] - block.starts[number] for block in self._blocks)
            if together and together + size > _TOGETHER:
                yield first, number
                first, together = number, 0
            together += size
        yield first, _RANGES

    def _read(self, first: int, last: int) -> Iterator[tuple[Owner, array[int]]]:
        for owner, offset, starts in self._blocks:
            begin, end = starts[first], starts[last]
            if begin < end:
                keys = array("q")
                keys.frombytes(os.pread(self._file.fileno(), _KEY * (end - begin), offset + _KEY * begin))
                yield owner, keys

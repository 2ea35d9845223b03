"""Keys on disk answer as a plain dict in memory does."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.check import spill
from sitemap_store.check.spill import Spill

KEYS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-4, 4), st.sampled_from([2**63 - 1, -(2**63)]))
BLOCKS = st.lists(st.tuples(st.integers(0, 3), st.lists(KEYS, max_size=8)), max_size=8)


def filled(blocks: list[tuple[int, list[int]]]) -> Spill[int]:
    """A set with blocks of several owners."""
    keys: Spill[int] = Spill()
    for owner, block in blocks:
        keys.add(owner, block)
    return keys


@given(blocks=BLOCKS, together=st.integers(1, 20))
def test_repeated_keys_are_found(blocks: list[tuple[int, list[int]]], together: int) -> None:
    """Each key that stands twice, with all its owners, however few keys fit into memory."""
    counts = Counter(key for _, block in blocks for key in block)
    owners: dict[int, set[int]] = {}
    for owner, block in blocks:
        if twice := {key for key in block if counts[key] > 1}:
            owners.setdefault(owner, set()).update(twice)
    with patch.object(spill, "_TOGETHER", together), closing(filled(blocks)) as keys:
        found = keys.repeated(1_000)
    assert found.total == sum(count - 1 for count in counts.values())
    assert found.owners == owners


@given(blocks=BLOCKS, together=st.integers(1, 20), asked=st.sets(st.integers(0, 3)))
def test_keys_without_a_twin_are_found(
    blocks: list[tuple[int, list[int]]], together: int, asked: set[int]
) -> None:
    """Each key of an owner that is asked for, whose twin nobody has."""
    present = {key for _, block in blocks for key in block}
    alone = {key for owner, block in blocks if owner in asked for key in block if key ^ 1 not in present}
    with patch.object(spill, "_TOGETHER", together), closing(filled(blocks)) as keys:
        found = keys.unmatched(1_000, asked)
    assert found.total == len(alone)
    assert set().union(*found.owners.values()) == alone


def test_only_as_many_as_there_is_room_for_have_owners() -> None:
    """All are counted; a tree in which every URL stands twice must not fill the memory."""
    even = list(range(0, 200, 2))
    with closing(filled([(0, even), (1, even)])) as keys:
        repeated = keys.repeated(3)
        unmatched = keys.unmatched(3, {0})
    assert repeated.total == 100
    assert sum(map(len, repeated.owners.values())) == 6
    assert (unmatched.total, len(unmatched.owners[0])) == (100, 3)

"""Entries and their digests."""

import hashlib

from hypothesis import given

from sitemap_store.model.entries import DIGEST_BYTES, Entry, digest
from tests import strategies
from tests.world import BASE


@given(strategies.locs)
def test_a_digest_has_ten_bytes_and_depends_on_the_loc_alone(loc: str) -> None:
    """The directory's keys are all of one size, and the same in every process."""
    assert len(digest(loc)) == DIGEST_BYTES == 10
    assert digest(loc) == hashlib.blake2b(loc.encode(), digest_size=10).digest()


def test_different_locs_have_different_digests() -> None:
    """A hundred thousand URLs that differ in little share no digest."""
    assert len({digest(f"{BASE}p/{n}") for n in range(100_000)}) == 100_000


def test_entries_sort_by_loc() -> None:
    """The loc comes first in the tuple: that is what puts a file in its order."""
    rows = [Entry(BASE + "b"), Entry(BASE + "a", "2026-01-02"), Entry(BASE + "a%20")]
    assert [row.loc for row in sorted(rows)] == [BASE + "a", BASE + "a%20", BASE + "b"]

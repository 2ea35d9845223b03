"""Desired state against listed state."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.difference import Difference, Wanted, rank
from sitemap_store.model.entries import Entry, digest

locs = st.sampled_from([f"https://example.com/{n}" for n in range(6)])
dates = st.sampled_from(["", "2026-01-01", "2026-01-02T00:00:00Z", "2026-01-01T23:00:00-02:00"])


@pytest.fixture
def difference() -> Iterator[Difference]:
    """Give an empty comparison of the source `cms`."""
    with Difference("cms") as difference:
        yield difference


def row(loc: str, lastmod: str = "") -> Wanted:
    """A wanted URL."""
    return loc, lastmod, "", "", "", None


@given(st.lists(st.tuples(locs, dates)), st.dictionaries(locs, dates), st.booleans())
def test_the_difference_is_a_plain_dicts(
    wanted: list[tuple[str, str]], listed: dict[str, str], newest: bool
) -> None:
    """Adds where the newest, or the last, differs from what is listed; deletes where nothing is wanted."""
    best: dict[str, str] = {}
    for loc, date in wanted:
        if not newest or loc not in best or rank(date, "", "") > rank(best[loc], "", ""):
            best[loc] = date
    with Difference("cms") as difference:
        difference.want((row(*each) for each in wanted), newest=newest)
        difference.have(Entry(loc, date, source="cms") for loc, date in listed.items())
        adds = {event.loc: event.lastmod for _, event in difference.adds(None)}
        assert adds == {loc: date for loc, date in best.items() if listed.get(loc) != date}
        assert set(difference.gone_locs()) == set(listed) - set(best)
        assert difference.gone() == len(set(listed) - set(best))
        assert difference.new() == len(set(best) - set(listed))
        assert (difference.wanted(), difference.listed()) == (len(best), len(listed))


def test_what_is_new_comes_in_the_order_of_the_rows(difference: Difference) -> None:
    """Rows that lie together get their seats together."""
    came = [f"https://example.com/{n}" for n in (5, 3, 9, 1)]
    difference.want(map(row, came))
    assert [event.loc for _, event in difference.adds(None)] == came


def test_what_is_accepted_is_not_counted_and_is_deleted_alone(difference: Difference) -> None:
    """An acceptance names URLs by their digests, and may be taken back."""
    difference.have(Entry(f"https://example.com/{n}", source="cms") for n in range(4))
    difference.accept(digest("https://example.com/1") + digest("https://example.com/none"))
    assert difference.gone() == 3
    assert [event.loc for event in difference.deletes(None, all_gone=False)] == ["https://example.com/1"]
    difference.accept_none()
    assert difference.gone() == 4


def test_what_is_kept_or_left_out_stays_as_it_is(difference: Difference) -> None:
    """A line that was refused, and a URL that was looked at meanwhile."""
    difference.have(Entry(f"https://example.com/{n}", source="cms") for n in range(3))
    difference.want([row("https://example.com/2", "2026-01-01")])
    difference.keep("https://example.com/0")
    difference.leave_out(["https://example.com/1", "https://example.com/2"])
    assert difference.gone() == 0
    assert list(difference.adds(None)) == []

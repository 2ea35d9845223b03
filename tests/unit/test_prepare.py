"""Events on their way to the append script: the way for adds alone gives what the general one gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.model.events import Adds, Event, encode, encode_adds
from sitemap_store.redis.prepare import BATCH, prepare, prepare_adds
from tests import strategies
from tests.world import BASE, make_site

SITES = [
    make_site(sections=sections, partitions=partitions)
    for sections in (None, {"a": "/a**", "b": "/*b/**", "c": "/c"})
    for partitions in (1, 3)
]
_sources = st.sampled_from([None, "cms"])
_rows = st.lists(st.tuples(strategies.locs, strategies.lastmods), min_size=1, max_size=20)


def adds_of(rows: list[tuple[str, str]], source: str | None, dated: bool) -> tuple[Adds, list[Event]]:
    """The same adds, by columns and one by one."""
    locs = [loc for loc, _ in rows]
    dates = [lastmod for _, lastmod in rows] if dated else None
    events = [Event("add", loc, lastmod if dated else None, source=source) for loc, lastmod in rows]
    return Adds(locs, dates, source), events


@given(_rows, _sources, st.booleans())
def test_the_records_are_those_of_the_events(
    rows: list[tuple[str, str]], source: str | None, dated: bool
) -> None:
    """Byte by byte."""
    adds, events = adds_of(rows, source, dated)
    assert encode_adds(adds).split("\n") == list(map(encode, events))


@given(st.sampled_from(SITES), _rows, _sources, st.booleans())
def test_adds_are_prepared_as_any_events(
    site: Any, rows: list[tuple[str, str]], source: str | None, dated: bool
) -> None:
    """For every partition and section, in the same order."""
    adds, events = adds_of(rows, source, dated)
    assert list(prepare_adds(site, adds)) == list(prepare(site, events))


@pytest.mark.parametrize("count", [1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH + 1])
@pytest.mark.parametrize("dated", [True, False])
def test_batches_end_at_the_same_events(count: int, dated: bool) -> None:
    """None is lost or sent twice at their edges."""
    adds, events = adds_of([(f"{BASE}p{n}", "2026-01-01") for n in range(count)], "cms", dated)
    found = list(prepare_adds(SITES[0], adds))
    assert found == list(prepare(SITES[0], events))
    assert [prepared.events for prepared in found] == [
        min(BATCH, count - start) for start in range(0, count, BATCH)
    ]

"""The status page's numbers and pictures, without a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.errors import BadSetting
from sitemap_store.redis.browse import ShardRow
from sitemap_store.redis.counts import LAG_BOUNDS_MS, Lag, Slot
from sitemapd.build import build_site
from sitemapd.settings import SiteSettings
from sitemapd.web.display import (
    CELLS,
    COLUMNS,
    HEIGHT,
    age,
    ago,
    duration,
    iso,
    millis,
    number,
    plot,
    shard_map,
    size,
)
from sitemapd.web.files import Span, precondition, span, takes_gzip

NOW = 1_790_000_000_000
NO_LAG = Lag((), 0)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "–"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1500, "1.5 s"),
        (59_999, "60.0 s"),
        (60_000, "1 min"),
        (7_199_000, "120 min"),
        (7_200_000, "2 h"),
        (172_800_000, "2 d"),
    ],
)
def test_durations_read_well(ms: int | None, text: str) -> None:
    """A duration has the unit that fits it."""
    assert duration(ms) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "–"), (0, "0 B"), (999, "999 B"), (1200, "1.2 kB"), (250_000, "250 kB"), (3e9, "3.0 GB")],
)
def test_sizes_read_well(count: float | None, text: str) -> None:
    """A size has the unit that fits it."""
    assert size(count) == text


def test_times_and_numbers_read_well() -> None:
    """Times go to ISO and back, what never was is never, thousands are apart."""
    assert millis(iso(NOW)) == NOW
    assert ago(0, NOW) == "never"
    assert ago(NOW - 3_600_000, NOW) == "60 min ago"
    assert ago(NOW + 5, NOW) == "0 ms ago"
    assert number(1_234_567) == "1,234,567"


@given(st.lists(st.integers(0, 10_000), min_size=60, max_size=60))
def test_a_plot_fits_its_frame(counts: list[int]) -> None:
    """No bar is higher than the frame, each stands on the ground, and the tallest is the most."""
    drawn = plot("Events", [Slot(n * 60_000, 0, 0, 0, NO_LAG) for n in range(60)], counts)
    assert drawn.total == sum(counts)
    assert drawn.top == max(counts)
    for bar, count in zip(drawn.bars, counts, strict=True):
        assert bar.number == count
        assert 0 <= bar.height <= HEIGHT
        assert abs(bar.y + bar.height - HEIGHT) < 0.11


@given(st.integers(1, 5000), st.integers(0, 10))
def test_a_map_shows_every_shard_within_bounds(shards: int, seed: int) -> None:
    """Any number of shards gives a bounded number of cells that cover each of them once."""
    rows = [
        ShardRow("a" if n % 3 else "b", n + 1, NOW - (n * 37 + seed) * 60_000, "f", n % 7 == 0)
        for n in range(shards)
    ]
    drawn = shard_map(rows, NOW)
    cells = [cell for area in drawn.areas for cell in area.cells]
    assert len(cells) <= CELLS + len(drawn.areas)
    assert sum(area.shards for area in drawn.areas) == shards == sum(count for _, _, count in drawn.ages)
    assert drawn.due == sum(row.due for row in rows)
    for area in drawn.areas:
        numbers = sorted(row.number for row in rows if row.section == area.section)
        assert area.cells[0].first == numbers[0]
        assert area.cells[-1].last == numbers[-1]
        assert len({(cell.x, cell.y) for cell in area.cells}) == len(area.cells)
        assert all(cell.x < 10 * COLUMNS and cell.y < 10 * area.rows for cell in area.cells)


def test_a_cell_is_as_hot_as_its_hottest_shard() -> None:
    """Ages are named by their bounds, and several shards in a cell show the latest change."""
    assert [age(ms) for ms in (0, 59_999, 60_000, 86_400_000, 7 * 86_400_000)] == [
        "now",
        "now",
        "hour",
        "week",
        "frozen",
    ]
    rows = [ShardRow("a", n, NOW if n == 1 else 0, "f", False) for n in range(1, 2 * CELLS + 1)]
    first, second, *_ = shard_map(rows, NOW).areas[0].cells
    assert (first.age, first.first, first.last) == ("now", 1, 2)
    assert second.age == "frozen"


@given(st.lists(st.integers(0, 50), min_size=len(LAG_BOUNDS_MS) + 1, max_size=len(LAG_BOUNDS_MS) + 1))
def test_quantiles_lie_in_their_bucket(counts: list[int]) -> None:
    """p50 is at most p99, both lie within the bounds of what was measured, and nothing measured is None."""
    lag = Lag(tuple(counts), 0)
    half, most = lag.quantile(0.5), lag.quantile(0.99)
    if not sum(counts):
        assert half is None
        assert most is None
        return
    assert half is not None
    assert most is not None
    assert 0 <= half <= most <= LAG_BOUNDS_MS[-1]


@given(st.text(max_size=40))
def test_any_header_is_read(text: str) -> None:
    """No Range, date, ETag or Accept-Encoding makes the reading of a request fail."""
    headers = dict.fromkeys(("if-match", "if-unmodified-since", "if-none-match", "if-modified-since"), text)
    assert precondition(headers, '"x"', 0) in (200, 304, 412)
    for name in headers:
        assert precondition({name: text}, '"x"', 0) in (200, 304, 412)
    found = span({"range": text, "if-range": text}, '"x"', 0, 100, 10.0)
    assert found is None or found == "none" or isinstance(found, Span)
    assert takes_gzip(text) in (True, False)


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 100))
def test_a_range_lies_within_the_file(first: int, last: int, length: int) -> None:
    """What is found of a range is a part of the file that begins where it was asked to, or "none"."""
    found = span({"range": f"bytes={first}-{last}"}, '"x"', 0, length, 10.0)
    if last < first:
        assert found is None
    elif first >= length:
        assert found == "none"
    else:
        assert found == Span(first, min(last, length - 1))


@pytest.mark.parametrize("key", ["short", "x" * 129, "has space1", "../../etc", "abcdefgh\n", "äöüäöüäö"])
def test_an_indexnow_key_keeps_the_rule(key: str) -> None:
    """A key that IndexNow would not take is refused by the settings."""
    with pytest.raises(BadSetting, match="indexnow_key"):
        build_site("shop", SiteSettings.model_validate(
            {"base_url": "https://shop.example.com/", "output": "public", "indexnow_key": key}
        ))  # fmt: skip

"""The page's two pictures as numbers for inline SVG: the last hour's bars, and the map of shards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sitemap_store.redis.observed import ShardRow, Slot

HEIGHT = 60
"""Of a plot, in units; a step is 10 wide."""
COLUMNS = 48
CELLS = 1200
"""The most cells that a map has; with more shards a cell is several of them."""
AGES = (
    ("now", 60_000, "in the last minute"),
    ("hour", 3_600_000, "in the last hour"),
    ("day", 24 * 3_600_000, "in the last day"),
    ("week", 7 * 24 * 3_600_000, "in the last week"),
    ("frozen", None, "longer ago: frozen"),
)
"""How long ago a shard's file changed: name, less than (ms), in words."""


class Bar(NamedTuple):
    """One step of a plot."""

    x: int
    y: float
    height: float
    number: int


class Plot(NamedTuple):
    """One series of a span."""

    name: str
    total: int
    top: int
    bars: tuple[Bar, ...]


class Cell(NamedTuple):
    """One square of a map: a shard, or several that lie next to each other."""

    x: int
    y: int
    age: str
    due: bool
    first: int
    last: int
    changed: int
    """When the latest of them changed, in epoch milliseconds."""


class Area(NamedTuple):
    """A section's part of a map."""

    section: str
    shards: int
    each: int
    """How many shards a cell is."""
    rows: int
    cells: tuple[Cell, ...]


class ShardMap(NamedTuple):
    """All sections, and how many shards changed how long ago."""

    areas: tuple[Area, ...]
    ages: tuple[tuple[str, str, int], ...]
    """(name, in words, shards)"""
    due: int


def plot(name: str, slots: Sequence[Slot], counts: Iterable[int]) -> Plot:
    """Bars for a span's numbers, the tallest as high as the plot."""
    numbers = list(counts)
    top = max([*numbers, 1])
    bars = tuple(
        Bar(10 * place, round(HEIGHT * (1 - count / top), 1), round(HEIGHT * count / top, 1), count)
        for place, (_, count) in enumerate(zip(slots, numbers, strict=True))
    )
    return Plot(name, sum(numbers), max([*numbers, 0]), bars)


def shard_map(rows: Iterable[ShardRow], now: int) -> ShardMap:
    """The published shards by section and number."""
    sections: dict[str, list[ShardRow]] = {}
    counts = dict.fromkeys((name for name, _, _ in AGES), 0)
    total = due = 0
    for row in rows:
        sections.setdefault(row.section, []).append(row)
        counts[age(now - row.lastmod)] += 1
        total += 1
        due += row.due
    each = max(1, -(-total // CELLS))
    areas = []
    for section, held in sorted(sections.items()):
        held.sort(key=lambda row: row.number)
        cells = []
        for place, start in enumerate(range(0, len(held), each)):
            group = held[start : start + each]
            changed = max(row.lastmod for row in group)
            cells.append(
                Cell(
                    10 * (place % COLUMNS),
                    10 * (place // COLUMNS),
                    age(now - changed),
                    any(row.due for row in group),
                    group[0].number,
                    group[-1].number,
                    changed,
                )
            )
        areas.append(Area(section, len(held), each, -(-len(cells) // COLUMNS), tuple(cells)))
    return ShardMap(tuple(areas), tuple((name, words, counts[name]) for name, _, words in AGES), due)


def age(ms: int) -> str:
    """The name of how long ago that is."""
    return next(name for name, limit, _ in AGES if limit is None or ms < limit)

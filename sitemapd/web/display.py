"""Numbers, times and sizes as people read them, and the page's pictures as numbers for inline SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from sitemap_store.redis.browse import ShardRow
from sitemap_store.redis.counts import Slot

NONE = "\N{EN DASH}"
"""Stands where there is no number."""


def number(value: float | None) -> str:
    """12345 → 12,345; a dash where there is none."""
    return NONE if value is None else f"{value:,}"


def duration(ms: float | None) -> str:
    """Milliseconds → 1.2 s, 3 min, 4 h, 5 d; a dash where there is none."""
    if ms is None:
        return NONE
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    for unit, size, limit in (("min", 60_000, 7_200_000), ("h", 3_600_000, 172_800_000)):
        if ms < limit:
            return f"{ms / size:.0f} {unit}"
    return f"{ms / 86_400_000:.0f} d"


def ago(moment: int, now: int) -> str:
    """Epoch milliseconds → 3 min ago; never for 0."""
    return f"{duration(max(0, now - moment))} ago" if moment else "never"


def size(count: float | None) -> str:
    """Bytes → 12 kB; a dash where there is none."""
    if count is None:
        return NONE
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def iso(ms: int) -> str:
    """Epoch milliseconds → 2026-03-21T11:22:33Z, for `datetime` attributes."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def clock(ms: int) -> str:
    """Epoch milliseconds → 2026-03-21 11:22:33 UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def millis(text: str) -> int:
    """What `iso` and the state's reports write → epoch milliseconds."""
    return round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


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

"""Numbers, times and sizes as people read them; the templates' filters."""

from __future__ import annotations

from datetime import UTC, datetime

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

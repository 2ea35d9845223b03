"""What came of it: a row for each fault, as Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.torture.checks import Found

QUIET = "none"
"""The name under which a round without a fault is counted."""
QUIET_S = 3.0
"""Seconds in which such a round is to be published."""


@dataclass(slots=True, kw_only=True)
class Row:
    """One fault's outcome."""

    name: str
    promised: str
    within: float
    injections: int = 0
    violations: list[str] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    skipped: str = ""


class Report:
    """Counts by fault."""

    def __init__(self, promised: Mapping[str, tuple[str, float]]) -> None:
        self.rows = {
            name: Row(name=name, promised=text, within=within) for name, (text, within) in promised.items()
        }
        self.rows[QUIET] = Row(name=QUIET, promised="all of it", within=QUIET_S)
        self.total = 0
        """Violations; one that two faults share counts once."""

    def round(self, names: Iterable[str], found: Iterable[Found], recovery: float | None) -> None:
        """Count one round: the faults that struck, what was found, and the seconds to fully published."""
        words = [f"{rule}: {detail}" for rule, detail in found]
        self.total += len(words)
        for name in list(names) or [QUIET]:
            row = self.rows[name]
            row.injections += 1
            row.violations += words
            if recovery is not None:
                row.recoveries.append(recovery)

    def table(self) -> str:
        """The rows as a Markdown table; what never struck only when it was skipped for a reason."""
        lines = [
            "| fault | promised | injections | violations | worst recovery, s (promised) |",
            "|---|---|---|---|---|",
        ]
        for row in self.rows.values():
            if row.skipped:
                lines.append(f"| `{row.name}` | {row.promised} | skipped: {row.skipped} | | |")
            elif row.injections:
                worst = f"{max(row.recoveries):.1f}" if row.recoveries else "never"
                counts = f"{row.injections} | {len(row.violations)}"
                lines.append(f"| `{row.name}` | {row.promised} | {counts} | {worst} ({row.within:g}) |")
        return "\n".join(lines)

    def late(self) -> list[str]:
        """Recoveries that took longer than promised, in words: a busy machine has them, so no violations."""
        return [
            f"{row.name}: {max(row.recoveries):.1f} s, promised {row.within:g} s"
            for row in self.rows.values()
            if row.recoveries and max(row.recoveries) > row.within
        ]

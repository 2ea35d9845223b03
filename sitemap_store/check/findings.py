"""What a check found: each finding counted, and the first of each code kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from sitemap_store.check.rules import RULES, Rule, Severity

_SHOWN: Final = 200
"""Characters of a value or detail that a finding keeps."""


class Finding(NamedTuple):
    """One place that breaks a rule."""

    code: str
    file: str
    line: int
    """From 1, in the uncompressed file; 0: the whole file."""
    value: str
    detail: str

    @property
    def rule(self) -> Rule:
        """The rule that is broken."""
        return RULES[self.code]


class Findings:
    """Counts all findings, and keeps the first `most` of each code in the order they came."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[Finding] = []
        self.counts: Counter[str] = Counter()
        """How many of each code."""

    def add(self, code: str, file: str, line: int = 0, value: str = "", detail: str = "") -> None:
        """Note a finding."""
        if self.counts[code] < self._most:
            self._kept.append(Finding(code, file, line, _shown(value), _shown(detail)))
        self.counts[code] += 1

    def add_uncited(self, code: str, times: int) -> None:
        """Count findings whose place is not known."""
        if times > 0:
            self.counts[code] += times

    def room(self, code: str) -> int:
        """How many more findings of a code would be kept."""
        return max(0, self._most - self.counts[code])

    def count(self, severity: Severity) -> int:
        """How many findings have a severity."""
        return sum(count for code, count in self.counts.items() if RULES[code].severity == severity)

    def __iter__(self) -> Iterator[Finding]:
        """The kept ones by file and line."""
        return iter(sorted(self._kept, key=lambda finding: (finding.file, finding.line)))


def _shown(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()
    printable = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text[: _SHOWN + 1])
    return printable if len(printable) <= _SHOWN else printable[:_SHOWN] + "…"

"""What sitemapd answers: how many events it stored, and which it refused and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

REFUSED_MAX: Final = 1000
"""How many refusals and warnings are kept one by one; the rest is counted."""


@dataclass(frozen=True)
class Refusal:
    """One event that sitemapd refused.

    `line` is its place in what was sent, from 1; `rule` a stable code (docs/wire-format.md), and `detail` a
    sentence that says why.
    """

    line: int
    loc: str
    rule: str
    detail: str


@dataclass(frozen=True)
class Sent:
    """What became of events: `accepted` are stored, `refused_total` are not.

    The first 1,000 refusals are in `refused`; `warnings` says what was changed in accepted events.
    """

    accepted: int = 0
    refused: tuple[Refusal, ...] = ()
    refused_total: int = 0
    warnings: tuple[str, ...] = ()

    def plus(self, other: Sent, lines: int) -> Sent:
        """Both together; `other` came after so many lines."""
        moved = tuple(Refusal(each.line + lines, each.loc, each.rule, each.detail) for each in other.refused)
        return Sent(
            self.accepted + other.accepted,
            (self.refused + moved)[:REFUSED_MAX],
            self.refused_total + other.refused_total,
            (self.warnings + other.warnings)[:REFUSED_MAX],
        )


@dataclass(frozen=True)
class Synced:
    """What a list changed, in URLs of its source.

    `listed` are those before; `held` the deletes that were held back since a line could not be read.
    """

    listed: int
    added: int
    updated: int
    deleted: int
    unchanged: int
    held: int
    refused: tuple[Refusal, ...] = field(default=())


def read_sent(said: Mapping[str, Any]) -> Sent:
    """The result that an answer's JSON holds. Raises KeyError, TypeError, ValueError when it holds none."""
    refused = read_refusals(said)
    total = int(said.get("refused_total", len(refused)))
    return Sent(int(said["accepted"]), refused, total, tuple(map(str, said.get("warnings", ()))))


def read_synced(said: Mapping[str, Any]) -> Synced:
    """The result of a list that an answer's JSON holds. Raises as `read_sent` does."""
    names = ("listed", "added", "updated", "deleted", "unchanged", "held")
    return Synced(**{name: int(said[name]) for name in names}, refused=read_refusals(said))


def read_refusals(said: Mapping[str, Any]) -> tuple[Refusal, ...]:
    """The refusals that an answer's JSON lists. Raises as `read_sent` does."""
    return tuple(
        Refusal(int(row["line"]), str(row["loc"]), str(row["rule"]), str(row["detail"]))
        for row in said["refused"]
    )

"""What became of the events of one request, gathered for its answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from producers.http.answer import Answer, answer, stated
from sitemap_store.errors import Refused

SHOWN: Final = 1000
"""How many refusals an answer lists one by one."""
WARNINGS: Final = 100


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Counts, and the first refusals and warnings; bounded, however long the body is."""

    accepted: int = 0
    refusals: int = 0
    refused: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def refuse(self, line: int, refused: Refused) -> None:
        """Note a refused event."""
        self.refusals += 1
        if len(self.refused) < SHOWN:
            self.refused.append(
                {
                    "line": line,
                    "loc": _printable(refused.loc),
                    "rule": refused.rule,
                    "detail": _printable(refused.detail),
                }
            )

    def warn(self, warnings: tuple[str, ...]) -> None:
        """Note what was changed or left out in an accepted event."""
        self.warnings += warnings[: WARNINGS - len(self.warnings)]

    @property
    def status(self) -> int:
        """202, or 422 when there were events and every one was refused."""
        return 422 if self.refusals and not self.accepted else 202

    def body(self) -> dict[str, Any]:
        """The answer's JSON."""
        body: dict[str, Any] = {"accepted": self.accepted, "refused": self.refused}
        if self.refusals > len(self.refused):
            body["refused_total"] = self.refusals
        if self.warnings:
            body["warnings"] = [_printable(warning) for warning in self.warnings]
        return body

    def answer(self) -> Answer:
        """The answer."""
        if self.status != 202:
            said = (
                f"All {self.refusals} events were refused." if self.refusals > 1 else "The event was refused."
            )
            rule = self.refused[0]["rule"] if self.refusals == 1 else "events"
            return stated(self.status, rule, said, more=self.body())
        if self.refusals or self.warnings:
            return answer(self.body(), self.status)
        return Answer(b'{"accepted":%d,"refused":[]}\n' % self.accepted, 202)


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()

"""What outlives a session of a relayed table."""

from __future__ import annotations

from dataclasses import dataclass, field

from producers.runner import SourceState


@dataclass(slots=True, kw_only=True)
class RelayState(SourceState):
    """What is to be done once more, and how much was sent."""

    redo: dict[str, tuple[object, ...]] = field(default_factory=dict)
    """URLs of a transaction that may not have committed, with their values: they are looked at once more."""
    sent: int = 0
    """Events since the start."""

    @property
    def application(self) -> str:
        """What its connections are called in the database."""
        return f"sitemapd {self.site}/{self.source}"

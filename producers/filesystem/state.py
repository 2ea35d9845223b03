"""What outlives a session of a watched folder."""

from __future__ import annotations

from dataclasses import dataclass

from producers.filesystem.dirty import Dirty
from producers.filesystem.troubles import Troubles
from producers.runner import SourceState


@dataclass(slots=True, kw_only=True)
class WatchState(SourceState):
    """The dirty paths, and what was found out about the directory."""

    dirty: Dirty
    troubles: Troubles
    cold: bool = True
    """The cache knew nothing when it was opened."""
    rescan_asked: bool = False
    compared: float = float("-inf")
    """When, on the monotonic clock, rows and state were last compared."""
    limited: str | None = None
    """What was said about a full watch table, while the source is polled because of it."""
    limited_until: float = 0.0

    def rouse(self) -> None:
        """End the wait that goes on now, or the next one."""
        self.wake.set()
        self.dirty.rouse()

    def overflowed(self) -> None:
        """Count that file events were lost, and everything is looked at anew."""
        self.update(overflows=self.status.get("overflows", 0) + 1)

"""What outlives a session of one source: its dirty paths, its flags, and how it stands."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from producers.filesystem.dirty import Dirty
from producers.filesystem.troubles import Troubles
from producers.guard import Guard


@dataclass(slots=True, kw_only=True)
class Standing:
    """Written to by the source's own thread; others read `status`, and set the events and flags."""

    labels: dict[str, str]
    """The site and the source, for logs."""
    dirty: Dirty
    troubles: Troubles
    guard: Guard
    clock: Callable[[], float]
    """Seconds since 1970."""
    monotonic: Callable[[], float]
    accept: bool
    """The next reconcile may delete whatever it finds to be gone."""
    cold: bool = True
    """The cache knew nothing when it was opened."""
    rescan_asked: bool = False
    reconcile_due: bool = True
    reconciled: float = float("-inf")
    """When, on the monotonic clock, rows and state were last compared."""
    limited: str | None = None
    """What was said about a full watch table, while the source is polled because of it."""
    limited_until: float = 0.0
    stopping: threading.Event = field(default_factory=threading.Event)
    ready: threading.Event = field(default_factory=threading.Event)
    status: dict[str, Any] = field(default_factory=dict)

    def now(self) -> int:
        """The time in epoch milliseconds."""
        return int(self.clock() * 1000)

    def say(self, **fields: object) -> None:
        """Change how it stands. The dict is replaced, so that readers see all or nothing of it."""
        self.status = self.status | fields

    def overflowed(self) -> None:
        """Count that file events were lost, and everything is looked at anew."""
        self.say(overflows=self.status.get("overflows", 0) + 1)

    def extra(self, action: str) -> dict[str, str]:
        """A log record's stable fields."""
        return {"action": action, **self.labels}

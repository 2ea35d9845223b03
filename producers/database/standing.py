"""What outlives a session of one source: how it stands, and what the next session has to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from producers.guard import Guard


@dataclass(slots=True, kw_only=True)
class Standing:
    """Written to by the relay's own thread; others read `status`, and set the events and `due`."""

    labels: dict[str, str]
    """The site and the source, for logs."""
    clock: Callable[[], float]
    """Seconds since 1970."""
    monotonic: Callable[[], float]
    accept: bool
    """The next comparison may delete whatever it finds to be gone."""
    due: bool
    """The whole table is to be compared, whenever that was done last."""
    guard: Guard
    redo: dict[str, tuple[object, ...]] = field(default_factory=dict)
    """URLs of a transaction that may not have committed, with their values: they are looked at once more."""
    stopping: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)
    """Ends a wait: there is something to do, or it is time to stop."""
    ready: threading.Event = field(default_factory=threading.Event)
    """Set when the source is up to date for the first time, or another relay leads it."""
    status: dict[str, Any] = field(default_factory=lambda: {"state": "starting", "problem": None})
    sent: int = 0
    """Events since the start."""

    @property
    def application(self) -> str:
        """What its connections are called in the database."""
        return f"sitemapd {self.labels['site']}/{self.labels['source']}"

    def say(self, **fields: object) -> None:
        """Change how it stands. The dict is replaced, so that readers see all or nothing of it."""
        self.status = self.status | fields

    def rest(self, seconds: float) -> None:
        """Wait for that long, or until it is woken."""
        self.wake.wait(seconds)
        self.woken()

    def woken(self) -> None:
        """A wait is over. Unless it is time to stop, the next one lasts again."""
        if not self.stopping.is_set():
            self.wake.clear()

    def extra(self, action: str) -> dict[str, str]:
        """A log record's stable fields."""
        return {**self.labels, "action": action}

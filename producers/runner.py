"""Runs one source for one site, on a thread of its own, from `start` to `stop`.

1. One session follows another. A session returns when the next one is to begin, and raises what ends it.
2. Whatever it raises ends neither thread nor source: it is logged, a fault of ours with its traceback,
   shown by the status as `waiting` or `failed`, and the next session begins after a pause that grows.
3. After a failure the whole source is compared again, unless an outbox keeps what was not sent. Nothing is
   lost by that: what was not sent is not remembered as sent either.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from producers.guard import Guard
from sitemap_store.errors import RedisUnavailable, SitemapdError

log = logging.getLogger(__name__)

PAUSES: Final = (0.2, 30.0)
"""The first and the longest pause, in seconds, after a fault of ours."""
REDIS_PAUSE: Final = 2.0
"""The longest, in seconds, before Redis is asked again."""

_AT_WORK: Final = ("watching", "relaying", "standby")
"""States of a session that had got going: after it, pauses begin anew."""


@dataclass(slots=True, kw_only=True)
class SourceState:
    """What outlives a session: how the source stands, and what the next session has to do.

    Written to by the source's own thread; others read `status`, and set the events and `compare_due`.
    """

    site: str
    source: str
    guard: Guard
    accept: bool = False
    """The next comparison may delete whatever it finds to be gone."""
    compare_due: bool = True
    """The whole source is to be compared with the site's state."""
    clock: Callable[[], float] = time.time
    """Seconds since 1970."""
    monotonic: Callable[[], float] = time.monotonic
    stopping: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)
    """Ends a wait: there is something to do, or it is time to stop."""
    ready: threading.Event = field(default_factory=threading.Event)
    """Set when the source is up to date for the first time, or another process leads it."""
    status: dict[str, Any] = field(default_factory=lambda: {"state": "starting", "problem": None})

    def now(self) -> int:
        """The time in epoch milliseconds."""
        return int(self.clock() * 1000)

    def update(self, **fields: object) -> None:
        """Change the status. The dict is replaced, so that readers see all or nothing of it."""
        self.status = self.status | fields

    def rouse(self) -> None:
        """End the wait that goes on now, or the next one."""
        self.wake.set()

    def rest(self, seconds: float) -> None:
        """Wait for that long, or until it is roused. Unless it is time to stop, the next wait lasts again."""
        self.wake.wait(seconds)
        if not self.stopping.is_set():
            self.wake.clear()

    def extra(self, action: str) -> dict[str, str]:
        """A log record's stable fields."""
        return {"action": action, "site": self.site, "source": self.source}


State = TypeVar("State", bound=SourceState)


class Runner(ABC, Generic[State]):
    """What a watcher and a relay share."""

    def __init__(self, state: State, kind: str, *, longest_pause: float, has_outbox: bool) -> None:
        """`kind` begins the thread's name; `longest_pause`: seconds before what is away is asked again.

        `has_outbox`: changes wait there until they are sent, so a failure needs no comparison.
        """
        self._longest_pause = longest_pause
        self._has_outbox = has_outbox
        self.state = state
        self.ready = state.ready
        self._kind = kind
        self._thread: threading.Thread | None = None

    @property
    def site(self) -> str:
        """The site's name."""
        return self.state.site

    def start(self) -> None:
        """Begin, on a thread that lives until `stop`. Once only."""
        name = f"{self._kind} {self.state.site} {self.state.source}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 30.0) -> bool:
        """End, after what is in hand; returns whether the thread ended within `timeout` seconds."""
        self.state.stopping.set()
        self.state.rouse()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def rescan(self) -> None:
        """Compare the whole source with the site's state, as soon as may be."""
        self.state.compare_due = True
        self.state.rouse()

    def health(self) -> dict[str, Any]:
        """How the source stands, for `sitemapd status`."""
        state = self.state
        status = {"site": state.site, "source": state.source, **state.status, "ready": self.ready.is_set()}
        if self._thread is None or not self._thread.is_alive():
            status["state"] = "stopped"
        return status

    @abstractmethod
    def run_session(self) -> None:
        """Connect, keep the source and the site's state alike, and return when that is to begin anew."""

    def _run(self) -> None:
        state, pause = self.state, 0.0
        while not state.stopping.is_set():
            longest, shown = self._longest_pause, "waiting"
            try:
                self.run_session()
                pause = 0.0
                continue
            except SitemapdError as error:
                problem = str(error)
                if state.status["state"] in _AT_WORK:
                    pause = 0.0
                if isinstance(error, RedisUnavailable):
                    longest = REDIS_PAUSE
            except Exception:
                # A fault of ours must not end the source: the next session starts from what is stored.
                log.exception("The source %s failed.", state.source, extra=state.extra("source_failed"))
                problem, shown, longest = "It failed for a reason that the log gives", "failed", PAUSES[1]
            if shown == "failed" or not self._has_outbox:
                state.compare_due = True
            if state.status["problem"] != problem:
                log.error("%s Trying again.", problem.rstrip(".") + ".", extra=state.extra("source_waits"))
            state.update(state=shown, problem=problem)
            pause = min(max(pause * 2, PAUSES[0]), longest)
            if not state.stopping.is_set():
                state.rest(pause)
        state.update(state="stopped")

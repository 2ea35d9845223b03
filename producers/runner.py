"""Runs one source for one site, on a thread of its own, from `start` to `stop`.

1. A source is opened, compared as a whole where that is due, and then asked for its changes again and again.
   Every kind of source is driven by the same three questions: `changes`, `list_all` and `look`.
2. What a source raises ends neither thread nor source: it is logged, a fault of ours with its traceback,
   shown by the status as `waiting` or `failed`, and tried again after a pause that grows. While Redis is away
   the source stays open and goes on noting what changes; after anything else it is opened anew.
3. After a failure the whole source is compared again, unless an outbox keeps what was not sent. Nothing is
   lost by that: what was not sent is not remembered as sent either.

Longer than most modules: the questions and the loop that asks them are read together.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Literal, TypedDict, TypeVar, Unpack

from producers.difference import Compared, Difference, send_difference
from producers.guard import Guard, digest_of
from producers.settings import SourceSettings
from producers.sink import EventSink
from sitemap_store.errors import RedisUnavailable, SitemapdError

log = logging.getLogger(__name__)

PAUSES: Final = (0.2, 30.0)
"""The first and the longest pause, in seconds, after a fault of ours."""
REDIS_PAUSE: Final = 1.0
"""The longest, in seconds, before Redis is asked again."""
CHECK_STATE: Final = 5.0
"""Seconds between two looks at whether the state is still the one that was written to."""
HELD_INTERVAL: Final = 60.0
"""Seconds between two comparisons while deletes are held back."""

_AT_WORK: Final = ("watching", "relaying", "standby")
"""States of a source that had got going: after it, pauses begin anew."""
_STARTING: Final = {"state": "starting", "problem": None, "held_deletes": 0}


class RunnerOptions(TypedDict, total=False):
    """What a source is run with beside its settings."""

    accept_deletes: bool
    """The first comparison may delete more than `max_delete`."""
    configured: Collection[str] | None
    """The names of all sources of the site, by which a renamed one is recognised."""
    command: str
    """The beginning of a command line about the site."""
    clock: Callable[[], float]
    """Seconds since 1970."""
    monotonic: Callable[[], float]


class SourceChanged(Exception):
    """The source is not the one that was opened, or changes of it were lost: it has to be opened anew."""


Key = TypeVar("Key")


class OpenSource(ABC, Generic[Key]):
    """What the runner asks of a source that is open.

    Each method may raise SourceChanged, Unavailable for what is away, and RedisUnavailable. After the last
    one the same source is asked again; after the others it is closed.
    """

    working: str
    """The state that the status shows while nothing is wrong."""
    compare_interval: float
    """Seconds between two comparisons; 0 for none."""

    @abstractmethod
    def changes(self) -> Sequence[Key]:
        """What may have changed and is now to be looked at; empty when there is nothing more for now."""

    @abstractmethod
    def look(self, keys: Sequence[Key]) -> int:
        """Send what is true of these now; returns how many events. When it raises, they are changes again."""

    @abstractmethod
    def list_all(self) -> AbstractContextManager[Difference]:
        """All that the source has, beside what the state lists of it; left once the difference was sent."""

    def keep_up(self) -> None:
        """Called again and again while a comparison is sent: changes may be sent meanwhile."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until something changes, or for a while."""

    @abstractmethod
    def update_status(self) -> None:
        """Say in the status what can be counted."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""


@dataclass(slots=True, kw_only=True)
class SourceState:
    """What outlives an open source: how it stands, and what the next one has to do.

    Written to by the source's own thread; others read `status`, and set the events and `compare_due`.
    """

    site: str
    source: str
    guard: Guard
    accept: bool = False
    """The next comparison may delete whatever it finds to be gone."""
    compare_due: bool = True
    """The whole source is to be compared with the site's state."""
    compared: float = float("-inf")
    """When, on the monotonic clock, it was."""
    state_id: str | None = None
    """Which state of the site in Redis was written to last; another one has to be compared."""
    sent: int = 0
    """Events since the start."""
    lasting_problem: str | None = None
    """What the status shows as its problem although it works, in a sentence."""
    clock: Callable[[], float] = time.time
    """Seconds since 1970."""
    monotonic: Callable[[], float] = time.monotonic
    stopping: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)
    """Ends a wait: there is something to do, or it is time to stop."""
    ready: threading.Event = field(default_factory=threading.Event)
    """Set when the source is up to date for the first time, or another process leads it."""
    status: dict[str, Any] = field(default_factory=lambda: dict(_STARTING))

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
    """Runs a source of one kind."""

    kind: ClassVar[Literal["watch", "relay"]]
    longest_pause: ClassVar[float]
    """Seconds before what is away is asked again."""
    has_outbox: ClassVar[bool]
    """Changes wait in an outbox until they are sent.

    So a failure needs no comparison, and what is held back is not compared again and again.
    """

    def __init__(
        self,
        state: type[State],
        source: SourceSettings,
        sink: EventSink,
        *,
        addresses: tuple[object, ...],
        place: tuple[object, ...],
        **options: Unpack[RunnerOptions],
    ) -> None:
        """`addresses` are the settings that make the source's URLs, `place` says where the source is."""
        site = sink.store.site
        accept = options.get("accept_deletes", False)
        guard = Guard(
            sink.store,
            source.name,
            self.kind,
            share=source.max_delete,
            addresses=digest_of(*addresses, site.rules.base),
            place=digest_of(*place),
            configured=options.get("configured"),
            command=options.get("command", "sitemapd"),
        )
        self._sink = sink
        self._site = site
        self.state = state(
            site=site.name,
            source=source.name,
            guard=guard,
            accept=accept,
            clock=options.get("clock", time.time),
            monotonic=options.get("monotonic", time.monotonic),
        )
        self.state.compare_due |= accept
        self.ready = self.state.ready
        self._thread: threading.Thread | None = None
        self._pause = 0.0
        self._checked = float("-inf")

    @property
    def site(self) -> str:
        """The site's name."""
        return self.state.site

    def start(self) -> None:
        """Begin, on a thread that lives until `stop`. Once only."""
        name = f"{self.kind} {self.state.site} {self.state.source}"
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
    def open(self) -> OpenSource[Any]:
        """Open the source. Raises Unavailable or BadSetting."""

    def translated(self) -> AbstractContextManager[None]:
        """Raise what ends an open source as a SitemapdError or SourceChanged, if it is no fault of ours."""
        return nullcontext()

    def _drive(self) -> None:
        """Open the source and ask it until it is to be opened anew. Raises what ends it."""
        state = self.state
        with self.translated(), closing(self.open()) as source:
            while not state.stopping.is_set():
                try:
                    self._round(source)
                except RedisUnavailable as error:
                    state.compare_due |= not self.has_outbox
                    self._failed(str(error), "waiting", REDIS_PAUSE)

    def _round(self, source: OpenSource[Any]) -> None:
        state = self.state
        self._check_state()
        interval = source.compare_interval
        if state.guard.held is not None and not self.has_outbox:
            interval = min(interval or HELD_INTERVAL, HELD_INTERVAL)
        if interval and state.monotonic() - state.compared >= interval:
            state.compare_due = True
        if state.compare_due or state.guard.is_accepted():
            self._compare(source)
        keys = source.changes()
        if keys:
            state.sent += source.look(keys)
        self._up_to_date(source)
        if not keys and not state.compare_due:
            source.wait()

    def _check_state(self) -> None:
        # Redis may have come up empty, or restored to another day, without ever being away.
        now = self.state.monotonic()
        if now - self._checked < CHECK_STATE:
            return
        found = self._sink.store.partitions[0].state_id()
        if self.state.state_id is not None and found != self.state.state_id:
            self.state.compare_due = True
        self.state.state_id, self._checked = found, now

    def _compare(self, source: OpenSource[Any]) -> Compared:
        state, started = self.state, self.state.monotonic()
        accept = state.accept
        state.compare_due = state.accept = False  # what asks from here on, asks for one more

        def between() -> None:
            if state.stopping.is_set():
                raise SourceChanged
            source.keep_up()

        try:
            with source.list_all() as difference:
                result = send_difference(difference, self._sink, state.guard, accept=accept, between=between)
        except BaseException:
            state.compare_due, state.accept = True, state.accept or accept
            raise
        state.compared = state.monotonic()
        state.update(held_deletes=result.held)
        sent = result.added + result.updated
        state.sent += sent + result.deleted
        if sent or result.deleted or not state.ready.is_set():
            log.info(
                "Compared %s in %.1f s: %d URLs added or updated, %d deleted, of %d known.",
                state.source,
                state.compared - started,
                sent,
                result.deleted,
                result.listed,
                extra=state.extra("compared"),
            )
        return result

    def _up_to_date(self, source: OpenSource[Any]) -> None:
        state, self._pause = self.state, 0.0
        if state.status["problem"] not in (None, state.lasting_problem):
            log.info("%s is up to date again.", state.source, extra=state.extra("back"))
        state.update(state=source.working, problem=state.lasting_problem)
        source.update_status()
        state.ready.set()

    def _failed(self, problem: str, shown: str, longest: float) -> None:
        state = self.state
        if state.status["problem"] != problem:
            log.error("%s. The source retries.", problem.rstrip("."), extra=state.extra("source_waits"))
        state.update(state=shown, problem=problem)
        self._pause = min(max(self._pause * 2, PAUSES[0]), longest)
        if not state.stopping.is_set():
            state.rest(self._pause)

    def _run(self) -> None:
        state = self.state
        while not state.stopping.is_set():
            try:
                self._drive()
                self._pause = 0.0
            except SourceChanged:
                state.compare_due = True
            except SitemapdError as error:
                if state.status["state"] in _AT_WORK:
                    self._pause = 0.0
                state.compare_due |= not self.has_outbox
                redis_away = isinstance(error, RedisUnavailable)
                self._failed(str(error), "waiting", REDIS_PAUSE if redis_away else self.longest_pause)
            except Exception:
                # A fault of ours must not end the source: the next try starts from what is stored.
                log.exception("The source %s failed.", state.source, extra=state.extra("source_failed"))
                state.compare_due = True
                self._failed("It failed for a reason that the log gives", "failed", PAUSES[1])
        state.update(state="stopped")

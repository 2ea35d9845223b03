"""One connection that leads a source.

It compares the whole table where that is due, and then drains the outbox until it is told to stop. What a
later session has to know is told to the database, in the transactions that it is true of.
"""

from __future__ import annotations

import json
import logging
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from producers.database.check import connect
from producers.database.dialect import Broken, Dialect
from producers.database.drain import BATCH, Drainer
from producers.database.install import trim
from producers.database.reconcile import reconcile
from producers.database.rows import MANY_ENCODED, Reader
from producers.database.shape import Shape
from producers.database.triggers import plan_of
from producers.difference import Compared
from producers.runner import SourceState
from producers.sink import EventSink
from sitemap_store.errors import Unavailable

log = logging.getLogger(__name__)

ASK_STATE: Final = 5.0
"""Seconds between two looks at whether the state is still the one that was written to."""
COUNT_EVERY: Final = 2.0
"""Seconds between two looks at how much waits, for those who ask how the relay stands."""
DRAIN_EVERY: Final = 0.1
"""While a comparison runs: seconds between two looks at the outbox."""


@dataclass(slots=True, kw_only=True)
class RelayState(SourceState):
    """What outlives a session of a relayed table."""

    redo: dict[str, tuple[object, ...]] = field(default_factory=dict)
    """URLs of a transaction that may not have committed, with their values: they are looked up once more."""
    sent: int = 0
    """Events since the start."""

    @property
    def application(self) -> str:
        """What its connections are called in the database."""
        return f"sitemapd {self.site}/{self.source}"


class Session:
    """One connection that leads. Raises what ends it."""

    def __init__(self, dialect: Dialect, shape: Shape, sink: EventSink, state: RelayState) -> None:
        self._source = shape.source
        self._dialect = dialect
        self._shape = shape
        self._sink = sink
        self._state = state
        self._reader = Reader(shape, sink.store.site, self._warn)
        self._drainer = Drainer(dialect, shape, sink, self._reader, state.redo)
        self._noted = dialect.noted(shape.label)[1]
        dialect.rollback()
        self._told: dict[str, Any] = json.loads(self._noted or "{}")
        self._plan = plan_of(dialect, shape)
        self._ground = dialect.ground(self._plan)
        dialect.rollback()
        if self._told.get("ground", self._ground) != self._ground:
            state.compare_due = True  # changes went by unseen
        self._checked = state.monotonic()
        self._next_drain = 0.0
        self._asked = float("-inf")
        self._counted = float("-inf")

    def run(self) -> None:
        """Until told to stop, or until the ground has changed: another session then sees what is there."""
        state = self._state
        while not state.stopping.is_set():
            if self._has_moved():
                return
            self._ask_state()
            if self._sync_due():
                asked = (self._told.get("wanted"), self._told.get("doing"))
                state.compare_due = False  # what asks from here on, asks for one more
                try:
                    self.reconcile(accept=state.accept or "accept" in asked)
                except BaseException:
                    state.compare_due = True
                    raise
                state.accept = False
            drained = self.drain()
            if drained < BATCH:
                self._up_to_date()
                self._dialect.wait(self._source.poll_interval, state.wake)
                state.rest(0)

    def _has_moved(self) -> bool:
        """Whether triggers, their table, the outbox or the file are others than when the session began."""
        state, dialect = self._state, self._dialect
        if state.monotonic() - self._checked < self._source.check_interval:
            return False
        self._checked = state.monotonic()
        same = dialect.ground(self._plan) == self._ground
        dialect.rollback()
        if same:
            return False
        state.compare_due = True
        log.warning(
            "The table, the triggers or the outbox of %s are not those that were there before: changes may "
            "have gone by unseen, so the whole table is compared.",
            self._source.name,
            extra=state.extra("ground_changed"),
        )
        if self._source.triggers == "manual" and dialect.installed(self._plan) not in (
            "installed",
            "unknown",
        ):
            with suppress(Broken):  # the next session says what is missing, and waits until it is there
                self.reconcile(accept=False)
        return True

    def drain(self) -> int:
        """One batch; returns how many records it had."""
        drained = self._drainer.drain(self._tell)
        self._state.sent += self._drainer.sent
        self._drainer.sent = 0
        return drained

    def reconcile(self, *, accept: bool) -> Compared:
        """Compare the whole table with the state; `accept` lets that delete whatever has no row."""
        state, shape = self._state, self._shape
        state.update(state="comparing", problem=None)
        begun, started = int(state.clock() * 1000), state.monotonic()
        state_id = self._sink.store.partitions[0].state_id()
        for label in trim(self._dialect):
            log.warning(
                "Too many changes of %s waited in the outbox: they were dropped, its table will be compared.",
                label,
                extra=state.extra("outbox_trimmed"),
            )
        if wanted := self._told.pop("wanted", None):
            self._told["doing"] = wanted  # until it is done: what is asked for meanwhile is another one
        self._reader.without_url = self._reader.undated = self._reader.encoded = 0
        with closing(connect(self._source, application=state.application)) as second:
            result = reconcile(self._drainer, second, state.guard, between=self._between, accept=accept)
        state.sent += result.added + result.updated + result.deleted
        if self._reader.refusals:
            self._sink.store.reject([(each, self._source.name) for each in self._reader.refusals])
            self._reader.refusals.clear()
        self._told.pop("doing", None)
        self._told |= {
            "fingerprint": shape.fingerprint,
            "state_id": state_id,
            "ground": self._ground,
            "compared": begun,
            "rows": result.wanted,
            "held_deletes": result.held,
        }
        self._tell()
        self._dialect.commit()
        self._say_result(result, state.monotonic() - started)
        return result

    def _say_result(self, result: Compared, seconds: float) -> None:
        state = self._state
        if self._reader.encoded >= MANY_ENCODED:
            log.warning(
                "The addresses of %d rows of %s are encoded twice (%%25 and two digits): if the column holds "
                "percent-encoded text already, write {column:encoded} in `url`.",
                self._reader.encoded,
                self._source.name,
                extra=state.extra("encoded_twice"),
            )
        log.info(
            "Compared %s in %.1f s: %d rows, %d URLs added or updated, %d deleted, of %d known.",
            self._source.name,
            seconds,
            result.wanted,
            result.added + result.updated,
            result.deleted,
            result.listed,
            extra=state.extra("compared"),
        )

    def _between(self) -> None:
        if self._state.stopping.is_set():
            raise Unavailable(what=self._source.name, detail="the comparison was ended")
        now = self._state.monotonic()
        if now >= self._next_drain:
            while self.drain() == BATCH:
                pass
            self._next_drain = self._state.monotonic() + DRAIN_EVERY

    def _sync_due(self) -> bool:
        told, state = self._told, self._state
        if state.compare_due or state.guard.is_accepted() or "wanted" in told or "doing" in told:
            return True
        if told.get("fingerprint") != self._shape.fingerprint:
            return True
        interval = self._source.reconcile_interval
        age = state.clock() - told["compared"] / 1000
        # A clock that was set back far must not put the next comparison off for as long.
        return bool(interval) and not -interval <= age < interval

    def _ask_state(self) -> None:
        # Redis may have come up empty, or restored to another day.
        now = self._state.monotonic()
        if now - self._asked < ASK_STATE:
            return
        self._asked = now
        found = self._sink.store.partitions[0].state_id()
        if "state_id" in self._told and found != self._told["state_id"]:
            self._state.compare_due = True

    def _tell(self) -> None:
        """Keep what a later session has to know; in the transaction that is open."""
        drainer, reader, told = self._drainer, self._reader, self._told
        if drainer.sync:
            told["wanted"] = "accept" if "accept" in (drainer.sync, told.get("wanted")) else "sync"
            drainer.sync = ""
        told["without_url"] = reader.without_url
        told["undated"] = reader.undated
        text = json.dumps(told)
        if text != self._noted:
            self._dialect.upsert(self._shape.label, "told", text)
            self._noted = text  # or the transaction fails, and the session with it

    def _up_to_date(self) -> None:
        state, told = self._state, self._told
        now = state.monotonic()
        if now - self._counted >= COUNT_EVERY:
            self._counted = now
            lag = self._dialect.lag(self._shape.label)
            self._dialect.rollback()
            state.update(lag_rows=lag.rows, lag_seconds=round(lag.seconds, 3))
        counts = {name: told.get(name, 0) for name in ("rows", "without_url", "undated", "held_deletes")}
        state.update(state="relaying", problem=None, **counts)
        if not state.ready.is_set():
            log.info("%s is up to date", self._source.name, extra=state.extra("relay_ready"))
            state.ready.set()

    def _warn(self, field: str, sentence: str) -> None:
        log.warning("%s", sentence, extra=self._state.extra(f"{field}_left_out"))

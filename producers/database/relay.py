"""Keeps one source's rows and a site's state alike, on a thread of its own.

A session is one connection that leads: it begins with a look at the schema and at the triggers, compares the
whole table where that is due, and then drains the outbox until it is told to stop. Whatever fails ends the
session; the next one begins after a pause that grows. Nothing is lost by that: what was not sent is
still in the outbox.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from producers.database.check import connect, plan_of, shape_of, warn_of_missing_index
from producers.database.compare import Synced
from producers.database.dialect import Broken, Dialect
from producers.database.drain import BATCH, Drainer
from producers.database.install import install
from producers.database.reconcile import reconcile
from producers.database.rows import Reader
from producers.database.shape import Shape
from producers.database.source import DatabaseSource
from producers.sink import EventSink
from sitemap_store.errors import BadSetting, SitemapdError, Unavailable

log = logging.getLogger(__name__)

PAUSES: Final = (0.2, 15.0)
"""The first and the longest pause, in seconds, before what failed is tried again."""
STANDBY: Final = 1.0
"""Seconds between two tries to become the one that leads."""
ASK_STATE: Final = 5.0
"""Seconds between two looks at whether the state is still the one that was written to."""
COUNT_EVERY: Final = 2.0
"""Seconds between two looks at how much waits, for those who ask how the relay stands."""
DRAIN_EVERY: Final = 0.1
"""While a comparison runs: seconds between two looks at the outbox."""


class Relay:
    """Relays one source for one site, from `start` to `stop`."""

    def __init__(
        self,
        source: DatabaseSource,
        sink: EventSink,
        *,
        accept_deletes: bool = False,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`accept_deletes` lifts `max_delete` from the first comparison. `clock`: seconds since 1970."""
        self.source = source
        self.ready = threading.Event()
        """Set when the source is up to date for the first time, or another relay leads it."""
        self._sink = sink
        self._site = sink.store.site
        self._accept = accept_deletes
        self._clock = clock
        self._monotonic = monotonic
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._due = accept_deletes
        self._redo: set[str] = set()
        self._status: dict[str, Any] = {"state": "starting", "problem": None}
        self._sent = 0

    def check(self) -> None:
        """See that the source can work. Raises BadSetting; Unavailable when the database is away."""
        dialect = connect(self.source)
        try:
            self._prepared(dialect)
        except Broken as error:
            self.source.bad("dsn", f"the database can't be used: {error}.")
        finally:
            dialect.close()

    def start(self) -> None:
        """Begin on a thread of its own."""
        name = f"relay {self.source.name}"
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 30.0) -> bool:
        """End, after the batch in hand; whether it ended within `timeout` seconds."""
        self._stop.set()
        self._wake.set()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def stopping(self) -> bool:
        """Whether it was told to end."""
        return self._stop.is_set()

    def rescan(self) -> None:
        """Compare the whole table soon."""
        self._due = True
        self._wake.set()

    def health(self) -> dict[str, Any]:
        """How it stands: state, problem, and what it counted."""
        return {**self._labels, **self._status, "sent": self._sent, "ready": self.ready.is_set()}

    @property
    def site(self) -> str:
        """The site's name."""
        return self._site.name

    def sync(self, *, accept: bool) -> Synced:
        """Compare once and drain, in this thread. Raises Busy when another relay leads."""
        dialect = connect(self.source, application=self._application)
        try:
            shape = self._prepared(dialect)
            if not dialect.lead(shape.label):
                raise Busy(self.source.name)
            session = _Session(self, dialect, shape)
            result = session.reconcile(accept)
            while session.drain():
                pass
            return result
        finally:
            dialect.close()

    @property
    def _application(self) -> str:
        return f"sitemapd {self._site.name}/{self.source.name}"

    def _prepared(self, dialect: Dialect) -> Shape:
        """The shape, with its triggers in place. Raises BadSetting."""
        shape = shape_of(dialect, self.source, self._site)
        plan = plan_of(dialect, shape)
        found = dialect.installed(shape, plan)
        if found == "unknown":
            try:
                found = "installed" if dialect.noted(shape.label)[0] == plan.definition else "different"
            except Broken:
                found = "missing"
        dialect.rollback()
        if found == "installed":
            return shape
        if self.source.triggers == "auto":
            install(dialect, shape)
            log.info(
                "Installed the triggers of %s",
                self.source.name,
                extra={**self._labels, "action": "triggers_installed"},
            )
            return shape
        what = "are not installed" if found == "missing" else "are those of another configuration"
        raise BadSetting(
            setting=f"database.{self.source.name}",
            detail=f"its triggers {what}.",
            hint=f"Run `sitemapd triggers install {self.source.name}`.",
        )

    @property
    def _labels(self) -> dict[str, str]:
        return {"site": self._site.name, "source": self.source.name}

    def _say(self, **fields: object) -> None:
        self._status = self._status | fields

    def _live(self) -> None:
        pause = 0.0
        while not self.stopping():
            begun = self._monotonic()
            try:
                self._session()
            except SitemapdError as error:
                self._failed(str(error))
            if self.stopping():
                break
            if self._monotonic() - begun > PAUSES[1]:
                pause = 0.0
            pause = min(max(pause * 2, PAUSES[0]), PAUSES[1])
            self._wake.wait(pause)
            if not self.stopping():
                self._wake.clear()
        self._say(state="stopped")

    def _failed(self, problem: str) -> None:
        if self._status["problem"] != problem:
            log.error(
                "%s Trying again.", problem.rstrip(".") + ".", extra={**self._labels, "action": "relay_waits"}
            )
        self._say(state="waiting", problem=problem)

    def _session(self) -> None:
        dialect = connect(self.source, application=self._application)
        try:
            shape = self._prepared(dialect)
            while not dialect.lead(shape.label):
                self._say(state="standby", problem=None)
                self.ready.set()
                self._wake.wait(STANDBY)
                if self.stopping():
                    return
            warn_of_missing_index(dialect, shape)
            _Session(self, dialect, shape).run()
        finally:
            dialect.close()


class Busy(SitemapdError):
    """Another relay leads the source."""


class _Session:
    """One connection that leads."""

    def __init__(self, relay: Relay, dialect: Dialect, shape: Shape) -> None:
        self._relay = relay
        self._dialect = dialect
        self._shape = shape
        self._sink = relay._sink
        self._reader = Reader(shape, relay._site, self._warn)
        self._drainer = Drainer(dialect, shape, self._sink, self._reader, relay._redo)
        told = dialect.noted(shape.label)[1]
        dialect.rollback()
        self._told: dict[str, Any] = json.loads(told) if told else {}
        self._next_drain = 0.0
        self._asked = float("-inf")
        self._counted = float("-inf")

    def run(self) -> None:
        """Until told to stop."""
        relay = self._relay
        while not relay.stopping():
            self._ask_state()
            if self._sync_due():
                self.reconcile(relay._accept or self._told.get("wanted") == "accept")
                relay._accept = relay._due = False
            drained = self.drain()
            if drained < BATCH:
                self._up_to_date()
                self._dialect.wait(relay.source.poll_interval, relay._wake)
                if not relay.stopping():
                    relay._wake.clear()

    def drain(self) -> int:
        """One batch; returns how many records it had."""
        drained = self._drainer.drain(self._tell)
        self._relay._sent += self._drainer.sent
        self._drainer.sent = 0
        return drained

    def reconcile(self, accept: bool) -> Synced:
        """Compare the whole table with the state."""
        relay, shape = self._relay, self._shape
        relay._say(state="comparing", problem=None)
        begun, started = int(relay._clock() * 1000), relay._monotonic()
        state_id = self._sink.store.partitions[0].state_id()
        self._told.pop("wanted", None)
        self._reader.without_url = self._reader.undated = 0
        second = connect(relay.source, application=relay._application)
        try:
            result = reconcile(
                shape,
                main=self._dialect,
                second=second,
                sink=self._sink,
                reader=self._reader,
                drainer=self._drainer,
                between=self._between,
                accept=accept,
            )
        finally:
            second.close()
        relay._sent += result.sent + result.deleted
        if self._reader.refusals:
            self._sink.store.reject([(each, relay.source.name) for each in self._reader.refusals])
            self._reader.refusals.clear()
        self._told |= {
            "fingerprint": shape.fingerprint,
            "state_id": state_id,
            "compared": begun,
            "rows": result.wanted,
            "held_deletes": result.held,
        }
        self._tell()
        self._dialect.commit()
        self._say_result(result, relay._monotonic() - started)
        return result

    def _say_result(self, result: Synced, seconds: float) -> None:
        relay = self._relay
        if result.held:
            log.error(
                "%d URLs of %s have no row any more, which is more than max_delete lets a comparison delete. "
                "They stay in the sitemap. If the rows are gone for good, run `sitemapd sync --source %s "
                "--accept-deletes`.",
                result.held,
                relay.source.name,
                relay.source.name,
                extra={**relay._labels, "action": "deletes_held"},
            )
        log.info(
            "Compared %s in %.1f s: %d rows, %d URLs added or updated, %d deleted, of %d known.",
            relay.source.name,
            seconds,
            result.wanted,
            result.sent,
            result.deleted,
            result.listed,
            extra={**relay._labels, "action": "compared"},
        )

    def _between(self) -> None:
        if self._relay.stopping():
            raise Unavailable(what=self._relay.source.name, detail="the comparison was ended")
        now = self._relay._monotonic()
        if now >= self._next_drain:
            while self.drain() == BATCH:
                pass
            self._next_drain = self._relay._monotonic() + DRAIN_EVERY

    def _sync_due(self) -> bool:
        told, relay = self._told, self._relay
        if relay._due or "wanted" in told or told.get("fingerprint") != self._shape.fingerprint:
            return True
        interval = relay.source.reconcile_interval
        age = relay._clock() - told["compared"] / 1000
        # A clock that was set back far must not put the next comparison off for as long.
        return bool(interval) and not -interval <= age < interval

    def _ask_state(self) -> None:
        # Redis may have come up empty, or restored to another day.
        now = self._relay._monotonic()
        if now - self._asked < ASK_STATE:
            return
        self._asked = now
        found = self._sink.store.partitions[0].state_id()
        if "state_id" in self._told and found != self._told["state_id"]:
            self._relay._due = True

    def _tell(self) -> None:
        """Keep what a later session has to know; in the transaction that is open."""
        drainer, reader, told = self._drainer, self._reader, self._told
        before = json.dumps(told)
        if drainer.sync:
            told["wanted"] = "accept" if "accept" in (drainer.sync, told.get("wanted")) else "sync"
            drainer.sync = ""
        told["without_url"] = reader.without_url
        told["undated"] = reader.undated
        after = json.dumps(told)
        if after != before or drainer.touched is None:
            self._dialect.upsert(self._shape.label, "told", after)

    def _up_to_date(self) -> None:
        relay, told = self._relay, self._told
        now = relay._monotonic()
        if now - self._counted >= COUNT_EVERY:
            self._counted = now
            lag = self._dialect.lag(self._shape.label)
            self._dialect.rollback()
            relay._say(lag_rows=lag.rows, lag_seconds=round(lag.seconds, 3))
        counts = {name: told.get(name, 0) for name in ("rows", "without_url", "undated", "held_deletes")}
        relay._say(state="relaying", problem=None, **counts)
        if not relay.ready.is_set():
            log.info("%s is up to date", relay.source.name, extra={**relay._labels, "action": "relay_ready"})
            relay.ready.set()

    def _warn(self, field: str, sentence: str) -> None:
        log.warning("%s", sentence, extra={**self._relay._labels, "action": f"{field}_left_out"})

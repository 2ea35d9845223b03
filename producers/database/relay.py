"""Keeps one source's rows and a site's state alike, on a thread of its own.

One session follows another (`producers.database.session`): whatever fails ends the session, and the next
one begins after a pause that grows. Nothing is lost by that: what was not sent is still in the outbox.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from producers.database.check import connect, warn_of_missing_index
from producers.database.dialect import Broken
from producers.database.install import prepared
from producers.database.session import Session
from producers.database.source import DatabaseSource
from producers.database.standing import Standing
from producers.difference import Compared
from producers.guard import Guard, digest_of
from producers.sink import EventSink
from sitemap_store.errors import RedisUnavailable, SitemapdError

log = logging.getLogger(__name__)

PAUSES: Final = (0.2, 15.0)
"""The first and the longest pause, in seconds, before what failed is tried again."""
REDIS_PAUSE: Final = 2.0
"""The longest, in seconds, before Redis is asked again."""
STANDBY: Final = 1.0
"""Seconds between two tries to become the one that leads."""


class Busy(SitemapdError):
    """Another relay leads the source."""


class Relay:
    """Relays one source for one site, from `start` to `stop`."""

    def __init__(
        self,
        source: DatabaseSource,
        sink: EventSink,
        *,
        accept_deletes: bool = False,
        command: str = "sitemapd",
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`accept_deletes` lifts `max_delete` from the first comparison. `command` begins a command line
        about the site. `clock`: seconds since 1970.
        """
        self.source = source
        self._sink = sink
        self._site = sink.store.site
        self._thread: threading.Thread | None = None
        self._standing = Standing(
            labels={"site": self._site.name, "source": source.name},
            clock=clock,
            monotonic=monotonic,
            accept=accept_deletes,
            due=accept_deletes,
            guard=Guard(
                sink.store,
                source.name,
                "relay",
                share=source.max_delete,
                addresses=digest_of(source.url, self._site.rules.base),
                command=command,
            ),
        )
        self.ready = self._standing.ready

    def check(self) -> None:
        """See that the source can work. Raises BadSetting; Unavailable when the database is away."""
        dialect = connect(self.source)
        try:
            prepared(dialect, self.source, self._site)
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
        self._standing.stopping.set()
        self._standing.wake.set()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def rescan(self) -> None:
        """Compare the whole table soon."""
        self._standing.due = True
        self._standing.wake.set()

    def health(self) -> dict[str, Any]:
        """How it stands: state, problem, and what it counted."""
        standing = self._standing
        return {**standing.labels, **standing.status, "sent": standing.sent, "ready": self.ready.is_set()}

    @property
    def site(self) -> str:
        """The site's name."""
        return self._site.name

    def sync(self, *, accept: bool) -> Compared:
        """Compare once and drain, in this thread. Raises Busy when another relay leads."""
        dialect = connect(self.source, application=self._standing.application)
        try:
            shape = prepared(dialect, self.source, self._site)
            if not dialect.lead(shape.label):
                raise Busy(self.source.name)
            session = Session(dialect, shape, self._sink, self._standing)
            result = session.reconcile(accept=accept)
            while session.drain():
                pass
            return result
        finally:
            dialect.close()

    def _live(self) -> None:
        standing, pause = self._standing, 0.0
        while not standing.stopping.is_set():
            longest = PAUSES[1]
            try:
                self._lead()
            except SitemapdError as error:
                if standing.status["state"] in ("relaying", "standby"):
                    pause = 0.0  # it went well meanwhile
                if isinstance(error, RedisUnavailable):
                    longest = REDIS_PAUSE
                self._failed(str(error))
            except Exception:
                # A fault of ours must not end the relaying: the next session starts from what is stored.
                log.exception("Relaying %s failed.", self.source.name, extra=standing.extra("source_failed"))
                standing.due = True
                self._failed("It failed for a reason that the log gives", state="failed")
            if standing.stopping.is_set():
                break
            pause = min(max(pause * 2, PAUSES[0]), longest)
            standing.rest(pause)
        standing.say(state="stopped")

    def _failed(self, problem: str, state: str = "waiting") -> None:
        if self._standing.status["problem"] != problem:
            log.error(
                "%s Trying again.", problem.rstrip(".") + ".", extra=self._standing.extra("relay_waits")
            )
        self._standing.say(state=state, problem=problem)

    def _lead(self) -> None:
        standing = self._standing
        dialect = connect(self.source, application=standing.application)
        try:
            shape = prepared(dialect, self.source, self._site)
            while not dialect.lead(shape.label):
                standing.say(state="standby", problem=None)
                self.ready.set()
                standing.wake.wait(STANDBY)
                if standing.stopping.is_set():
                    return
            warn_of_missing_index(dialect, shape)
            Session(dialect, shape, self._sink, standing).run()
        finally:
            dialect.close()

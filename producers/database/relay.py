"""Keeps one source's rows and a site's state alike.

A session (`producers.database.session`) is one connection that leads the source; relays beside it stand by.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

from producers.database.check import connect, warn_of_missing_index
from producers.database.dialect import Broken
from producers.database.install import prepared
from producers.database.session import RelayState, Session
from producers.database.source import DatabaseSource
from producers.difference import Compared
from producers.guard import Guard, digest_of
from producers.runner import OpenSource, Runner
from producers.sink import EventSink
from sitemap_store.errors import SitemapdError

LONGEST_PAUSE: Final = 15.0
"""Seconds before a database that is away is asked again."""
STANDBY: Final = 1.0
"""Seconds between two tries to become the one that leads."""


class Busy(SitemapdError):
    """Another relay leads the source."""


class Relay(Runner[RelayState]):
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
        self._site = sink.store.site
        guard = Guard(
            sink.store,
            source.name,
            "relay",
            share=source.max_delete,
            addresses=digest_of(source.url, self._site.rules.base),
            command=command,
        )
        state = RelayState(
            site=self._site.name,
            source=source.name,
            guard=guard,
            accept=accept_deletes,
            compare_due=accept_deletes,
            clock=clock,
            monotonic=monotonic,
        )
        super().__init__(state, "relay", sink, longest_pause=LONGEST_PAUSE, has_outbox=True)

    def check(self) -> None:
        """See that the source can work. Raises BadSetting; Unavailable when the database is away."""
        with closing(connect(self.source)) as dialect:
            try:
                prepared(dialect, self.source, self._site)
            except Broken as error:
                self.source.bad("dsn", f"the database can't be used: {error}.")

    def health(self) -> dict[str, Any]:
        """How it stands, for `sitemapd status`; docs/databases.md has the fields."""
        return {**super().health(), "sent": self.state.sent}

    def sync(self, *, accept: bool) -> Compared:
        """Compare once and drain, in this thread. Raises Busy when another relay leads."""
        with closing(connect(self.source, application=self.state.application)) as dialect:
            shape = prepared(dialect, self.source, self._site)
            if not dialect.lead(shape.label):
                raise Busy(self.source.name)
            session = Session(dialect, shape, self._sink, self.state)
            result = session.reconcile(accept=accept)
            while session.drain():
                pass
            return result

    def open(self) -> OpenSource[Any]:
        """Not used: a relay still drives its sessions by itself."""
        raise NotImplementedError

    def run_session(self) -> None:
        """One connection: wait until it leads, then relay. Raises Unavailable or BadSetting."""
        state = self.state
        with closing(connect(self.source, application=state.application)) as dialect:
            shape = prepared(dialect, self.source, self._site)
            while not dialect.lead(shape.label):
                state.update(state="standby", problem=None)
                self.ready.set()
                state.rest(STANDBY)
                if state.stopping.is_set():
                    return
            warn_of_missing_index(dialect, shape)
            Session(dialect, shape, self._sink, state).run()

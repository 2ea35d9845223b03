"""Keeps one source's rows and a site's state alike.

`table` has what happens while the relay leads the source; others stand by.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import Any, Final, Unpack
from urllib.parse import urlsplit

from producers.database.check import connect, warn_of_missing_index
from producers.database.dialect import Broken
from producers.database.install import prepared
from producers.database.source import DatabaseSource
from producers.database.table import OpenTable, RelayState
from producers.difference import Compared
from producers.runner import Runner, RunnerOptions, SourceChanged
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

    kind = "relay"
    longest_pause = LONGEST_PAUSE
    has_outbox = True

    def __init__(self, source: DatabaseSource, sink: EventSink, **options: Unpack[RunnerOptions]) -> None:
        self.source = source
        dsn = urlsplit(source.dsn)
        place = source.kind, dsn.netloc.rpartition("@")[2], dsn.path, source.table, source.query
        super().__init__(RelayState, source, sink, addresses=(source.url,), place=place, **options)

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
        with closing(self._open(stand_by=False)) as table:
            self.state.accept = accept
            self._check_state()
            result = self._compare(table)
            while records := table.changes():
                table.look(records)
            return result

    def open(self) -> OpenTable:
        """Connect, and wait until no other relay leads. Raises Unavailable, Broken or BadSetting."""
        return self._open(stand_by=True)

    def _open(self, *, stand_by: bool) -> OpenTable:
        state = self.state
        with ExitStack() as stack:
            dialect = stack.enter_context(closing(connect(self.source, application=state.application)))
            shape = prepared(dialect, self.source, self._site)
            while not dialect.lead(shape.label):
                if not stand_by:
                    raise Busy(self.source.name)
                state.update(state="standby", problem=None)
                state.ready.set()
                state.rest(STANDBY)
                if state.stopping.is_set():
                    raise SourceChanged
            warn_of_missing_index(dialect, shape)
            table = OpenTable(dialect, shape, self._sink, state)
            stack.pop_all()
            return table

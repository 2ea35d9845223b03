"""From rows to events: what changed on disk is sent, then remembered, in that order.

Several files may map to one URL. The newest of them decides what its entry says, and the URL goes when the
last of them does. So events come from comparing the entries of the URLs before and after a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from producers.difference import chunks
from producers.filesystem.cache import Cache, Row
from producers.filesystem.problems import Problem, shown
from producers.guard import Guard
from producers.sink import EventSink
from sitemap_store.model.events import Event

BULK: Final = 200
"""Events from which on the workers are better woken a little later."""
CHUNK: Final = 2000
"""Deletes that are sent and forgotten at a time."""
REPORTED: Final = 100
"""Shared URLs that one look at all files names."""


Changes = dict[tuple[bytes, bytes], tuple[Row | None, Row | None]]
"""Folder and name of a file → its row, None when it is gone, and the row that it had, None when it is new."""


class Sender:
    """Sends one source's changes. Raises Unavailable, and has then remembered nothing."""

    def __init__(
        self, name: str, sink: EventSink, cache: Cache, report: Callable[[Problem], None], guard: Guard
    ) -> None:
        self._name = name
        self._sink = sink
        self._cache = cache
        self._report = report
        self._guard = guard

    def change(self, changes: Changes) -> int:
        """Take in new rows and files that went; returns how many events that made."""
        locs = {row.loc for pair in changes.values() for row in pair if row is not None and row.loc}
        cache = self._cache
        with cache.change():
            old = cache.entries(locs)
            self._take_in(changes)
            new = cache.entries(locs)
            events = [self._add(loc, *entry) for loc, entry in new.items() if old.get(loc) != entry]
            events += [Event("delete", loc, source=self._name) for loc in old if loc not in new]
            self._sink.send(events, bulk=len(events) > BULK)
        self.report_shared(locs)
        return len(events)

    def remember(self, changes: Changes) -> int:
        """Take in changes whose events a comparison is going to send."""
        with self._cache.change():
            self._take_in(changes)
        return 0

    def _take_in(self, changes: Changes) -> None:
        rows = [row for row, _ in changes.values() if row is not None]
        self._cache.drop(file for file, (row, _) in changes.items() if row is None)
        self._cache.put(rows)
        self._cache.find((row.dir, row.name) for row in rows)

    def believe_missed(self) -> bool:
        """Send the deletes of the files that a scan missed; False when only a comparison may tell."""
        gone = self._cache.missed()
        # Of files that share a URL some may stay, so this is the most that it can come to.
        deletes, total = len({row.loc for row in gone if row.live}), self._cache.url_count()
        if self._guard.too_many(deletes, total, empty=deletes == total):
            return False
        self._cache.find_all()
        for rows in chunks(gone, CHUNK):
            self.change({(row.dir, row.name): (None, row) for row in rows})
        return True

    def report_shared(self, locs: Iterable[str] | None = None) -> None:
        """Name the URLs, of all or of those given, that are the address of more than one file."""
        for loc, (first, *others) in islice(self._cache.shared(locs), REPORTED):
            also = " and ".join(map(shown, others[:3]))
            detail = f"{loc} is the address of {also} too; the newest file decides"
            self._report(Problem(first, "shared", detail))

    def _add(self, loc: str, lastmod: str, changefreq: str, priority: str, ext: str) -> Event:
        # Half the time of the event's own constructor.
        return tuple.__new__(Event, ("add", loc, lastmod, changefreq, priority, None, self._name, ext, False))

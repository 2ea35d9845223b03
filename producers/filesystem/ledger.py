"""From rows to events: what changed on disk is sent, then remembered, in that order.

Several files may map to one URL. The newest of them speaks for it, and the URL goes when the last
of them does. So events come from comparing who speaks for a URL before and after a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from producers.difference import Compared, send_difference
from producers.filesystem.cache import Cache, Row
from producers.filesystem.comparison import Comparison
from producers.filesystem.source import FilesystemSource
from producers.filesystem.troubles import Trouble, shown
from producers.guard import Guard
from producers.sink import EventSink
from sitemap_store.model.dates import instant_ms
from sitemap_store.model.events import Event
from sitemap_store.model.wire import canonical

BULK: Final = 200
"""Events from which on the workers are better woken a little later."""
CHUNK: Final = 2000
"""Deletes that are sent and forgotten, or shared URLs that are sent, at a time."""
TOLD: Final = 100
"""Shared URLs that one reconcile names."""


class Ledger:
    """Sends one source's differences. Raises Unavailable, and has then remembered nothing."""

    def __init__(
        self,
        source: FilesystemSource,
        publisher: EventSink,
        cache: Cache,
        report: Callable[[Trouble], None],
        guard: Guard,
    ) -> None:
        self._by_content = "content" in source.lastmod
        self.comparison = Comparison(cache, source.name, digests=self._by_content)
        self._source = source
        self._publisher = publisher
        self._cache = cache
        self._report = report
        self._guard = guard

    def change(self, rows: Sequence[Row], gone: Sequence[Row], before: Iterable[Row | None] = ()) -> int:
        """Take in new rows and rows of files that went; returns how many events that made.

        `before` are the rows that the new ones replace.
        """
        locs = {row.loc for row in (*rows, *gone, *before) if row is not None and row.loc}
        cache = self._cache
        with cache.change():
            old = cache.speakers(locs)
            cache.drop([(row.dir, row.name) for row in gone])
            cache.put(rows)
            self.comparison.find([(row.dir, row.name) for row in rows])
            new = cache.speakers(locs)
            events = [event for loc in sorted(locs) for event in self._step(loc, old, new)]
            self._publisher.send(events, bulk=len(events) > BULK)
        self._tell_shared(cache.shared(locs))
        return len(events)

    def remember(self, rows: Sequence[Row]) -> None:
        """Take in rows whose events a `reconcile` is going to send."""
        with self._cache.change():
            self._cache.put(rows)

    def knows_nothing(self) -> bool:
        """Whether neither the cache nor the site's state holds anything of this source."""
        if not self._cache.is_empty():
            return False
        return next(self._publisher.store.listing(self._source.name), None) is None

    def load(self, pieces: Iterable[Sequence[Row]]) -> tuple[int, Compared]:
        """Send and remember all rows there are, when `knows_nothing`: there is nothing to compare with.

        Returns how many rows that were, and what a `reconcile` would have come to. Rows are remembered once
        their events are stored.
        """
        self.comparison.find_all()
        files = sent = 0
        for rows in pieces:
            sent += self._publisher.send([self._there(row) for row in rows if row.live], bulk=True)
            self.remember(rows)
            files += len(rows)
        self._guard.passed()
        urls = sent - self._settle_shared()
        return files, Compared(0, urls, urls, 0, 0, 0, 0)

    def _settle_shared(self) -> int:
        """Let the right file speak for each shared URL, and not the last one; returns the others."""
        others, shared = 0, self._cache.shared()
        self._tell_shared(shared[:TOLD])
        for place in range(0, len(shared), CHUNK):
            mapped = [self._cache.mapped(loc) for loc in shared[place : place + CHUNK]]
            self._publisher.send([self._there(rows[0]) for rows in mapped], bulk=True)
            others += sum(len(rows) - 1 for rows in mapped)
        return others

    def believe_missed(self) -> bool:
        """Send the deletes of the files that a scan missed; False when only a comparison may tell."""
        gone = list(self.comparison.missed())
        # Of files that share a URL some may stay, so this is the most that it can come to.
        deletes, total = len({row.loc for row in gone if row.live}), self._cache.url_count()
        if self._guard.too_many(deletes, total, empty=deletes == total):
            return False
        self.comparison.find_all()
        for place in range(0, len(gone), CHUNK):
            self.change((), gone[place : place + CHUNK])
        return True

    def reconcile(self, *, accept: bool, cold: bool) -> Compared:
        """Compare all rows with what the state holds of this source, and send the difference.

        `cold`: the cache was empty, so dates that only it could know are taken from the state.
        """
        comparison, difference = self.comparison, self.comparison.difference
        difference.forget_have()
        difference.have(self._publisher.store.listing(self._source.name))
        if cold and difference.listed():
            self._warm()
        self._tell_shared(self._cache.shared()[:TOLD])
        result = send_difference(difference, self._publisher, self._guard, accept=accept)
        # What is held back stays in the cache, so that a file which comes back is known.
        comparison.drop_missed(accepted=result.held > 0)
        difference.forget_have()
        return result

    def _warm(self) -> None:
        def kept() -> Iterator[tuple[str, int, bytes, bytes]]:
            for row, lastmod, ext in self.comparison.beside():
                changed = instant_ms(lastmod)
                if (row.lastmod_by == "content" and ext == self._ext(row.digest)) or (
                    row.lastmod_by == "mtime" and changed > row.changed
                ):
                    yield lastmod, changed, row.dir, row.name

        self.comparison.redate(kept())

    def _tell_shared(self, locs: Iterable[str]) -> None:
        for loc in locs:
            first, *others = self._cache.mapped(loc)
            also = " and ".join(shown(row.path) for row in others[:3])
            detail = f"{loc} is the address of {also} too; the newest file speaks for it"
            self._report(Trouble(first.path, "shared", detail))

    def _step(self, loc: str, old: dict[str, Row], new: dict[str, Row]) -> Iterator[Event]:
        before, after = old.get(loc), new.get(loc)
        if after is None:
            if before is not None:
                yield self._gone(loc)
        elif before is None or self._said(before) != self._said(after):
            yield self._there(after)

    def _said(self, row: Row) -> tuple[str, str, str, str]:
        return row.lastmod, row.changefreq, row.priority, self._ext(row.digest)

    def _ext(self, digest: bytes) -> str:
        # So that a date that content decides outlives the cache.
        return canonical({"digest": digest.hex()}) if self._by_content and digest else ""

    def _there(self, row: Row) -> Event:
        more = row.changefreq, row.priority, None, self._source.name, self._ext(row.digest), False
        # Half the time of the event's own constructor.
        return tuple.__new__(Event, ("add", row.loc, row.lastmod, *more))

    def _gone(self, loc: str) -> Event:
        return Event("delete", loc, source=self._source.name)

"""From rows to events: what changed on disk is sent, then remembered, in that order.

Several files may map to one URL. The newest of them speaks for it, and the URL goes when the last
of them does. So events come from comparing who speaks for a URL before and after a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from producers.filesystem.cache import Cache, Row
from producers.filesystem.comparison import Comparison
from producers.filesystem.source import FilesystemSource
from producers.filesystem.troubles import Trouble, shown
from producers.sink import EventSink
from sitemap_store.model.dates import instant_ms
from sitemap_store.model.entries import Entry
from sitemap_store.model.events import Event
from sitemap_store.model.wire import canonical

BULK: Final = 200
"""Events from which on the workers are better woken a little later."""
CHUNK: Final = 2000
"""Deletes that are sent and forgotten, or shared URLs that are sent, at a time."""
MANY: Final = 100
"""Deletes up to which a scan is believed whatever share of the URLs they are."""
TOLD: Final = 100
"""Shared URLs that one reconcile names."""


class Reconciled(NamedTuple):
    """What a comparison of the files with the site's state came to."""

    listed: int
    """URLs of this source in the state before."""
    added: int
    deleted: int
    held: int
    """Deletes that were not sent because they were too many."""


class _TooMany(Exception):
    """A scan would delete too much; raised to undo what was forgotten for it."""


class Ledger:
    """Sends one source's differences. Raises Unavailable, and has then remembered nothing."""

    def __init__(
        self,
        source: FilesystemSource,
        publisher: EventSink,
        cache: Cache,
        report: Callable[[Trouble], None],
        *,
        is_bare: Callable[[], bool],
    ) -> None:
        """`is_bare` says whether there is nothing at all in the directory."""
        self.comparison = Comparison(cache)
        self._source = source
        self._publisher = publisher
        self._cache = cache
        self._report = report
        self._is_bare = is_bare
        self._by_content = "content" in source.lastmod

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

    def load(self, pieces: Iterable[Sequence[Row]]) -> tuple[int, Reconciled]:
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
        return files, Reconciled(0, sent - self._settle_shared(), 0, 0)

    def _settle_shared(self) -> int:
        """Let the right file speak for each shared URL, and not the last one; returns the others."""
        others, shared = 0, self._cache.shared()
        self._tell_shared(shared[:TOLD])
        for place in range(0, len(shared), CHUNK):
            mapped = [self._cache.mapped(loc) for loc in shared[place : place + CHUNK]]
            self._publisher.send([self._there(rows[0]) for rows in mapped], bulk=True)
            others += sum(len(rows) - 1 for rows in mapped)
        return others

    def believe_missed(self) -> int:
        """Send the deletes of the files that a scan missed; returns how many were held back."""
        gone = list(self.comparison.missed())
        self.comparison.find_all()
        # Of files that share a URL some may stay, so this is the most that it can come to.
        deletes = len({row.loc for row in gone if row.live})
        if self._too_many(deletes, self._cache.url_count()):
            return deletes
        for place in range(0, len(gone), CHUNK):
            self.change((), gone[place : place + CHUNK])
        return 0

    def reconcile(self, *, accept: bool, cold: bool) -> Reconciled:
        """Compare all rows with what the state holds of this source, and send the difference.

        `cold`: the cache was empty, so dates that only it could know are taken from the state.
        """
        comparison = self.comparison
        listed = comparison.load(self._publisher.store.listing(self._source.name))
        if cold and listed:
            self._warm()
        held = 0
        try:
            with self._cache.change():
                comparison.drop_missed()
                deletes = comparison.surplus_count()
                if not accept and self._too_many(deletes, listed):
                    raise _TooMany
                sent = self._publisher.send(self._differences(deletes=True), bulk=True)
        except _TooMany:
            held, deletes = deletes, 0
            sent = self._publisher.send(self._differences(deletes=False), bulk=True)
        comparison.find_all()
        comparison.unload()
        return Reconciled(listed, sent - deletes, deletes, held)

    def _too_many(self, deletes: int, total: int) -> bool:
        if deletes and self._source.max_delete < 1 and self._is_bare():
            return True  # a mount that is missing looks so
        return deletes > MANY and deletes > self._source.max_delete * total

    def _differences(self, *, deletes: bool) -> Iterator[Event]:
        comparison = self.comparison
        if deletes:
            for loc in comparison.surplus():
                yield self._gone(loc)
        source, shared = self._source.name, self._cache.shared()
        self._tell_shared(shared[:TOLD])
        among_them = frozenset(shared).__contains__
        found = comparison.may_differ(digests=self._by_content)
        for loc, digest, lastmod, changefreq, priority, *known in found:
            ext = self._ext(digest)
            if known != [lastmod, changefreq, priority, ext] and not among_them(loc):
                yield Event("add", loc, lastmod, changefreq, priority, None, source, ext)
        for loc in shared:
            row, entry = self._cache.mapped(loc)[0], comparison.listed(loc)
            if entry is None or self._differs(row, entry):
                yield self._there(row)

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

    def _differs(self, row: Row, entry: Entry) -> bool:
        return self._said(row) != (entry.lastmod, entry.changefreq, entry.priority, entry.ext)

    def _ext(self, digest: bytes) -> str:
        # So that a date that content decides outlives the cache.
        return canonical({"digest": digest.hex()}) if self._by_content and digest else ""

    def _there(self, row: Row) -> Event:
        more = row.changefreq, row.priority, None, self._source.name, self._ext(row.digest), False
        # Half the time of the event's own constructor.
        return tuple.__new__(Event, ("add", row.loc, row.lastmod, *more))

    def _gone(self, loc: str) -> Event:
        return Event("delete", loc, source=self._source.name)

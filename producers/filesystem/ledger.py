"""From rows to events: what changed on disk is sent, then remembered, in that order.

Several files may map to one URL. The newest of them speaks for it, and the URL goes when the last
of them does. So events come from comparing who speaks for a URL before and after a change.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from producers.filesystem.cache import Cache, Row
from producers.filesystem.source import FilesystemSource
from producers.push import Publisher
from sitemap_store.entries import Entry
from sitemap_store.events import Event
from sitemap_store.w3c import instant_ms
from sitemap_store.wire import canonical

log = logging.getLogger(__name__)

BULK: Final = 200
"""Events from which on the workers are better woken a little later."""
MANY: Final = 100
"""Deletes up to which a scan is believed whatever share of the URLs they are."""


class Reconciled(NamedTuple):
    """What a comparison of the files with the site's state came to."""

    listed: int
    """URLs of this source in the state before."""
    added: int
    deleted: int
    held: int
    """Deletes that were not sent because they were too many."""


class Ledger:
    """Sends one source's differences. Raises Unavailable, and has then remembered nothing."""

    def __init__(self, source: FilesystemSource, publisher: Publisher, cache: Cache) -> None:
        self._source = source
        self._publisher = publisher
        self._cache = cache
        self._by_content = "content" in source.lastmod

    def change(self, rows: Sequence[Row], gone: Sequence[Row], before: Iterable[Row | None] = ()) -> int:
        """Take in new rows and rows of files that went; returns how many events that made.

        `before` are the rows that the new ones replace.
        """
        locs = {row.loc for row in (*rows, *gone, *before) if row is not None and row.loc}
        cache = self._cache
        cache.begin()
        try:
            old = cache.speakers(locs)
            cache.drop([(row.dir, row.name) for row in gone])
            cache.put(rows)
            cache.found_again([(row.dir, row.name) for row in rows])
            new = cache.speakers(locs)
            events = [event for loc in sorted(locs) for event in self._step(loc, old, new)]
            self._publisher.send(events, bulk=len(events) > BULK)
            cache.commit()
        except BaseException:
            cache.rollback()
            raise
        return len(events)

    def remember(self, rows: Sequence[Row]) -> None:
        """Take in rows whose events a `reconcile` is going to send."""
        cache = self._cache
        cache.begin()
        try:
            cache.put(rows)
            cache.commit()
        except BaseException:
            cache.rollback()
            raise

    def believe_missed(self, *, accept: bool) -> int:
        """Send the deletes of the files that a scan missed; returns how many were held back."""
        cache = self._cache
        gone = list(cache.missed_rows())
        if not gone:
            return 0
        cache.begin()
        total = cache.url_count()
        cache.drop_missed()
        deletes = total - cache.url_count()
        cache.rollback()
        if not accept and self._too_many(deletes, total):
            cache.forget_missed()
            return deletes
        for place in range(0, len(gone), 2000):
            self.change((), gone[place : place + 2000])
        cache.forget_missed()
        return 0

    def reconcile(self, *, accept: bool, cold: bool) -> Reconciled:
        """Compare all rows with what the state holds of this source, and send the difference.

        `cold`: the cache was empty, so dates that only it could know are taken from the state.
        """
        cache = self._cache
        listed = cache.load_listed(self._publisher.store.listing(self._source.name))
        if cold and listed:
            self._warm()
        cache.begin()
        try:
            cache.drop_missed()
            deletes = cache.surplus_count()
            held = 0
            if not accept and self._too_many(deletes, listed):
                cache.rollback()
                cache.begin()
                held, deletes = deletes, 0
            sent = self._publisher.send(self._differences(deletes=not held), bulk=True)
            cache.commit()
        except BaseException:
            cache.rollback()
            raise
        cache.forget_missed()
        cache.unload_listed()
        return Reconciled(listed, sent - deletes, deletes, held)

    def _too_many(self, deletes: int, total: int) -> bool:
        return deletes > MANY and deletes > self._source.max_delete * total

    def _differences(self, *, deletes: bool) -> Iterator[Event]:
        cache = self._cache
        if deletes:
            for loc in cache.surplus():
                yield self._gone(loc)
        shared = set(cache.shared())
        for row, entry in cache.beside_listed():
            if row.loc not in shared and (entry is None or self._differs(row, entry)):
                yield self._there(row)
        for loc in sorted(shared):
            row = cache.mapped(loc)[0]
            entry = cache.listed(loc)
            if entry is None or self._differs(row, entry):
                yield self._there(row)

    def _warm(self) -> None:
        def kept() -> Iterator[tuple[str, int, bytes, bytes]]:
            for row, entry in self._cache.beside_listed():
                if entry is None or not entry.lastmod:
                    continue
                changed = instant_ms(entry.lastmod)
                if (row.lastmod_by == "content" and entry.ext == self._ext(row)) or (
                    row.lastmod_by == "mtime" and changed > row.changed
                ):
                    yield entry.lastmod, changed, row.dir, row.name

        self._cache.redate(kept())

    def _step(self, loc: str, old: dict[str, Row], new: dict[str, Row]) -> Iterator[Event]:
        before, after = old.get(loc), new.get(loc)
        if after is None:
            if before is not None:
                yield self._gone(loc)
        elif before is None or self._said(before) != self._said(after):
            yield self._there(after)

    def _said(self, row: Row) -> tuple[str, str, str, str]:
        return row.lastmod, row.changefreq, row.priority, self._ext(row)

    def _differs(self, row: Row, entry: Entry) -> bool:
        return self._said(row) != (entry.lastmod, entry.changefreq, entry.priority, entry.ext)

    def _ext(self, row: Row) -> str:
        # So that a date that content decides outlives the cache.
        return canonical({"digest": row.digest.hex()}) if self._by_content and row.digest else ""

    def _there(self, row: Row) -> Event:
        return Event(
            "add",
            row.loc,
            row.lastmod,
            row.changefreq,
            row.priority,
            None,
            self._source.name,
            self._ext(row),
        )

    def _gone(self, loc: str) -> Event:
        return Event("delete", loc, source=self._source.name)

"""The rows of a source's `query` as they were last seen, by which a change in a feeding table finds them.

1. For each row and each of its links the table `sitemapd_urls` holds the row's key and its address columns:
   so a row that has left the query is known by the address that it had.
2. Where a table feeds itself (a page's address has those of its ancestors), each row that is found concerns
   those below it, to any depth.
3. A comparison of the whole query brings the memory up to date. What was looked at meanwhile stays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, Final, NamedTuple

from producers.database.dialect import Dialect
from producers.database.outbox import Record
from producers.database.shape import URLS, Shape
from producers.database.template import shown
from producers.difference import CHUNK, Difference, Wanted, chunks
from sitemap_store.errors import Refused
from sitemap_store.model.entries import Entry

LONGEST: Final = 150
"""Characters of a key or a link from which on a digest of it is kept in its place."""
LOOK: Final = 500
"""Values that are looked up by one query."""


class Seen(NamedTuple):
    """A row of the query."""

    key: str
    """Its key columns, as `Dialect.kept` writes them."""
    links: Mapping[str, str]
    """Column of the query → the value by which a change in a feeding table finds it."""
    address: str
    """Its address columns, likewise."""


class Memory:
    """The memory of one source's query, through one connection."""

    def __init__(self, dialect: Dialect, shape: Shape) -> None:
        self._dialect = dialect
        self._shape = shape
        self._label = shape.label
        self._table = dialect.ours(URLS)
        self.columns = (*shape.key_columns, *shape.link_columns)
        """What is read of each row beside its address."""

    def find(
        self, records: Iterable[Record], refuse: Callable[[Refused], None]
    ) -> tuple[dict[str, str], list[Seen]]:
        """The rows that changes concern: as they were (key → address), and as they are."""
        dialect, shape = self._dialect, self._shape
        columns = (*self.columns, *shape.url_columns)
        before: dict[str, str] = {}
        now: dict[str, Seen] = {}
        waiting: dict[tuple[str, object], None] = {}
        for record in records:
            for row in (record.old or {}, record.new or {}):
                for feed in shape.source.feeds:
                    if row.get(feed.noted) is not None:
                        waiting[feed.matches, dialect.decoded(row[feed.noted])] = None
        done = set(waiting)
        while waiting:
            found: dict[tuple[object, ...], None] = {}
            for by in shape.link_columns:
                for several in chunks((value for name, value in waiting if name == by.name), LOOK):
                    known = self._remembered(by.name, [shown(value) for value in several])
                    before.update(known)
                    keys = [dialect.read_kept(key) for key, _ in known]
                    # A row may have come under another link by a change that is not drained yet.
                    rows = [
                        *dialect.rows(shape, columns, [by], [(value,) for value in several], refuse),
                        *dialect.rows(shape, columns, shape.key_columns, keys, refuse),
                    ]
                    now.update((seen.key, seen) for seen in self.seen(rows))
                    found.update(dict.fromkeys((*keys, *(tuple(row[: len(shape.key)]) for row in rows))))
            down = {(child, key[place]): None for key in found for place, child in shape.descents}
            waiting = {each: None for each in down if each not in done}
            done.update(waiting)
        return before, list(now.values())

    def seen(self, rows: Iterable[Sequence[Any]]) -> Iterator[Seen]:
        """Rows of the query, whose first values are those of `columns` and of the address."""
        kept, key, address = self._dialect.kept, len(self._shape.key), len(self.columns)
        end = address + len(self._shape.url_columns)
        for row in rows:
            linked = zip(self._shape.link_columns, row[key:address], strict=True)
            links = {column.name: shown(value) for column, value in linked if value is not None}
            yield Seen(kept(row[:key]), links, kept(row[address:end]))

    def remember(self, forget: Iterable[str], rows: Iterable[Seen]) -> None:
        """Forget rows by their keys, and remember others anew, in the transaction that is open."""
        run, table, mark = self._dialect.run, self._table, self._dialect.mark
        rows = list(rows)
        for key in sorted({*forget, *(seen.key for seen in rows)}):
            sql = f"DELETE FROM {table} WHERE source = {mark} AND row_key = {mark}"
            run(sql, [self._label, _short(key)])
        marks = ", ".join([mark] * 5)
        for seen in rows:
            held = json.dumps([seen.key, seen.address])
            for column, link in seen.links.items():
                sql = f"INSERT INTO {table} (source, row_key, feed, link, held) VALUES ({marks})"
                run(sql, [self._label, _short(seen.key), column, _short(link), held])

    def update(
        self, fresh: Difference, second: Dialect, touched: Collection[str], pause: Callable[[], None]
    ) -> None:
        """Bring the memory up to date with all rows (`as_wanted`), but for the keys that are `touched`."""
        name = self._label.replace("'", "''")
        sql = f"SELECT row_key, feed, link, held FROM {self._table} WHERE source = '{name}' ORDER BY row_key"
        for known in chunks(_as_entries(chain.from_iterable(second.stream(sql))), CHUNK):
            fresh.have(known)
            pause()
        rows = (Seen(event.loc, *json.loads(event.changefreq or "")) for _, event in fresh.adds(None))
        for several in chunks(rows, CHUNK):
            self.remember((), (row for row in several if row.key not in touched))
            self._dialect.commit()
            pause()
        for gone in chunks(fresh.deletes(None, all_gone=True), CHUNK):
            self.remember((event.loc for event in gone if event.loc not in touched), ())
            self._dialect.commit()
            pause()

    def _remembered(self, column: str, links: Sequence[str]) -> list[tuple[str, str]]:
        """(key, address) of the rows that were last seen with one of these values in a link column."""
        mark = self._dialect.mark
        marks = ", ".join([mark] * len(links))
        sql = f"SELECT held FROM {self._table} WHERE source = {mark} AND feed = {mark} AND link IN ({marks})"
        rows = self._dialect.run(sql, [self._label, column, *map(_short, links)])
        return [tuple(json.loads(held)) for (held,) in rows]


def as_wanted(seen: Seen) -> Wanted:
    """A row for a `Difference`: its links and address in the place of an entry's fields."""
    links = {column: _short(link) for column, link in sorted(seen.links.items())}
    return seen.key, "", json.dumps([links, seen.address]), "", "", None


def _as_entries(rows: Iterable[tuple[str, str, str, str]]) -> Iterator[Entry]:
    for _, several in groupby(rows, key=lambda row: row[0]):
        found = list(several)
        key, address = json.loads(found[0][3])
        known = Seen(key, {column: link for _, column, link, _ in found}, address)
        yield Entry(key, changefreq=as_wanted(known)[2])


def _short(text: str) -> str:
    """A text that an index takes: itself, or a digest of it."""
    if len(text) <= LONGEST:
        return text
    return "sha256 " + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

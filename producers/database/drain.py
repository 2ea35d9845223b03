"""From the outbox to events: what changed is looked at, and what is true now is sent.

1. A record says which addresses a change may have touched, never what became of them: for each of these
   the rows that make it now are looked up. The newest speaks for it; when there is none, it is deleted.
   So a swap of two slugs, two rows with one address and events in any order end right.
2. Within one transaction: records are taken, the events are sent, the records are deleted. When Redis
   or the database goes away in between, the records are still there and everything is done again.
3. If the last step fails, another relay may have sent something newer before our events arrived. The
   addresses are therefore looked at once more, before anything else (`redo`).
4. One relay at a time does this for a source (`Dialect.lead`), so events of one address arrive in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final, TypeVar

from producers.database.dialect import Dialect
from producers.database.outbox import Record, Seen
from producers.database.rows import Listed, Reader, speaker
from producers.database.shape import Shape
from producers.database.template import shown
from producers.sink import EventSink
from sitemap_store.model.events import Event

Item = TypeVar("Item")
Concerned = dict[str, tuple[object, ...]]
"""URL → the values of the address columns that make it, as the database wrote them."""

BATCH: Final = 4000
"""Records of one transaction."""
LOOK: Final = 500
"""URLs that are looked up by one query, and then sent while the next are looked up."""
BULK: Final = 200
"""Events from which on the workers are better woken a little later."""


class Drainer:
    """Drains one source's outbox through one connection that leads."""

    def __init__(
        self, dialect: Dialect, shape: Shape, sink: EventSink, reader: Reader, redo: Concerned
    ) -> None:
        self.dialect = dialect
        self.shape = shape
        self.sink = sink
        self.reader = reader
        self._redo = redo
        self.touched: set[str] | None = None
        """While a comparison runs: the URLs that were looked at since it began."""
        self.touched_keys: set[str] = set()
        self.sync = ""
        """`sync` or `accept` when a record asked for a comparison; `accept` lets it delete everything."""
        self.sent = 0

    def drain(self, tell: Any) -> int:
        """Take one batch; returns how many records it had. `tell` notes more within the transaction."""
        dialect, label = self.dialect, self.shape.label
        if self._redo:
            self._send(self._redo)
            dialect.rollback()
            self._redo.clear()
        try:
            records = dialect.take(label, BATCH)
            if not records:
                dialect.rollback()
                return 0
            locs, forget, rows = self._concerned(record for record in records if record.kind == "row")
            for record in records:
                if record.kind in ("accept", "truncate"):
                    self.sync = "accept"
                elif record.kind != "row":
                    self.sync = self.sync or "sync"
            self._send(locs)
            if forget:
                dialect.remember(label, forget, rows)
            dialect.finish(label, [record.id for record in records])
            tell()
        except BaseException:
            dialect.rollback()
            raise
        self._redo.update(locs)
        dialect.commit()
        self._redo.clear()
        return len(records)

    def _send(self, locs: Concerned) -> None:
        """Send what is true of these URLs now. While Redis takes some of them, the next are looked at."""
        if self.touched is not None:
            self.touched.update(locs)
        reader = self.reader
        events = chain.from_iterable(self._look(locs, part) for part in chunks(locs, LOOK))
        self.sent += self.sink.send(events, bulk=len(locs) > BULK)
        if reader.refusals:
            source = self.shape.source.name
            self.sink.store.reject([(refused, source) for refused in reader.refusals])
            reader.refusals.clear()

    def _concerned(self, records: Iterable[Record]) -> tuple[Concerned, list[str], list[Seen]]:
        """The URLs that a change may have touched; for a query also keys to forget and rows to remember."""
        if self.shape.table is None:
            return self._linked(records)
        names, decoded = self.shape.template.columns, self.dialect.decoded
        locs: Concerned = {}
        for record in records:
            for row in (record.old, record.new):
                if row is None:
                    continue
                try:
                    values = tuple([decoded(row[name]) for name in names])
                except KeyError:
                    self.sync = self.sync or "sync"  # noted by triggers of another configuration
                    continue
                loc = self.reader.loc(values)
                if loc is not None:
                    locs[loc] = values
        return locs, [], []

    def _linked(self, records: Iterable[Record]) -> tuple[Concerned, list[str], list[Seen]]:
        """Of a query: which of its rows a change concerns, and which addresses they had and have.

        Where a table feeds itself (a page's address has those of its ancestors), each row that is found
        concerns those below it, to any depth.
        """
        dialect, shape, refuse = self.dialect, self.shape, self.reader.refuse
        columns = (*shape.key_columns, *shape.link_columns, *shape.url_columns)
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
                    known = dialect.remembered(shape.label, by.name, [shown(value) for value in several])
                    before.update(known)
                    keys = [dialect.read_kept(key) for key, _ in known]
                    # A row may have come under another link by a change that is not drained yet.
                    rows = [
                        *dialect.rows(shape, columns, [by], [(value,) for value in several], refuse),
                        *dialect.rows(shape, columns, shape.key_columns, keys, refuse),
                    ]
                    now.update((seen.key, seen) for seen in seen_rows(dialect, shape, rows))
                    found.update(dict.fromkeys((*keys, *(tuple(row[: len(shape.key)]) for row in rows))))
            down = {(child, key[place]): None for key in found for place, child in shape.descents}
            waiting = {each: None for each in down if each not in done}
            done.update(waiting)
        forget = sorted({*before, *now})
        if self.touched is not None:
            self.touched_keys.update(forget)
        locs: Concerned = {}
        for address in (*before.values(), *(seen.address for seen in now.values())):
            values_of_row = dialect.read_kept(address)
            loc = self.reader.loc(values_of_row)
            if loc is not None:
                locs[loc] = values_of_row
        return locs, forget, list(now.values())

    def _look(self, concerned: Concerned, locs: list[str]) -> list[Event]:
        """What is true now of some of the URLs, as events."""
        shape, source = self.shape, self.shape.source.name
        wanted = dict.fromkeys(chain.from_iterable(shape.template.spellings(concerned[loc]) for loc in locs))
        there: dict[str, Listed] = {}
        by, refuse = shape.url_columns, self.reader.refuse
        for row in self.dialect.rows(shape, shape.read_columns, by, list(wanted), refuse):
            listed = self.reader.read(row)
            if listed is not None:
                there[listed.loc] = speaker((there.get(listed.loc, listed), listed))
        return [
            Event("add", *there[loc], source=source) if loc in there else Event("delete", loc, source=source)
            for loc in locs
        ]


def seen_rows(dialect: Dialect, shape: Shape, rows: Iterable[Sequence[Any]]) -> Iterator[Seen]:
    """Rows of the query, as their key, link and address columns, to remember."""
    key, links = len(shape.key), len(shape.key) + len(shape.link_columns)
    address = links + len(shape.url_columns)
    for row in rows:
        linked = zip(shape.link_columns, row[key:links], strict=True)
        values = {column.name: shown(value) for column, value in linked if value is not None}
        yield Seen(dialect.kept(row[:key]), values, dialect.kept(row[links:address]))


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items, up to `size` at a time."""
    stream = iter(items)
    while several := list(islice(stream, size)):
        yield several

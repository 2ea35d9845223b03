"""The whole table against the state: what triggers could not see, and the first filling.

While it runs, the outbox is drained between its steps, so that changes still show within a second. A URL
that was looked at meanwhile is not touched by the comparison: what it read of it may be old. Changes that are
still in the outbox at its end are looked at after it. So it ends right although nothing is locked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, groupby
from typing import Final

from producers.database.dialect import Dialect
from producers.database.drain import Drainer, chunks, seen_rows
from producers.database.outbox import Seen, short
from producers.difference import CHUNK, Compared, Difference, Wanted, send_difference
from producers.guard import Guard
from sitemap_store.model.entries import Entry

MOST_TOUCHED: Final = 100_000
"""URLs looked at meanwhile; from there on changes wait until the comparison is over."""


def reconcile(
    drainer: Drainer, second: Dialect, guard: Guard, *, between: Callable[[], None], accept: bool
) -> Compared:
    """Send the difference. `second` reads the table while the drainer drains; `accept` lifts the guard."""
    shape, sink, reader = drainer.shape, drainer.sink, drainer.reader
    drainer.touched, drainer.touched_keys = set(), set()
    touched, source = drainer.touched, shape.source.name

    def pause() -> None:
        if len(touched) < MOST_TOUCHED:
            between()

    try:
        with Difference(source) as difference, Difference("") as memory:
            linked = (*shape.key_columns, *shape.link_columns) if shape.feeds else ()
            skip = len(linked)
            for rows in second.published(shape, (*linked, *shape.read_columns), reader.refuse):
                listed = filter(None, map(reader.read, (row[skip:] for row in rows) if skip else rows))
                difference.want(((*row, "", None) for row in listed), newest=True)
                if linked:
                    memory.want((_remembered(*seen) for seen in seen_rows(second, shape, rows)), newest=True)
                pause()
            if linked:
                _remember(drainer, second, memory, pause)
            for entries in chunks(sink.store.listing(source), CHUNK):
                difference.have(entries)
                pause()
            difference.leave_out(touched)
            return send_difference(difference, sink, guard, accept=accept, touched=touched, between=pause)
    finally:
        drainer.touched = None
        drainer.touched_keys = set()


def _remember(drainer: Drainer, second: Dialect, memory: Difference, pause: Callable[[], None]) -> None:
    """Bring what is remembered of a query's rows up to date: for each key its links and its address."""
    main, label, touched = drainer.dialect, drainer.shape.label, drainer.touched_keys
    rows = chain.from_iterable(second.stream(second.memory_of(label)))
    for several in chunks(_kept(rows), CHUNK):
        memory.have(several)
        pause()
    for events in chunks(memory.adds(None), CHUNK):
        kept = [
            Seen(event.loc, *json.loads(event.changefreq or ""))
            for _, event in events
            if event.loc not in touched
        ]
        main.remember(label, [row.key for row in kept], kept)
        main.commit()
        pause()
    for gone in chunks(memory.deletes(None, all_gone=True), CHUNK):
        main.remember(label, [event.loc for event in gone if event.loc not in touched], [])
        main.commit()
        pause()


def _kept(rows: Iterable[tuple[str, str, str, str]]) -> Iterator[Entry]:
    for _, several in groupby(rows, key=lambda row: row[0]):
        found = list(several)
        key, address = json.loads(found[0][3])
        text = _remembered(key, {column: link for _, column, link, _ in found}, address)[2]
        yield Entry(key, changefreq=text)


def _remembered(key: str, links: Mapping[str, str], address: str) -> Wanted:
    """A row's links and address in the place of an entry's fields."""
    links = {column: short(link) for column, link in sorted(links.items())}
    return key, "", json.dumps([links, address]), "", "", None

"""The whole table against the state: what triggers could not see, and the first filling.

While it runs, the outbox is drained between its steps, so that changes still show within a second. A URL
that was looked at meanwhile is not touched by the comparison: what it read of it may be old. Changes that are
still in the outbox at its end are looked at after it. So it ends right although nothing is locked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import chain, groupby
from typing import Final

from producers.database.compare import Comparison, Lines, Synced, chunks, fields_of, line_of, too_many
from producers.database.dialect import Dialect
from producers.database.drain import Drainer, seen_rows
from producers.database.outbox import Seen, short
from producers.database.rows import Reader
from producers.database.shape import Shape
from producers.sink import EventSink
from sitemap_store.model.events import Event

CHUNK: Final = 2000
MOST_TOUCHED: Final = 100_000
"""URLs looked at meanwhile; from there on changes wait until the comparison is over."""


def reconcile(
    shape: Shape,
    *,
    main: Dialect,
    second: Dialect,
    sink: EventSink,
    reader: Reader,
    drainer: Drainer,
    between: Callable[[], None],
    accept: bool,
) -> Synced:
    """Send the difference. `second` reads the table while `main` drains; `accept` lifts the guard."""
    drainer.touched, drainer.touched_keys = set(), set()
    touched = drainer.touched

    def pause() -> None:
        if len(touched) < MOST_TOUCHED:
            between()

    try:
        with Comparison() as comparison:
            columns = shape.read_columns
            linked = (*shape.key_columns, *shape.link_columns) if shape.feeds else ()
            with Comparison(newest=lambda line: (0, line)) as memory:
                skip = len(linked)
                for rows in second.published(shape, (*linked, *columns), reader.refuse):
                    comparison.wanted.add(
                        reader.lines(row[skip:] for row in rows) if skip else reader.lines(rows)
                    )
                    if linked:
                        memory.wanted.add(_memory_line(*seen) for seen in seen_rows(second, shape, rows))
                    pause()
                if linked:
                    _remember(shape, main, second, memory, drainer.touched_keys, pause)
            for entries in chunks(map(line_of, sink.store.listing(shape.source.name)), CHUNK):
                comparison.listed.add(entries)
                pause()
            return _send(comparison, shape, sink, touched, pause, accept=accept)
    finally:
        drainer.touched = None
        drainer.touched_keys = set()


def _send(
    comparison: Comparison,
    shape: Shape,
    sink: EventSink,
    touched: set[str],
    pause: Callable[[], None],
    *,
    accept: bool,
) -> Synced:
    name = shape.source.name
    with closing(Lines()) as adds, closing(Lines()) as deletes:
        for difference in comparison.differences():
            adds.spread(difference.add)
            deletes.spread(difference.delete)
            pause()
        sent = deleted = 0
        for lines in adds.chunks(CHUNK):
            events = [
                Event("add", loc, lastmod, changefreq, priority, source=name)
                for loc, lastmod, changefreq, priority, _ in map(fields_of, lines)
                if loc not in touched
            ]
            sent += sink.send(events, bulk=True)
            pause()
        listed, surplus = len(comparison.listed), len(deletes)
        held = surplus if not accept and too_many(surplus, listed, shape.source.max_delete) else 0
        for locs in () if held else deletes.chunks(CHUNK):
            gone = [Event("delete", loc, source=name) for loc in locs if loc not in touched]
            deleted += sink.send(gone, bulk=True)
            pause()
    return Synced(listed=listed, wanted=len(comparison.wanted), sent=sent, deleted=deleted, held=held)


def _remember(
    shape: Shape,
    main: Dialect,
    second: Dialect,
    memory: Comparison,
    touched: set[str],
    pause: Callable[[], None],
) -> None:
    rows = chain.from_iterable(second.stream(second.memory_of(shape.label)))
    for several in chunks(_memory_lines(rows), CHUNK):
        memory.listed.add(several)
        pause()
    for difference in memory.differences():
        for lines in chunks(difference.add, CHUNK):
            read = [line.partition("\t") for line in lines]
            kept = [Seen(key, *json.loads(rest)) for key, _, rest in read if key not in touched]
            main.remember(shape.label, [row.key for row in kept], kept)
            main.commit()
            pause()
        for keys in chunks(difference.delete, CHUNK):
            main.remember(shape.label, [key for key in keys if key not in touched], [])
            main.commit()
            pause()


def _memory_lines(rows: Iterable[tuple[str, str, str, str]]) -> Iterator[str]:
    for _, several in groupby(rows, key=lambda row: row[0]):
        found = list(several)
        key, address = json.loads(found[0][3])
        yield _memory_line(key, {column: link for _, column, link, _ in found}, address)


def _memory_line(key: str, links: Mapping[str, str], address: str) -> str:
    links = {column: short(link) for column, link in sorted(links.items())}
    return f"{key}\t{json.dumps([links, address])}"

"""Desired state against listed state: only the difference becomes events.

1. Both sides lie in SQLite on disk, so memory does not grow with the site. A list or a table fills `want`; of
   a watched folder `want` is a view of its cache.
2. Of several wanted for one URL the later counts in a list, and the newest in a table or a folder.
3. The guard judges before anything is sent. What it holds back stays listed; where addresses move, the new
   ones wait with the old ones.
4. Adds are sent before deletes: breaking off in between takes no page away.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import count, islice
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from producers.guard import Guard
from producers.sink import EventSink
from sitemap_store.errors import Unavailable
from sitemap_store.model.dates import instant_ms
from sitemap_store.model.entries import DIGEST_BYTES, Entry, digest
from sitemap_store.model.events import Event

CHUNK: Final = 2000
"""Events that are sent between two calls of `between`."""

Item = TypeVar("Item")
Wanted = tuple[str, str, str, str, str, int | None]
"""loc, lastmod, changefreq, priority, ext, and when it was so (epoch ms) where that is known."""

_OWN_FILE: Final = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -16384;
CREATE TABLE want (
    loc TEXT PRIMARY KEY, lastmod, changefreq, priority, ext, at, keep, place
) WITHOUT ROWID;
"""
_TABLES: Final = """
CREATE {} TABLE IF NOT EXISTS have (
    loc TEXT PRIMARY KEY, lastmod, changefreq, priority, ext, source
) WITHOUT ROWID;
CREATE {} TABLE IF NOT EXISTS accepted (digest PRIMARY KEY) WITHOUT ROWID;
"""
_LATER: Final = "REPLACE INTO want VALUES (?, ?, ?, ?, ?, ?, 0, ?)"
_NEWEST: Final = """
INSERT INTO want VALUES (?, ?, ?, ?, ?, ?, 0, ?) ON CONFLICT (loc) DO UPDATE
SET lastmod = excluded.lastmod, changefreq = excluded.changefreq, priority = excluded.priority,
    ext = excluded.ext
WHERE outranks(
    excluded.lastmod, excluded.changefreq, excluded.priority, excluded.ext, lastmod, changefreq, priority, ext
)
"""
_CHANGED: Final = """
FROM want AS w LEFT JOIN have AS h ON h.loc = w.loc WHERE NOT w.keep AND (h.loc IS NULL OR h.source <> ?
OR (w.lastmod, w.changefreq, w.priority, w.ext) <> (h.lastmod, h.changefreq, h.priority, h.ext))
"""
_GONE: Final = "FROM have AS h WHERE NOT EXISTS (SELECT 1 FROM want AS w WHERE w.loc = h.loc)"
_ACCEPTED: Final = "EXISTS (SELECT 1 FROM accepted AS a WHERE a.digest = digest(h.loc))"


class Compared(NamedTuple):
    """What a comparison resulted in."""

    listed: int
    """URLs of the source in the state before."""
    wanted: int
    """URLs that the source has."""
    added: int
    updated: int
    deleted: int
    unchanged: int
    held: int
    """Deletes that were held back."""

    def summary(self) -> dict[str, int]:
        """The numbers that a command or an answer shows."""
        return {name: value for name, value in self._asdict().items() if name != "wanted"}


class Difference:
    """The two sides of one source. Raises Unavailable when the disk takes no more."""

    def __init__(self, source: str, db: sqlite3.Connection | None = None, *, ordered: bool = True) -> None:
        """`db`: the database whose `want` is filled otherwise; None: a temporary file of its own.

        `ordered`: what is new is sent in the order in which it came, and else in that of its URLs.
        """
        self.source = source
        self.touched: Collection[str] = ()
        """URLs that are sent otherwise while the comparison goes on: they stay as they are."""
        self._order = "ORDER BY w.place" if ordered else ""
        self._places = count()
        self._owned = db is None
        # "" is a file of SQLite's own in the temp folder, which it removes; one thread at a time uses it.
        self._db = db or sqlite3.connect("", isolation_level=None, check_same_thread=False)
        if self._owned:
            self._db.executescript(_OWN_FILE)
        temporary = "" if self._owned else "TEMP"
        self._db.executescript(_TABLES.format(temporary, temporary))
        self._db.create_function("digest", 1, digest, deterministic=True)
        self._db.create_function("outranks", 8, _outranks, deterministic=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the disk back."""
        if self._owned:
            self._db.close()

    def want(self, rows: Iterable[Wanted], *, newest: bool = False) -> None:
        """Take in what the source has; of one URL that comes twice the later counts, or the `newest`."""
        numbered = ((*row, place) for row, place in zip(rows, self._places, strict=False))
        self._fill(_NEWEST if newest else _LATER, numbered)

    def keep(self, loc: str) -> None:
        """Leave a URL as it is listed, if it is."""
        self._fill("INSERT OR IGNORE INTO want VALUES (?, '', '', '', '', NULL, 1, NULL)", [(loc,)])

    def have(self, entries: Iterable[Entry]) -> None:
        """Take in what the state lists of the source; more than once where it comes in parts."""
        rows = ((loc, lastmod, freq, prio, ext, of) for loc, lastmod, freq, prio, _, of, ext in entries)
        self._fill("REPLACE INTO have VALUES (?, ?, ?, ?, ?, ?)", rows)

    def leave_out(self, locs: Iterable[str]) -> None:
        """Take URLs out of the comparison: they stay as they are listed, and what is wanted of them waits."""
        several = [(loc,) for loc in locs]
        for table in ("have", "want"):
            self._fill(f"DELETE FROM {table} WHERE loc = ?", several)

    def forget_have(self) -> None:
        """Give back the room that the listing took."""
        self._db.execute("DELETE FROM have")
        self.accept_none()

    def accept(self, digests: bytes) -> None:
        """Let the deletes of these URLs pass whatever the guard says; digests one behind the other."""
        size = DIGEST_BYTES
        rows = ((digests[place : place + size],) for place in range(0, len(digests), size))
        self._fill("INSERT OR IGNORE INTO accepted VALUES (?)", rows)

    def accept_none(self) -> None:
        """Take back what `accept` said."""
        self._db.execute("DELETE FROM accepted")

    def listed(self) -> int:
        """How many URLs the state lists of the source."""
        return self._count("FROM have")

    def wanted(self) -> int:
        """How many URLs the source has."""
        return self._count("FROM want")

    def new(self) -> int:
        """How many URLs it has that are not listed."""
        return self._count("FROM want AS w WHERE NOT EXISTS (SELECT 1 FROM have AS h WHERE h.loc = w.loc)")

    def gone(self) -> int:
        """How many listed URLs it does not have any more, those not counted that were accepted."""
        return self._count(f"{_GONE} AND NOT {_ACCEPTED}")

    def gone_locs(self) -> Iterator[str]:
        """The URLs that `gone` counts."""
        return (
            row[0] for row in self._db.execute(f"SELECT h.loc {_GONE} AND NOT {_ACCEPTED} ORDER BY h.loc")
        )

    def adds(self, at: int | None, *, moved: bool = True) -> Iterator[tuple[bool, Event]]:
        """The events of what is new or changed, each with whether it is new; new ones only with `moved`."""
        columns = "w.loc, w.lastmod, w.changefreq, w.priority, w.ext, w.at, h.loc IS NULL"
        only = "" if moved else "AND h.loc IS NOT NULL"
        rows = self._db.execute(f"SELECT {columns} {_CHANGED} {only} {self._order}", (self.source,))
        for loc, lastmod, changefreq, priority, ext, own, new in rows:
            when = at if own is None else own
            fields = "add", loc, lastmod, changefreq, priority, when, self.source, ext, False
            yield bool(new), tuple.__new__(Event, fields)  # half the time of Event(…)

    def deletes(self, at: int | None, *, all_gone: bool) -> Iterator[Event]:
        """The events of what is gone: of all, or of what was accepted alone."""
        only = "" if all_gone else f"AND {_ACCEPTED}"
        for loc, source in self._db.execute(f"SELECT h.loc, h.source {_GONE} {only}"):
            yield Event("delete", loc, at=at, source=source)

    def _fill(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        with self._transaction():
            self._db.executemany(statement, rows)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        begun = not self._db.in_transaction
        try:
            if begun:
                self._db.execute("BEGIN")
            yield
        except sqlite3.OperationalError as error:
            raise Unavailable(what="The temp folder", detail=f"takes no more ({error})") from error
        finally:
            if begun and self._db.in_transaction:
                self._db.execute("COMMIT")

    def _count(self, of: str) -> int:
        try:
            return int(self._db.execute(f"SELECT count(*) {of}").fetchone()[0])
        except sqlite3.OperationalError as error:
            raise Unavailable(what="The temp folder", detail=f"takes no more ({error})") from error


def send_difference(
    difference: Difference,
    sink: EventSink,
    guard: Guard,
    *,
    accept: bool = False,
    hold_deletes: bool = False,
    at: int | None = None,
    between: Callable[[], None] | None = None,
) -> Compared:
    """Send what differs, as far as the guard lets it pass; `accept` lets all of it.

    `hold_deletes` leaves the deletes out without asking the guard. `at` is when the desired state was so,
    in epoch ms. `between` is called between chunks; what is `touched` by then is not sent. Raises
    Unavailable: a part may have been sent then, and the next comparison sends the rest.
    """
    touched = difference.touched
    if touched:
        difference.leave_out(touched)
    listed, wanted = difference.listed(), difference.wanted()
    held = None if hold_deletes else guard.judge(difference, listed=listed, wanted=wanted, accept=accept)
    kept = held.deletes if held else difference.gone() if hold_deletes else 0
    if held is not None and held.kind == "list":
        guard.settle(held)
        return Compared(listed, wanted, 0, 0, 0, listed - kept, kept)
    sent = {True: 0, False: 0}

    def adds() -> Iterator[Event]:
        for new, event in difference.adds(at, moved=held is None or not held.moves):
            if event.loc not in touched:
                sent[new] += 1
                yield event

    gone = (event for event in difference.deletes(at, all_gone=held is None) if event.loc not in touched)
    _send(sink, adds(), between)
    deleted = 0 if hold_deletes else _send(sink, gone, between)
    if not hold_deletes:
        guard.settle(held)
    return Compared(
        listed, wanted, sent[True], sent[False], deleted, listed - deleted - kept - sent[False], kept
    )


def _send(sink: EventSink, events: Iterator[Event], between: Callable[[], None] | None) -> int:
    if between is None:
        return sink.send(events, bulk=True)
    total = 0
    for several in chunks(events, CHUNK):
        total += sink.send(several, bulk=True)
        between()
    return total


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items, up to `size` at a time."""
    stream = iter(items)
    while several := list(islice(stream, size)):
        yield several


def _outranks(*values: str) -> bool:
    return rank(*values[:4]) > rank(*values[4:])


def rank(lastmod: str, changefreq: str, priority: str, ext: str = "") -> tuple[int, str, str, str, str]:
    """Of several wanted for one URL the highest counts, where the newest does."""
    return (instant_ms(lastmod) if lastmod else -(2**62)), lastmod, changefreq, priority, ext

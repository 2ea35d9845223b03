"""Sync: what a source has, compared with what the site lists of it; only the difference becomes events.

1. The whole of the desired state is read before the first event is sent: a list that breaks
   off changes nothing.
2. Both sides lie in a temporary SQLite file, so memory does not grow with the site.
3. A sync that would delete more than a share of its source, or all of it, sends nothing and says so
   (`TooManyDeletes`), unless deletes are accepted.
4. A line that was refused for something else than its URL keeps what is listed of that URL. One whose URL
   could not be read holds every delete back: it may be any of them.
5. The events carry the time at which the sync began. What happened to a URL after that stays.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, NamedTuple, Self

from producers.sink import EventSink
from sitemap_store.errors import SitemapdError, Unavailable
from sitemap_store.model.entries import Entry
from sitemap_store.model.events import Event

MANY: Final = 100
"""Deletes up to which a sync is believed whatever share of its source they are, if anything is left."""
MAX_DELETE: Final = 0.2
"""The share of its source that a sync may delete."""

_TABLES: Final = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -16384;
CREATE TABLE want (loc TEXT PRIMARY KEY, lastmod, changefreq, priority, ext, at, keep) WITHOUT ROWID;
CREATE TABLE have (loc TEXT PRIMARY KEY, lastmod, changefreq, priority, ext) WITHOUT ROWID;
"""
_CHANGED: Final = """
FROM want AS w LEFT JOIN have AS h ON h.loc = w.loc WHERE NOT w.keep AND (h.loc IS NULL
OR (w.lastmod, w.changefreq, w.priority, w.ext) <> (h.lastmod, h.changefreq, h.priority, h.ext))
"""
_GONE: Final = "FROM have AS h LEFT JOIN want AS w ON w.loc = h.loc WHERE w.loc IS NULL"


class Synced(NamedTuple):
    """What a sync came to."""

    listed: int
    """URLs of the source before."""
    added: int
    updated: int
    deleted: int
    unchanged: int
    held: int
    """Deletes that were held back, since a line could not be read."""


class TooManyDeletes(SitemapdError):
    """A sync would delete too much of its source, so nothing was sent."""

    def __init__(self, *, source: str, listed: int, deletes: int) -> None:
        super().__init__(
            f"The list leaves out {deletes} of the {listed} URLs of the source {source}, so nothing was "
            "changed: accept the deletes if they are meant."
        )
        self.source = source
        self.listed = listed
        self.deletes = deletes


class Desired:
    """The desired state of one source, gathered, then applied. Raises Unavailable when the disk is full."""

    def __init__(self) -> None:
        # "" is a file of SQLite's own in the temp folder, which it removes; one thread at a time uses it.
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._db.executescript(_TABLES)
        self._db.execute("BEGIN")
        self.unreadable = False
        """Whether a line could not be read, so that nothing can be told to be missing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the disk back."""
        self._db.close()

    def want(self, events: Iterable[Event]) -> None:
        """Take in adds; of one URL that comes twice the later counts."""
        rows = (
            (loc, lastmod or "", changefreq or "", priority or "", ext or "", at, 0)
            for _, loc, lastmod, changefreq, priority, at, _, ext, _ in events
        )
        self._fill("REPLACE INTO want VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def keep(self, loc: str) -> None:
        """Leave a URL as it is listed, if it is; `loc` is normalised, or "" when it could not be read."""
        if loc:
            self._fill("INSERT OR IGNORE INTO want VALUES (?, '', '', '', '', NULL, 1)", [(loc,)])
        else:
            self.unreadable = True

    def apply(
        self,
        sink: EventSink,
        source: str,
        *,
        at: int | None = None,
        max_delete: float = MAX_DELETE,
        accept_deletes: bool = False,
    ) -> Synced:
        """Send the difference; `at` is when the state was as given, in epoch milliseconds.

        Raises TooManyDeletes, and has then sent nothing; Unavailable, and has perhaps sent a part: the same
        sync again sends the rest.
        """
        self._fill("REPLACE INTO have VALUES (?, ?, ?, ?, ?)", map(_row, sink.store.listing(source)))
        listed = self._count("FROM have")
        wanted = self._count("FROM want")
        changed, added = self._counts(f"count(*), count(*) - count(h.loc) {_CHANGED}")
        gone = self._count(_GONE)
        if (
            not accept_deletes
            and not self.unreadable
            and _too_many(gone, listed, max_delete, empty=not wanted)
        ):
            raise TooManyDeletes(source=source, listed=listed, deletes=gone)
        if self.unreadable:
            deleted, held = 0, gone
        else:
            deleted, held = gone, 0
            sink.send(self._deletes(source, at), bulk=True)
        sink.send(self._adds(source, at), bulk=True)
        unchanged = listed - gone - (changed - added)
        return Synced(listed, added, changed - added, deleted, unchanged, held)

    def _adds(self, source: str, at: int | None) -> Iterator[Event]:
        rows = self._db.execute(f"SELECT w.loc, w.lastmod, w.changefreq, w.priority, w.ext, w.at {_CHANGED}")
        for loc, lastmod, changefreq, priority, ext, own in rows:
            when = at if own is None else own
            yield Event("add", loc, lastmod, changefreq, priority, when, source, ext)

    def _deletes(self, source: str, at: int | None) -> Iterator[Event]:
        for (loc,) in self._db.execute(f"SELECT h.loc {_GONE}"):
            yield Event("delete", loc, at=at, source=source)

    def _fill(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        with _on_disk():
            self._db.executemany(statement, rows)

    def _count(self, of: str) -> int:
        return self._counts(f"count(*) {of}")[0]

    def _counts(self, query: str) -> list[int]:
        with _on_disk():
            return list(map(int, self._db.execute(f"SELECT {query}").fetchone()))


def _too_many(deletes: int, listed: int, share: float, *, empty: bool) -> bool:
    return deletes > 0 and (empty or (deletes > MANY and deletes > share * listed))


def _row(entry: Entry) -> tuple[str, ...]:
    loc, lastmod, changefreq, priority, _, _, ext = entry
    return loc, lastmod, changefreq, priority, ext


@contextmanager
def _on_disk() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise Unavailable(what="The temp folder", detail=f"takes no more ({error})") from error

"""The URLs of an import, on the disk: all are read before the first is sent.

1. An entry happened `AT`: before anything that a producer reports. So whatever the site knows of a URL stays,
   a delete of the last day too, and whatever comes later wins.
2. Of a URL that is read several times the newest lastmod counts, at the place of the first.
3. A URL is known by its digest, whose index stays small; the rows lie in the order in which they came.
4. What the site lists as it was read is not sent again. An import that was killed is run again and sends the
   rest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Self

from producers.difference import rank
from sitemap_store.errors import Unavailable
from sitemap_store.model.entries import Entry, digest
from sitemap_store.model.events import Event

AT: Final = 0
"""When an imported entry happened, in epoch milliseconds."""

_TABLE: Final = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -65536;
CREATE TABLE item (
    place INTEGER PRIMARY KEY, digest BLOB UNIQUE, loc, lastmod, changefreq, priority, ext, section,
    state DEFAULT 'new'
);
"""
_ADD: Final = """
INSERT INTO item (digest, loc, lastmod, changefreq, priority, ext, section) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (digest) DO UPDATE
SET lastmod = excluded.lastmod, changefreq = excluded.changefreq, priority = excluded.priority,
    ext = excluded.ext
WHERE outranks(excluded.lastmod, excluded.changefreq, excluded.priority, lastmod, changefreq, priority)
"""
_LISTED: Final = f"""
UPDATE item SET state = CASE
    WHEN ? > {AT} THEN 'kept'
    WHEN (lastmod, changefreq, priority, ext) = (?, ?, ?, ?) AND ? = ? THEN 'unchanged'
    ELSE 'updated' END
WHERE digest = ?
"""
_SEND: Final = """
SELECT loc, lastmod, changefreq, priority, ext FROM item
WHERE section = ? AND state IN ('new', 'updated') ORDER BY place
"""


class Row(NamedTuple):
    """One checked entry, and the section of the file that it stood in ("": as the settings say)."""

    loc: str
    lastmod: str
    changefreq: str
    priority: str
    ext: str
    section: str


class Collected:
    """The entries of one import. Raises Unavailable when the temp folder takes no more."""

    def __init__(self, source: str) -> None:
        self._source = source
        # "" is a file of SQLite's own in the temp folder, which it removes.
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript(_TABLE)
        self._db.create_function("outranks", 6, _outranks, deterministic=True)
        self._db.execute("BEGIN")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def add(self, rows: Iterable[Row]) -> None:
        """Take in entries in the order in which they are to get their seats."""
        with _translated():
            self._db.executemany(_ADD, ((digest(row.loc), *row) for row in rows))

    def compare(self, listed: Iterable[Entry]) -> None:
        """Take in what the site lists; not sent is what it has as it was read, or has from elsewhere."""
        with _translated():
            self._db.executemany(
                _LISTED,
                (
                    (at, lastmod, freq, priority, ext, source, self._source, digest(loc))
                    for loc, lastmod, freq, priority, at, source, ext in listed
                ),
            )

    def states(self) -> dict[str, int]:
        """How many URLs are "new", "updated" (other than in an earlier import), "unchanged" and "kept"."""
        found = dict.fromkeys(("new", "updated", "unchanged", "kept"), 0)
        with _translated():
            found.update(self._db.execute("SELECT state, count(*) FROM item GROUP BY state"))
        return found

    def sections(self) -> dict[str, int]:
        """How many URLs there are by section, in the order of the first URL."""
        with _translated():
            rows = self._db.execute("SELECT section, count(*) FROM item GROUP BY section ORDER BY min(place)")
            return dict(rows.fetchall())

    def events(self, section: str) -> Iterator[Event]:
        """What is to be sent of a section, in its order."""
        with _translated():
            for loc, lastmod, changefreq, priority, ext in self._db.execute(_SEND, (section,)):
                yield Event("add", loc, lastmod, changefreq, priority, AT, self._source, ext)


def _outranks(*values: str) -> bool:
    return rank(*values[:3]) > rank(*values[3:])


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise Unavailable(what="The temp folder", detail=f"takes no more ({error})") from error

"""What a backup knows of URLs that the published tree has newer, kept on the disk meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Self

from sitemap_store.model.entries import Entry
from sitemap_store.model.site import Site


class KnownEntries:
    """Entries by loc, on the disk: the shards that are newer in the tree may be all of a large site's."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None)  # a file of SQLite's own, which it removes
        self._db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        columns = ", ".join(f'"{name}"' for name in Entry._fields[1:])
        self._db.execute(f"CREATE TABLE entry (loc TEXT PRIMARY KEY, {columns}) WITHOUT ROWID")
        self._db.execute("BEGIN")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def add(self, entries: Iterable[Entry]) -> None:
        """Remember entries."""
        self._db.executemany("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)", entries)

    def complete(self, read: Mapping[str, Entry], site: Site, section: str) -> dict[str, Entry]:
        """Published entries with what is remembered of their URLs and no file says."""
        found: dict[str, Entry] = {}
        locs = list(read)
        for start in range(0, len(locs), 500):
            some = locs[start : start + 500]
            marks = ", ".join("?" * len(some))
            for row in self._db.execute(f"SELECT * FROM entry WHERE loc IN ({marks})", some):
                found[row[0]] = Entry._make(row)
        return {loc: _completed(entry, found.get(loc), site, section) for loc, entry in read.items()}


def _completed(shown: Entry, before: Entry | None, site: Site, section: str) -> Entry:
    if before is None:
        return shown
    style = site.style(section)
    changefreq, priority = shown.changefreq, shown.priority
    # Whether a value is the entry's own or the section's default shows in no file.
    if (before.changefreq or style.changefreq) == (changefreq or style.changefreq):
        changefreq = before.changefreq
    if (before.priority or style.priority) == (priority or style.priority):
        priority = before.priority
    return before._replace(lastmod=shown.lastmod, changefreq=changefreq, priority=priority)

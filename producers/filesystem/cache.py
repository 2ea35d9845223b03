"""What a source remembers of its files: one SQLite file, which may be deleted at any time.

It spares reading unchanged files, knows which other file still maps to a URL, and stands for what
was sent last: a change is committed here after its events were appended, and never before. So a
crash in between sends them once more, which changes nothing.

==========  ================================================================================
``files``   one row a file that is a page by its name (`Row`), listed or not
``meta``    ``settings``: a digest of everything else that an entry depends on
``gone``    temporary: files that a scan did not find, until it is decided to believe it
``listed``  temporary: what the site's state holds of this source, during a reconcile
==========  ================================================================================
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from sitemap_store.entries import Entry

VERSION: Final = 1
_ROW: Final = (
    "dir, name, size, mtime, ctime, inode, digest, loc, why, lastmod, lastmod_by, changed, "
    "changefreq, priority, opens, closes, live"
)
_SCHEMA: Final = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE files ({_ROW}, PRIMARY KEY (dir, name)) WITHOUT ROWID;
CREATE INDEX by_loc ON files (loc) WHERE loc <> '';
CREATE INDEX by_opens ON files (opens) WHERE opens > 0;
CREATE INDEX by_closes ON files (closes) WHERE closes > 0;
PRAGMA user_version = {VERSION};
"""
_TEMPORARY: Final = """
CREATE TEMP TABLE gone (dir, name, PRIMARY KEY (dir, name)) WITHOUT ROWID;
CREATE TEMP TABLE listed (loc PRIMARY KEY, lastmod, changefreq, priority, ext) WITHOUT ROWID;
"""
_PUT: Final = f"REPLACE INTO files ({_ROW}) VALUES ({', '.join('?' * 17)})"


class Row(NamedTuple):
    """One file as it was last looked at."""

    dir: bytes
    """Its folder below the source's directory; empty for the directory itself."""
    name: bytes
    size: int
    mtime: int
    """Nanoseconds."""
    ctime: int
    """Nanoseconds; 0 when the file was too fresh for its times to prove that it is unchanged."""
    inode: int
    digest: bytes
    """Of its bytes; empty when they were not read."""
    loc: str
    """The URL it speaks for; empty when it is not to be listed."""
    why: str
    """Why it is not to be listed; empty when it is."""
    lastmod: str
    lastmod_by: str
    """Which of the source's lastmod choices gave the date."""
    changed: int
    """The lastmod in epoch milliseconds, to tell which of two files is the newer."""
    changefreq: str
    priority: str
    opens: int
    """Epoch milliseconds from which on it is listed; 0 for always."""
    closes: int
    """Epoch milliseconds from which on it is not listed any more; 0 for never."""
    live: int
    """1 when it was listed at the last look at the clock."""

    @property
    def path(self) -> bytes:
        """Its path below the source's directory."""
        return self.dir + b"/" + self.name if self.dir else self.name

    @property
    def rank(self) -> tuple[int, int, bytes]:
        """Among files of one URL the highest speaks for it."""
        return self.changed, self.mtime, self.path

    def at(self, now: int) -> Row:
        """The row as it is at `now` (epoch milliseconds)."""
        live = int(self.loc != "" and self.opens <= now and (self.closes == 0 or now < self.closes))
        return self if live == self.live else self._replace(live=live)


class Cache:
    """One source's rows. Not for sharing between threads; `file` None keeps them for this run."""

    def __init__(self, file: Path | None) -> None:
        # An empty name is SQLite's own temporary file, which goes when it is closed.
        self._db = sqlite3.connect(
            str(file) if file else "", isolation_level=None, check_same_thread=False, timeout=1.0
        )
        try:
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute("PRAGMA temp_store = FILE")
            self._db.execute("PRAGMA cache_size = -16000")
            if self._db.execute("PRAGMA user_version").fetchone()[0] != VERSION:
                self._rebuild()
            self._db.executescript(_TEMPORARY)
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Give the file back."""
        self._db.close()

    def adopt(self, settings: str) -> bool:
        """Forget everything unless it was learnt under the same settings; True when it was."""
        known = self._db.execute("SELECT value FROM meta WHERE key = 'settings'").fetchone()
        if known and known[0] == settings:
            return True
        self._rebuild()
        self._db.execute("INSERT INTO meta VALUES ('settings', ?)", (settings,))
        return False

    def begin(self) -> None:
        """Start a change that `commit` keeps and `rollback` undoes."""
        self._db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Keep the change."""
        self._db.execute("COMMIT")

    def rollback(self) -> None:
        """Undo the change, if one was begun."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def put(self, rows: Iterable[Row]) -> None:
        """Remember rows in place of what was known of their files."""
        self._db.executemany(_PUT, rows)

    def drop(self, paths: Iterable[tuple[bytes, bytes]]) -> None:
        """Forget files, by folder and name."""
        self._db.executemany("DELETE FROM files WHERE dir = ? AND name = ?", paths)

    def get(self, folder: bytes, name: bytes) -> Row | None:
        """What is known of one file."""
        found = self._rows("WHERE dir = ? AND name = ?", (folder, name))
        return next(found, None)

    def folder(self, folder: bytes) -> dict[bytes, Row]:
        """What is known of the files right in a folder, by name."""
        return {row.name: row for row in self._rows("WHERE dir = ?", (folder,))}

    def below(self, folder: bytes) -> Iterator[Row]:
        """What is known of the files in a folder and in those below it; of all for ""."""
        if not folder:
            return self._rows("", ())
        return self._rows("WHERE dir = ? OR (dir > ? AND dir < ?)", (folder, folder + b"/", folder + b"0"))

    def folders(self, folder: bytes = b"") -> list[bytes]:
        """The folders, from one on downwards, in which files are known."""
        query, values = "SELECT DISTINCT dir FROM files", ()
        if folder:
            query += " WHERE dir = ?1 OR (dir > ?1 || x'2f' AND dir < ?1 || x'30')"
            found = self._db.execute(query, (folder,))
        else:
            found = self._db.execute(query, values)
        return [_bytes(each[0]) for each in found]

    def speakers(self, locs: Iterable[str]) -> dict[str, Row]:
        """For each URL that is live now, the row that speaks for it."""
        found: dict[str, Row] = {}
        for row in self._rows(
            "WHERE loc IN (SELECT value FROM json_each(?)) AND loc <> '' AND live = 1",
            (json.dumps(list(locs)),),
        ):
            best = found.get(row.loc)
            if best is None or row.rank > best.rank:
                found[row.loc] = row
        return found

    def shared(self) -> list[str]:
        """The URLs that more than one live file maps to, sorted."""
        found = self._db.execute(
            "SELECT loc FROM files WHERE loc <> '' AND live = 1 GROUP BY loc HAVING count(*) > 1 ORDER BY loc"
        )
        return [each[0] for each in found]

    def mapped(self, loc: str) -> list[Row]:
        """The rows of one URL, the one that speaks for it first."""
        rows = self._rows("WHERE loc = ? AND loc <> '' AND live = 1", (loc,))
        return sorted(rows, key=lambda row: row.rank, reverse=True)

    def turned(self, now: int) -> list[Row]:
        """The rows whose time to come or to go has passed by `now`, as they are from now on."""
        rows = self._rows(
            "WHERE (opens > 0 AND opens <= ?1 AND live = 0) OR (closes > 0 AND closes <= ?1 AND live = 1)",
            (now,),
        )
        return [now_row for row in rows if (now_row := row.at(now)) is not row]

    def next_turn(self, now: int) -> int | None:
        """When the next row comes or goes by itself after `now`; None for never."""
        found = self._db.execute(
            "SELECT min(t) FROM (SELECT min(opens) AS t FROM files WHERE opens > ?1 AND opens > 0 "
            "UNION ALL SELECT min(closes) FROM files WHERE closes > ?1 AND closes > 0)",
            (now,),
        ).fetchone()[0]
        return None if found is None else int(found)

    def counts(self) -> tuple[int, int, dict[str, int]]:
        """How many files, how many URLs, and how many files are unlisted for each reason."""
        files = self._db.execute("SELECT count(*) FROM files").fetchone()[0]
        why = self._db.execute("SELECT why, count(*) FROM files WHERE why <> '' GROUP BY why")
        return int(files), self.url_count(), dict(why.fetchall())

    def miss(self, paths: Iterable[tuple[bytes, bytes]]) -> None:
        """Note files that a scan did not find."""
        self._db.executemany("INSERT OR IGNORE INTO temp.gone VALUES (?, ?)", paths)

    def found_again(self, paths: Iterable[tuple[bytes, bytes]]) -> None:
        """Strike files from those that the scan did not find."""
        self._db.executemany("DELETE FROM temp.gone WHERE dir = ? AND name = ?", paths)

    def drop_missed(self) -> None:
        """Forget the files that the scan did not find."""
        self._db.execute("DELETE FROM files WHERE (dir, name) IN (SELECT dir, name FROM temp.gone)")

    def forget_missed(self) -> None:
        """Believe that the files that the scan did not find are there."""
        self._db.execute("DELETE FROM temp.gone")

    def missed_rows(self) -> Iterator[Row]:
        """The rows of the files that the scan did not find."""
        return self._rows("WHERE (dir, name) IN (SELECT dir, name FROM temp.gone)", ())

    def url_count(self) -> int:
        """How many URLs are live."""
        return int(
            self._db.execute("SELECT count(DISTINCT loc) FROM files WHERE loc <> '' AND live = 1").fetchone()[
                0
            ]
        )

    def redate(self, dates: Iterable[tuple[str, int, bytes, bytes]]) -> None:
        """Give files another lastmod: its text and instant (epoch ms), then folder and name."""
        # Gathered first: what a SELECT runs over can't be changed meanwhile.
        self._db.execute("CREATE TEMP TABLE dates (lastmod, changed, dir, name)")
        self._db.executemany("INSERT INTO temp.dates VALUES (?, ?, ?, ?)", dates)
        self._db.execute(
            "UPDATE files SET lastmod = d.lastmod, changed = d.changed "
            "FROM temp.dates AS d WHERE files.dir = d.dir AND files.name = d.name"
        )
        self._db.execute("DROP TABLE temp.dates")

    def listed(self, loc: str) -> Entry | None:
        """What the state holds of one URL."""
        found = self._db.execute("SELECT * FROM temp.listed WHERE loc = ?", (loc,)).fetchone()
        if found is None:
            return None
        loc, lastmod, changefreq, priority, ext = found
        return Entry(loc, lastmod, changefreq, priority, ext=ext)

    def load_listed(self, entries: Iterable[Entry]) -> int:
        """Take in what the site's state holds of this source, as a stream; returns how many."""
        self._db.execute("DELETE FROM temp.listed")
        self._db.execute("BEGIN")
        try:
            self._db.executemany(
                "REPLACE INTO temp.listed VALUES (?, ?, ?, ?, ?)",
                ((e.loc, e.lastmod, e.changefreq, e.priority, e.ext) for e in entries),
            )
        except BaseException:
            self.rollback()
            raise
        self.commit()
        return int(self._db.execute("SELECT count(*) FROM temp.listed").fetchone()[0])

    def unload_listed(self) -> None:
        """Give back the room that the listing took."""
        self._db.execute("DELETE FROM temp.listed")

    def surplus(self) -> Iterator[str]:
        """The URLs that the state holds and no live file maps to."""
        found = self._db.execute(
            "SELECT loc FROM temp.listed AS l WHERE NOT EXISTS "
            "(SELECT 1 FROM files AS f WHERE f.loc = l.loc AND f.loc <> '' AND f.live = 1)"
        )
        return (each[0] for each in found)

    def surplus_count(self) -> int:
        """How many URLs `surplus` gives."""
        return int(
            self._db.execute(
                "SELECT count(*) FROM temp.listed AS l WHERE NOT EXISTS "
                "(SELECT 1 FROM files AS f WHERE f.loc = l.loc AND f.loc <> '' AND f.live = 1)"
            ).fetchone()[0]
        )

    def beside_listed(self) -> Iterator[tuple[Row, Entry | None]]:
        """Every live row with what the state holds of its URL, URL by URL."""
        columns = ", ".join(f"f.{name}" for name in _ROW.split(", "))
        found = self._db.execute(
            f"SELECT {columns}, l.lastmod, l.changefreq, l.priority, l.ext FROM files AS f "
            "LEFT JOIN temp.listed AS l ON l.loc = f.loc WHERE f.loc <> '' AND f.live = 1"
        )
        for *values, lastmod, changefreq, priority, ext in found:
            row = _row(values)
            if lastmod is None:
                yield row, None
            else:
                yield row, Entry(row.loc, lastmod, changefreq, priority, ext=ext)

    def _rows(self, where: str, values: Sequence[object]) -> Iterator[Row]:
        return map(_row, self._db.execute(f"SELECT {_ROW} FROM files {where}", tuple(values)))

    def _rebuild(self) -> None:
        self._db.execute("DROP TABLE IF EXISTS files")
        self._db.execute("DROP TABLE IF EXISTS meta")
        self._db.executescript(_SCHEMA)


def _row(values: Sequence[object]) -> Row:
    return Row._make(values)


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()

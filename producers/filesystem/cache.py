"""What a source remembers of its files: one SQLite file, which may be deleted at any time.

It spares reading unchanged files and knows which other file still maps to a URL. A single change is committed
here after its events were appended, and never before: a crash in between sends them once more, which changes
nothing. What a scan remembers before it is sent is sent by the comparison that follows.

Longer than most modules: its tables, and all the SQL that knows them.

===========  ===================================================================================
``files``    one row a file that is a page by its name (`Row`), listed or not
``notes``    ``settings``: a digest of everything else that an entry depends on; ``compared``: "yes"
             once its dates were compared with the state's; ``git``: the commit that ``commits``
             was read up to
``commits``  when a commit last touched each file, where that is asked for (`git`)
``missed``   temporary: files that a scan did not find, until it is decided to believe it
``fresh``    temporary: commits while they are read
``entries``  temporary view: of the live files of each URL the newest, whose entry is the URL's
``want``     temporary view: the same without the missed ones, for `producers.difference`
===========  ===================================================================================

The indexes of dates hold what is still to come or to go.
`by_loc` holds `live` too, though all its rows have the same: SQLite looks for it in the table otherwise.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from producers.filesystem.paths import joined
from sitemap_store.model.dates import instant_ms

VERSION: Final = 6
COLUMNS: Final = (
    "dir, name, size, mtime, ctime, inode, digest, loc, why, lastmod, lastmod_by, changed, "
    "changefreq, priority, listed_from, listed_until, live, inherited, ext"
)
_SCHEMA: Final = f"""
CREATE TABLE notes (name PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE files ({COLUMNS}, PRIMARY KEY (dir, name)) WITHOUT ROWID;
CREATE TABLE commits (dir, name, at, PRIMARY KEY (dir, name)) WITHOUT ROWID;
CREATE INDEX by_loc ON files (loc, live) WHERE live = 1;
CREATE INDEX by_listed_from ON files (listed_from, listed_until) WHERE listed_from > 0 AND live = 0;
CREATE INDEX by_listed_until ON files (listed_until) WHERE listed_until > 0 AND live = 1;
PRAGMA user_version = {VERSION};
"""
_EXT: Final = """CASE @digest WHEN x'' THEN @ext ELSE
    CASE @ext WHEN '' THEN '{' ELSE substr(@ext, 1, length(@ext) - 1) || ',' END
    || '"digest":"' || lower(hex(@digest)) || '"}' END"""
"""As `merge` of extensions would write it, so that a date that content decides outlives the cache."""
_RANK: Final = "({0}.changed, {0}.mtime, {0}.dir, {0}.name)"
"""Of several files with one URL the highest decides."""
_ENTRIES: Final = f"""
SELECT loc, lastmod, changefreq, priority, {{ext}} AS ext, NULL AS at, 0 AS keep FROM {{files}} AS f
WHERE live = 1 AND NOT EXISTS (
    SELECT 1 FROM {{files}} AS o WHERE o.live = 1 AND o.loc = f.loc
    AND {_RANK.format("o")} > {_RANK.format("f")}
)
"""
_TEMPORARY: Final = f"""
CREATE TEMP TABLE missed (dir, name, PRIMARY KEY (dir, name)) WITHOUT ROWID;
CREATE TEMP TABLE fresh (dir, name, at, PRIMARY KEY (dir, name)) WITHOUT ROWID;
CREATE TEMP VIEW found AS SELECT * FROM files AS f WHERE live = 1
    AND NOT EXISTS (SELECT 1 FROM temp.missed AS m WHERE m.dir = f.dir AND m.name = f.name);
CREATE TEMP VIEW entries AS {_ENTRIES.replace("{files}", "files")};
CREATE TEMP VIEW want AS {_ENTRIES.replace("{files}", "found")};
"""
_WIDTH: Final = len(COLUMNS.split(", "))
_BYTES: Final = (0, 1, 6)
"""The places of dir, name and digest."""
_TOGETHER: Final = 50
"""Rows that one statement writes: every SQLite takes their 900 values. One by one takes twice the time."""


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
    """Its URL; empty when it is not to be listed."""
    why: str
    """Why it is not to be listed; empty when it is."""
    lastmod: str
    lastmod_by: str
    """Which of the source's lastmod choices gave the date."""
    changed: int
    """The lastmod in epoch milliseconds, to tell which of two files is the newer."""
    changefreq: str
    priority: str
    listed_from: int
    """Epoch milliseconds from which on it is listed; 0 for always."""
    listed_until: int
    """Epoch milliseconds from which on it is not listed any more; 0 for never."""
    live: int
    """1 when it was listed at the last look at the clock; then it has a loc."""
    inherited: int = 0
    """The digest of what it inherits (`inherit`)."""
    ext: str = ""
    """Its extensions as canonical text; empty for none."""

    @property
    def path(self) -> bytes:
        """Its path below the source's directory."""
        return joined(self.dir, self.name)

    def at(self, now: int) -> Row:
        """The row as it is at `now` (epoch milliseconds)."""
        open_now = self.listed_from <= now and (self.listed_until == 0 or now < self.listed_until)
        live = int(self.loc != "" and open_now)
        return self if live == self.live else self._replace(live=live)


row_of: Final = partial(tuple.__new__, Row)
"""The row in the values of `COLUMNS`, in a third of the time that its own constructor takes."""


class Cache:
    """One source's rows. Not for sharing between threads; `file` None keeps them for this run.

    With `digests` the digest of a file's bytes is part of its entry.
    """

    def __init__(self, file: Path | None, *, digests: bool = False) -> None:
        # An empty name is SQLite's own temporary file, which goes when it is closed.
        self.db = sqlite3.connect(
            str(file) if file else "", isolation_level=None, check_same_thread=False, timeout=1.0
        )
        try:
            self.db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self.db.execute("PRAGMA journal_mode = WAL")
            self.db.execute("PRAGMA synchronous = NORMAL")
            # Up to 40 MB beside the file: a long scan waits for the disk a tenth as often.
            self.db.execute("PRAGMA wal_autocheckpoint = 10000")
            self.db.execute("PRAGMA temp_store = FILE")
            self.db.execute("PRAGMA cache_size = -48000")
            if self.db.execute("PRAGMA user_version").fetchone()[0] != VERSION:
                self._rebuild()
            self.db.executescript(
                _TEMPORARY.replace("{ext}", _EXT.replace("@", "f.") if digests else "f.ext")
            )
            self.db.create_function("instant_ms", 1, instant_ms, deterministic=True)
        except BaseException:
            self.db.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self.db.close()

    def adopt(self, settings: str) -> None:
        """Forget everything unless it was learnt under the same settings."""
        if self.note("settings") != settings:
            self._rebuild()
            self.set_note("settings", settings)

    def note(self, name: str) -> str:
        """What was noted under a name; empty when nothing was."""
        found = self.db.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
        return str(found[0]) if found else ""

    def set_note(self, name: str, value: str) -> None:
        """Note something that is forgotten with the rows."""
        self.db.execute("REPLACE INTO notes VALUES (?, ?)", (name, value))

    @contextmanager
    def change(self) -> Iterator[None]:
        """What is done within is kept as a whole, or not at all when it raises."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def put(self, rows: Iterable[Row]) -> None:
        """Remember rows in place of what was known of their files."""
        ordered = sorted(rows)  # so that they fill page after page
        one = f"({', '.join('?' * _WIDTH)})"
        for place in range(0, len(ordered), _TOGETHER):
            several = ordered[place : place + _TOGETHER]
            values: list[Any] = list(chain.from_iterable(several))
            for column in _BYTES:  # sqlite3 takes bytes more slowly: it asks for an adapter
                values[column::_WIDTH] = map(bytearray, values[column::_WIDTH])
            rest = ", ".join([one] * len(several))
            self.db.execute(f"REPLACE INTO files ({COLUMNS}) VALUES {rest}", values)

    def drop(self, files: Iterable[tuple[bytes, bytes]]) -> None:
        """Forget files, each given by its folder and name."""
        self.db.executemany("DELETE FROM files WHERE dir = ? AND name = ?", files)

    def rows(self, where: str, values: Sequence[object] = ()) -> Iterator[Row]:
        """The rows that an SQL condition picks."""
        found = self.db.execute(f"SELECT {COLUMNS} FROM files WHERE {where}", tuple(values))
        return map(row_of, found)

    def get(self, folder: bytes, name: bytes) -> Row | None:
        """What is known of one file."""
        return next(self.rows("dir = ? AND name = ?", (folder, name)), None)

    def folder(self, folder: bytes) -> dict[bytes, Row]:
        """What is known of the files right in a folder, by name."""
        return {row[1]: row for row in self.rows("dir = ?", (folder,))}

    def below(self, folder: bytes) -> Iterator[Row]:
        """What is known of the files in a folder and in those below it; of all for ""."""
        return self.rows(*_below(folder))

    def folders(self, folder: bytes = b"") -> list[bytes]:
        """The folders, from one on downwards, in which files are known."""
        where, values = _below(folder)
        found = self.db.execute(f"SELECT DISTINCT dir FROM files WHERE {where}", values)
        return [each[0] for each in found]

    def entries(self, locs: Iterable[str]) -> dict[str, tuple[str, str, str, str]]:
        """Of those URLs that are live: lastmod, changefreq, priority and ext, as the newest file says."""
        found = self.db.execute(
            "SELECT loc, lastmod, changefreq, priority, ext FROM temp.entries "
            "WHERE loc IN (SELECT value FROM json_each(?))",
            (_array(locs),),
        )
        return {loc: tuple(entry) for loc, *entry in found}

    def shared(self, locs: Iterable[str] | None = None) -> Iterator[tuple[str, list[bytes]]]:
        """The URLs, of all or of those given, of more than one live file, with these, the newest first."""
        among = "" if locs is None else "AND loc IN (SELECT value FROM json_each(?))"
        found = self.db.execute(
            "SELECT loc, dir, name FROM files WHERE live = 1 AND loc IN (SELECT loc FROM files "
            f"WHERE live = 1 {among} GROUP BY loc HAVING count(*) > 1) "
            "ORDER BY loc, changed DESC, mtime DESC, dir DESC, name DESC",
            () if locs is None else (_array(locs),),
        )
        for loc, rows in groupby(found, key=lambda row: row[0]):
            yield loc, [joined(folder, name) for _, folder, name in rows]

    def miss(self, rows: Iterable[Row]) -> None:
        """Note files that a scan did not find."""
        names = ((row.dir, row.name) for row in rows)
        self.db.executemany("INSERT OR IGNORE INTO temp.missed VALUES (?, ?)", names)

    def find(self, files: Iterable[tuple[bytes, bytes]]) -> None:
        """Strike files, each given by its folder and name, from those that a scan did not find."""
        self.db.executemany("DELETE FROM temp.missed WHERE dir = ? AND name = ?", files)

    def find_all(self) -> None:
        """Strike all files from those that a scan did not find."""
        self.db.execute("DELETE FROM temp.missed")

    def missed(self) -> list[Row]:
        """The rows of the files that a scan did not find."""
        return list(self.rows("(dir, name) IN (SELECT dir, name FROM temp.missed)"))

    def drop_missed(self, *, accepted: bool) -> None:
        """Forget the files that a scan did not find: all of them, or those whose delete was `accepted`."""
        only = "AND digest(loc) IN (SELECT digest FROM accepted)" if accepted else ""
        with self.change():
            self.db.execute(
                f"DELETE FROM files WHERE (dir, name) IN (SELECT dir, name FROM temp.missed) {only}"
            )
            self.find_all()

    def take_dates(self) -> None:
        """Take dates that only an earlier cache could know from `have`, what the state lists."""
        self.db.execute(
            "UPDATE files SET lastmod = h.lastmod, changed = instant_ms(h.lastmod) FROM have AS h "
            "WHERE h.loc = files.loc AND live = 1 AND h.lastmod <> '' AND "
            f"(lastmod_by = 'content' AND h.ext <> '' AND h.ext = {_EXT.replace('@', 'files.')} "
            "OR lastmod_by = 'mtime' AND instant_ms(h.lastmod) > changed)"
        )

    def turned(self, now: int) -> list[Row]:
        """The rows whose time to come or to go has passed by `now`, as they are from now on."""
        comes = self.rows(
            "listed_from > 0 AND live = 0 AND listed_from <= ?1 "
            "AND (listed_until = 0 OR listed_until > ?1) AND loc <> ''",
            (now,),
        )
        goes = self.rows("listed_until > 0 AND live = 1 AND listed_until <= ?1", (now,))
        return [turned for row in (*comes, *goes) if (turned := row.at(now)) is not row]

    def next_turn(self, now: int) -> int | None:
        """When, after `now`, the next row comes or goes by its dates; None for never."""
        found = self.db.execute(
            "SELECT min(at) FROM ("
            "SELECT min(listed_from) AS at FROM files "
            "WHERE listed_from > 0 AND live = 0 AND listed_from > ?1 "
            "UNION ALL SELECT min(listed_until) FROM files "
            "WHERE listed_until > 0 AND live = 1 AND listed_until > ?1)",
            (now,),
        ).fetchone()
        return None if found[0] is None else int(found[0])

    def url_count(self) -> int:
        """How many URLs are live."""
        query = "SELECT count(DISTINCT loc) FROM files WHERE live = 1"
        return int(self.db.execute(query).fetchone()[0])

    def counts(self) -> tuple[int, int, dict[str, int]]:
        """How many files, how many URLs, and how many files are unlisted for each reason."""
        files = self.db.execute("SELECT count(*) FROM files").fetchone()[0]
        why = self.db.execute("SELECT why, count(*) FROM files WHERE why <> '' GROUP BY why")
        return int(files), self.url_count(), dict(why.fetchall())

    def _rebuild(self) -> None:
        for table in ("files", "commits", "notes"):
            self.db.execute(f"DROP TABLE IF EXISTS {table}")
        self.db.executescript(_SCHEMA)


def _array(locs: Iterable[str]) -> str:
    return json.dumps(list(locs))


def _below(folder: bytes) -> tuple[str, tuple[bytes, ...]]:
    if not folder:
        return "true", ()
    return "dir = ? OR (dir > ? AND dir < ?)", (folder, folder + b"/", folder + b"0")

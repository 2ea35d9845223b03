"""A scan's word against what is known: files it missed, and URLs that only the state still holds.

Everything is compared within SQLite, so that a million URLs take up disk and not memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

from producers.filesystem.cache import COLUMNS, Cache, Row, row_of
from sitemap_store.model.entries import Entry

_SURPLUS: Final = (
    "FROM temp.listed AS l WHERE NOT EXISTS (SELECT 1 FROM files AS f WHERE f.loc = l.loc AND f.live = 1)"
)
_BESIDE: Final = (
    f"SELECT {', '.join('f.' + name for name in COLUMNS.split(', '))}, l.lastmod, l.ext "
    "FROM files AS f JOIN temp.listed AS l ON l.loc = f.loc WHERE f.live = 1 AND l.lastmod <> ''"
)
# Only a pre-selection: whoever asks still compares, so that SQL need not know how `ext` is written.
_MAY_DIFFER: Final = (
    "SELECT f.loc, f.digest, f.lastmod, f.changefreq, f.priority, "
    "l.lastmod, l.changefreq, l.priority, l.ext "
    "FROM files AS f LEFT JOIN temp.listed AS l ON l.loc = f.loc WHERE f.live = 1 "
    "AND (l.loc IS NULL OR l.lastmod <> f.lastmod OR l.changefreq <> f.changefreq "
    "OR l.priority <> f.priority OR (l.ext <> '') <> (? AND f.digest <> x'') "
    "OR (l.ext <> '' AND instr(l.ext, lower(hex(f.digest))) = 0))"
)
_LISTED: Final = itemgetter(*map(Entry._fields.index, ("loc", "lastmod", "changefreq", "priority", "ext")))


class Comparison:
    """The temporary tables `gone` and `listed` of one cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._db = cache.db

    def miss(self, paths: Iterable[tuple[bytes, bytes]]) -> None:
        """Note files that a scan did not find, by folder and name."""
        self._db.executemany("INSERT OR IGNORE INTO temp.gone VALUES (?, ?)", paths)

    def find(self, paths: Iterable[tuple[bytes, bytes]]) -> None:
        """Strike files from those that the scan did not find."""
        self._db.executemany("DELETE FROM temp.gone WHERE dir = ? AND name = ?", paths)

    def missed(self) -> Iterator[Row]:
        """The rows of the files that the scan did not find."""
        return self._cache.rows("(dir, name) IN (SELECT dir, name FROM temp.gone)")

    def drop_missed(self) -> None:
        """Forget the files that the scan did not find."""
        self._db.execute("DELETE FROM files WHERE (dir, name) IN (SELECT dir, name FROM temp.gone)")

    def find_all(self) -> None:
        """Strike all files from those that the scan did not find."""
        self._db.execute("DELETE FROM temp.gone")

    def load(self, entries: Iterable[Entry]) -> int:
        """Take in what the state holds of this source, as a stream; returns how many."""
        self.unload()
        with self._cache.change():
            self._db.executemany(
                "REPLACE INTO temp.listed VALUES (?, ?, ?, ?, ?)",
                map(_LISTED, entries),
            )
        return int(self._db.execute("SELECT count(*) FROM temp.listed").fetchone()[0])

    def unload(self) -> None:
        """Give back the room that the listing took."""
        self._db.execute("DELETE FROM temp.listed")

    def surplus(self) -> Iterator[str]:
        """The URLs that the state holds and no live file maps to."""
        return (each[0] for each in self._db.execute(f"SELECT l.loc {_SURPLUS}"))

    def surplus_count(self) -> int:
        """How many URLs `surplus` gives."""
        return int(self._db.execute(f"SELECT count(*) {_SURPLUS}").fetchone()[0])

    def beside(self) -> Iterator[tuple[Row, str, str]]:
        """Every live row with the lastmod, if any, and the ext that the state holds of its URL."""
        for *values, lastmod, ext in self._db.execute(_BESIDE):
            yield row_of(values), lastmod, ext

    def may_differ(self, *, digests: bool) -> Iterator[Sequence[Any]]:
        """Live rows, without most of those that the state agrees with; `digests`: it has them as ext.

        Each as loc, digest, lastmod, changefreq and priority, then the state's lastmod, changefreq,
        priority and ext, which are None when it holds nothing of the loc.
        """
        return self._db.execute(_MAY_DIFFER, (digests,))

    def listed(self, loc: str) -> Entry | None:
        """What the state holds of one URL."""
        found = self._db.execute("SELECT * FROM temp.listed WHERE loc = ?", (loc,)).fetchone()
        if found is None:
            return None
        loc, lastmod, changefreq, priority, ext = found
        return Entry(loc, lastmod, changefreq, priority, ext=ext)

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

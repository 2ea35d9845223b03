"""What a scan missed, and the cache as the desired state that `producers.difference` compares.

Everything is compared within SQLite, so that a million URLs take up disk and not memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from producers.difference import Difference
from producers.filesystem.cache import COLUMNS, Cache, Row, row_of

_VIEWS: Final = """
CREATE TEMP VIEW IF NOT EXISTS there AS SELECT * FROM files AS f WHERE f.live = 1
    AND NOT EXISTS (SELECT 1 FROM temp.gone AS g WHERE g.dir = f.dir AND g.name = f.name);
CREATE TEMP VIEW IF NOT EXISTS want AS
    SELECT loc, lastmod, changefreq, priority, {ext} AS ext, NULL AS at, 0 AS keep FROM there AS f
    WHERE NOT EXISTS (
        SELECT 1 FROM there AS o WHERE o.loc = f.loc
        AND (o.changed, o.mtime, o.dir, o.name) > (f.changed, f.mtime, f.dir, f.name)
    );
"""
"""Of several files with one URL the newest decides, by `Row.rank`."""
_DIGEST: Final = """CASE digest WHEN x'' THEN '' ELSE '{"digest":"' || lower(hex(digest)) || '"}' END"""
"""As `canonical` writes it."""
_BESIDE: Final = (
    f"SELECT {', '.join('f.' + name for name in COLUMNS.split(', '))}, h.lastmod, h.ext "
    "FROM files AS f JOIN have AS h ON h.loc = f.loc WHERE f.live = 1 AND h.lastmod <> ''"
)


class Comparison:
    """The temporary table `gone` of one cache, and its difference to what the state lists."""

    def __init__(self, cache: Cache, source: str, *, digests: bool) -> None:
        """`digests`: the state keeps those of the files' bytes."""
        self._cache = cache
        self._db = cache.db
        self._db.executescript(_VIEWS.replace("{ext}", _DIGEST if digests else "''"))
        self.difference = Difference(source, cache.db, ordered=False)

    def miss(self, paths: Iterable[tuple[bytes, bytes]]) -> None:
        """Note files that a scan did not find, by folder and name."""
        self._db.executemany("INSERT OR IGNORE INTO temp.gone VALUES (?, ?)", paths)

    def find(self, paths: Iterable[tuple[bytes, bytes]]) -> None:
        """Strike files from those that the scan did not find."""
        self._db.executemany("DELETE FROM temp.gone WHERE dir = ? AND name = ?", paths)

    def find_all(self) -> None:
        """Strike all files from those that the scan did not find."""
        self._db.execute("DELETE FROM temp.gone")

    def missed(self) -> Iterator[Row]:
        """The rows of the files that the scan did not find."""
        return self._cache.rows("(dir, name) IN (SELECT dir, name FROM temp.gone)")

    def drop_missed(self, *, accepted: bool) -> None:
        """Forget the files that the scan did not find: all of them, or those whose delete was `accepted`."""
        only = "AND digest(loc) IN (SELECT digest FROM accepted)" if accepted else ""
        with self._cache.change():
            self._db.execute(
                f"DELETE FROM files WHERE (dir, name) IN (SELECT dir, name FROM temp.gone) {only}"
            )
            self.find_all()

    def beside(self) -> Iterator[tuple[Row, str, str]]:
        """Every live row with the lastmod, if any, and the ext that the state lists of its URL."""
        for *values, lastmod, ext in self._db.execute(_BESIDE):
            yield row_of(values), lastmod, ext

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

"""SQLite: row triggers, PRAGMA data_version, a lock file beside the database.

1. The database's own write lock is held for the moments of deleting from the outbox only, never while events
   are on their way to Redis: the application writes to the same file.
2. REPLACE fires no delete trigger unless the writer has set recursive_triggers: the comparison of the whole
   table finds what it did.
3. SQLite looks up the names in a trigger when it prepares the application's statement, and refuses it when
   the outbox is not there; no trigger can catch that. So the relay makes a missing outbox anew, even where it
   may not install triggers.

A little longer than most modules: it is one class, one method for each step that `Dialect` leaves open.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from threading import Event
from time import monotonic
from typing import Any, ClassVar, Final

from producers.database.dialect import BadValue, Broken, Dialect, Found, near
from producers.database.outbox import Record
from producers.database.shape import Column, Shape, Table, Watched
from producers.database.source import DatabaseSource
from producers.database.triggers import Plan, TableTriggers, Types, row_triggers
from sitemap_store.errors import SitemapdError

BUSY_S: Final = 5.0
"""How long a statement waits for the application to finish its transaction."""
LOCK_SUFFIX: Final = "-sitemapd"
LOOK_ANYWAY_S: Final = 5.0
"""Seconds after which the outbox is looked at even if the file seems unchanged."""
_NOW: Final = "((julianday('now') - 2440587.5) * 86400.0)"
_LOST: Final = {
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN),
    *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_SCHEMA),
}
"""Codes of errors that trying again may help."""


class SQLite(Dialect):
    """One connection."""

    product: ClassVar[str] = "SQLite"
    mark: ClassVar[str] = "?"
    errors: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error,)
    types: ClassVar[Types] = Types(
        id="    id INTEGER PRIMARY KEY,\n",
        name="TEXT",
        long="TEXT",
        moment=f"REAL NOT NULL DEFAULT {_NOW}",
        link="TEXT",
    )

    def __init__(self, source: DatabaseSource, *, application: str = "sitemapd") -> None:
        super().__init__(source)
        self._lock: int | None = None
        self._version = 0
        self._seen = float("-inf")
        if source.setup is None and not source.file.exists():
            raise self.away(f"there is no file {source.file}")
        with self.translated():
            # Statements that write begin a transaction, and take the write lock at once.
            self._connection = sqlite3.connect(
                source.file, timeout=BUSY_S, isolation_level="IMMEDIATE", check_same_thread=False
            )
            self._connection.text_factory = _text  # a row that is no UTF-8 must not spoil the others
        if source.setup is not None:
            self._set_up(source)

    def _set_up(self, source: DatabaseSource) -> None:
        if self.run("SELECT 1 FROM sqlite_master LIMIT 1"):
            return
        assert source.setup is not None
        try:
            script = source.setup.read_text("utf-8")
        except OSError as error:
            source.bad("setup", f"{source.setup} can't be read ({error.strerror}).")
        try:
            self._connection.executescript(f"BEGIN IMMEDIATE; {script}; COMMIT;")
        except sqlite3.OperationalError as error:
            if not self.run("SELECT 1 FROM sqlite_master LIMIT 1"):
                source.bad("setup", f"{source.setup} fails: {error}.")
            self.rollback()  # another process was first

    def failure(self, error: Exception) -> SitemapdError:
        """By its code."""
        lost = isinstance(error, sqlite3.OperationalError) and (error.sqlite_errorcode & 0xFF) in _LOST
        return self.away(str(error)) if lost else Broken(f"SQLite: {error}")

    def close(self) -> None:
        """Close the connection, and give the lead up."""
        super().close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def run(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """What fails and can be prepared, fails for a value."""
        try:
            return super().run(sql, values)
        except Broken as error:
            with self.translated():
                self._connection.execute(f"EXPLAIN {sql}", tuple(values))
            raise BadValue(str(error)) from None

    def define(self, sql: str) -> None:
        """In a transaction, which the driver begins for changes of rows only."""
        with self.translated():
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN IMMEDIATE")
        super().define(sql)

    def text(self, column: Column, prefix: str = "") -> str:
        """As it is: values have types of their own."""
        return f"{prefix}{self.quote(column.name)}"

    def noted_as(self, column: Column, prefix: str = "") -> str:
        """Text behind an apostrophe, all else as a literal; JSON has no bytes, and would cut long numbers."""
        value = f"{prefix}{self.quote(column.name)}"
        return (
            f"CASE typeof({value}) WHEN 'text' THEN '''' || {value} "
            f"WHEN 'null' THEN NULL ELSE quote({value}) END"
        )

    def encoded(self, value: object) -> str | None:
        """As a trigger notes it."""
        if isinstance(value, str):
            return f"'{value}"
        if isinstance(value, bytes):
            return f"X'{value.hex()}'"
        return None if value is None else repr(value)

    def decoded(self, text: str | None) -> object:
        """What `noted_as` and `encoded` wrote."""
        if text is None or text.startswith("'"):
            return text and text[1:]
        if text.startswith("X'"):
            return bytes.fromhex(text[2:-1])
        return int(text) if text.lstrip("-").isdigit() else float(text)

    def columns_of(self, relation: str) -> list[Column]:
        """With the types that they were declared with; values have types of their own."""
        with self.translated():
            self._connection.execute("DROP VIEW IF EXISTS temp.sitemapd_columns")
            self._connection.execute(f"CREATE TEMP VIEW sitemapd_columns AS SELECT * FROM {relation}")
            rows = self._connection.execute("PRAGMA temp.table_info(sitemapd_columns)").fetchall()
            self._connection.execute("DROP VIEW temp.sitemapd_columns")
        return [Column(row[1], "any", row[2].upper()) for row in rows]

    def table(self, name: str) -> Table:
        """In the main database."""
        short = name.removeprefix("main.")
        known = [row[0] for row in self.run("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for each in known:
            if each.lower() == short.lower():
                return Table("", each)
        raise Broken(f"there is no table {name}.{near(short, known)}")

    def primary_key(self, table: Table) -> list[str]:
        """As it was declared."""
        rows = self.run("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", [table.name])
        return [row[0] for row in rows]

    def leading_columns(self, table: Table) -> set[str]:
        """Of the indexes and of the primary key."""
        rows = self.run(
            "SELECT c.name FROM pragma_index_list(?) AS i JOIN pragma_index_info(i.name) AS c "
            "WHERE c.seqno = 0",
            [table.name],
        )
        return {row[0] for row in rows} | set(self.primary_key(table)[:1])

    def lead(self, label: str) -> bool:
        """By a lock of the operating system on a file, which ends with the process."""
        if self._lock is None:
            name = f"{self.source.file}{LOCK_SUFFIX}-{label.replace('/', '.')}"
            try:
                self._lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise Broken(f"SQLite: {name} can't be made ({error.strerror}).") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def take(self, label: str, limit: int) -> list[Record]:
        """Not locked: no other relay reads them, and no application changes them."""
        self._version = self.run("PRAGMA data_version")[0][0]
        self._seen = monotonic()
        rows = self.run(
            f"SELECT id, created, kind, old, new FROM {self.outbox} WHERE source = ? ORDER BY id LIMIT ?",
            [label, limit],
        )
        return [Record.read((number, created), *row) for number, created, *row in rows]

    def finish(self, label: str, ids: Sequence[Any]) -> None:
        """By number and time: SQLite gives the number of a row that somebody else deleted to another one."""
        with self.translated():
            self._connection.executemany(f"DELETE FROM {self.outbox} WHERE id = ? AND created = ?", ids)

    def matching(
        self, columns: Sequence[Column], wanted: Sequence[Sequence[object]]
    ) -> tuple[str, list[object]]:
        """By row values. A number that came as text is looked for as both."""
        rows = [spelling for row in wanted for spelling in _spellings(row)]
        names = ", ".join(self.quote(column.name) for column in columns)
        one = f"({', '.join(['?'] * len(columns))})"
        return (
            f"({names}) IN (VALUES {', '.join([one] * len(rows))})",
            [value for row in rows for value in row],
        )

    def stream(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        """From a temporary copy: without WAL a reader that takes its time keeps everybody from writing."""
        self.run("DROP TABLE IF EXISTS temp.sitemapd_stream")
        self.run(f"CREATE TEMP TABLE sitemapd_stream AS {sql}")
        yield from super().stream("SELECT * FROM temp.sitemapd_stream")

    def streaming_cursor(self) -> Any:
        """The usual one, which reads row by row."""
        return self._connection.cursor()

    def wait(self, seconds: float, wake: Event) -> None:
        """Until another connection has written to the file."""
        pause = self.source.poll_interval
        while not wake.wait(pause):
            if self.run("PRAGMA data_version")[0][0] != self._version:
                return
            if monotonic() - self._seen > LOOK_ANYWAY_S:
                return
            self._empty_wal()

    def _empty_wal(self) -> None:
        """Leave nothing in the write-ahead log while nobody writes.

        It stays as long as this connection does, also when the application has closed all of its own to put
        another file in this one's place: that file would then be read with the pages of the old one.
        """
        try:
            if os.stat(f"{self.source.file}-wal").st_size == 0:
                return
        except OSError:
            return
        self.run("PRAGMA busy_timeout = 0")  # so that nobody waits for it: the next try is soon
        with suppress(sqlite3.OperationalError):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self.run(f"PRAGMA busy_timeout = {round(BUSY_S * 1000)}")

    def age(self, moment: str) -> str:
        """Of seconds since 1970."""
        return f"{_NOW} - {moment}"

    def triggers_on(self, shape: Shape, watched: Watched) -> TableTriggers:
        """They do nothing that can fail as long as the outbox is there."""
        return row_triggers(
            self,
            shape,
            watched,
            changed="OLD.{0} IS NOT NEW.{0} COLLATE BINARY",
            body="{event}\n    ON {table}\n    WHEN {condition}\nBEGIN\n    {comment}\n    {insert};\nEND",
        )

    def found_triggers(self, plan: Plan) -> list[Found]:
        """By the definition in their comments."""
        rows = self.run("SELECT tbl_name, name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name")
        return [
            Found(name, True, sql, sql)
            for table, name, sql in rows
            if (Table("", table), name) in plan.triggers
        ]

    def found_tables(self, plan: Plan) -> list[str]:
        """By their names."""
        rows = self.run("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        return [name for (name,) in rows if name in plan.needed]

    def ground(self, plan: Plan) -> str:
        """By the file, and by the number that every change of the schema raises."""
        try:
            file = os.stat(self.source.file)
        except OSError as error:
            raise self.away(f"there is no file {self.source.file}") from error
        version = self.run("PRAGMA schema_version")[0][0]
        return f"{file.st_dev} {file.st_ino} {version}"

    def marked(self) -> list[tuple[str, str]]:
        """By their names."""
        rows = self.run(
            "SELECT sql, name FROM sqlite_master "
            "WHERE type = 'trigger' AND name GLOB 'sitemapd_*' ORDER BY name"
        )
        return [(sql, f"DROP TRIGGER IF EXISTS {self.quote(name)}") for sql, name in rows]


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


def _spellings(row: Sequence[object]) -> Iterator[tuple[object, ...]]:
    """The values, and others that stand in an address alike: a number as text, digits as a number."""
    return product(*(_alike(value) for value in row))


def _alike(value: object) -> list[object]:
    if isinstance(value, bytes):
        return [value, value.decode("utf-8", "replace")]
    text = str(value)
    found: list[object] = [text, text.encode()]
    digits = text.removeprefix("-")
    if not isinstance(value, str):
        found.append(value)
    elif digits.isascii() and digits.isdigit() and str(number := int(text)) == text and abs(number) < 2**63:
        found.append(number)
    return found

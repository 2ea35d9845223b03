"""MariaDB and MySQL: row triggers, GET_LOCK."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from itertools import groupby
from threading import Event
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs, unquote, urlsplit

import pymysql
from pymysql.constants import FIELD_TYPE
from pymysql.cursors import SSCursor

from producers.database.dialect import STREAM_ROWS, BadValue, Broken, Dialect, Installed, Record, near
from producers.database.mysql_connection import Connection
from producers.database.secrets import sentence
from producers.database.shape import OUTBOX, SOURCES, Column, Table
from producers.database.source import DatabaseSource
from producers.database.triggers import Plan
from producers.dates import Kind
from sitemap_store.errors import Unavailable

IDLE_S: Final = 120
"""How long a relay that has stopped dead keeps its place and its locks."""
_PARAMETERS: Final = ("unix_socket", "ssl_ca", "ssl_cert", "ssl_key")
_KINDS: Final[dict[int, Kind]] = {
    FIELD_TYPE.TINY: "integer",
    FIELD_TYPE.SHORT: "integer",
    FIELD_TYPE.INT24: "integer",
    FIELD_TYPE.LONG: "integer",
    FIELD_TYPE.LONGLONG: "integer",
    FIELD_TYPE.DECIMAL: "number",
    FIELD_TYPE.NEWDECIMAL: "number",
    FIELD_TYPE.FLOAT: "number",
    FIELD_TYPE.DOUBLE: "number",
    FIELD_TYPE.DATE: "day",
    FIELD_TYPE.NEWDATE: "day",
    FIELD_TYPE.DATETIME: "local",
    FIELD_TYPE.TIMESTAMP: "instant",
    FIELD_TYPE.BIT: "none",
    FIELD_TYPE.GEOMETRY: "none",
}
_TEXTS: Final = {
    FIELD_TYPE.VARCHAR,
    FIELD_TYPE.VAR_STRING,
    FIELD_TYPE.STRING,
    FIELD_TYPE.TINY_BLOB,
    FIELD_TYPE.MEDIUM_BLOB,
    FIELD_TYPE.LONG_BLOB,
    FIELD_TYPE.BLOB,
}
_INEXACT: Final = {str(FIELD_TYPE.FLOAT), str(FIELD_TYPE.DOUBLE), str(FIELD_TYPE.JSON)}
"""Types that = does not compare with what they are written as; their texts are compared."""
_LOST: Final = (1205, 1213, 1040, 1053, 1152, 1153, 1158, 1159, 1160, 1161, 1180, 1290, 2006, 2013, 4031)
"""Codes of errors that trying again may help: deadlocks, lost connections, a server that goes down."""


@contextmanager
def translated(source: DatabaseSource) -> Iterator[None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except (pymysql.err.InterfaceError, pymysql.err.OperationalError, pymysql.err.InternalError) as error:
        code = error.args[0] if error.args else 0
        told = sentence(error, source.dsn) if error.args else "the connection is lost"
        if (
            isinstance(error, pymysql.err.InterfaceError)
            or code in _LOST
            or 1900 < code < 2100
            or code == 1045
        ):
            raise Unavailable(what="MariaDB/MySQL", detail=told) from None
        raise Broken(f"MariaDB/MySQL: {told}") from None
    except pymysql.err.DataError as error:
        raise BadValue(f"MariaDB/MySQL: {sentence(error, source.dsn)}") from None
    except pymysql.err.Error as error:
        raise Broken(f"MariaDB/MySQL: {sentence(error, source.dsn)}") from None
    except (OSError, ValueError) as error:  # a socket closed in the middle, as PyMySQL lets it through
        raise Unavailable(what="MariaDB/MySQL", detail=sentence(error, source.dsn)) from None


class MySQL(Dialect):
    """One connection."""

    mark: ClassVar[str] = "%s"

    def __init__(self, source: DatabaseSource, *, application: str = "sitemapd") -> None:
        super().__init__(source)
        parts = urlsplit(source.dsn)
        given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        for name in given:
            if name not in _PARAMETERS:
                source.bad("dsn", f"has a parameter {name!r}.", f"Known: {', '.join(_PARAMETERS)}.")
        self.database = unquote(parts.path[1:])
        if not self.database:
            source.bad("dsn", "names no database.", "Write mysql://USER@HOST/DATABASE.")
        try:
            port = parts.port or 3306
        except ValueError:
            source.bad("dsn", "is not readable as an address.", "Percent-encode the password.")
        options: dict[str, Any] = given
        with translated(source):
            self._connection = Connection(
                host=parts.hostname or "localhost",
                port=port,
                user=unquote(parts.username or ""),
                password=unquote(parts.password or ""),
                database=self.database,
                charset="utf8mb4",
                connect_timeout=5,
                autocommit=False,
                program_name=application,
                **options,
            )
            cursor = self._connection.cursor()
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute(f"SET time_zone = '+00:00', wait_timeout = {IDLE_S}")
            self._connection.commit()

    def close(self) -> None:
        """Close the connection."""
        with suppress(pymysql.err.Error, OSError):
            self._connection.close()

    def run(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run one statement."""
        with translated(self.source), self._connection.cursor() as cursor:
            cursor.execute(sql, tuple(values))
            return list(cursor.fetchall()) if cursor.description else []

    def define(self, sql: str) -> None:
        """Run one statement in which a % stands for itself."""
        with translated(self.source), self._connection.cursor() as cursor:
            cursor.execute(sql)

    def commit(self) -> None:
        """Commit."""
        with translated(self.source):
            self._connection.commit()

    def rollback(self) -> None:
        """Roll back."""
        with suppress(pymysql.err.Error, OSError):
            self._connection.rollback()

    def quote(self, name: str) -> str:
        """An identifier, quoted."""
        return "`" + name.replace("`", "``") + "`"

    def ours(self, name: str) -> str:
        """A table of ours, in the dsn's database."""
        return f"{self.quote(self.database)}.{self.quote(name)}"

    def fragment(self, sql: str) -> str:
        """With % for parameters."""
        return sql.replace("%", "%%")

    def text(self, column: Column, prefix: str = "") -> str:
        """Cast to text: the driver's own reading of dates loses zero dates. Bytes as hex."""
        quoted = f"{prefix}{self.quote(column.name)}"
        return f"HEX({quoted})" if column.kind == "bytes" else f"CAST({quoted} AS CHAR CHARACTER SET utf8mb4)"

    def changed(self, column: Column) -> str:
        """NULL equals NULL."""
        old, new = (f"{row}.{self.quote(column.name)}" for row in ("OLD", "NEW"))
        if column.kind == "text":
            old, new = f"CAST({old} AS BINARY)", f"CAST({new} AS BINARY)"
        return f"NOT {old} <=> {new}"

    def columns_of(self, relation: str) -> list[Column]:
        """Names and types as an empty result has them."""
        with translated(self.source), self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {relation} LIMIT 0", ())
            found = [(row[0], row[1]) for row in cursor.description or ()]
            texts = [name for name, code in found if code in _TEXTS]
            binary: set[str] = set()
            if texts:
                asked = ", ".join(f"COLLATION(MAX({self.quote(name)}))" for name in texts)
                cursor.execute(f"SELECT {asked} FROM (SELECT * FROM {relation} LIMIT 0) AS sitemapd_none", ())
                answers = cursor.fetchone() or ()
                binary = {name for name, answer in zip(texts, answers, strict=True) if answer == "binary"}
            return [
                Column(name, "bytes" if name in binary else _KINDS.get(code, "text"), str(code))
                for name, code in found
            ]

    def table(self, name: str) -> Table:
        """In the dsn's database, unless it says another."""
        schema, _, short = name.rpartition(".")
        known = [
            row[0]
            for row in self.run(
                "SELECT table_name FROM information_schema.tables "
                "WHERE table_schema = %s AND table_type = 'BASE TABLE'",
                [schema or self.database],
            )
        ]
        if short in known:
            return Table(schema or self.database, short)
        raise Broken(f"there is no table {name}.{near(short, known)}")

    def primary_key(self, table: Table) -> list[str]:
        """In the key's order."""
        rows = self.run(
            "SELECT column_name FROM information_schema.statistics "
            "WHERE table_schema = %s AND table_name = %s AND index_name = 'PRIMARY' ORDER BY seq_in_index",
            table,
        )
        return [row[0] for row in rows]

    def leading_columns(self, table: Table) -> set[str]:
        """From the index statistics."""
        rows = self.run(
            "SELECT column_name FROM information_schema.statistics "
            "WHERE table_schema = %s AND table_name = %s AND seq_in_index = 1",
            table,
        )
        return {row[0] for row in rows}

    def lead(self, label: str) -> bool:
        """By a lock of the server's; its name has 64 characters at most."""
        name = "sitemapd-" + hashlib.sha256(f"{self.database} {label}".encode()).hexdigest()[:40]
        rows = self.run("SELECT GET_LOCK(%s, 0)", [name])
        self.commit()
        return bool(rows[0][0])

    def take(self, label: str, limit: int) -> list[Record]:
        """In the order of their ids."""
        rows = self.run(
            f"SELECT id, kind, old, new FROM {self.outbox} WHERE source = %s ORDER BY id LIMIT %s "
            "FOR UPDATE SKIP LOCKED",
            [label, limit],
        )
        return Record.several(rows)

    def finish(self, label: str, ids: Sequence[Any]) -> None:
        """By ranges of ids that are all ours: a list of ids is looked for in the whole table, and that waits
        for rows that other transactions have not committed."""
        for _, run in groupby(enumerate(sorted(ids)), lambda pair: pair[1] - pair[0]):
            several = [each for _, each in run]
            self.run(
                f"DELETE FROM {self.outbox} WHERE id BETWEEN %s AND %s ORDER BY id LIMIT %s",
                [several[0], several[-1], len(several)],
            )

    def matching(
        self, columns: Sequence[Column], wanted: Sequence[Sequence[object]]
    ) -> tuple[str, list[object]]:
        """By lists of literals, one a column so that its index serves, and one of pairs to be exact."""
        conditions, values = [], []
        several = [list(dict.fromkeys(row[at] for row in wanted)) for at in range(len(columns))]
        names = [
            self.text(column) if column.type in _INEXACT else self.quote(column.name) for column in columns
        ]
        marks = ["UNHEX(%s)" if column.kind == "bytes" else "%s" for column in columns]
        for column, name, mark, texts in zip(columns, names, marks, several, strict=True):
            conditions.append(f"{name} IN ({', '.join([mark] * len(texts))})")
            values += [_typed(column, text) for text in texts]
        if len(columns) > 1:
            # A list of rows would compare texts of other character sets with none of them.
            one = " AND ".join(f"{name} = {mark}" for name, mark in zip(names, marks, strict=True))
            conditions.append(f"({' OR '.join([one] * len(wanted))})")
            for row in wanted:
                values += [_typed(column, text) for column, text in zip(columns, row, strict=True)]
        return " AND ".join(conditions), values

    def stream(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        """By a cursor that does not buffer, in one consistent read."""
        with translated(self.source):
            cursor = self._connection.cursor(SSCursor)
            try:
                cursor.execute(sql, ())
                while rows := cursor.fetchmany(STREAM_ROWS):
                    yield list(rows)
            finally:
                with suppress(pymysql.err.Error, OSError):
                    cursor.close()
                self.rollback()

    def wait(self, seconds: float, wake: Event) -> None:
        """There is nothing to wait for."""
        wake.wait(seconds)

    def age(self, moment: str) -> str:
        """Of TIMESTAMP(6)."""
        return f"UNIX_TIMESTAMP(CURRENT_TIMESTAMP(6)) - UNIX_TIMESTAMP({moment})"

    def _triggers(self, plan: Plan) -> list[tuple[Any, ...]]:
        """Body, table and time of each trigger of the plan. Only those who may make triggers see them."""
        names = [name for _, name in plan.triggers]
        return self.run(
            "SELECT event_object_schema, event_object_table, trigger_name, action_statement, created "
            "FROM information_schema.triggers "
            f"WHERE trigger_schema = %s AND trigger_name IN ({', '.join(['%s'] * len(names))}) ORDER BY 3",
            [plan.triggers[0][0].schema, *names],
        )

    def installed(self, plan: Plan) -> Installed:
        """By the definition in the triggers' comments."""
        rows = {(Table(schema, table), name): body for schema, table, name, body, _ in self._triggers(plan)}
        if not self._has_outbox():
            return "missing"
        if not rows and not self._sees_triggers():
            return "unknown"
        if not all(each in rows for each in plan.triggers):
            return "missing"
        return "installed" if all(plan.definition in body for body in rows.values()) else "different"

    def ground(self, plan: Plan) -> str:
        """By the times at which triggers were made."""
        return repr((self._has_outbox(), *self._triggers(plan)))

    def _has_outbox(self) -> bool:
        sql = "SELECT count(*) FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        return bool(self.run(sql, [self.database, OUTBOX])[0][0])

    def _sees_triggers(self) -> bool:
        grants = " ".join(str(row[0]).upper() for row in self.run("SHOW GRANTS"))
        return "TRIGGER" in grants or "ALL PRIVILEGES" in grants

    def marked(self) -> list[tuple[str, str]]:
        """By their names, in all schemas that the role may see."""
        rows = self.run(
            "SELECT action_statement, trigger_schema, trigger_name FROM information_schema.triggers "
            "WHERE trigger_name LIKE 'sitemapd\\_%%' ORDER BY 2, 3",
        )
        return [
            (body, f"DROP TRIGGER IF EXISTS {self.quote(schema)}.{self.quote(name)}")
            for body, schema, name in rows
        ]

    def upsert(self, label: str, column: str, value: str | None) -> None:
        """By ON DUPLICATE KEY."""
        self.run(
            f"INSERT INTO {self.ours(SOURCES)} (source, {column}) VALUES (%s, %s) "
            f"ON DUPLICATE KEY UPDATE {column} = VALUES({column})",
            [label, value],
        )


def _typed(column: Column, value: object) -> object:
    """A literal of the column's own type: text beside a number keeps its index from use, and is inexact."""
    if column.kind in ("integer", "number") and column.type not in _INEXACT:
        return Decimal(str(value))
    return value

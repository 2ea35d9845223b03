"""MariaDB and MySQL: row triggers, GET_LOCK."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs, unquote, urlsplit

import pymysql
from pymysql.constants import FIELD_TYPE
from pymysql.cursors import SSCursor

from producers.database.dates import Kind
from producers.database.dialect import STREAM_ROWS, Broken, Dialect, Installed, Record, near
from producers.database.mysql_connection import Connection
from producers.database.secrets import sentence
from producers.database.shape import SOURCES, Column, Shape, Table
from producers.database.source import DatabaseSource
from producers.database.triggers import Plan
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
}
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
        """Cast to text: the driver's own reading of dates loses zero dates."""
        return f"CAST({prefix}{self.quote(column.name)} AS CHAR CHARACTER SET utf8mb4)"

    def columns_of(self, relation: str) -> list[Column]:
        """Names and types as an empty result has them."""
        with translated(self.source), self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {relation} LIMIT 0", ())
            return [Column(row[0], _KINDS.get(row[1], "text"), "") for row in cursor.description or ()]

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
        """By their ids."""
        self.run(f"DELETE FROM {self.outbox} WHERE id IN ({', '.join(['%s'] * len(ids))})", ids)

    def matching(
        self, columns: Sequence[Column], wanted: Sequence[Sequence[object]]
    ) -> tuple[str, list[object]]:
        """By lists of literals, one a column so that its index serves, and one of pairs to be exact."""
        conditions, values = [], []
        several = [list(dict.fromkeys(row[at] for row in wanted)) for at in range(len(columns))]
        for column, texts in zip(columns, several, strict=True):
            conditions.append(f"{self.quote(column.name)} IN ({', '.join(['%s'] * len(texts))})")
            values += [_typed(column, text) for text in texts]
        if len(columns) > 1:
            names = ", ".join(self.quote(column.name) for column in columns)
            one = f"({', '.join(['%s'] * len(columns))})"
            conditions.append(f"({names}) IN ({', '.join([one] * len(wanted))})")
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

    def installed(self, shape: Shape, plan: Plan) -> Installed:
        """By the definition in the triggers' comments. Only those who may make triggers see them."""
        found = []
        for table, name in plan.triggers:
            rows = self.run(
                "SELECT action_statement FROM information_schema.triggers "
                "WHERE event_object_schema = %s AND event_object_table = %s AND trigger_name = %s",
                [*table, name],
            )
            if not rows:
                found.append("")
            else:
                found.append("installed" if plan.definition in rows[0][0] else "different")
        if all(each == "installed" for each in found):
            return "installed"
        if not any(found) and not self._sees_triggers(plan.triggers[0][0]):
            return "unknown"
        return "different" if all(found) else "missing"

    def _sees_triggers(self, table: Table) -> bool:
        grants = " ".join(str(row[0]).upper() for row in self.run("SHOW GRANTS"))
        return "TRIGGER" in grants or "ALL PRIVILEGES" in grants

    def upsert(self, label: str, column: str, value: str | None) -> None:
        """By ON DUPLICATE KEY."""
        self.run(
            f"INSERT INTO {self.ours(SOURCES)} (source, {column}) VALUES (%s, %s) "
            f"ON DUPLICATE KEY UPDATE {column} = VALUES({column})",
            [label, value],
        )


def _typed(column: Column, value: object) -> object:
    """A literal of the column's own type: text beside an integer column would keep its index from use."""
    if column.kind == "integer":
        try:
            return int(str(value))
        except ValueError:
            return value
    return value

"""PostgreSQL: statement triggers with transition tables, LISTEN, advisory locks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event
from time import monotonic
from typing import Any, ClassVar, Final

import psycopg
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from producers.database.dialect import STREAM_ROWS, BadValue, Broken, Dialect, Installed, Record, near
from producers.database.secrets import sentence
from producers.database.shape import OUTBOX, SOURCES, Column, Table
from producers.database.source import DatabaseSource
from producers.database.triggers import Plan
from producers.dates import Kind
from sitemap_store.errors import Unavailable

SLICE_S: Final = 0.25
"""A wait for NOTIFY can't be woken otherwise, so it is cut into slices."""
IDLE_MS: Final = 120_000
"""How long a relay that has stopped dead keeps its place and its locks."""
_SETTINGS: Final = (
    "SET timezone = 'UTC'",
    "SET datestyle = 'ISO, MDY'",
    "SET default_transaction_isolation = 'read committed'",
    f"SET idle_in_transaction_session_timeout = {IDLE_MS}",
)
_KINDS: Final[dict[int, Kind]] = {
    17: "bytes",
    20: "integer",
    21: "integer",
    23: "integer",
    700: "number",
    701: "number",
    1700: "number",
    1082: "day",
    1114: "local",
    1184: "instant",
}
"""Type oid → kind; all others are text."""
_UNEQUAL: Final = ("json", "xml", "point", "line", "lseg", "box", "path", "polygon", "circle")
"""Types whose values no = compares as they are written; their texts are compared."""


@contextmanager
def translated(source: DatabaseSource) -> Iterator[None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except (errors.InsufficientPrivilege, psycopg.ProgrammingError) as error:
        raise Broken(f"PostgreSQL: {sentence(error, source.dsn)}") from None
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise Unavailable(what="PostgreSQL", detail=sentence(error, source.dsn)) from None
    except psycopg.DataError as error:
        raise BadValue(f"PostgreSQL: {sentence(error, source.dsn)}") from None
    except psycopg.Error as error:
        raise Broken(f"PostgreSQL: {sentence(error, source.dsn)}") from None


class PostgreSQL(Dialect):
    """One connection."""

    mark: ClassVar[str] = "%s"

    def __init__(self, source: DatabaseSource, *, application: str = "sitemapd") -> None:
        super().__init__(source)
        try:
            psycopg.conninfo.conninfo_to_dict(source.dsn)
        except psycopg.ProgrammingError:
            source.bad("dsn", "is not readable as an address.", "Percent-encode the password.")
        with translated(source):
            self._connection = psycopg.connect(
                source.dsn, connect_timeout=5, application_name=application, keepalives_idle=30
            )
            for setting in _SETTINGS:
                self._connection.execute(setting)
            if self._connection.info.parameter_status("server_encoding") == "SQL_ASCII":
                # Its texts are any bytes: one that is no UTF-8 must not spoil the others.
                self._connection.execute("SET client_encoding = 'SQL_ASCII'")
                for kind in ("text", "name"):
                    self._connection.adapters.register_loader(kind, _Text)
            if source.notify:
                self._connection.execute(f"LISTEN {OUTBOX}")
            self._connection.commit()

    def close(self) -> None:
        """Close the connection."""
        with suppress(psycopg.Error):
            self._connection.close()

    def run(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run one statement."""
        with translated(self.source):
            cursor = self._connection.execute(sql.encode(), tuple(values))
            return cursor.fetchall() if cursor.description else []

    def define(self, sql: str) -> None:
        """Run one statement in which a % stands for itself."""
        with translated(self.source):
            self._connection.execute(sql.encode())

    def commit(self) -> None:
        """Commit."""
        with translated(self.source):
            self._connection.commit()

    def rollback(self) -> None:
        """Roll back."""
        with suppress(psycopg.Error):
            self._connection.rollback()

    def quote(self, name: str) -> str:
        """An identifier, quoted."""
        return '"' + name.replace('"', '""') + '"'

    def ours(self, name: str) -> str:
        """A table of ours, in the outbox's schema."""
        return f"{self.quote(self.source.outbox_schema or 'public')}.{self.quote(name)}"

    def fragment(self, sql: str) -> str:
        """With % for parameters."""
        return sql.replace("%", "%%")

    def text(self, column: Column, prefix: str = "") -> str:
        """Cast to text; bytes as hex."""
        quoted = f"{prefix}{self.quote(column.name)}"
        return f"encode({quoted}, 'hex')" if column.kind == "bytes" else f"{quoted}::text"

    def columns_of(self, relation: str) -> list[Column]:
        """Names and types as an empty result has them."""
        with translated(self.source):
            cursor = self._connection.execute(f"SELECT * FROM {relation} LIMIT 0".encode(), ())
            found = [(column.name, column.type_code) for column in cursor.description or ()]
            types: dict[int, str] = dict(
                self._connection.execute(
                    "SELECT oid, format_type(oid, -1) FROM pg_type WHERE oid = ANY(%s)",
                    [[code for _, code in found]],
                ).fetchall()
            )
            return [Column(name, _KINDS.get(code, "text"), types[code]) for name, code in found]

    def table(self, name: str) -> Table:
        """As the search path finds it."""
        parts = name.split(".")
        quoted = ".".join(map(self.quote, parts))
        rows = self.run(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.oid = to_regclass(%s) AND c.relkind IN ('r', 'p')",
            [quoted],
        )
        if rows:
            return Table(*rows[0])
        known = [
            row[0] if len(parts) == 1 else f"{row[1]}.{row[0]}"
            for row in self.run(
                "SELECT table_name, table_schema FROM information_schema.tables "
                "WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')"
            )
        ]
        raise Broken(f"there is no table {name}.{near(name, known)}")

    def primary_key(self, table: Table) -> list[str]:
        """In the key's order."""
        rows = self.run(
            "SELECT a.attname FROM pg_index i "
            "CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(attnum, place) "
            "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "
            "WHERE i.indisprimary AND i.indrelid = to_regclass(%s) ORDER BY k.place",
            [self.qualified(table)],
        )
        return [row[0] for row in rows]

    def leading_columns(self, table: Table) -> set[str]:
        """From pg_index."""
        rows = self.run(
            "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
            "AND a.attnum = i.indkey[0] WHERE i.indrelid = to_regclass(%s)",
            [self.qualified(table)],
        )
        return {row[0] for row in rows}

    def lead(self, label: str) -> bool:
        """By a session's advisory lock."""
        number = int.from_bytes(hashlib.sha256(f"sitemapd {label}".encode()).digest()[:8], "big", signed=True)
        rows = self.run("SELECT pg_try_advisory_lock(%s)", [number])
        self.commit()
        return bool(rows[0][0])

    def take(self, label: str, limit: int) -> list[Record]:
        """Deleted as they are read, for nobody but this transaction as long as it has not committed.

        They are known by their ctid: an id from a sequence would change what lastval() tells the application.
        """
        rows = self.run(
            f"DELETE FROM {self.outbox} WHERE ctid = ANY(ARRAY("
            f"SELECT ctid FROM {self.outbox} WHERE source = %s ORDER BY created LIMIT %s)) "
            "RETURNING 0, kind, old, new",
            [label, limit],
        )
        return Record.several(rows)

    def finish(self, label: str, ids: Sequence[Any]) -> None:
        """They are deleted already, if the transaction commits."""

    def matching(
        self, columns: Sequence[Column], wanted: Sequence[Sequence[object]]
    ) -> tuple[str, list[object]]:
        """By values of the columns' own types, so that indexes serve."""
        arrays: list[object] = [_array(several) for several in zip(*wanted, strict=True)]
        if len(columns) == 1 and _is_plain(columns[0]):
            return f"{self.quote(columns[0].name)} = ANY(%s::text[]::{columns[0].type}[])", arrays
        names = ", ".join(
            self.text(column) if column.type in _UNEQUAL else self.quote(column.name) for column in columns
        )
        values = ", ".join(_cast(f"u.c{at}", column) for at, column in enumerate(columns))
        aliases = ", ".join(f"c{at}" for at in range(len(columns)))
        unnested = ", ".join(["%s::text[]"] * len(columns))
        return f"({names}) IN (SELECT {values} FROM unnest({unnested}) AS u({aliases}))", arrays

    def stream(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        """By a server-side cursor."""
        with translated(self.source):
            cursor = self._connection.cursor("sitemapd")
            try:
                cursor.execute(sql.encode(), ())
                while rows := cursor.fetchmany(STREAM_ROWS):
                    yield rows
            finally:
                with suppress(psycopg.Error):
                    cursor.close()
                self.rollback()

    def wait(self, seconds: float, wake: Event) -> None:
        """With `notify`, until the next commit of a trigger."""
        if not self.source.notify:
            wake.wait(seconds)
            return
        end = monotonic() + seconds
        while not wake.is_set() and (left := end - monotonic()) > 0:
            with translated(self.source):
                if any(True for _ in self._connection.notifies(timeout=min(left, SLICE_S), stop_after=1)):
                    return

    def age(self, moment: str) -> str:
        """Of timestamptz."""
        return f"extract(epoch FROM clock_timestamp() - {moment})"

    def _triggers(self, plan: Plan) -> list[tuple[Any, ...]]:
        """Of each that is there: has it this definition, does it fire, a text that its changes change."""
        wanted = [[self.qualified(table), name] for table, name in plan.triggers]
        return self.run(
            "SELECT position(%s IN p.prosrc) > 0, t.tgenabled IN ('O', 'A'), "
            "concat_ws(' ', t.tgrelid, t.oid, t.xmin, p.oid, p.xmin) "
            "FROM unnest(%s::text[], %s::text[]) AS w(relation, name) "
            "JOIN pg_trigger t ON t.tgrelid = to_regclass(w.relation) AND t.tgname = w.name "
            "JOIN pg_proc p ON p.oid = t.tgfoid ORDER BY w.relation, w.name",
            [plan.definition, [each[0] for each in wanted], [each[1] for each in wanted]],
        )

    def installed(self, plan: Plan) -> Installed:
        """By the definition in the functions' bodies, on the tables that the names mean now."""
        rows = self._triggers(plan)
        there = self.run("SELECT to_regclass(%s) IS NOT NULL", [self.outbox])[0][0]
        if not there or len(rows) < len(plan.triggers) or not all(fires for _, fires, _ in rows):
            return "missing"
        return "installed" if all(same for same, _, _ in rows) else "different"

    def ground(self, plan: Plan) -> str:
        """By the catalog's own numbers: a table that was restored from a dump has others."""
        outbox = self.run("SELECT to_regclass(%s)::oid", [self.outbox])[0][0]
        return " ".join([str(outbox), *(f"{fires} {told}" for _, fires, told in self._triggers(plan))])

    def marked(self) -> list[tuple[str, str]]:
        """Functions; their triggers go with them."""
        rows = self.run(
            "SELECT p.prosrc, n.nspname, p.proname FROM pg_proc p "
            "JOIN pg_namespace n ON n.oid = p.pronamespace "
            "WHERE left(p.proname, 9) = 'sitemapd_' AND p.prorettype = 'trigger'::regtype ORDER BY 2, 3"
        )
        return [
            (body, f"DROP FUNCTION IF EXISTS {self.quote(schema)}.{self.quote(name)}() CASCADE")
            for body, schema, name in rows
        ]

    def upsert(self, label: str, column: str, value: str | None) -> None:
        """By ON CONFLICT."""
        self.run(
            f"INSERT INTO {self.ours(SOURCES)} (source, {column}) VALUES (%s, %s) "
            f"ON CONFLICT (source) DO UPDATE SET {column} = excluded.{column}",
            [label, value],
        )


class _Text(Loader):
    def load(self, data: Buffer) -> str:
        return bytes(data).decode("utf-8", "surrogateescape")


def _is_plain(column: Column) -> bool:
    return column.kind != "bytes" and not column.type.endswith("[]") and column.type not in _UNEQUAL


def _cast(value: str, column: Column) -> str:
    """A text as a value of a column's type."""
    if column.kind == "bytes":
        return f"decode({value}, 'hex')"
    return value if column.type in _UNEQUAL else f"{value}::{column.type}"


def _array(values: Iterable[object]) -> str:
    """An array's literal: the driver would look at the type of each of its values."""
    texts = list(map(str, values))
    joined = '","'.join(texts)
    if "\\" in joined or joined.count('"') > 2 * (len(texts) - 1):
        joined = '","'.join(text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return f'{{"{joined}"}}'

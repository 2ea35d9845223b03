"""PostgreSQL: statement triggers with transition tables, LISTEN, advisory locks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from time import monotonic
from typing import Any, ClassVar, Final

import psycopg
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from producers.database.dialect import LOCK_S, BadValue, Broken, Dialect, Found, near
from producers.database.outbox import Record
from producers.database.postgresql_triggers import statement_triggers
from producers.database.shape import OUTBOX, Column, Shape, Table, Watched
from producers.database.source import DatabaseSource
from producers.database.triggers import Plan, TableTriggers, Types
from producers.dates import Kind
from sitemap_store.errors import SitemapdError

SLICE_S: Final = 0.25
"""A wait for NOTIFY can't be woken otherwise, so it is cut into slices."""
IDLE_MS: Final = 120_000
"""How long a relay that has stopped dead keeps its place and its locks."""
_SETTINGS: Final = (
    "SET timezone = 'UTC'",
    "SET datestyle = 'ISO, MDY'",
    "SET default_transaction_isolation = 'read committed'",
    f"SET idle_in_transaction_session_timeout = {IDLE_MS}",
    f"SET lock_timeout = '{LOCK_S}s'",
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
_BAD_VALUE: Final = (psycopg.DataError, errors.RaiseException, errors.CardinalityViolation)
_BROKEN: Final = (psycopg.ProgrammingError, errors.InsufficientPrivilege)


class PostgreSQL(Dialect):
    """One connection."""

    product: ClassVar[str] = "PostgreSQL"
    errors: ClassVar[tuple[type[Exception], ...]] = (psycopg.Error,)
    role: ClassVar[str] = "sitemapd"
    types: ClassVar[Types] = Types(
        id="",
        name="text",
        long="text",
        moment="timestamptz NOT NULL DEFAULT clock_timestamp()",
        link="text",
        outbox_end=" WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)",
    )

    def __init__(self, source: DatabaseSource, *, application: str = "sitemapd") -> None:
        super().__init__(source)
        try:
            psycopg.conninfo.conninfo_to_dict(source.dsn)
        except psycopg.ProgrammingError:
            source.bad("dsn", "is not readable as an address.", "Percent-encode the password.")
        with self.translated():
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

    def failure(self, error: Exception) -> SitemapdError:
        """By the class of its SQLSTATE."""
        told = self.sentence(error)
        if isinstance(error, _BAD_VALUE):
            return BadValue(f"PostgreSQL: {told}")
        if not isinstance(error, _BROKEN) and isinstance(
            error, psycopg.OperationalError | psycopg.InterfaceError
        ):
            return self.away(told)
        return Broken(f"PostgreSQL: {told}")

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """A savepoint where a transaction is open: an error would end it."""
        with self.translated(), self._connection.transaction():
            yield

    def ours(self, name: str) -> str:
        """A table of ours, in the outbox's schema."""
        return f"{self.quote(self.source.outbox_schema or 'public')}.{self.quote(name)}"

    def text(self, column: Column, prefix: str = "") -> str:
        """Cast to text; bytes as hex."""
        quoted = f"{prefix}{self.quote(column.name)}"
        return f"encode({quoted}, 'hex')" if column.kind == "bytes" else f"{quoted}::text"

    def columns_of(self, relation: str) -> list[Column]:
        """With the names of their types, for casts."""
        with self.translated():
            cursor = self._connection.execute(f"SELECT * FROM {relation} LIMIT 0", ())
            found = [(column.name, column.type_code) for column in cursor.description or ()]
        sql = "SELECT oid, format_type(oid, -1) FROM pg_type WHERE oid = ANY(%s)"
        types = dict(self.run(sql, [[code for _, code in found]]))
        return [Column(name, _KINDS.get(code, "text"), types[code]) for name, code in found]

    def table(self, name: str) -> Table:
        """As the search path finds it."""
        parts = name.split(".")
        rows = self.run(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.oid = to_regclass(%s) AND c.relkind IN ('r', 'p')",
            [".".join(map(self.quote, parts))],
        )
        if rows:
            return Table(*rows[0])
        known = self.run(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')"
        )
        raise Broken(
            f"there is no table {name}.{near(name, ('.'.join(row[-len(parts) :]) for row in known))}"
        )

    def primary_key(self, table: Table) -> list[str]:
        """From pg_index."""
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
        They come about in the order in which they were written, which decides nothing.
        """
        rows = self.run(
            f"DELETE FROM {self.outbox} WHERE ctid = ANY(ARRAY("
            f"SELECT ctid FROM {self.outbox} WHERE source = %s LIMIT %s)) RETURNING 0, kind, old, new",
            [label, limit],
        )
        return [Record.read(*row) for row in rows]

    def finish(self, label: str, ids: Sequence[Any]) -> None:
        """They are deleted already, if the transaction commits."""

    def matching(
        self, columns: Sequence[Column], wanted: Sequence[Sequence[object]]
    ) -> tuple[str, list[object]]:
        """By values of the columns' own types, so that indexes serve."""
        arrays: list[object] = [list(map(str, several)) for several in zip(*wanted, strict=True)]
        if len(columns) == 1 and _is_plain(columns[0]):
            return f"{self.quote(columns[0].name)} = ANY(%s::text[]::{columns[0].type}[])", arrays
        names = ", ".join(
            self.text(column) if column.type in _UNEQUAL else self.quote(column.name) for column in columns
        )
        values = ", ".join(_cast(f"u.c{at}", column) for at, column in enumerate(columns))
        aliases = ", ".join(f"c{at}" for at in range(len(columns)))
        unnested = ", ".join(["%s::text[]"] * len(columns))
        return f"({names}) IN (SELECT {values} FROM unnest({unnested}) AS u({aliases}))", arrays

    def streaming_cursor(self) -> Any:
        """On the server's side."""
        return self._connection.cursor("sitemapd")

    def wait(self, seconds: float, wake: Event) -> None:
        """With `notify`, until the next commit of a trigger."""
        if not self.source.notify:
            wake.wait(seconds)
            return
        end = monotonic() + seconds
        while not wake.is_set() and (left := end - monotonic()) > 0:
            with self.translated():
                if any(True for _ in self._connection.notifies(timeout=min(left, SLICE_S), stop_after=1)):
                    return

    def age(self, moment: str) -> str:
        """Of timestamptz."""
        return f"extract(epoch FROM clock_timestamp() - {moment})"

    def triggers_on(self, shape: Shape, watched: Watched) -> TableTriggers:
        """One function, and a trigger for each kind of statement."""
        return statement_triggers(self, shape, watched)

    def found_triggers(self, plan: Plan) -> list[Found]:
        """On the tables that the names mean now. A restored table has other numbers in the catalog."""
        tables, names = zip(*plan.triggers, strict=True)
        rows = self.run(
            "SELECT t.tgname, t.tgenabled IN ('O', 'A'), p.prosrc, "
            "concat_ws(' ', t.tgrelid, t.oid, t.xmin, p.oid, p.xmin) "
            "FROM unnest(%s::text[], %s::text[]) AS w(relation, name) "
            "JOIN pg_trigger t ON t.tgrelid = to_regclass(w.relation) AND t.tgname = w.name "
            "JOIN pg_proc p ON p.oid = t.tgfoid ORDER BY w.relation, w.name",
            [list(map(self.qualified, tables)), list(names)],
        )
        return [Found(*row) for row in rows]

    def found_tables(self, plan: Plan) -> list[str]:
        """By their oids."""
        sql = "SELECT to_regclass(name)::oid::text FROM unnest(%s::text[]) AS name ORDER BY 1"
        return [oid for (oid,) in self.run(sql, [list(map(self.ours, plan.needed))]) if oid]

    def marked(self) -> list[tuple[str, str]]:
        """Functions; their triggers go with them."""
        rows = self.run(
            "SELECT p.prosrc, n.nspname, p.proname FROM pg_proc p "
            "JOIN pg_namespace n ON n.oid = p.pronamespace "
            "WHERE left(p.proname, 9) = 'sitemapd_' AND p.prorettype = 'trigger'::regtype ORDER BY 2, 3"
        )
        return [
            (body, f"DROP FUNCTION IF EXISTS {self.qualified(Table(*name))}() CASCADE")
            for body, *name in rows
        ]


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

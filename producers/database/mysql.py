"""MariaDB and MySQL: row triggers, GET_LOCK.

Foreign keys that cascade and TRUNCATE fire no trigger: the comparison of the whole table finds what they did.
A trigger runs with the rights of its DEFINER. Where that user was dropped, the server refuses the
application's statements before anything of the trigger runs: the relay makes it anew as soon as it sees that.

A little longer than most modules: it is one class, one method for each step that `Dialect` leaves open.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import groupby
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs, unquote, urlsplit

import pymysql
from pymysql.constants import FIELD_TYPE
from pymysql.cursors import SSCursor

from producers.database.dialect import LOCK_S, BadValue, Broken, Dialect, Found, near
from producers.database.outbox import Record
from producers.database.shape import Column, Shape, Table, Watched
from producers.database.source import DatabaseSource
from producers.database.triggers import Plan, TableTriggers, Types, row_triggers
from producers.dates import Kind
from sitemap_store.errors import SitemapdError

IDLE_S: Final = 120
"""How long a relay that has stopped dead keeps its place and its locks."""
CONNECT_S: Final = 5
_PARAMETERS: Final = ("unix_socket", "ssl_ca", "ssl_cert", "ssl_key")
_KINDS: Final[dict[int, Kind]] = {
    **dict.fromkeys((FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.INT24), "integer"),
    **dict.fromkeys((FIELD_TYPE.LONG, FIELD_TYPE.LONGLONG), "integer"),
    **dict.fromkeys((FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL), "number"),
    **dict.fromkeys((FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE), "number"),
    **dict.fromkeys((FIELD_TYPE.DATE, FIELD_TYPE.NEWDATE), "day"),
    FIELD_TYPE.DATETIME: "local",
    FIELD_TYPE.TIMESTAMP: "instant",
    **dict.fromkeys((FIELD_TYPE.BIT, FIELD_TYPE.GEOMETRY), "none"),
}
_TEXTS: Final = {
    *(FIELD_TYPE.VARCHAR, FIELD_TYPE.VAR_STRING, FIELD_TYPE.STRING, FIELD_TYPE.TINY_BLOB),
    *(FIELD_TYPE.MEDIUM_BLOB, FIELD_TYPE.LONG_BLOB, FIELD_TYPE.BLOB),
}
_INEXACT: Final = {str(FIELD_TYPE.FLOAT), str(FIELD_TYPE.DOUBLE), str(FIELD_TYPE.JSON)}
"""Types that = does not compare with what they are written as; their texts are compared."""
_LOST: Final = {
    *(1205, 1213, 1040, 1045, 1053, 1152, 1153, 1158, 1159, 1160, 1161, 1180, 1290, 4031),
    *range(1901, 2100),
}
"""Codes of errors that trying again may help: deadlocks, lost connections, a server that goes down."""
_BAD_VALUE: Final = {1139, 1242, 1292, 1365, 1366, 1367, 1411, 1644, 1690, 3140, 3141, 3143}
"""Codes of what an expression can't make of a row: a number out of range, two rows of one, no JSON."""


class MySQL(Dialect):
    """One connection."""

    product: ClassVar[str] = "MariaDB/MySQL"
    # The last two come of a socket that is closed in the middle.
    errors: ClassVar[tuple[type[Exception], ...]] = (pymysql.err.Error, OSError, ValueError)
    quotes: ClassVar[str] = "`"
    conflict: ClassVar[str] = "ON DUPLICATE KEY UPDATE {0} = VALUES({0})"
    role: ClassVar[str] = "'sitemapd'@'%'"
    types: ClassVar[Types] = Types(
        id="    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,\n",
        name="VARCHAR(120)",
        long="MEDIUMTEXT",
        moment="TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)",
        link="VARCHAR(190)",
        end=" ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin",
        inline_index=True,
    )

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
        path = given.get("unix_socket", "")
        with self.translated():
            self._connection = pymysql.connections.Connection(
                host=parts.hostname or "localhost",
                port=port,
                user=unquote(parts.username or ""),
                password=unquote(parts.password or ""),
                database=self.database,
                charset="utf8mb4",
                connect_timeout=CONNECT_S,
                autocommit=False,
                program_name=application,
                defer_connect=True,
                **options,
            )
            self._connection._secure = bool(path)  # as PyMySQL says of its own: passwords may be sent
            self._connection.connect(self._socket(path) if path else None)
        self.define("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        waits = f"wait_timeout = {IDLE_S}, lock_wait_timeout = {LOCK_S}, innodb_lock_wait_timeout = {LOCK_S}"
        self.define(f"SET time_zone = '+00:00', {waits}")
        self.commit()

    def _socket(self, path: str) -> socket.socket:
        """PyMySQL would leave one open, until the collector comes by, at every try while nobody listens."""
        found = socket.socket(socket.AF_UNIX)
        found.settimeout(CONNECT_S)
        try:
            found.connect(path)
        except OSError as error:
            found.close()
            raise self.away(f"Can't connect to the server at {path} ({error.strerror})") from None
        return found

    def failure(self, error: Exception) -> SitemapdError:
        """By its code."""
        code = error.args[0] if error.args else 0
        told = self.sentence(error) if error.args else "the connection is lost"
        if not isinstance(error, pymysql.err.Error) or isinstance(error, pymysql.err.InterfaceError):
            return self.away(told)
        if code in _LOST:
            return self.away(told)
        kind = BadValue if isinstance(error, pymysql.err.DataError) or code in _BAD_VALUE else Broken
        return kind(f"MariaDB/MySQL: {told}")

    def ours(self, name: str) -> str:
        """A table of ours, in the dsn's database."""
        return f"{self.quote(self.database)}.{self.quote(name)}"

    def text(self, column: Column, prefix: str = "") -> str:
        """Cast to text: the driver's own reading of dates loses zero dates. Bytes as hex."""
        quoted = f"{prefix}{self.quote(column.name)}"
        return f"HEX({quoted})" if column.kind == "bytes" else f"CAST({quoted} AS CHAR CHARACTER SET utf8mb4)"

    def columns_of(self, relation: str) -> list[Column]:
        """Texts without a character set are bytes."""
        with self.translated(), self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {relation} LIMIT 0", ())
            found = [(row[0], row[1]) for row in cursor.description or ()]
        texts = [name for name, code in found if code in _TEXTS]
        binary: set[str] = set()
        if texts:
            asked = ", ".join(f"COLLATION(MAX({self.quote(name)}))" for name in texts)
            (answers,) = self.run(f"SELECT {asked} FROM (SELECT * FROM {relation} LIMIT 0) AS sitemapd_none")
            binary = {name for name, answer in zip(texts, answers, strict=True) if answer == "binary"}
        return [
            Column(name, "bytes" if name in binary else _KINDS.get(code, "text"), str(code))
            for name, code in found
        ]

    def table(self, name: str) -> Table:
        """In the dsn's database, unless it says another."""
        schema, _, short = name.rpartition(".")
        rows = self.run(
            "SELECT table_name FROM information_schema.tables "
            "WHERE table_schema = %s AND table_type = 'BASE TABLE'",
            [schema or self.database],
        )
        known = [row[0] for row in rows]
        if short in known:
            return Table(schema or self.database, short)
        raise Broken(f"there is no table {name}.{near(short, known)}")

    def primary_key(self, table: Table) -> list[str]:
        """From the index statistics."""
        return self._indexed(table, "index_name = 'PRIMARY' ORDER BY seq_in_index")

    def leading_columns(self, table: Table) -> set[str]:
        """From the index statistics."""
        return set(self._indexed(table, "seq_in_index = 1"))

    def _indexed(self, table: Table, which: str) -> list[str]:
        statistics = "FROM information_schema.statistics WHERE table_schema = %s AND table_name = %s AND"
        return [row[0] for row in self.run(f"SELECT column_name {statistics} {which}", table)]

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
        return [Record.read(*row) for row in rows]

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

    def streaming_cursor(self) -> Any:
        """One that does not buffer."""
        return self._connection.cursor(SSCursor)

    def age(self, moment: str) -> str:
        """Of TIMESTAMP(6)."""
        return f"UNIX_TIMESTAMP(CURRENT_TIMESTAMP(6)) - UNIX_TIMESTAMP({moment})"

    def triggers_on(self, shape: Shape, watched: Watched) -> TableTriggers:
        """A handler lets the application's statement go on when the trigger can't do its work.

        Only a deadlock is passed on: the server has rolled the application's transaction back already.
        """
        return row_triggers(
            self,
            shape,
            watched,
            changed="NOT CAST(OLD.{0} AS BINARY) <=> CAST(NEW.{0} AS BINARY)",
            body="{event}\n    ON {table} FOR EACH ROW\n"
            "BEGIN\n    {comment}\n"
            "    DECLARE EXIT HANDLER FOR 1213 RESIGNAL;\n"
            "    DECLARE EXIT HANDLER FOR SQLEXCEPTION\n"
            "    BEGIN\n"
            "        -- The statement goes on. If this fails too, the relay sees it, and compares.\n"
            "        DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;\n"
            "        INSERT INTO {outbox} (source, kind) VALUES ({source}, 'failed');\n"
            "    END;\n"
            "    IF {condition} THEN\n        {insert};\n    END IF;\nEND",
        )

    def found_triggers(self, plan: Plan) -> list[Found]:
        """By the times at which they were made. Only a role with the right TRIGGER sees them."""
        names = [name for _, name in plan.triggers]
        rows = self.run(
            "SELECT event_object_schema, event_object_table, trigger_name, "
            "action_statement, created, definer FROM information_schema.triggers WHERE trigger_schema = %s "
            f"AND trigger_name IN ({', '.join(['%s'] * len(names))}) ORDER BY 3",
            [plan.triggers[0][0].schema, *names],
        )
        there = self._accounts({definer for *_, definer in rows})
        return [
            Found(name, definer in there, body, f"{created} {definer}")
            for schema, table, name, body, created, definer in rows
            if (Table(schema, table), name) in plan.triggers
        ]

    def _accounts(self, definers: set[str]) -> set[str]:
        """Those of these users that are there; all of them, where the role may not look."""
        ours = self.run("SELECT CURRENT_USER()")[0][0] if definers else ""
        others = sorted(definers - {ours})
        if not others:
            return definers
        account = "CONCAT(user, '@', host)"
        asked = f"SELECT {account} FROM mysql.user WHERE {account} IN ({', '.join(['%s'] * len(others))})"
        with suppress(Broken):
            return {ours, *(account for (account,) in self.run(asked, others))}
        return definers

    def found_tables(self, plan: Plan) -> list[str]:
        """With the times at which they were made."""
        sql = (
            "SELECT CONCAT(table_name, ' ', create_time) FROM information_schema.tables "
            f"WHERE table_schema = %s AND table_name IN ({', '.join(['%s'] * len(plan.needed))}) ORDER BY 1"
        )
        return [told for (told,) in self.run(sql, [self.database, *plan.needed])]

    def sees_triggers(self) -> bool:
        """By its grants."""
        grants = " ".join(str(row[0]).upper() for row in self.run("SHOW GRANTS"))
        return "TRIGGER" in grants or "ALL PRIVILEGES" in grants

    def marked(self) -> list[tuple[str, str]]:
        """By their names, in all schemas that the role may see."""
        rows = self.run(
            "SELECT action_statement, trigger_schema, trigger_name FROM information_schema.triggers "
            "WHERE trigger_name LIKE 'sitemapd\\_%%' ORDER BY 2, 3",
        )
        return [(body, f"DROP TRIGGER IF EXISTS {self.qualified(Table(*name))}") for body, *name in rows]


def _typed(column: Column, value: object) -> object:
    """A literal of the column's own type: text beside a number keeps its index from use, and is inexact."""
    if column.kind in ("integer", "number") and column.type not in _INEXACT:
        return Decimal(str(value))
    return value

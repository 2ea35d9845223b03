"""One connection to a database, and what differs between the kinds of them.

1. What a relay does to a database is all here: `PostgreSQL`, `MySQL` and `SQLite` (a module each) fill in how
   their database does it.
2. Errors of the drivers come out as `Unavailable` (away for now), `BadValue` (of a row or a parameter),
   `Broken` (something is missing or forbidden) or `BadSetting`; no message ever holds the dsn.
3. A row for which the database can't evaluate the condition `where` spoils only itself: it is refused, the
   others are read.

Longer than most modules, since it is one class: what the three databases have in common, step by step.
"""

from __future__ import annotations

import difflib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from threading import Event
from typing import Any, ClassVar, Final, Literal, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from producers.database.outbox import Record
from producers.database.shape import OUTBOX, Column, Shape, Table, Watched
from producers.database.source import DatabaseSource
from producers.database.template import shown
from producers.database.triggers import Plan, TableTriggers, Types
from sitemap_store.errors import Refused, SitemapdError, Unavailable

Installed = Literal["installed", "missing", "broken", "different", "unknown"]

STREAM_ROWS: Final = 5000
"""Rows that a streamed query hands over at a time."""
CAREFUL_ROWS: Final = 500
"""Rows that are asked for at a time where the condition can't be evaluated for some."""
MOST_REFUSED: Final = 1000
"""Rows of one comparison for which the condition may fail; more are rather a fault of the condition."""
LOCK_S: Final = 2
"""How long a statement waits for a lock. While a transaction on a table is open, no triggers can be made on
it, and the application's statements would wait behind ours."""


class Broken(SitemapdError):
    """The database answers, and can't do what the relay needs: a table is gone, a right is missing."""


class BadValue(Broken):
    """The database can't take a value, or make one of it."""


class Found(NamedTuple):
    """A trigger of a plan, as the database has it."""

    name: str
    works: bool
    """It fires, and whose rights it runs with is there."""
    body: str
    stamp: str
    """Another one when the trigger, its function or its table is."""


class Dialect(ABC):
    """One open connection. Not for sharing between threads."""

    product: ClassVar[str]
    """What messages call the database."""
    mark: ClassVar[str] = "%s"
    """A parameter's place in SQL."""
    quotes: ClassVar[str] = '"'
    """What identifiers are quoted with."""
    conflict: ClassVar[str] = "ON CONFLICT (source) DO UPDATE SET {0} = excluded.{0}"
    """The end of an INSERT into the sources table that sets a column where the row is there."""
    errors: ClassVar[tuple[type[Exception], ...]]
    """What the driver raises."""
    role: ClassVar[str] = ""
    """The relay's role in printed grants; empty where there are none."""
    types: ClassVar[Types]
    """The types of sitemapd's own tables."""

    def __init__(self, source: DatabaseSource) -> None:
        self.source = source
        self._connection: Any = None

    # How this kind of database does things.

    @abstractmethod
    def failure(self, error: Exception) -> SitemapdError:
        """One of the driver's errors as one of ours."""

    @abstractmethod
    def text(self, column: Column, prefix: str = "") -> str:
        """The expression that reads a column as text (or as it is, where values have types of their own)."""

    def noted_as(self, column: Column, prefix: str = "") -> str:
        """The expression by which a trigger writes a column into JSON: text that `decoded` reads back."""
        return self.text(column, prefix)

    def encoded(self, value: object) -> str | None:
        """A value as it was read, as text that `decoded` reads back."""
        return None if value is None else str(value)

    def decoded(self, text: str | None) -> object:
        """What was read or noted, for `matching` and for addresses."""
        return text

    def kept(self, values: Iterable[object]) -> str:
        """Several values as one text, which `read_kept` reads back."""
        return json.dumps([self.encoded(value) for value in values])

    def read_kept(self, text: str) -> tuple[object, ...]:
        """The values of `kept`."""
        return tuple(map(self.decoded, json.loads(text)))

    @abstractmethod
    def age(self, moment: str) -> str:
        """The expression for the seconds since a moment of the outbox."""

    @abstractmethod
    def columns_of(self, relation: str) -> list[Column]:
        """The columns of a table, or of a derived one, by an empty result. Raises Broken."""

    @abstractmethod
    def table(self, name: str) -> Table:
        """The table's full name. Raises Broken with the nearest names."""

    @abstractmethod
    def primary_key(self, table: Table) -> list[str]:
        """The columns of the primary key, in its order; none when there is none."""

    @abstractmethod
    def leading_columns(self, table: Table) -> set[str]:
        """The columns that an index begins with."""

    @abstractmethod
    def lead(self, label: str) -> bool:
        """Become the one relay of a source, while this connection lives; False when another one is."""

    @abstractmethod
    def take(self, label: str, limit: int) -> list[Record]:
        """The oldest records of a source, up to `limit`, kept from others until `commit` or `rollback`."""

    @abstractmethod
    def finish(self, label: str, ids: Sequence[Any]) -> None:
        """Delete records that were taken (without `commit`)."""

    @abstractmethod
    def matching(
        self, columns: Sequence[Column], wanted: Sequence[Sequence[object]]
    ) -> tuple[str, list[object]]:
        """A condition that holds for rows whose columns have one of the wanted values; with parameters."""

    @abstractmethod
    def triggers_on(self, shape: Shape, watched: Watched) -> TableTriggers:
        """The triggers of a source on one table."""

    @abstractmethod
    def found_triggers(self, plan: Plan) -> list[Found]:
        """Those of the plan's triggers that are there, in the order of their names."""

    @abstractmethod
    def found_tables(self, plan: Plan) -> list[str]:
        """Those of the tables that the plan needs which are there, each with what tells it apart."""

    @abstractmethod
    def marked(self) -> list[tuple[str, str]]:
        """(trigger's body, statement that removes it) of every trigger of sitemapd in the database."""

    def sees_triggers(self) -> bool:
        """Whether the role would see triggers if there were any."""
        return True

    def attempt(self) -> AbstractContextManager[Any]:
        """What a statement runs in that may fail without an end of the transaction."""
        return nullcontext()

    def wait(self, seconds: float, wake: Event) -> None:
        """Wait for that long, or until the database says that there is something, or `wake` is set."""
        wake.wait(seconds)

    # What is the same for all of them.

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise the driver's errors as ours."""
        try:
            yield
        except self.errors as error:
            raise self.failure(error) from None

    def sentence(self, error: Exception) -> str:
        """The first line of a driver's error, without anything secret of the dsn."""
        args = error.args
        text = str(args[1] if len(args) > 1 and isinstance(args[0], int) else error)
        line = " ".join(text.split("\n")[0].split())
        parts = urlsplit(self.source.dsn)
        secrets = {self.source.dsn, *(value for name, value in parse_qsl(parts.query) if "pass" in name)}
        if parts.password:
            secrets |= {parts.password, unquote(parts.password)}
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            line = line.replace(secret, "***")
        return line.rstrip(".") or type(error).__name__

    def away(self, detail: str) -> Unavailable:
        """The error of a database that is away for now."""
        return Unavailable(what=self.product, detail=detail)

    def close(self) -> None:
        """Close the connection, whatever state it is in."""
        with suppress(*self.errors):
            self._connection.close()

    def run(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run one statement; the rows that it gives. Begins a transaction when none is open."""
        with self.translated():
            cursor = self._connection.cursor()
            cursor.execute(sql, tuple(values))
            return list(cursor.fetchall()) if cursor.description else []

    def define(self, sql: str) -> None:
        """Run one statement without parameters, in which a % is a %; it may change the schema."""
        with self.translated():
            self._connection.cursor().execute(sql)

    def commit(self) -> None:
        """Commit the transaction, if one is open."""
        with self.translated():
            self._connection.commit()

    def rollback(self) -> None:
        """Roll back the transaction; never raises."""
        with suppress(*self.errors):
            self._connection.rollback()

    def define_all(self, statements: Iterable[str]) -> None:
        """Run statements as `define` does, in one transaction where the database can, and commit."""
        try:
            for statement in statements:
                self.define(statement)
            self.commit()
        except BaseException:
            self.rollback()
            raise

    def quote(self, name: str) -> str:
        """An identifier, quoted."""
        return f"{self.quotes}{name.replace(self.quotes, self.quotes * 2)}{self.quotes}"

    def fragment(self, sql: str) -> str:
        """SQL that the operator wrote, for a statement with parameters."""
        return sql.replace("%", "%%") if self.mark == "%s" else sql

    def ours(self, name: str) -> str:
        """The quoted name of one of sitemapd's own tables."""
        return self.quote(name)

    @property
    def outbox(self) -> str:
        """The quoted name of the outbox."""
        return self.ours(OUTBOX)

    def qualified(self, table: Table) -> str:
        """A table's full name, quoted."""
        return ".".join(self.quote(part) for part in table if part)

    def installed(self, plan: Plan) -> Installed:
        """Whether the triggers of that plan, and the tables that they need, are there."""
        found = self.found_triggers(plan)
        if len(self.found_tables(plan)) < len(plan.needed):
            return "missing"
        if not found and not self.sees_triggers():
            return "unknown"
        if len(found) < len(plan.triggers):
            return "missing"
        if not all(each.works for each in found):
            return "broken"
        return "installed" if all(plan.definition in each.body for each in found) else "different"

    def ground(self, plan: Plan) -> str:
        """A text that changes when a trigger, its function, its table or the outbox is another one."""
        return repr(
            (self.found_tables(plan), [(each.works, each.stamp) for each in self.found_triggers(plan)])
        )

    def relation(self, shape: Shape) -> str:
        """What a source's rows are read from, for a statement with parameters."""
        if shape.table is None:
            return f"({self.fragment(shape.source.query)}\n) AS {self.quote('sitemapd_rows')}"
        return f"{self.qualified(shape.table)} AS {self.quote(shape.table.name)}"

    def select(self, shape: Shape, columns: Iterable[Column]) -> str:
        """A query of the published rows, to which more conditions can be added."""
        where = shape.source.where
        published = f"({self.fragment(where)}\n) IS TRUE" if where else "1 = 1"
        return f"{self._select_all(shape, columns)} WHERE {published}"

    def _select_all(self, shape: Shape, columns: Iterable[Column]) -> str:
        return f"SELECT {', '.join(map(self.text, columns))} FROM {self.relation(shape)}"

    def stream(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a query, `STREAM_ROWS` at a time, as they were at one moment."""
        with self.translated():
            cursor = self.streaming_cursor()
            try:
                cursor.execute(sql, ())
                while rows := cursor.fetchmany(STREAM_ROWS):
                    yield list(rows)
            finally:
                with suppress(*self.errors):
                    cursor.close()
                self.rollback()

    @abstractmethod
    def streaming_cursor(self) -> Any:
        """A cursor that holds few rows of its result in memory."""

    def rows(
        self,
        shape: Shape,
        columns: Sequence[Column],
        by: Sequence[Column],
        wanted: Sequence[Sequence[object]],
        refuse: Callable[[Refused], None],
    ) -> list[tuple[Any, ...]]:
        """The published rows whose columns `by` have one of the wanted values.

        `refuse` gets those for which the database can't say whether they are published.
        """
        if not wanted:
            return []
        condition, values = self.matching(by, wanted)
        try:
            with self.attempt():
                return self.run(f"{self.select(shape, columns)} AND {condition}", values)
        except BadValue as error:
            if len(wanted) > 1:
                half = len(wanted) // 2
                parts: Iterable[Sequence[Sequence[object]]] = (wanted[:half], wanted[half:])
                return [row for part in parts for row in self.rows(shape, columns, by, part, refuse)]
            key = shape.key_columns
            if shape.table is not None and tuple(by) != key:
                with suppress(BadValue), self.attempt():
                    keys = self.run(f"{self._select_all(shape, key)} WHERE {condition}", values)
                    return [row for each in keys for row in self.rows(shape, columns, key, [each], refuse)]
            row = ", ".join(
                f"{name.name} = {shown(value)}" for name, value in zip(by, wanted[0], strict=True)
            )
            refuse(Refused(loc=row, rule="database", detail=f"the row can't be looked up: {error}."))
            return []

    def published(
        self, shape: Shape, columns: Sequence[Column], refuse: Callable[[Refused], None]
    ) -> Iterator[list[tuple[Any, ...]]]:
        """All published rows, some at a time; `refuse` as in `rows`. Raises Broken where over 1,000 fail."""
        if self._can_evaluate(shape):
            yield from self.stream(self.select(shape, columns))
            return
        refused = 0

        def count(row: Refused) -> None:
            nonlocal refused
            refused += 1
            if refused > MOST_REFUSED:
                raise Broken(
                    f"`where` fails for over {MOST_REFUSED:,} rows; the last one is {row.loc}: {row.detail}"
                )
            refuse(row)

        key = shape.key_columns
        with closing(type(self)(self.source)) as other:
            for keys in other.stream(self._select_all(shape, key)):
                for start in range(0, len(keys), CAREFUL_ROWS):
                    yield self.rows(shape, columns, key, keys[start : start + CAREFUL_ROWS], count)

    def _can_evaluate(self, shape: Shape) -> bool:
        """Whether the condition can be evaluated for every row."""
        if not shape.source.where:
            return True
        try:
            self.run(f"SELECT count(*) FROM ({self.select(shape, shape.key_columns)}) AS sitemapd_rows")
        except BadValue:
            return False
        finally:
            self.rollback()
        return True


def near(name: str, known: Iterable[str]) -> str:
    """A hint at the nearest of the known names, with a space before it; empty when none is near."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    return f" Did you mean {found[0]}?" if found else ""

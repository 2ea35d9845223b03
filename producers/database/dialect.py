"""One connection to a database, and what differs between the kinds of them.

What a relay does to a database is all here: `PostgreSQL`, `MySQL` and `SQLite` (a module each) fill in
how their database does it. Errors of the drivers come out as `Unavailable` (away for now), `Broken`
(something is missing or forbidden) or `BadSetting`; no message ever holds the dsn.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from threading import Event
from typing import Any, ClassVar, Literal, NamedTuple

from producers.database.shape import OUTBOX, SOURCES, URLS, Column, Shape, Table
from producers.database.source import DatabaseSource
from producers.database.triggers import Plan
from sitemap_store.errors import SitemapdError

Installed = Literal["installed", "missing", "different", "unknown"]

LONGEST = 150
"""Characters of a key or a link from which on a digest of it is kept in its place."""
STREAM_ROWS = 5000
"""Rows that a streamed query hands over at a time."""


class Broken(SitemapdError):
    """The database answers, and can't do what the relay needs: a table is gone, a right is missing."""


class BadValue(Broken):
    """The database can't take a value, or make one of it."""


class Record(NamedTuple):
    """One row of the outbox."""

    id: Any
    """What `finish` knows it by."""
    kind: str
    """row, or: sync, accept (`sitemapd sync`), truncate, failed (a trigger could not do its work)."""
    old: dict[str, Any] | None
    new: dict[str, Any] | None

    @classmethod
    def several(cls, rows: Sequence[tuple[Any, str, str | None, str | None]]) -> list[Record]:
        """As they stand in the table. What a request says in `new` is of no use here.

        All of their JSON is read in one call, which costs a third of as many calls as there are rows.
        """
        texts = [text or "null" for _, kind, *row in rows if kind == "row" for text in row]
        read = iter(json.loads(f"[{','.join(texts)}]"))
        return [
            cls(record, kind, next(read), next(read)) if kind == "row" else cls(record, kind, None, None)
            for record, kind, _, _ in rows
        ]


class Seen(NamedTuple):
    """A row of a query as it was last seen."""

    key: str
    """Its key columns, as `Dialect.kept` writes them."""
    links: dict[str, str]
    """Column of the query → the value by which a change in a feeding table finds it."""
    address: str
    """Its address columns, likewise."""


class Lag(NamedTuple):
    """What waits in the outbox."""

    rows: int
    seconds: float


class Dialect(ABC):
    """One open connection. Not for sharing between threads."""

    mark: ClassVar[str]
    """A parameter's place in SQL."""

    def __init__(self, source: DatabaseSource) -> None:
        self.source = source

    # How this kind of database does things.

    @abstractmethod
    def close(self) -> None:
        """Close the connection, whatever state it is in."""

    @abstractmethod
    def run(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run one statement; the rows that it gives. Begins a transaction when none is open."""

    @abstractmethod
    def define(self, sql: str) -> None:
        """Run one statement that changes the schema."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the transaction."""

    @abstractmethod
    def rollback(self) -> None:
        """Roll back the transaction; never raises."""

    @abstractmethod
    def quote(self, name: str) -> str:
        """An identifier, quoted."""

    @abstractmethod
    def fragment(self, sql: str) -> str:
        """SQL that the operator wrote, for a statement with parameters."""

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

    def changed(self, column: Column) -> str:
        """The condition for a column to differ between OLD and NEW: by its bytes, whatever its collation."""
        raise NotImplementedError

    @abstractmethod
    def columns_of(self, relation: str) -> list[Column]:
        """The columns of a table, or of a derived one. Raises Broken."""

    @abstractmethod
    def table(self, name: str) -> Table:
        """The table's full name. Raises Broken with the nearest names."""

    @abstractmethod
    def primary_key(self, table: Table) -> list[str]:
        """The columns of the primary key; none when there is none."""

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
    def stream(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a query, `STREAM_ROWS` at a time, as they were at one moment."""

    @abstractmethod
    def wait(self, seconds: float, wake: Event) -> None:
        """Wait for that long, or until the database says that there is something, or `wake` is set."""

    @abstractmethod
    def installed(self, plan: Plan) -> Installed:
        """Whether the triggers of that plan are there."""

    @abstractmethod
    def ground(self, plan: Plan) -> str:
        """A text that changes when a trigger, its function, its table or the outbox is another one."""

    @abstractmethod
    def marked(self) -> list[tuple[str, str]]:
        """(trigger's body, statement that removes it) of every trigger of sitemapd in the database."""

    @abstractmethod
    def upsert(self, label: str, column: str, value: str | None) -> None:
        """Set `definition` or `told` of a source's row in the sources table (without `commit`)."""

    # What is the same for all of them.

    def qualified(self, table: Table) -> str:
        """A table's full name, quoted."""
        return ".".join(self.quote(part) for part in table if part)

    def ours(self, name: str) -> str:
        """The quoted name of one of sitemapd's own tables."""
        return self.quote(name)

    @property
    def outbox(self) -> str:
        """The quoted name of the outbox."""
        return self.ours(OUTBOX)

    def relation(self, shape: Shape) -> str:
        """What a source's rows are read from, for a statement with parameters."""
        if shape.table is None:
            return f"({self.fragment(shape.source.query)}\n) AS {self.quote('sitemapd_rows')}"
        return f"{self.qualified(shape.table)} AS {self.quote(shape.table.name)}"

    def published(self, shape: Shape) -> str:
        """The condition for a row to be published, for a statement with parameters."""
        where = shape.source.where
        return f"({self.fragment(where)}\n) IS TRUE" if where else "1 = 1"

    def select(self, shape: Shape, columns: Iterable[Column]) -> str:
        """A query of the published rows, to which more conditions can be added."""
        return (
            f"SELECT {', '.join(self.text(column) for column in columns)} "
            f"FROM {self.relation(shape)} WHERE {self.published(shape)}"
        )

    def rows(
        self,
        shape: Shape,
        columns: Sequence[Column],
        by: Sequence[Column],
        wanted: Sequence[Sequence[object]],
    ) -> list[tuple[Any, ...]]:
        """The published rows whose columns `by` have one of the wanted values."""
        if not wanted:
            return []
        condition, values = self.matching(by, wanted)
        return self.run(f"{self.select(shape, columns)} AND {condition}", values)

    def lag(self, label: str) -> Lag:
        """What waits for a source."""
        rows = self.run(
            f"SELECT count(*), {self.age('min(created)')} FROM {self.outbox} WHERE source = {self.mark}",
            [label],
        )
        count, seconds = rows[0]
        return Lag(int(count), max(0.0, float(seconds or 0)))

    @abstractmethod
    def age(self, moment: str) -> str:
        """The expression for the seconds since a moment of the outbox."""

    def request(self, label: str, kind: str, token: str) -> None:
        """Ask the relay that leads for a comparison, and commit."""
        marks = ", ".join([self.mark] * 3)
        self.run(f"INSERT INTO {self.outbox} (source, kind, new) VALUES ({marks})", [label, kind, token])
        self.commit()

    def requested(self, label: str, token: str) -> bool:
        """Whether a request is still in the outbox."""
        found = self.run(
            f"SELECT 1 FROM {self.outbox} WHERE source = {self.mark} AND new = {self.mark}", [label, token]
        )
        self.rollback()
        return bool(found)

    def noted(self, label: str) -> tuple[str | None, str | None]:
        """The definition that was installed for a source, and what its relay told."""
        sql = f"SELECT definition, told FROM {self.ours(SOURCES)} WHERE source = {self.mark}"
        rows = self.run(sql, [label])
        return (rows[0][0], rows[0][1]) if rows else (None, None)

    def remembered(self, label: str, column: str, links: Sequence[str]) -> list[tuple[str, str]]:
        """(key, address) of the rows that were last seen with one of these values in a link column."""
        marks = ", ".join([self.mark] * len(links))
        sql = (
            f"SELECT held FROM {self.ours(URLS)} "
            f"WHERE source = {self.mark} AND feed = {self.mark} AND link IN ({marks})"
        )
        return [tuple(json.loads(held)) for (held,) in self.run(sql, [label, column, *map(short, links)])]

    def memory_of(self, label: str) -> str:
        """The query of all that is remembered of a source, by its keys: row_key, column, link, held."""
        name = label.replace("'", "''")
        urls = self.ours(URLS)
        return f"SELECT row_key, feed, link, held FROM {urls} WHERE source = '{name}' ORDER BY row_key"

    def remember(self, label: str, forget: Iterable[str], rows: Iterable[Seen]) -> None:
        """Forget rows by their keys, then remember others (without `commit`)."""
        table, mark = self.ours(URLS), self.mark
        for key in forget:
            self.run(f"DELETE FROM {table} WHERE source = {mark} AND row_key = {mark}", [label, short(key)])
        marks = ", ".join([mark] * 5)
        for seen in rows:
            held = json.dumps([seen.key, seen.address])
            for column, link in seen.links.items():
                sql = f"INSERT INTO {table} (source, row_key, feed, link, held) VALUES ({marks})"
                self.run(sql, [label, short(seen.key), column, short(link), held])

    def kept(self, values: Iterable[object]) -> str:
        """Several values as one text, which `read_kept` reads back."""
        return json.dumps([self.encoded(value) for value in values])

    def read_kept(self, text: str) -> tuple[object, ...]:
        """The values of `kept`."""
        return tuple(map(self.decoded, json.loads(text)))


def short(text: str) -> str:
    """A text that an index takes: itself, or a digest of it."""
    if len(text) <= LONGEST:
        return text
    return "sha256 " + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def near(name: str, known: Iterable[str]) -> str:
    """A hint at the nearest of the known names, with a space before it; empty when none is near."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    return f" Did you mean {found[0]}?" if found else ""

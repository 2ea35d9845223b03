"""The tables of sitemapd in a database: outbox, sources, and the rows of queries as they were last seen."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from producers.database.shape import OUTBOX, SOURCES, URLS

LONGEST: Final = 150
"""Characters of a key or a link from which on a digest of it is kept in its place."""


class Record(NamedTuple):
    """One row of the outbox."""

    id: Any
    """What `finish` knows it by."""
    kind: str
    """row, or: sync, accept (`sitemapd sync`), truncate, failed (a trigger could not do its work)."""
    old: dict[str, Any] | None
    new: dict[str, Any] | None

    @classmethod
    def read(cls, number: Any, kind: str, old: str | None, new: str | None) -> Record:
        """As it stands in the table. What a request says in `new` is of no use here."""
        before, after = (json.loads(row) if row and kind == "row" else None for row in (old, new))
        return cls(number, kind, before, after)


class Seen(NamedTuple):
    """A row of a query as it was last seen."""

    key: str
    """Its key columns, as `Outbox.kept` writes them."""
    links: dict[str, str]
    """Column of the query → the value by which a change in a feeding table finds it."""
    address: str
    """Its address columns, likewise."""


class Lag(NamedTuple):
    """What waits in the outbox."""

    rows: int
    seconds: float


class Outbox(ABC):
    """What is written to these tables and read from them, in SQL that all databases know."""

    mark: ClassVar[str]

    @abstractmethod
    def run(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run one statement."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the transaction."""

    @abstractmethod
    def rollback(self) -> None:
        """Roll back the transaction."""

    @abstractmethod
    def quote(self, name: str) -> str:
        """An identifier, quoted."""

    @abstractmethod
    def age(self, moment: str) -> str:
        """The expression for the seconds since a moment of the outbox."""

    def encoded(self, value: object) -> str | None:
        """A value as it was read, as text that `decoded` reads back."""
        return None if value is None else str(value)

    def decoded(self, text: str | None) -> object:
        """What was read or noted, for `matching` and for addresses."""
        return text

    def ours(self, name: str) -> str:
        """The quoted name of one of sitemapd's own tables."""
        return self.quote(name)

    @property
    def outbox(self) -> str:
        """The quoted name of the outbox."""
        return self.ours(OUTBOX)

    def lag(self, label: str) -> Lag:
        """What waits for a source."""
        sql = f"SELECT count(*), {self.age('min(created)')} FROM {self.outbox} WHERE source = {self.mark}"
        ((count, seconds),) = self.run(sql, [label])
        return Lag(int(count), max(0.0, float(seconds or 0)))

    def request(self, label: str, kind: str, token: str) -> None:
        """Ask the relay that leads for a comparison, and commit."""
        marks = ", ".join([self.mark] * 3)
        self.run(f"INSERT INTO {self.outbox} (source, kind, new) VALUES ({marks})", [label, kind, token])
        self.commit()

    def requested(self, label: str, token: str) -> bool:
        """Whether a request is still in the outbox."""
        sql = f"SELECT 1 FROM {self.outbox} WHERE source = {self.mark} AND new = {self.mark}"
        found = self.run(sql, [label, token])
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

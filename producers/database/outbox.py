"""The outbox, and the table with one row a source: what is written to them and read from them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from producers.database.shape import SOURCES

if TYPE_CHECKING:
    from producers.database.dialect import Dialect


class Record(NamedTuple):
    """One row of the outbox."""

    id: Any
    """What `Dialect.finish` knows it by."""
    kind: str
    """row, or: sync, accept (`sitemapd sync`), truncate, failed (a trigger could not do its work)."""
    old: dict[str, Any] | None
    new: dict[str, Any] | None

    @classmethod
    def read(cls, number: Any, kind: str, old: str | None, new: str | None) -> Record:
        """As it stands in the table. What a request says in `new` is of no use here."""
        before, after = (json.loads(row) if row and kind == "row" else None for row in (old, new))
        return cls(number, kind, before, after)


class Lag(NamedTuple):
    """What waits in the outbox."""

    rows: int
    seconds: float


def read_lag(dialect: Dialect, label: str) -> Lag:
    """What waits for a source."""
    sql = (
        f"SELECT count(*), {dialect.age('min(created)')} FROM {dialect.outbox} WHERE source = {dialect.mark}"
    )
    ((count, seconds),) = dialect.run(sql, [label])
    return Lag(int(count), max(0.0, float(seconds or 0)))


def request_comparison(dialect: Dialect, label: str, kind: str, token: str) -> None:
    """Ask the relay that leads for a comparison (`sync` or `accept`), and commit."""
    marks = ", ".join([dialect.mark] * 3)
    dialect.run(f"INSERT INTO {dialect.outbox} (source, kind, new) VALUES ({marks})", [label, kind, token])
    dialect.commit()


def is_requested(dialect: Dialect, label: str, token: str) -> bool:
    """Whether a request is still in the outbox."""
    sql = f"SELECT 1 FROM {dialect.outbox} WHERE source = {dialect.mark} AND new = {dialect.mark}"
    return bool(dialect.run(sql, [label, token]))


def read_definition(dialect: Dialect, label: str) -> str | None:
    """The definition of the triggers that were installed for a source."""
    return _read(dialect, label, "definition")


def read_checkpoint(dialect: Dialect, label: str) -> dict[str, Any]:
    """What the relay of a source noted for the next one; empty when there was none."""
    found: dict[str, Any] = json.loads(_read(dialect, label, "told") or "{}")
    return found


def write_checkpoint(dialect: Dialect, label: str, checkpoint: dict[str, Any]) -> None:
    """Note it, in the transaction that is open."""
    mark, end = dialect.mark, dialect.conflict.format("told")
    sql = f"INSERT INTO {dialect.ours(SOURCES)} (source, told) VALUES ({mark}, {mark}) {end}"
    dialect.run(sql, [label, json.dumps(checkpoint)])


def _read(dialect: Dialect, label: str, column: str) -> str | None:
    rows = dialect.run(f"SELECT {column} FROM {dialect.ours(SOURCES)} WHERE source = {dialect.mark}", [label])
    return rows[0][0] if rows else None

"""Triggers that are called once a row, as MariaDB, MySQL and SQLite have them.

What they note is the same everywhere; how a database says it is a `Wording`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from producers.database.dialect import Dialect
from producers.database.shape import Column, Shape, Table
from producers.database.triggers import about_row, literal

EVENTS: Final = ("insert", "update", "delete")


class Wording(Protocol):
    """How one kind of database says what a trigger does."""

    def note(self, condition: str, columns: Mapping[str, str], was_and_now: tuple[str, str] | None) -> str:
        """A statement that writes a row into the outbox where the condition holds.

        `was_and_now` are two conditions that it and the columns know as sitemapd_was and sitemapd_now.
        """

    def value(self, row: str, column: Column) -> str:
        """The expression for a column of OLD or NEW as JSON takes it."""

    def changed(self, column: Column) -> str:
        """The condition for a column to have changed, by its bytes: collations call unlike texts equal."""


def body(dialect: Dialect, shape: Shape, feed: str | None, table: Table, event: str, words: Wording) -> str:
    """What a trigger does at `event`: for the source's own table, or for one of the tables that feed it."""
    label = literal(shape.label)
    if feed is None:
        noted = {column.name: column for column in shape.url_columns}
        matters: Iterable[Column] = shape.read_columns
    else:
        given = shape.source.feeds[feed]
        link = Column(given.column, "text", "")
        noted = {feed: link}
        matters = (link, *(Column(name, "text", "") for name in given.watch))

    def written(row: str) -> str:
        pairs = ", ".join(f"{literal(name)}, {words.value(row, column)}" for name, column in noted.items())
        return f"JSON_OBJECT({pairs})"

    def listed(row: str) -> str:
        if feed is None:
            return _listed(dialect, shape, table, row)
        return f"{row}.{dialect.quote(shape.source.feeds[feed].column)} IS NOT NULL"

    def unlike(columns: Iterable[Column]) -> str:
        return " OR ".join(words.changed(column) for column in dict.fromkeys(columns))

    if event != "update":
        row, field = ("NEW", "new") if event == "insert" else ("OLD", "old")
        return words.note(listed(row), {"source": label, field: written(row)}, None)
    was, now = "sitemapd_was", "sitemapd_now"
    moved = unlike(noted.values())
    columns = {
        "source": label,
        "old": f"CASE WHEN {was} AND (NOT {now} OR {moved}) THEN {written('OLD')} END",
        "new": f"CASE WHEN {now} THEN {written('NEW')} END",
    }
    condition = f"{was} <> {now} OR {now} AND ({unlike(matters)})"
    return words.note(condition, columns, (listed("OLD"), listed("NEW")))


def _listed(dialect: Dialect, shape: Shape, table: Table, row: str) -> str:
    """Whether a row is published: its columns as a table of one row, for the condition to look at."""
    if not shape.source.where:
        return "TRUE"
    direct = about_row(shape.source.where, row, list(shape.columns), table.name, dialect.quote)
    if direct is not None:
        return f"(({direct}) IS TRUE)"
    columns = ", ".join(f"{row}.{dialect.quote(name)} AS {dialect.quote(name)}" for name in shape.columns)
    return (
        f"EXISTS (SELECT 1 FROM (SELECT {columns}) AS {dialect.quote(table.name)} "
        f"WHERE ({shape.source.where}) IS TRUE)"
    )

"""The SQL of the SQLite triggers: one a row.

REPLACE fires no delete trigger unless the writer has set recursive_triggers: the comparison of the whole
table finds what it did. SQLite can't catch an error within a trigger, so the condition `where` must not fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from producers.database.dialect import Dialect
from producers.database.row_triggers import EVENTS, body
from producers.database.shape import OUTBOX, SOURCES, URLS, Column, Shape, Table
from producers.database.triggers import MARK, Plan, name_of, plan

_NOW = "((julianday('now') - 2440587.5) * 86400.0)"


def build(dialect: Dialect, shape: Shape) -> Plan:
    """The plan for one source."""
    create: list[str] = []
    drop: list[str] = []
    triggers: list[tuple[Table, str]] = []
    words = _Words(dialect)
    tables = [(None, shape.table)] if shape.table is not None else list(shape.feeds.items())
    for feed, table in tables:
        for event in EVENTS:
            trigger = f"{name_of(shape, table)}_{event}"
            does = body(dialect, shape, feed, table, event, words)
            create.append(f"DROP TRIGGER IF EXISTS {dialect.quote(trigger)}")
            create.append(
                f"CREATE TRIGGER {dialect.quote(trigger)} AFTER {event.upper()}\n"
                f"    ON {dialect.quote(table.name)}\n"
                f"BEGIN\n    -- definition {MARK}\n{does}END"
            )
            drop.append(f"DROP TRIGGER IF EXISTS {dialect.quote(trigger)}")
            triggers.append((table, trigger))
    return plan(
        tables=_tables(dialect),
        create=create,
        drop=drop,
        drop_tables=[f"DROP TABLE IF EXISTS {dialect.ours(name)}" for name in (OUTBOX, SOURCES, URLS)],
        triggers=triggers,
        grants=(),
    )


def _tables(dialect: Dialect) -> list[str]:
    return [
        (
            f"CREATE TABLE IF NOT EXISTS {dialect.outbox} (\n"
            "    id INTEGER PRIMARY KEY AUTOINCREMENT,\n"
            "    source TEXT NOT NULL,\n    kind TEXT NOT NULL DEFAULT 'row',\n    old TEXT,\n    new TEXT,\n"
            f"    created REAL NOT NULL DEFAULT {_NOW}\n)"
        ),
        f"CREATE INDEX IF NOT EXISTS sitemapd_outbox_source ON {dialect.outbox} (source)",
        (
            f"CREATE TABLE IF NOT EXISTS {dialect.ours(SOURCES)} (\n"
            "    source TEXT PRIMARY KEY,\n    definition TEXT,\n    told TEXT\n)"
        ),
        (
            f"CREATE TABLE IF NOT EXISTS {dialect.ours(URLS)} (\n"
            "    source TEXT NOT NULL,\n    feed TEXT NOT NULL,\n    link TEXT NOT NULL,\n"
            "    row_key TEXT NOT NULL,\n    loc TEXT NOT NULL,\n"
            "    PRIMARY KEY (source, row_key, feed)\n) WITHOUT ROWID"
        ),
        f"CREATE INDEX IF NOT EXISTS sitemapd_urls_link ON {dialect.ours(URLS)} (source, feed, link)",
    ]


@dataclass(frozen=True, slots=True)
class _Words:
    """Statements that select what they insert: there is nothing else that a condition could guard."""

    dialect: Dialect

    def note(self, condition: str, columns: Mapping[str, str], was_and_now: tuple[str, str] | None) -> str:
        """INSERT … SELECT … WHERE."""
        known = ""
        if was_and_now is not None:
            was, now = was_and_now
            known = f"    FROM (SELECT {was} AS sitemapd_was, {now} AS sitemapd_now)\n"
        return (
            f"    INSERT INTO {self.dialect.outbox} ({', '.join(columns)})\n"
            f"    SELECT {', '.join(columns.values())}\n"
            f"{known}    WHERE {condition};\n"
        )

    def value(self, row: str, column: Column) -> str:
        """JSON has no bytes, and json_object would fail the application's statement for them."""
        value = f"{row}.{self.dialect.quote(column.name)}"
        return f"CASE typeof({value}) WHEN 'blob' THEN CAST({value} AS TEXT) ELSE {value} END"

    def changed(self, column: Column) -> str:
        """NULL equals NULL."""
        name = self.dialect.quote(column.name)
        return f"OLD.{name} IS NOT NEW.{name} COLLATE BINARY"

"""The SQL of the SQLite triggers: one a row.

REPLACE fires no delete trigger unless the writer has set recursive_triggers: the comparison of the whole
table finds what it did. SQLite can't catch an error within a trigger, so these do nothing that can fail as
long as the outbox is there; when it is not, the relay makes it anew within seconds (`triggers = "auto"`).
"""

from __future__ import annotations

from producers.database.dialect import Dialect
from producers.database.shape import SOURCES, URLS, Shape, Table
from producers.database.triggers import EVENTS, Plan, changed, comment, name_of, plan, values_of_row

_NOW = "((julianday('now') - 2440587.5) * 86400.0)"


def build(dialect: Dialect, shape: Shape) -> Plan:
    """The plan for one source."""
    create: list[str] = []
    drop: list[str] = []
    triggers: list[tuple[Table, str]] = []
    for watched in shape.watched:
        for event in EVENTS:
            trigger = f"{name_of(shape, watched.table)}_{event}"
            values = values_of_row(dialect, shape, watched, event)
            when = f"    WHEN {changed(dialect, watched.matters)}\n" if event == "update" else ""
            drop.append(f"DROP TRIGGER IF EXISTS {dialect.quote(trigger)}")
            create.append(drop[-1])
            create.append(
                f"CREATE TRIGGER {dialect.quote(trigger)} AFTER {event.upper()}\n"
                f"    ON {dialect.quote(watched.table.name)}\n{when}BEGIN\n    {comment(shape)}\n"
                f"    INSERT INTO {dialect.outbox} ({', '.join(values)})\n"
                f"    VALUES ({', '.join(values.values())});\nEND"
            )
            triggers.append((watched.table, trigger))
    return plan(dialect, tables=_tables(dialect), create=create, drop=drop, triggers=triggers)


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
            "    row_key TEXT NOT NULL,\n    held TEXT NOT NULL,\n"
            "    PRIMARY KEY (source, row_key, feed)\n) WITHOUT ROWID"
        ),
        f"CREATE INDEX IF NOT EXISTS sitemapd_urls_link ON {dialect.ours(URLS)} (source, feed, link)",
    ]

"""The SQL of the SQLite triggers: one a row.

REPLACE fires no delete trigger unless the writer has set recursive_triggers: the comparison of the whole
table finds what it did. SQLite can't catch an error within a trigger, so the condition `where` must not fail.
"""

from __future__ import annotations

from producers.database.dialect import Dialect
from producers.database.shape import OUTBOX, SOURCES, URLS, Shape, Table
from producers.database.triggers import MARK, Plan, about_row, literal, name_of, plan

_EVENTS = ("insert", "update", "delete")
_NOW = "((julianday('now') - 2440587.5) * 86400.0)"


def build(dialect: Dialect, shape: Shape) -> Plan:
    """The plan for one source."""
    create: list[str] = []
    drop: list[str] = []
    triggers: list[tuple[Table, str]] = []
    tables = [(None, shape.table)] if shape.table is not None else list(shape.feeds.items())
    for feed, table in tables:
        for event in _EVENTS:
            trigger = f"{name_of(shape, table)}_{event}"
            body = _row(dialect, shape, table, event) if feed is None else _link(dialect, shape, feed, event)
            create.append(f"DROP TRIGGER IF EXISTS {dialect.quote(trigger)}")
            create.append(
                f"CREATE TRIGGER {dialect.quote(trigger)} AFTER {event.upper()}\n"
                f"    ON {dialect.quote(table.name)}\n"
                f"BEGIN\n    -- definition {MARK}\n{body}END"
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


def _row(dialect: Dialect, shape: Shape, table: Table, event: str) -> str:
    label, outbox, quote = literal(shape.label), dialect.outbox, dialect.quote

    def address(row: str) -> str:
        pairs = ", ".join(
            f"{literal(column.name)}, {_plain(f'{row}.{quote(column.name)}')}" for column in shape.url_columns
        )
        return f"json_object({pairs})"

    if event != "update":
        row, field = ("NEW", "new") if event == "insert" else ("OLD", "old")
        return (
            f"    INSERT INTO {outbox} (source, {field})\n"
            f"    SELECT {label}, {address(row)} WHERE {_listed(dialect, shape, table, row)};\n"
        )
    unlike = _unlike(dialect, [column.name for column in shape.read_columns])
    moved = _unlike(dialect, [column.name for column in shape.url_columns])
    was, now = (_listed(dialect, shape, table, row) for row in ("OLD", "NEW"))
    return (
        f"    INSERT INTO {outbox} (source, old, new)\n"
        f"    SELECT {label},\n"
        f"        CASE WHEN was AND (NOT now OR {moved}) THEN {address('OLD')} END,\n"
        f"        CASE WHEN now THEN {address('NEW')} END\n"
        f"    FROM (SELECT {was} AS was, {now} AS now)\n"
        f"    WHERE was <> now OR now AND ({unlike});\n"
    )


def _link(dialect: Dialect, shape: Shape, feed: str, event: str) -> str:
    given = shape.source.feeds[feed]
    label, outbox, column = literal(shape.label), dialect.outbox, dialect.quote(given.column)

    def link(row: str) -> str:
        value = f"{row}.{column}"
        return f"CASE WHEN {value} IS NOT NULL THEN json_object({literal(feed)}, {_plain(value)}) END"

    if event != "update":
        row, field = ("NEW", "new") if event == "insert" else ("OLD", "old")
        return f"    INSERT INTO {outbox} (source, {field}) VALUES ({label}, {link(row)});\n"
    unlike = _unlike(dialect, list(dict.fromkeys((given.column, *given.watch))))
    return (
        f"    INSERT INTO {outbox} (source, old, new)\n"
        f"    SELECT {label}, {link('OLD')}, {link('NEW')} WHERE {unlike};\n"
    )


def _plain(value: str) -> str:
    # JSON has no bytes, and json_object would fail the application's statement for them.
    return f"CASE typeof({value}) WHEN 'blob' THEN CAST({value} AS TEXT) ELSE {value} END"


def _listed(dialect: Dialect, shape: Shape, table: Table, row: str) -> str:
    """Whether a row is published: its columns as a table of one row, for the condition to look at."""
    if not shape.source.where:
        return "1"
    direct = about_row(shape.source.where, row, list(shape.columns), table.name, dialect.quote)
    if direct is not None:
        return f"(({direct}) IS TRUE)"
    columns = ", ".join(f"{row}.{dialect.quote(name)} AS {dialect.quote(name)}" for name in shape.columns)
    return (
        f"EXISTS (SELECT 1 FROM (SELECT {columns}) AS {dialect.quote(table.name)} "
        f"WHERE ({shape.source.where}) IS TRUE)"
    )


def _unlike(dialect: Dialect, names: list[str]) -> str:
    """Whether one of the columns changed, whatever collation they have."""
    quoted = [dialect.quote(name) for name in dict.fromkeys(names)]
    return " OR ".join(f"OLD.{name} IS NOT NEW.{name} COLLATE BINARY" for name in quoted)

"""The SQL of the MariaDB and MySQL triggers: one a row.

Foreign keys that cascade and TRUNCATE fire none: the comparison of the whole table finds what they did. A
trigger runs with the rights of who made it, and its handler lets the application's statement go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from producers.database.dialect import Dialect
from producers.database.row_triggers import EVENTS, body
from producers.database.shape import OUTBOX, SOURCES, URLS, Column, Shape, Table
from producers.database.triggers import MARK, Plan, literal, name_of, plan


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
            name = f"{dialect.quote(table.schema)}.{dialect.quote(trigger)}"
            does = body(dialect, shape, feed, table, event, words)
            create.append(f"DROP TRIGGER IF EXISTS {name}")
            create.append(_trigger(dialect, shape, table, name, event, does))
            drop.append(f"DROP TRIGGER IF EXISTS {name}")
            triggers.append((table, trigger))
    return plan(
        tables=_tables(dialect),
        create=create,
        drop=drop,
        drop_tables=[f"DROP TABLE IF EXISTS {dialect.ours(name)}" for name in (OUTBOX, SOURCES, URLS)],
        triggers=triggers,
        grants=_grants(dialect, shape),
    )


def _tables(dialect: Dialect) -> list[str]:
    options = "ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin"
    return [
        (
            f"CREATE TABLE IF NOT EXISTS {dialect.outbox} (\n"
            "    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,\n"
            "    source VARCHAR(120) NOT NULL,\n"
            "    kind VARCHAR(10) NOT NULL DEFAULT 'row',\n"
            "    old TEXT,\n"
            "    new TEXT,\n"
            "    created TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),\n"
            "    KEY sitemapd_outbox_source (source)\n"
            f") {options}"
        ),
        (
            f"CREATE TABLE IF NOT EXISTS {dialect.ours(SOURCES)} (\n"
            "    source VARCHAR(120) NOT NULL PRIMARY KEY,\n    definition VARCHAR(32),\n    told TEXT\n"
            f") {options}"
        ),
        (
            f"CREATE TABLE IF NOT EXISTS {dialect.ours(URLS)} (\n"
            "    source VARCHAR(120) NOT NULL,\n    feed VARCHAR(64) NOT NULL,\n"
            "    link VARCHAR(190) NOT NULL,\n"
            "    row_key VARCHAR(190) NOT NULL,\n    loc VARCHAR(2047) NOT NULL,\n"
            "    PRIMARY KEY (source, row_key, feed),\n"
            "    KEY sitemapd_urls_link (source, feed, link)\n"
            f") {options}"
        ),
    ]


def _grants(dialect: Dialect, shape: Shape) -> list[str]:
    tables = [shape.table] if shape.table else list(shape.feeds.values())
    return [
        *(f"GRANT SELECT ON {dialect.qualified(table)} TO 'sitemapd'@'%'" for table in tables),
        f"GRANT SELECT, INSERT, DELETE ON {dialect.outbox} TO 'sitemapd'@'%'",
        f"GRANT SELECT, INSERT, UPDATE ON {dialect.ours(SOURCES)} TO 'sitemapd'@'%'",
        *([f"GRANT SELECT, INSERT, DELETE ON {dialect.ours(URLS)} TO 'sitemapd'@'%'"] if shape.feeds else []),
    ]


def _trigger(dialect: Dialect, shape: Shape, table: Table, name: str, event: str, does: str) -> str:
    return (
        f"CREATE TRIGGER {name} AFTER {event.upper()} ON {dialect.qualified(table)} FOR EACH ROW\n"
        f"BEGIN\n"
        f"    /* definition {MARK} */\n"
        "    DECLARE sitemapd_was, sitemapd_now BOOLEAN;\n"
        "    DECLARE EXIT HANDLER FOR SQLEXCEPTION\n"
        "    BEGIN\n"
        "        -- The application's statement goes on; if this fails too, the next comparison finds it.\n"
        "        DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;\n"
        f"        INSERT INTO {dialect.outbox} (source, kind) VALUES ({literal(shape.label)}, 'failed');\n"
        "    END;\n"
        f"{does}"
        "END"
    )


@dataclass(frozen=True, slots=True)
class _Words:
    """Statements that a condition guards: an INSERT … SELECT would lock the outbox's counter for longer."""

    dialect: Dialect

    def note(self, condition: str, columns: Mapping[str, str], was_and_now: tuple[str, str] | None) -> str:
        """IF … THEN INSERT."""
        known = ""
        if was_and_now is not None:
            was, now = was_and_now
            known = f"    SET sitemapd_was = {was}, sitemapd_now = {now};\n"
        return (
            f"{known}    IF {condition} THEN\n"
            f"        INSERT INTO {self.dialect.outbox} ({', '.join(columns)}) VALUES\n"
            f"            ({', '.join(columns.values())});\n"
            "    END IF;\n"
        )

    def value(self, row: str, column: Column) -> str:
        """As the relay reads it."""
        return self.dialect.text(column, f"{row}.")

    def changed(self, column: Column) -> str:
        """NULL equals NULL."""
        old, new = (f"{row}.{self.dialect.quote(column.name)}" for row in ("OLD", "NEW"))
        if column.kind == "text":
            old, new = f"CAST({old} AS BINARY)", f"CAST({new} AS BINARY)"
        return f"NOT {old} <=> {new}"

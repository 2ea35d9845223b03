"""The SQL of the MariaDB and MySQL triggers: one a row.

Foreign keys that cascade and TRUNCATE fire none: the comparison of the whole table finds what they did. A
trigger runs with the rights of who made it, and its handler lets the application's statement go on.
"""

from __future__ import annotations

from producers.database.dialect import Dialect
from producers.database.shape import OUTBOX, SOURCES, URLS, Column, Shape, Table
from producers.database.triggers import MARK, Plan, about_row, literal, name_of, plan

_EVENTS = ("insert", "update", "delete")


def build(dialect: Dialect, shape: Shape) -> Plan:
    """The plan for one source."""
    create: list[str] = []
    drop: list[str] = []
    triggers: list[tuple[Table, str]] = []
    tables = [(None, shape.table)] if shape.table is not None else list(shape.feeds.items())
    for feed, table in tables:
        for event in _EVENTS:
            trigger = f"{name_of(shape, table)}_{event}"
            name = f"{dialect.quote(table.schema)}.{dialect.quote(trigger)}"
            body = _row(dialect, shape, table, event) if feed is None else _link(dialect, shape, feed, event)
            create.append(f"DROP TRIGGER IF EXISTS {name}")
            create.append(_trigger(dialect, shape, table, name, event, body))
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


def _trigger(dialect: Dialect, shape: Shape, table: Table, name: str, event: str, body: str) -> str:
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
        f"{body}"
        "END"
    )


def _row(dialect: Dialect, shape: Shape, table: Table, event: str) -> str:
    label, outbox = literal(shape.label), dialect.outbox

    def address(row: str) -> str:
        pairs = ", ".join(
            f"{literal(column.name)}, {dialect.text(column, row + '.')}" for column in shape.url_columns
        )
        return f"JSON_OBJECT({pairs})"

    if event != "update":
        row, field = ("NEW", "new") if event == "insert" else ("OLD", "old")
        return (
            f"    IF {_listed(dialect, shape, table, row)} THEN\n"
            f"        INSERT INTO {outbox} (source, {field}) VALUES ({label}, {address(row)});\n"
            "    END IF;\n"
        )
    unlike = _unlike(dialect, shape.read_columns)
    moved = _unlike(dialect, shape.url_columns)
    was, now = (_listed(dialect, shape, table, row) for row in ("OLD", "NEW"))
    return (
        f"    SET sitemapd_was = {was}, sitemapd_now = {now};\n"
        f"    IF sitemapd_was <> sitemapd_now OR sitemapd_now AND ({unlike}) THEN\n"
        f"        INSERT INTO {outbox} (source, old, new) VALUES ({label},\n"
        f"            IF(sitemapd_was AND (NOT sitemapd_now OR {moved}), {address('OLD')}, NULL),\n"
        f"            IF(sitemapd_now, {address('NEW')}, NULL));\n"
        "    END IF;\n"
    )


def _link(dialect: Dialect, shape: Shape, feed: str, event: str) -> str:
    given = shape.source.feeds[feed]
    label, outbox, column = literal(shape.label), dialect.outbox, dialect.quote(given.column)

    def link(row: str) -> str:
        text = f"CAST({row}.{column} AS CHAR CHARACTER SET utf8mb4)"
        return f"IF({row}.{column} IS NULL, NULL, JSON_OBJECT({literal(feed)}, {text}))"

    if event != "update":
        row, field = ("NEW", "new") if event == "insert" else ("OLD", "old")
        return f"    INSERT INTO {outbox} (source, {field}) VALUES ({label}, {link(row)});\n"
    watched = [Column(name, "text", "") for name in dict.fromkeys((given.column, *given.watch))]
    return (
        f"    IF {_unlike(dialect, watched)} THEN\n"
        f"        INSERT INTO {outbox} (source, old, new) VALUES ({label}, {link('OLD')}, {link('NEW')});\n"
        "    END IF;\n"
    )


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


def _unlike(dialect: Dialect, columns: tuple[Column, ...] | list[Column]) -> str:
    """Whether one of the columns changed; bytes are compared, since collations call unlike texts equal."""

    def value(row: str, column: Column) -> str:
        quoted = f"{row}.{dialect.quote(column.name)}"
        return f"CAST({quoted} AS BINARY)" if column.kind == "text" else quoted

    unique = {column.name: column for column in columns}
    return " OR ".join(f"NOT {value('OLD', each)} <=> {value('NEW', each)}" for each in unique.values())

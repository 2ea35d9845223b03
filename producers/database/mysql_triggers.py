"""The SQL of the MariaDB and MySQL triggers: one a row.

Foreign keys that cascade and TRUNCATE fire none: the comparison of the whole table finds what they did. A
trigger runs with the rights of who made it, and its handler lets the application's statement go on. Only a
deadlock is passed on: the server has rolled the application's transaction back already.
"""

from __future__ import annotations

from producers.database.dialect import Dialect
from producers.database.shape import SOURCES, URLS, Shape, Table
from producers.database.triggers import EVENTS, Plan, changed, comment, literal, name_of, plan, values_of_row


def build(dialect: Dialect, shape: Shape) -> Plan:
    """The plan for one source."""
    create: list[str] = []
    drop: list[str] = []
    triggers: list[tuple[Table, str]] = []
    for watched in shape.watched:
        for event in EVENTS:
            trigger = f"{name_of(shape, watched.table)}_{event}"
            name = f"{dialect.quote(watched.table.schema)}.{dialect.quote(trigger)}"
            values = values_of_row(dialect, shape, watched, event)
            when = changed(dialect, watched.matters) if event == "update" else "TRUE"
            drop.append(f"DROP TRIGGER IF EXISTS {name}")
            create.append(drop[-1])
            create.append(
                f"CREATE TRIGGER {name} AFTER {event.upper()}\n"
                f"    ON {dialect.qualified(watched.table)} FOR EACH ROW\n"
                f"BEGIN\n    {comment(shape)}\n"
                "    DECLARE EXIT HANDLER FOR 1213 RESIGNAL;\n"
                "    DECLARE EXIT HANDLER FOR SQLEXCEPTION\n"
                "    BEGIN\n"
                "        -- The statement goes on. If this fails too, the relay sees that, and compares.\n"
                "        DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;\n"
                f"        INSERT INTO {dialect.outbox} (source, kind)\n"
                f"            VALUES ({literal(shape.label)}, 'failed');\n"
                "    END;\n"
                f"    IF {when} THEN\n"
                f"        INSERT INTO {dialect.outbox} ({', '.join(values)}) VALUES\n"
                f"            ({', '.join(values.values())});\n"
                "    END IF;\nEND"
            )
            triggers.append((watched.table, trigger))
    return plan(
        dialect,
        tables=_tables(dialect),
        create=create,
        drop=drop,
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
            "    old MEDIUMTEXT,\n"
            "    new MEDIUMTEXT,\n"
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
            "    row_key VARCHAR(190) NOT NULL,\n    held MEDIUMTEXT NOT NULL,\n"
            "    PRIMARY KEY (source, row_key, feed),\n"
            "    KEY sitemapd_urls_link (source, feed, link)\n"
            f") {options}"
        ),
    ]


def _grants(dialect: Dialect, shape: Shape) -> list[str]:
    return [
        *(f"GRANT SELECT ON {dialect.qualified(table)} TO 'sitemapd'@'%'" for table in shape.tables),
        f"GRANT SELECT, INSERT, DELETE ON {dialect.outbox} TO 'sitemapd'@'%'",
        f"GRANT SELECT, INSERT, UPDATE ON {dialect.ours(SOURCES)} TO 'sitemapd'@'%'",
        *([f"GRANT SELECT, INSERT, DELETE ON {dialect.ours(URLS)} TO 'sitemapd'@'%'"] if shape.feeds else []),
    ]

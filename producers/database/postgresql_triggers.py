"""The SQL of the PostgreSQL triggers: one function a table, called once a statement.

1. A statement's rows before and after are paired by the key in transition tables, so a bulk update costs one
   join.
2. The function runs with its owner's rights (SECURITY DEFINER), and finds nothing by a search path of others.
3. Before it writes it asks, in a block that catches errors, whether all that it names is there. That block
   writes nothing, so it takes no transaction number: a transaction of 100,000 statements has no
   subtransactions that others would have to look through. Where something is missing, the application's
   statement goes on, and one record has the whole table compared.
4. It uses no sequence: that would change what lastval() tells the application.
"""

from __future__ import annotations

from collections.abc import Iterable

from producers.database.dialect import Dialect
from producers.database.shape import SOURCES, URLS, Column, Shape, Table, Watched
from producers.database.triggers import EVENTS, Plan, comment, literal, name_of, plan

_EVENTS = (
    ("insert", "REFERENCING NEW TABLE AS sitemapd_new "),
    ("update", "REFERENCING OLD TABLE AS sitemapd_old NEW TABLE AS sitemapd_new "),
    ("delete", "REFERENCING OLD TABLE AS sitemapd_old "),
    ("truncate", ""),
)


def build(dialect: Dialect, shape: Shape) -> Plan:
    """The plan for one source."""
    create: list[str] = []
    drop: list[str] = []
    triggers: list[tuple[Table, str]] = []
    for watched in shape.watched:
        name, on = name_of(shape, watched.table), dialect.qualified(watched.table)
        function = dialect.ours(name)
        create.append(_function(dialect, shape, function, watched))
        # A table that was swapped away keeps its triggers, and would go on noting.
        create.append(_drop_elsewhere(function, on))
        for event, referencing in _EVENTS:
            trigger = f"{name}_{event}"
            create.append(f"DROP TRIGGER IF EXISTS {dialect.quote(trigger)} ON {on}")
            create.append(
                f"CREATE TRIGGER {dialect.quote(trigger)} AFTER {event.upper()} ON {on}\n"
                f"    {referencing}FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
            )
            triggers.append((watched.table, trigger))
        drop.append(f"DROP FUNCTION IF EXISTS {function}() CASCADE")
    return plan(
        dialect,
        tables=_tables(dialect),
        create=create,
        drop=drop,
        triggers=triggers,
        grants=_grants(dialect, shape),
    )


def _tables(dialect: Dialect) -> list[str]:
    return [
        (
            f"CREATE TABLE IF NOT EXISTS {dialect.outbox} (\n"
            "    source text NOT NULL,\n"
            "    kind text NOT NULL DEFAULT 'row',\n"
            "    old text,\n"
            "    new text,\n"
            "    created timestamptz NOT NULL DEFAULT clock_timestamp()\n"
            ") WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)"
        ),
        f"CREATE INDEX IF NOT EXISTS sitemapd_outbox_oldest ON {dialect.outbox} (source, created)",
        (
            f"CREATE TABLE IF NOT EXISTS {dialect.ours(SOURCES)} (\n"
            "    source text PRIMARY KEY,\n    definition text,\n    told text\n)"
        ),
        (
            f"CREATE TABLE IF NOT EXISTS {dialect.ours(URLS)} (\n"
            "    source text NOT NULL,\n    feed text NOT NULL,\n    link text NOT NULL,\n"
            "    row_key text NOT NULL,\n    held text NOT NULL,\n"
            "    PRIMARY KEY (source, row_key, feed)\n)"
        ),
        f"CREATE INDEX IF NOT EXISTS sitemapd_urls_link ON {dialect.ours(URLS)} (source, feed, link)",
    ]


def _grants(dialect: Dialect, shape: Shape) -> list[str]:
    schemas = {dialect.quote(table.schema) for table in shape.tables}
    schemas.add(dialect.quote(shape.source.outbox_schema or "public"))
    return [
        *(f"GRANT USAGE ON SCHEMA {schema} TO sitemapd" for schema in sorted(schemas)),
        *(f"GRANT SELECT ON {dialect.qualified(table)} TO sitemapd" for table in shape.tables),
        f"GRANT SELECT, INSERT, DELETE ON {dialect.outbox} TO sitemapd",
        f"GRANT SELECT, INSERT, UPDATE ON {dialect.ours(SOURCES)} TO sitemapd",
        *([f"GRANT SELECT, INSERT, DELETE ON {dialect.ours(URLS)} TO sitemapd"] if shape.feeds else []),
    ]


def _drop_elsewhere(function: str, on: str) -> str:
    return (
        "DO $sitemapd$ DECLARE each record; BEGIN\n"
        "    FOR each IN SELECT tgname, tgrelid::regclass AS other FROM pg_trigger\n"
        f"        WHERE tgfoid = to_regprocedure({literal(function + '()')})\n"
        f"        AND tgrelid <> {literal(on)}::regclass\n"
        "    LOOP\n"
        "        EXECUTE format('DROP TRIGGER %I ON %s', each.tgname, each.other);\n"
        "    END LOOP;\nEND $sitemapd$"
    )


def _function(dialect: Dialect, shape: Shape, function: str, watched: Watched) -> str:
    outbox, label = dialect.outbox, literal(shape.label)
    settings = "SET search_path = pg_catalog, pg_temp"
    # Each setting costs a call of microseconds, and only times are written in more than one way.
    if any(_has_times(column) for column in watched.noted.values()):
        settings += " SET timezone = 'UTC' SET datestyle = 'ISO, MDY'"
    notify = (
        "    IF FOUND THEN\n        NOTIFY sitemapd_outbox;\n    END IF;\n" if shape.source.notify else ""
    )
    branches = {"INSERT": _written(dialect, watched, "new"), "DELETE": _written(dialect, watched, "old")}
    branches["UPDATE"] = _updated(dialect, shape, watched)
    asked, done = "", ""
    for at, event in enumerate(map(str.upper, EVENTS)):
        columns, query = branches[event]
        word = "ELSIF" if at else "IF"
        asked += f"        {word} TG_OP = '{event}' THEN\n            PERFORM {query} LIMIT 0;\n"
        done += (
            f"    {word} TG_OP = '{event}' THEN\n"
            f"        INSERT INTO {outbox} (source, {columns}) SELECT {label}, {query};\n"
        )
    return (
        f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER\n"
        f"    {settings}\nAS $sitemapd$\n"
        f"{comment(shape)}\n"
        "BEGIN\n"
        "    BEGIN\n"
        f"        PERFORM x.source, x.kind, x.old, x.new FROM {outbox} AS x LIMIT 0;\n"
        f"{asked}"
        "        END IF;\n"
        f"        IF NOT has_table_privilege({literal(outbox)}, 'INSERT') THEN\n"
        f"            RAISE EXCEPTION 'there is no right to write into %', {literal(outbox)};\n"
        "        END IF;\n"
        "    EXCEPTION WHEN OTHERS THEN\n"
        "        RAISE WARNING 'sitemapd could not note a change of %: %', TG_TABLE_NAME, SQLERRM;\n"
        "        BEGIN\n"
        f"            INSERT INTO {outbox} (source, kind) SELECT {label}, 'failed' WHERE NOT EXISTS\n"
        f"                (SELECT 1 FROM {outbox} AS x WHERE x.source = {label} AND x.kind = 'failed');\n"
        "        EXCEPTION WHEN OTHERS THEN\n"
        "            NULL;  -- the relay sees that something is missing, and compares\n"
        "        END;\n"
        "        RETURN NULL;\n"
        "    END;\n"
        f"{done}"
        "    ELSE\n"
        f"        INSERT INTO {outbox} (source, kind) VALUES ({label}, 'truncate');\n"
        "    END IF;\n"
        f"{notify}"
        "    RETURN NULL;\n"
        "END\n"
        "$sitemapd$"
    )


def _has_times(column: Column) -> bool:
    return column.kind in ("instant", "local", "day") or column.type.endswith(("[]", "range", "interval"))


def _json(pairs: Iterable[tuple[str, str]]) -> str:
    return f"json_build_object({', '.join(f'{literal(name)}, {value}' for name, value in pairs)})::text"


def _written(dialect: Dialect, watched: Watched, row: str) -> tuple[str, str]:
    """The outbox's column, and a query of its values, for rows that came or went."""
    pairs = ((name, dialect.noted_as(column)) for name, column in watched.noted.items())
    return row, f"{_json(pairs)} FROM sitemapd_{row}"


def _updated(dialect: Dialect, shape: Shape, watched: Watched) -> tuple[str, str]:
    """Rows before and after, paired by their key."""
    quote = dialect.quote
    own = next(iter(watched.noted.values())).name
    key = shape.key if shape.table else dialect.primary_key(watched.table) or [own]
    paired = " AND ".join(f"o.{quote(name)} = n.{quote(name)}" for name in key)

    def pairs(row: str) -> Iterable[tuple[str, str]]:
        return ((name, dialect.noted_as(column, f"{row}.")) for name, column in watched.noted.items())

    def unlike(columns: Iterable[Column]) -> str:
        several = list(dict.fromkeys(columns))
        old, new = (", ".join(_comparable(dialect, column, row) for column in several) for row in "on")
        return f"({old}) IS DISTINCT FROM ({new})"

    keys = [Column(name, "any", "") for name in key]
    matters = "o IS DISTINCT FROM n" if watched.whole else unlike((*keys, *watched.matters))
    gone, came = (f"{row}.{quote(key[0])} IS NOT NULL" for row in "on")
    return (
        "old, new",
        (
            f"CASE WHEN {gone} AND (NOT {came} OR {unlike(watched.noted.values())})\n"
            f"                THEN {_json(pairs('o'))} END,\n"
            f"            CASE WHEN {came} THEN {_json(pairs('n'))} END\n"
            f"        FROM sitemapd_old AS o FULL JOIN sitemapd_new AS n ON {paired}\n        WHERE {matters}"
        ),
    )


def _comparable(dialect: Dialect, column: Column, row: str) -> str:
    # Types such as citext call values equal that make different addresses.
    quoted = f"{row}.{dialect.quote(column.name)}"
    return f"{quoted}::text" if column.kind == "text" else quoted

"""The SQL of the PostgreSQL triggers: one function a table, called once a statement.

A statement's rows before and after are paired by the key in transition tables, so a bulk update costs one
join. The function runs with its owner's rights (SECURITY DEFINER) and catches its own errors. It uses no
sequence: that would change what lastval() tells the application.
"""

from __future__ import annotations

from producers.database.dialect import Dialect
from producers.database.shape import OUTBOX, SOURCES, URLS, Column, Shape, Table
from producers.database.triggers import MARK, Plan, literal, name_of, plan

_EVENTS = (
    ("insert", "AFTER INSERT", "REFERENCING NEW TABLE AS sitemapd_new "),
    ("update", "AFTER UPDATE", "REFERENCING OLD TABLE AS sitemapd_old NEW TABLE AS sitemapd_new "),
    ("delete", "AFTER DELETE", "REFERENCING OLD TABLE AS sitemapd_old "),
    ("truncate", "AFTER TRUNCATE", ""),
)


def build(dialect: Dialect, shape: Shape) -> Plan:
    """The plan for one source."""
    create: list[str] = []
    drop: list[str] = []
    triggers: list[tuple[Table, str]] = []
    if shape.table is not None:
        _add(dialect, shape, shape.table, _rows(dialect, shape, shape.table), create, drop, triggers)
    for feed, table in shape.feeds.items():
        _add(dialect, shape, table, _links(dialect, shape, feed, table), create, drop, triggers)
    return plan(
        tables=_tables(dialect),
        create=create,
        drop=drop,
        drop_tables=[f"DROP TABLE IF EXISTS {dialect.ours(name)}" for name in (OUTBOX, SOURCES, URLS)],
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
            "    row_key text NOT NULL,\n    loc text NOT NULL,\n"
            "    PRIMARY KEY (source, row_key, feed)\n)"
        ),
        f"CREATE INDEX IF NOT EXISTS sitemapd_urls_link ON {dialect.ours(URLS)} (source, feed, link)",
    ]


def _grants(dialect: Dialect, shape: Shape) -> list[str]:
    tables = [shape.table] if shape.table else list(shape.feeds.values())
    schemas = {dialect.quote(table.schema) for table in tables}
    schemas.add(dialect.quote(shape.source.outbox_schema or "public"))
    return [
        *(f"GRANT USAGE ON SCHEMA {schema} TO sitemapd" for schema in sorted(schemas)),
        *(f"GRANT SELECT ON {dialect.qualified(table)} TO sitemapd" for table in tables),
        f"GRANT SELECT, INSERT, DELETE ON {dialect.outbox} TO sitemapd",
        f"GRANT SELECT, INSERT, UPDATE ON {dialect.ours(SOURCES)} TO sitemapd",
        *([f"GRANT SELECT, INSERT, DELETE ON {dialect.ours(URLS)} TO sitemapd"] if shape.feeds else []),
    ]


def _add(
    dialect: Dialect,
    shape: Shape,
    table: Table,
    body: str,
    create: list[str],
    drop: list[str],
    triggers: list[tuple[Table, str]],
) -> None:
    name, on = name_of(shape, table), dialect.qualified(table)
    function = dialect.ours(name)
    create.append(_function(dialect, shape, function, table, body))
    for event, when, referencing in _EVENTS:
        trigger = f"{name}_{event}"
        drop_it = f"DROP TRIGGER IF EXISTS {dialect.quote(trigger)} ON {on}"
        create.append(drop_it)
        create.append(
            f"CREATE TRIGGER {dialect.quote(trigger)} {when} ON {on}\n"
            f"    {referencing}FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
        )
        drop.append(drop_it)
        triggers.append((table, trigger))
    drop.append(f"DROP FUNCTION IF EXISTS {function}()")


def _function(dialect: Dialect, shape: Shape, function: str, table: Table, body: str) -> str:
    outbox, label = dialect.outbox, literal(shape.label)
    notify = (
        "    IF FOUND THEN\n        NOTIFY sitemapd_outbox;\n    END IF;\n" if shape.source.notify else ""
    )
    settings = f"SET search_path = pg_catalog, {dialect.quote(table.schema)}, pg_temp"
    if any(column.kind in ("instant", "local", "day") for column in shape.url_columns):
        settings += " SET timezone = 'UTC' SET datestyle = 'ISO, MDY'"
    return (
        f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER\n"
        f"    {settings}\nAS $sitemapd$\n"
        f"-- definition {MARK}\n"
        "BEGIN\n"
        f"{body}"
        "    ELSE\n"
        f"        INSERT INTO {outbox} (source, kind) VALUES ({label}, 'truncate');\n"
        "    END IF;\n"
        f"{notify}"
        "    RETURN NULL;\n"
        "EXCEPTION WHEN OTHERS THEN\n"
        "    -- The application's statement goes on, unless its transaction has to be tried again anyway.\n"
        "    IF SQLSTATE LIKE '40%' OR SQLSTATE = '55P03' THEN\n"
        "        RAISE;\n"
        "    END IF;\n"
        "    RAISE WARNING 'sitemapd could not note a change of %: %', TG_TABLE_NAME, SQLERRM;\n"
        "    BEGIN\n"
        f"        INSERT INTO {outbox} (source, kind) VALUES ({label}, 'failed');\n"
        "    EXCEPTION WHEN OTHERS THEN\n"
        "        NULL;  -- the next comparison of the whole table finds it\n"
        "    END;\n"
        "    RETURN NULL;\n"
        "END\n"
        "$sitemapd$"
    )


def _rows(dialect: Dialect, shape: Shape, table: Table) -> str:
    """What is noted of a table's own rows: the columns that make the address, before and after."""
    quote, label, outbox = dialect.quote, literal(shape.label), dialect.outbox
    alias = quote(table.name)
    where = f"({shape.source.where}) IS TRUE" if shape.source.where else "true"
    urls = [column.name for column in shape.url_columns]
    mattering = {column.name: column for column in shape.read_columns}
    keys = [f"k{at}" for at in range(len(shape.key))]
    names = {name: f"c{at}" for at, name in enumerate(mattering)}
    read = ", ".join(
        [
            *(f"{quote(name)} AS {key}" for name, key in zip(shape.key, keys, strict=True)),
            *(f"{_comparable(dialect, column)} AS {names[name]}" for name, column in mattering.items()),
        ]
    )
    old, new = ([f"{row}.{column}" for column in (*keys, *names.values())] for row in "on")
    paired = " AND ".join(f"o.{key} = n.{key}" for key in keys)

    def address(row: str) -> str:
        pairs = ", ".join(f"{literal(name)}, {row}.{names[name]}::text" for name in urls)
        return f"json_build_object({pairs})::text"

    def direct() -> str:
        pairs = ", ".join(f"{literal(name)}, {quote(name)}::text" for name in urls)
        return f"json_build_object({pairs})::text"

    def urls_of(row: str) -> str:
        return ", ".join([f"{row}.{keys[0]} IS NULL", *(f"{row}.{names[name]}" for name in urls)])

    return (
        "    IF TG_OP = 'INSERT' THEN\n"
        f"        INSERT INTO {outbox} (source, new)\n"
        f"        SELECT {label}, {direct()}\n"
        f"        FROM sitemapd_new AS {alias} WHERE {where};\n"
        "    ELSIF TG_OP = 'UPDATE' THEN\n"
        f"        INSERT INTO {outbox} (source, old, new)\n"
        f"        SELECT {label},\n"
        f"            CASE WHEN o.{keys[0]} IS NOT NULL\n"
        f"                AND ({urls_of('o')}) IS DISTINCT FROM ({urls_of('n')})\n"
        f"                THEN {address('o')} END,\n"
        f"            CASE WHEN n.{keys[0]} IS NOT NULL THEN {address('n')} END\n"
        f"        FROM (SELECT {read} FROM sitemapd_old AS {alias} WHERE {where}) AS o\n"
        f"        FULL JOIN (SELECT {read} FROM sitemapd_new AS {alias} WHERE {where}) AS n ON {paired}\n"
        f"        WHERE ({', '.join(old)}) IS DISTINCT FROM ({', '.join(new)});\n"
        "    ELSIF TG_OP = 'DELETE' THEN\n"
        f"        INSERT INTO {outbox} (source, old)\n"
        f"        SELECT {label}, {direct()}\n"
        f"        FROM sitemapd_old AS {alias} WHERE {where};\n"
    )


def _links(dialect: Dialect, shape: Shape, feed: str, table: Table) -> str:
    """What is noted of a feeding table's rows: which rows of the query they concern."""
    quote, label, outbox = dialect.quote, literal(shape.label), dialect.outbox
    given = shape.source.feeds[feed]
    key = dialect.primary_key(table) or [given.column]
    keys = [f"k{at}" for at in range(len(key))]
    watched = list(dict.fromkeys((given.column, *given.watch)))
    names = [f"c{at}" for at in range(len(watched))]
    read = ", ".join(
        f"{quote(name)} AS {alias}" for name, alias in zip((*key, *watched), (*keys, *names), strict=True)
    )
    paired = " AND ".join(f"o.{each} = n.{each}" for each in keys)
    old, new = (", ".join(f"{row}.{each}" for each in (*keys, *names)) for row in "on")

    def link(row: str) -> str:
        built = f"json_build_object({literal(feed)}, {row}.c0::text)::text"
        return f"CASE WHEN {row}.c0 IS NOT NULL THEN {built} END"

    def direct(rows: str) -> str:
        column = quote(given.column)
        return (
            f"        SELECT {label}, json_build_object({literal(feed)}, {column}::text)::text\n"
            f"        FROM {rows} WHERE {column} IS NOT NULL;\n"
        )

    return (
        "    IF TG_OP = 'INSERT' THEN\n"
        f"        INSERT INTO {outbox} (source, new)\n"
        f"{direct('sitemapd_new')}"
        "    ELSIF TG_OP = 'UPDATE' THEN\n"
        f"        INSERT INTO {outbox} (source, old, new)\n"
        f"        SELECT {label},\n"
        f"            {link('o')},\n"
        f"            {link('n')}\n"
        f"        FROM (SELECT {read} FROM sitemapd_old) AS o\n"
        f"        FULL JOIN (SELECT {read} FROM sitemapd_new) AS n ON {paired}\n"
        f"        WHERE ({old}) IS DISTINCT FROM ({new});\n"
        "    ELSIF TG_OP = 'DELETE' THEN\n"
        f"        INSERT INTO {outbox} (source, old)\n"
        f"{direct('sitemapd_old')}"
    )


def _comparable(dialect: Dialect, column: Column) -> str:
    # Types such as citext call values equal that make different addresses.
    quoted = dialect.quote(column.name)
    return f"{quoted}::text" if column.kind == "text" else quoted

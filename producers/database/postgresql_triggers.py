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
from typing import TYPE_CHECKING, Final

from producers.database.shape import Column, Shape, Watched
from producers.database.triggers import EVENTS, TableTriggers, comment, literal, name_of

if TYPE_CHECKING:
    from producers.database.dialect import Dialect

_EVENTS: Final = {
    "insert": "REFERENCING NEW TABLE AS sitemapd_new ",
    "update": "REFERENCING OLD TABLE AS sitemapd_old NEW TABLE AS sitemapd_new ",
    "delete": "REFERENCING OLD TABLE AS sitemapd_old ",
    "truncate": "",
}


def statement_triggers(dialect: Dialect, shape: Shape, watched: Watched) -> TableTriggers:
    """The triggers of a source on one table."""
    name, on = name_of(shape, watched.table), dialect.qualified(watched.table)
    function = dialect.ours(name)
    # A table that was swapped away keeps its triggers, and would go on noting.
    create = [_function(dialect, shape, function, watched), _drop_elsewhere(function, on)]
    for event, referencing in _EVENTS.items():
        trigger = dialect.quote(f"{name}_{event}")
        create.append(f"DROP TRIGGER IF EXISTS {trigger} ON {on}")
        create.append(
            f"CREATE TRIGGER {trigger} AFTER {event.upper()} ON {on}\n"
            f"    {referencing}FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
        )
    drop = [f"DROP FUNCTION IF EXISTS {function}() CASCADE"]
    return TableTriggers([f"{name}_{event}" for event in _EVENTS], create, drop)


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
    branches = {
        "insert": ("new", f"{_json(dialect, watched)} FROM sitemapd_new"),
        "update": ("old, new", _updated(dialect, shape, watched)),
        "delete": ("old", f"{_json(dialect, watched)} FROM sitemapd_old"),
    }
    asked, done = "", ""
    for at, event in enumerate(EVENTS):
        columns, query = branches[event]
        word = "ELSIF" if at else "IF"
        asked += f"        {word} TG_OP = '{event.upper()}' THEN\n            PERFORM {query} LIMIT 0;\n"
        done += (
            f"    {word} TG_OP = '{event.upper()}' THEN\n"
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


def _json(dialect: Dialect, watched: Watched, prefix: str = "") -> str:
    """The address columns of a row, as text."""
    pairs = (f"{literal(name)}, {dialect.noted_as(each, prefix)}" for name, each in watched.noted.items())
    return f"json_build_object({', '.join(pairs)})::text"


def _updated(dialect: Dialect, shape: Shape, watched: Watched) -> str:
    """The query of the values before and after, of rows that are paired by their key."""
    quote = dialect.quote
    own = next(iter(watched.noted.values())).name
    key = shape.key if shape.table else dialect.primary_key(watched.table) or [own]
    paired = " AND ".join(f"o.{quote(name)} = n.{quote(name)}" for name in key)

    def unlike(columns: Iterable[Column]) -> str:
        several = list(dict.fromkeys(columns))
        old, new = (", ".join(_comparable(dialect, column, row) for column in several) for row in "on")
        return f"({old}) IS DISTINCT FROM ({new})"

    keys = [Column(name, "any", "") for name in key]
    matters = "o IS DISTINCT FROM n" if watched.whole else unlike((*keys, *watched.matters))
    gone, came = (f"{row}.{quote(key[0])} IS NOT NULL" for row in "on")
    return (
        f"CASE WHEN {gone} AND (NOT {came} OR {unlike(watched.noted.values())})\n"
        f"                THEN {_json(dialect, watched, 'o.')} END,\n"
        f"            CASE WHEN {came} THEN {_json(dialect, watched, 'n.')} END\n"
        f"        FROM sitemapd_old AS o FULL JOIN sitemapd_new AS n ON {paired}\n        WHERE {matters}"
    )


def _comparable(dialect: Dialect, column: Column, row: str) -> str:
    # Types such as citext call values equal that make different addresses.
    quoted = f"{row}.{dialect.quote(column.name)}"
    return f"{quoted}::text" if column.kind == "text" else quoted

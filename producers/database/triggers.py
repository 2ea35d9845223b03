"""What is installed in a database for one source, as SQL for people and for the database.

Every trigger keeps four rules: it asks nothing but whether a column that matters changed, it writes the
address columns as they were and are, it never makes the application's statement fail, and it needs no right
that the application lacks. The outbox has no index beside its key: the application would wait for it too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from producers.database.shape import OUTBOX, SOURCES, TABLES, URLS, Column, Shape, Table, Watched

if TYPE_CHECKING:
    from producers.database.dialect import Dialect

EVENTS: Final = ("insert", "update", "delete")
MARK: Final = "@definition@"
"""Where the definition goes in a trigger's body."""
_LONGEST: Final = 40
_COMMENT: Final = re.compile(r"/\* sitemapd (\S+/\S+) [0-9a-f]{16} \*/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that `triggers install` does."""

    definition: str
    """A digest of the SQL, which stands in the triggers' bodies too."""
    tables: tuple[str, ...]
    """Statements that make the tables of sitemapd, where they are not there yet."""
    create: tuple[str, ...]
    """Statements that make the triggers, anew if they are there."""
    note: str
    """The statement that notes which definition is installed, so that the relay compares."""
    drop: tuple[str, ...]
    """Statements that remove the triggers."""
    triggers: tuple[tuple[Table, str], ...]
    """Table and name of each trigger."""
    needed: tuple[str, ...]
    """The tables of sitemapd without which the source does not work."""
    grants: tuple[str, ...]
    """The least that the relay's role needs, where there are roles."""


class TableTriggers(NamedTuple):
    """The triggers of a source on one table."""

    names: list[str]
    create: list[str]
    drop: list[str]


class Types(NamedTuple):
    """What columns and ends of sitemapd's own tables are in one kind of database."""

    id: str
    """The outbox's first column, where it has a number."""
    name: str
    long: str
    moment: str
    """A moment, by default now."""
    link: str
    """A text of `LONGEST` characters, in an index."""
    end: str = ""
    """What stands behind a table's columns."""
    outbox_end: str = ""
    inline_index: bool = False
    """An index is named within CREATE TABLE."""


def plan_of(dialect: Dialect, shape: Shape) -> Plan:
    """What `triggers install` does for a source."""
    each = [(watched.table, dialect.triggers_on(shape, watched)) for watched in shape.watched]
    create = [statement for _, triggers in each for statement in triggers.create]
    definition = hashlib.sha256("\n".join(create).encode()).hexdigest()[:16]
    note = (
        f"INSERT INTO {dialect.ours(SOURCES)} (source, definition)\n"
        f"    VALUES ({literal(shape.label)}, {literal(definition)})\n"
        f"    {dialect.conflict.format('definition')}, told = NULL"
    )
    return Plan(
        definition=definition,
        tables=tuple(_tables(dialect)),
        create=tuple(statement.replace(MARK, definition) for statement in create),
        note=note,
        drop=tuple(statement for _, triggers in each for statement in triggers.drop),
        triggers=tuple((table, name) for table, triggers in each for name in triggers.names),
        needed=TABLES if shape.feeds else (OUTBOX, SOURCES),
        grants=tuple(_grants(dialect, shape)) if dialect.role else (),
    )


def _tables(dialect: Dialect) -> list[str]:
    types = dialect.types
    name, long, end = f"{types.name} NOT NULL", types.long, types.end
    index = "sitemapd_urls_link{} (source, feed, link)"
    inline = f",\n    KEY {index.format('')}" if types.inline_index else ""
    statements = [
        (
            f"CREATE TABLE IF NOT EXISTS {dialect.outbox} (\n{types.id}"
            f"    source {name},\n    kind {name} DEFAULT 'row',\n    old {long},\n    new {long},\n"
            f"    created {types.moment}\n){end}{types.outbox_end}"
        ),
        (
            f"CREATE TABLE IF NOT EXISTS {dialect.ours(SOURCES)} (\n"
            f"    source {name} PRIMARY KEY,\n    definition {types.name},\n    told {long}\n){end}"
        ),
        (
            f"CREATE TABLE IF NOT EXISTS {dialect.ours(URLS)} (\n"
            f"    source {name},\n    feed {name},\n    link {types.link} NOT NULL,\n"
            f"    row_key {types.link} NOT NULL,\n    held {long} NOT NULL,\n"
            f"    PRIMARY KEY (source, row_key, feed){inline}\n){end}"
        ),
    ]
    if not inline:
        statements.append(f"CREATE INDEX IF NOT EXISTS {index.format(f' ON {dialect.ours(URLS)}')}")
    return statements


def _grants(dialect: Dialect, shape: Shape) -> list[str]:
    rights = [
        *(("SELECT", dialect.qualified(table)) for table in shape.tables),
        ("SELECT, INSERT, DELETE", dialect.outbox),
        ("SELECT, INSERT, UPDATE", dialect.ours(SOURCES)),
    ]
    if shape.feeds:
        rights.append(("SELECT, INSERT, DELETE", dialect.ours(URLS)))
    return [f"GRANT {right} ON {table} TO {dialect.role}" for right, table in rights]


def name_of(shape: Shape, table: Table) -> str:
    """The name that the triggers of a source on a table begin with; unlike any other source's."""
    words = re.sub(r"[^a-z0-9]+", "_", f"{shape.site}_{shape.source.name}".lower())[:_LONGEST]
    unlike = hashlib.sha256(f"{shape.label} {table.schema}.{table.name}".encode()).hexdigest()[:6]
    return f"sitemapd_{words}_{unlike}"


def literal(text: str) -> str:
    """A text literal; labels and column names hold no backslash that could matter."""
    return "'" + text.replace("'", "''") + "'"


def comment(shape: Shape) -> str:
    """What every trigger's body begins with, so that it is known by its source and its definition."""
    return f"/* sitemapd {shape.label.replace('*', '')} {MARK} */"


def label_in(body: str) -> str:
    """The source whose trigger a body is of; empty when that can't be told."""
    found = _COMMENT.search(body)
    return found[1] if found else ""


def row_triggers(
    dialect: Dialect, shape: Shape, watched: Watched, *, changed: str, body: str
) -> TableTriggers:
    """Triggers that are called once a row, one for each event.

    `changed` is the condition for column {0} to differ by its bytes, where NULL is NULL; `body` a trigger,
    from its event on, with places such as {event}, {condition} and {insert}.
    """

    def differs(columns: Iterable[Column]) -> str:
        return " OR ".join(changed.format(dialect.quote(column.name)) for column in columns)

    def written(row: str) -> str:
        pairs = (
            f"{literal(name)}, {dialect.noted_as(each, f'{row}.')}" for name, each in watched.noted.items()
        )
        return f"JSON_OBJECT({', '.join(pairs)})"

    moved = f"CASE WHEN {differs(watched.noted.values())} THEN {written('OLD')} END"
    values = {
        "insert": {"new": written("NEW")},
        "update": {"old": moved, "new": written("NEW")},
        "delete": {"old": written("OLD")},
    }
    found = TableTriggers([], [], [])
    for event, row in values.items():
        name = f"{name_of(shape, watched.table)}_{event}"
        place = dialect.qualified(Table(watched.table.schema, name))
        sql = body.format(
            event=event.upper(),
            table=dialect.qualified(watched.table),
            comment=comment(shape),
            outbox=dialect.outbox,
            source=literal(shape.label),
            condition=differs(watched.matters) if event == "update" else "TRUE",
            insert=f"INSERT INTO {dialect.outbox} (source, {', '.join(row)}) VALUES\n"
            f"            ({literal(shape.label)}, {', '.join(row.values())})",
        )
        found.names.append(name)
        found.drop.append(f"DROP TRIGGER IF EXISTS {place}")
        found.create.extend((found.drop[-1], f"CREATE TRIGGER {place} AFTER {sql}"))
    return found

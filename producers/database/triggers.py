"""What is installed in a database for one source, as SQL for people and for the database.

The SQL of each kind of database is in a module of its own (`postgresql_triggers` and so on); here is what
they share. Every trigger keeps four rules: it asks nothing but whether a column that matters changed, it
writes the address columns as they were and are, it never makes the application's statement fail, and it
needs no right that the application lacks.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from producers.database.shape import OUTBOX, SOURCES, URLS, Column, Shape, Table, Watched

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
    drop: tuple[str, ...]
    """Statements that remove the triggers."""
    drop_tables: tuple[str, ...]
    """Statements that remove the tables of sitemapd; for when no source is left."""
    triggers: tuple[tuple[Table, str], ...]
    """Table and name of each trigger."""
    grants: tuple[str, ...]
    """The least that the relay's role needs, where there are roles."""


def plan(
    dialect: Dialect,
    *,
    tables: Sequence[str],
    create: Sequence[str],
    drop: Sequence[str],
    triggers: Sequence[tuple[Table, str]],
    grants: Sequence[str] = (),
) -> Plan:
    """A plan with its definition in place of `MARK`."""
    definition = hashlib.sha256("\n".join(create).encode()).hexdigest()[:16]
    return Plan(
        definition=definition,
        tables=tuple(tables),
        create=tuple(each.replace(MARK, definition) for each in create),
        drop=tuple(drop),
        drop_tables=tuple(f"DROP TABLE IF EXISTS {dialect.ours(name)}" for name in (OUTBOX, SOURCES, URLS)),
        triggers=tuple(triggers),
        grants=tuple(grants),
    )


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


def values_of_row(dialect: Dialect, shape: Shape, watched: Watched, event: str) -> Mapping[str, str]:
    """Columns of the outbox → what a trigger that is called once a row writes into them."""

    def written(row: str) -> str:
        pairs = (
            f"{literal(name)}, {dialect.noted_as(each, f'{row}.')}" for name, each in watched.noted.items()
        )
        return f"JSON_OBJECT({', '.join(pairs)})"

    label = literal(shape.label)
    if event != "update":
        row, field = ("NEW", "new") if event == "insert" else ("OLD", "old")
        return {"source": label, field: written(row)}
    moved = changed(dialect, watched.noted.values())
    return {"source": label, "old": f"CASE WHEN {moved} THEN {written('OLD')} END", "new": written("NEW")}


def changed(dialect: Dialect, columns: Iterable[Column]) -> str:
    """The condition for one of the columns to have changed, for a trigger that is called once a row."""
    return " OR ".join(map(dialect.changed, columns))

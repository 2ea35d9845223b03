"""What is installed in a database for one source, as SQL for people and for the database.

The SQL of each kind of database is in a module of its own (`postgresql_triggers` and so on); here is what
they share. Every trigger keeps three rules: it writes only when something that matters changed, it never
makes the application's statement fail, and it needs no right that the application lacks.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from producers.database.shape import Shape, Table

MARK: Final = "@definition@"
"""Where the definition goes in a trigger's body."""
_LONGEST: Final = 40


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
    *,
    tables: Sequence[str],
    create: Sequence[str],
    drop: Sequence[str],
    drop_tables: Sequence[str],
    triggers: Sequence[tuple[Table, str]],
    grants: Sequence[str],
) -> Plan:
    """A plan with its definition in place of `MARK`."""
    definition = hashlib.sha256("\n".join(create).encode()).hexdigest()[:16]
    return Plan(
        definition=definition,
        tables=tuple(tables),
        create=tuple(each.replace(MARK, definition) for each in create),
        drop=tuple(drop),
        drop_tables=tuple(drop_tables),
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


def indented(text: str, by: int) -> str:
    """Text with each line moved to the right."""
    return "\n".join(" " * by + line if line else line for line in text.split("\n"))


def listing(quote: Callable[[str], str], prefix: str, names: Sequence[str]) -> str:
    """Columns of a row variable, parted by commas."""
    return ", ".join(f"{prefix}.{quote(name)}" for name in names)

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
_WORDS: Final = re.compile(
    r"""'(?:[^'\\]|\\.|'')*'|`[^`]*`|"[^"]*"|[^\W\d]\w*|\d[\w.]*|\s+|--.*|/\*.*?\*/|.""", re.DOTALL
)
_ALSO_SQL: Final = frozenset(
    {
        "and",
        "or",
        "not",
        "in",
        "is",
        "null",
        "like",
        "between",
        "case",
        "when",
        "then",
        "else",
        "end",
        "true",
        "false",
        "date",
        "time",
        "timestamp",
        "interval",
        "year",
        "quarter",
        "month",
        "week",
        "day",
        "hour",
        "minute",
        "second",
        "microsecond",
        "binary",
        "current_date",
        "current_timestamp",
        "div",
        "mod",
        "xor",
        "regexp",
        "rlike",
        "collate",
        "as",
        "escape",
        "glob",
        "match",
    }
)
"""Words that may not be meant as columns where a column has that name."""


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


def about_row(
    where: str, row: str, columns: Sequence[str], table: str, quote: Callable[[str], str]
) -> str | None:
    """A condition over a table's columns as one over a trigger's row variable (OLD or NEW).

    None where that can't be told from its words alone: it has a subquery, or a column is called like a word
    of SQL (`date`, `day`). Then the row has to be made a table of one row, which costs far more.
    """
    known = {name.lower(): name for name in columns}
    found: list[str] = []
    words = [match[0] for match in _WORDS.finditer(where)]
    for at, word in enumerate(words):
        name = known.get(word.strip('`"').lower())
        plain = word[0].isalpha() or word[0] == "_"
        if plain and word.lower() in ("select", "exists"):
            return None
        following = next((each for each in words[at + 1 :] if not each.isspace()), "")
        before = next((each for each in reversed(words[:at]) if not each.isspace()), "")
        if following == "." and word.strip('`"').lower() == table.lower():
            continue
        if word == ".":
            if before.strip('`"').lower() == table.lower():
                continue
            return None
        if name is None or word[0] == "'" or following in ("(", "."):
            found.append(word)
        elif (plain and word.lower() in _ALSO_SQL) or (word[0] == '"' and quote(name)[0] != '"'):
            return None  # in MySQL double quotes make a text, unless a mode says otherwise
        else:
            found.append(f"{row}.{quote(name)}")
    return "".join(found)

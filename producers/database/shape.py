"""A source as the live schema has it: which columns of which types, and the SQL that follows from it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from producers.database.source import DatabaseSource
from producers.database.template import Template
from producers.dates import Kind

OUTBOX: Final = "sitemapd_outbox"
"""The table that triggers write to, one for all sources of a database."""
SOURCES: Final = "sitemapd_sources"
"""One row a source: which triggers were installed, and what the relay has to remember."""
URLS: Final = "sitemapd_urls"
"""For sources with a `query`: which values each of its rows was last seen with."""
_WORD: Final = re.compile(r"[^\W\d][\w$]*")
TABLES: Final = (OUTBOX, SOURCES, URLS)
ENTRY: Final = ("lastmod", "changefreq", "priority")


class Watched(NamedTuple):
    """What the triggers on one table do."""

    table: Table
    noted: Mapping[str, Column]
    """What is written of a row before and after its change, by name."""
    matters: tuple[Column, ...]
    """The columns whose change is noted."""
    whole: bool = False
    """Whether a change of any column is."""


class Column(NamedTuple):
    """A column of the table, or of the query."""

    name: str
    kind: Kind
    type: str
    """What the database calls its type, for casts; empty where none are needed."""


class Table(NamedTuple):
    """A table's full name."""

    schema: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A source, checked against the live schema."""

    source: DatabaseSource
    site: str
    base: str
    columns: Mapping[str, Column]
    """All columns of the table or the query."""
    key: tuple[str, ...]
    table: Table | None
    feeds: Mapping[str, tuple[Table, Mapping[str, Column]]]
    """For a source with a query: name of a table that feeds it → the table and its columns."""

    @property
    def label(self) -> str:
        """What the outbox calls the source: several sites may have sources of one name."""
        return f"{self.site}/{self.source.name}"

    @cached_property
    def template(self) -> Template:
        """The address template."""
        return self.source.template

    @property
    def url_columns(self) -> tuple[Column, ...]:
        """The columns that make an address, in the template's order."""
        return tuple(self.columns[name] for name in self.template.columns)

    @property
    def entry_columns(self) -> tuple[tuple[str, Column], ...]:
        """The fields of an entry that come from columns, in the order in which they are read."""
        given = self.source.columns
        return tuple((name, self.columns[given[name]]) for name in ENTRY if name in given)

    @property
    def read_columns(self) -> tuple[Column, ...]:
        """What is read of each row."""
        return (*self.url_columns, *(column for _, column in self.entry_columns))

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns that tell rows apart."""
        return tuple(self.columns[name] for name in self.key)

    @property
    def link_columns(self) -> tuple[Column, ...]:
        """The columns of the query by which a change in a feeding table finds its rows."""
        return tuple(self.columns[name] for name in dict.fromkeys(feed.matches for feed in self.source.feeds))

    @cached_property
    def descents(self) -> tuple[tuple[int, str], ...]:
        """Where a table feeds itself: place of a value in a row's key → column of the rows that name it."""
        feeds = self.source.feeds
        return tuple(
            (self.key.index(own.matches), other.matches)
            for own in feeds
            for other in feeds
            if own.noted == other.noted and own.matches in self.key and own.matches != other.matches
        )

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every table that has triggers."""
        return (self.table,) if self.table else tuple(table for table, _ in self.feeds.values())

    @property
    def watched(self) -> tuple[Watched, ...]:
        """What the triggers of each table note, and when. What a row means is decided when it is read."""
        if self.table is not None:
            named = _words_in(self.source.where)
            matters = [
                *self.read_columns,
                *(each for each in self.columns.values() if each.name.lower() in named),
            ]
            whole = self.table.name.lower() in _alone(self.source.where)
            noted = {column.name: column for column in self.url_columns}
            return (Watched(self.table, noted, tuple(dict.fromkeys(matters)), whole),)
        found = []
        for name, (table, columns) in self.feeds.items():
            links = [feed for feed in self.source.feeds if feed.table == name]
            noted = {feed.noted: columns[feed.column] for feed in links}
            matters = [*noted.values(), *(columns[each] for feed in links for each in feed.watch)]
            found.append(Watched(table, noted, tuple(dict.fromkeys(matters))))
        return tuple(found)

    @property
    def fingerprint(self) -> str:
        """Changes when what is set means other URLs or entries than before."""
        source = self.source
        told: Sequence[object] = (
            self.base,
            source.url,
            source.table,
            source.where,
            source.query,
            sorted(source.columns.items()),
            sorted(source.constants.items()),
            source.timezone,
            source.lastmod_numbers,
        )
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def _words_in(condition: str) -> set[str]:
    """What may be names of columns in a condition; some are not, which only notes a change too many."""
    return {word.lower() for word in _WORD.findall(condition)} | {
        quoted.lower() for quoted in re.findall(r"[\"`\[]([^\"`\]]+)[\"`\]]", condition)
    }


def _alone(condition: str) -> set[str]:
    """Words that no dot follows: a table's name among them means the whole row."""
    return {word.lower() for word in re.findall(r"[^\W\d][\w$]*(?![\w$\"`]|\s*\.\s*[^\W*])", condition)}

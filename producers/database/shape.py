"""A source as the live schema has it: which columns of which types, and the SQL that follows from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from producers.database.dates import Kind
from producers.database.source import DatabaseSource
from producers.database.template import Template

OUTBOX: Final = "sitemapd_outbox"
"""The table that triggers write to, one for all sources of a database."""
SOURCES: Final = "sitemapd_sources"
"""One row a source: which triggers were installed, and what the relay has to remember."""
URLS: Final = "sitemapd_urls"
"""For sources with a `query`: which URL each of its rows was last seen with."""
ENTRY: Final = ("lastmod", "changefreq", "priority")


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
    feeds: Mapping[str, Table]
    """Feed name → its table, for a source with a query."""

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
    def link_columns(self) -> tuple[tuple[str, Column], ...]:
        """For each feed the column of the query by which a change finds its rows."""
        return tuple((name, self.columns[feed.matches]) for name, feed in self.source.feeds.items())

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
        )
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]

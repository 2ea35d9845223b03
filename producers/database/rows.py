"""Rows as they are read from the database → what a sitemap says of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from producers.database.shape import ENTRY, Column, Shape
from producers.database.template import shown
from producers.dates import NoDate, lastmod_of
from producers.difference import rank
from sitemap_store.errors import Refused
from sitemap_store.model.site import Site
from sitemap_store.model.urls import normalise
from sitemap_store.model.values import check_changefreq, check_priority

MANY_ENCODED: Final = 10
"""Rows that seem to be percent-encoded already from which on somebody should be told."""
_ENCODED: Final = re.compile("%25[0-9A-Fa-f]{2}")
_MOST: Final = 10_000
"""Refused rows that are remembered as told; after that some may be told twice."""


class Listed(NamedTuple):
    """What one row, or the row that speaks for a URL, says."""

    loc: str
    lastmod: str
    changefreq: str
    priority: str


class Reader:
    """Reads rows of one source. `warn` gets a sentence once for each kind of trouble."""

    def __init__(self, shape: Shape, site: Site, warn: Callable[[str, str], None]) -> None:
        self._source = shape.source
        self._rules = site.rules
        self._url_columns = shape.url_columns
        self._entry_columns = shape.entry_columns
        self._warn = warn
        self._warned: set[str] = set()
        self._refused: dict[str, None] = {}
        self.without_url = 0
        """Rows seen that make no URL, since a value of it is NULL or empty."""
        self.encoded = 0
        """Rows seen whose values seem to be percent-encoded already, and so are encoded twice."""
        self.undated = 0
        """Rows seen whose lastmod is NULL or no date."""
        self.refusals: list[Refused] = []
        """Refused rows that nobody was told of yet."""

    def read(self, values: Sequence[object]) -> Listed | None:
        """What a row says (the values of `Shape.read_columns`); None when it makes no URL."""
        loc = self.loc(values)
        if loc is None:
            return None
        fields = dict(self._source.constants)
        for (field, column), value in zip(self._entry_columns, values[len(self._url_columns) :], strict=True):
            fields[field] = self._field(field, column, value)
        return Listed(loc, *(fields.get(field, "") for field in ENTRY))

    def loc(self, values: Sequence[object]) -> str | None:
        """The URL of a row's values; None when it makes none. Refusals are counted and kept."""
        texts = [
            bytes.fromhex(value) if column.kind == "bytes" and isinstance(value, str) else value
            for column, value in zip(self._url_columns, values, strict=False)
        ]
        try:
            path = self._source.template.path(texts)
            if path is None:
                self.without_url += 1
                return None
            if _ENCODED.search(path):
                self.encoded += 1
            return normalise(self._rules.base + path, self._rules).loc
        except Refused as refused:
            row = ", ".join(
                f"{column.name} = {shown(value)}"
                for column, value in zip(self._url_columns, texts, strict=True)
            )
            self.refuse(Refused(loc=refused.loc or row, rule=refused.rule, detail=refused.detail))
            return None

    def refuse(self, row: Refused) -> None:
        """Keep a refused row until somebody is told, unless it was kept before."""
        if row.loc in self._refused:
            return
        if len(self._refused) >= _MOST:
            self._refused.clear()
        self._refused[row.loc] = None
        self.refusals.append(row)

    def _field(self, field: str, column: Column, value: object) -> str:
        """A value as an entry holds it; empty for NULL, and with one warning for what is none."""
        try:
            if field == "lastmod":
                return lastmod_of(value, column.kind, self._source.timezone, self._source.lastmod_numbers)
            if value is None or value == "":
                return ""
            return check_changefreq(value) if field == "changefreq" else check_priority(_decimal(value))
        except NoDate as problem:
            self.undated += 1
            self._say(field, f"column {column.name} holds {problem}.")
        except Refused as refused:
            self._say(field, refused.detail)
        return ""

    def _say(self, field: str, problem: str) -> None:
        if field not in self._warned:
            self._warned.add(field)
            self._warn(field, f"Some rows are listed without {field}: {problem}")


def _decimal(value: object) -> object:
    """A number as people write it: databases pad decimals with zeros."""
    if isinstance(value, str) and "." in value:
        return value.rstrip("0").rstrip(".")
    return value


def newest(*rows: Listed) -> Listed:
    """Of the rows that make one URL the one that speaks for it."""
    return max(rows, key=lambda row: rank(*row[1:]))

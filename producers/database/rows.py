"""Rows as they are read from the database → what a sitemap says of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from producers.database.shape import Shape
from producers.database.template import shown
from producers.dates import NoDate, lastmod_of
from sitemap_store.errors import Refused
from sitemap_store.model.dates import instant_ms
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

    @property
    def rank(self) -> tuple[int, str, str, str]:
        """Among rows of one URL the highest speaks for it: the newest."""
        return instant_ms(self.lastmod) if self.lastmod else -(2**62), *self[1:]


class Reader:
    """Reads rows of one source. `warn` gets a sentence once for each kind of trouble."""

    def __init__(self, shape: Shape, site: Site, warn: Callable[[str, str], None]) -> None:
        self._base = site.rules.base
        self._rules = site.rules
        self._path = shape.template.path
        self._quick = shape.template.quick(site.rules)
        self._width = len(shape.url_columns)
        self._url_names = [column.name for column in shape.url_columns]
        self._hex = [at for at, column in enumerate(shape.url_columns) if column.kind == "bytes"]
        self._zone, self._numbers = shape.source.timezone, shape.source.lastmod_numbers
        self._warn = warn
        constants = shape.source.constants
        self._places: dict[str, int] = {}
        for at, (field, column) in enumerate(shape.entry_columns):
            self._places[field] = self._width + at
            if field == "lastmod":
                self._kind = column.kind
        self._dated = self._places.get("lastmod")
        self._constant_lastmod = constants.get("lastmod", "")
        self._has_changefreq, self._changefreq = "changefreq" in self._places, constants.get("changefreq", "")
        self._has_priority, self._priority = "priority" in self._places, constants.get("priority", "")
        self._names = {field: column.name for field, column in shape.entry_columns}
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
        row = (
            loc,
            self._constant_lastmod if self._dated is None else self._lastmod(values[self._dated]),
            self._checked("changefreq", values) if self._has_changefreq else self._changefreq,
            self._checked("priority", values) if self._has_priority else self._priority,
        )
        return tuple.__new__(Listed, row)  # half the time of Listed(…)

    def loc(self, values: Sequence[object]) -> str | None:
        """The URL of a row's values; None when it makes none. Refusals are counted and kept."""
        if self._hex:
            values = [
                bytes.fromhex(value) if at in self._hex and isinstance(value, str) else value
                for at, value in enumerate(values[: self._width])
            ]
        quick = self._quick(values)
        if quick is not None:
            return quick
        try:
            path = self._path(values)
            if path is None:
                self.without_url += 1
                return None
            if _ENCODED.search(path):
                self.encoded += 1
            return normalise(self._base + path, self._rules).loc
        except Refused as refused:
            row = ", ".join(
                f"{name} = {shown(value)}" for name, value in zip(self._url_names, values, strict=False)
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

    def _lastmod(self, value: object) -> str:
        try:
            return lastmod_of(value, self._kind, self._zone, self._numbers)
        except NoDate as problem:
            self.undated += 1
            self._say("lastmod", f"column {self._names['lastmod']} holds {problem}.")
            return ""

    def _checked(self, field: str, values: Sequence[object]) -> str:
        value = values[self._places[field]]
        if value is None or value == "":
            return ""
        try:
            return check_changefreq(value) if field == "changefreq" else check_priority(_decimal(value))
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


def speaker(rows: Iterable[Listed]) -> Listed:
    """Of the rows that make one URL the one that speaks for it."""
    return max(rows, key=lambda row: row.rank)

"""A source against its live database: what is set must be there, and what is missing is named."""

from __future__ import annotations

import importlib
import logging
import re
from typing import Final

from producers.database.dialect import Broken, Dialect, near
from producers.database.rows import MANY_ENCODED
from producers.database.shape import Column, Shape
from producers.database.source import DatabaseSource
from sitemap_store.errors import BadSetting
from sitemap_store.model.site import Site
from sitemap_store.model.urls import normalise

log = logging.getLogger(__name__)

SAMPLE: Final = 1000
"""Rows that `encoded_columns` looks at."""
_TRIPLET: Final = re.compile("%[0-9A-Fa-f]{2}")
_DIALECTS: Final = {"postgresql": "PostgreSQL", "mysql": "MySQL", "sqlite": "SQLite"}
_EXTRAS: Final = {"postgresql": "postgres", "mysql": "mysql"}


def connect(source: DatabaseSource, *, application: str = "sitemapd") -> Dialect:
    """Open a connection. Raises Unavailable, Broken, or BadSetting when the driver is not installed."""
    try:
        module = importlib.import_module(f"producers.database.{source.kind}")
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(source.kind, "")
        raise BadSetting(
            setting=f"database.{source.name}.dsn",
            detail=f"needs the Python package {error.name}, which is not installed.",
            hint=f"Install sitemapd[{extra}].",
        ) from error
    dialect: Dialect = getattr(module, _DIALECTS[source.kind])(source, application=application)
    return dialect


def shape_of(dialect: Dialect, source: DatabaseSource, site: Site) -> Shape:
    """Look at the schema. Raises BadSetting for what is not there, with its nearest match."""
    try:
        return _shape(dialect, source, site)
    finally:
        dialect.rollback()


def _shape(dialect: Dialect, source: DatabaseSource, site: Site) -> Shape:
    table, feeds, key = None, {}, list(source.key)
    try:
        if source.table:
            table = dialect.table(source.table)
    except Broken as error:
        source.bad("table", str(error).partition(": ")[2] or str(error))
    for feed in source.feeds:
        name = feed.table
        if name not in feeds:
            try:
                feeding = dialect.table(name)
            except Broken as error:
                source.bad(f"feeds.{name}", str(error))
            feeds[name] = feeding, _columns(dialect, source, f"feeds.{name}", dialect.qualified(feeding))
        for column in (feed.column, *feed.watch):
            _found(source, f"feeds.{name}", column, feeds[name][1], name)
    relation = dialect.qualified(table) if table else f"({dialect.fragment(source.query)}\n) AS sitemapd_rows"
    columns = _columns(dialect, source, "table" if table else "query", relation)
    what = table.name if table else "the query"
    if table is not None and not key:
        key = dialect.primary_key(table)
        if not key:
            source.bad("key", f"is missing, and {what} has no primary key.")
    for option, name in (
        *(("url", name) for name in source.template.columns),
        *source.columns.items(),
        *(("key", name) for name in key),
        *((f"feeds.{feed.table}.matches", feed.matches) for feed in source.feeds),
    ):
        _found(source, option, name, columns, what)
    shape = Shape(
        source=source,
        site=site.name,
        base=site.rules.base,
        columns=columns,
        key=tuple(key),
        table=table,
        feeds=feeds,
    )
    _check_address(shape, site)
    _check_condition(dialect, shape)
    _check_zone(dialect, shape)
    return shape


def _columns(dialect: Dialect, source: DatabaseSource, option: str, relation: str) -> dict[str, Column]:
    try:
        return {column.name: column for column in dialect.columns_of(relation)}
    except Broken as error:
        source.bad(option, f"can't be read ({error}).")


def _found(source: DatabaseSource, option: str, name: str, columns: dict[str, Column], what: str) -> None:
    if name not in columns:
        hint = near(name, columns).strip() or f"Columns: {', '.join(columns)}."
        source.bad(option, f"there is no column {name!r} in {what}.", hint)


def _check_address(shape: Shape, site: Site) -> None:
    """Rows of unlike values must make unlike addresses, and every type must be one that makes any."""
    source, template = shape.source, shape.template
    for column in shape.url_columns:
        if column.kind == "none":
            source.bad("url", f"column {column.name} is of a type that has no text.", "Name another column.")
    kinds = {
        column.name: "uuid" if column.type == "uuid" else "integer" if "INT" in column.type else column.kind
        for column in shape.url_columns
    }
    if ambiguity := template.ambiguity(kinds):
        source.bad("url", f"{source.url!r} {ambiguity}")
    marks = [f"1{at}2" for at in range(len(kinds))]
    path = template.path(marks)
    loc = normalise(site.rules.base + (path or ""), site.rules).loc
    for column, mark in zip(shape.url_columns, marks, strict=True):
        if mark not in loc:
            source.bad(
                "url", f"the site's strip_query takes {{{column.name}}} away, so rows would share an address."
            )


def _check_condition(dialect: Dialect, shape: Shape) -> None:
    if not shape.source.where:
        return
    try:
        dialect.run(f"{dialect.select(shape, shape.url_columns)} AND 1 = 0")
    except Broken as error:
        shape.source.bad("where", f"is no condition that the database takes ({error}).")


def _check_zone(dialect: Dialect, shape: Shape) -> None:
    """A column without a zone needs the setting; where types don't tell, some of its values do."""
    given = dict(shape.entry_columns).get("lastmod")
    if given is None or shape.source.timezone:
        return
    naive = given.kind == "local"
    if given.kind in ("any", "text"):
        column = dialect.quote(given.name)
        sample = dialect.run(f"{dialect.select(shape, [given])} AND {column} IS NOT NULL LIMIT 100")
        naive = any(_has_no_zone(row[0]) for row in sample)
    if naive:
        shape.source.bad(
            "timezone",
            f"is missing: the times in column {given.name} have no zone.",
            'Set it to the zone that they are in, such as "UTC" or "Europe/Berlin".',
        )


def _has_no_zone(value: object) -> bool:
    text = value if isinstance(value, str) else ""
    return (
        len(text) > 10
        and text[10:11] in ("T", " ")
        and not text.endswith(("Z", "UTC"))
        and not any(sign in text[10:] for sign in "+-")
    )


def encoded_columns(dialect: Dialect, shape: Shape) -> list[str]:
    """The columns, not `:encoded`, of whose first thousand values many seem to be percent-encoded already."""
    rows = dialect.run(f"{dialect.select(shape, shape.url_columns)} LIMIT {SAMPLE}")
    dialect.rollback()
    places = {part.place for part in shape.template.parts if part.form != "encoded"}
    return [
        shape.url_columns[at].name
        for at in sorted(places)
        if sum(_TRIPLET.search(str(row[at])) is not None for row in rows) >= MANY_ENCODED
    ]


def warn_of_missing_index(dialect: Dialect, shape: Shape) -> None:
    """Say when looking an address up means reading the whole table."""
    if shape.table is None:
        return
    leading = dialect.leading_columns(shape.table)
    dialect.rollback()
    names = [column.name for column in shape.url_columns]
    if not leading.intersection(names):
        log.warning(
            "No index of %s begins with %s: each look at its rows reads the whole table. Make one on (%s).",
            shape.table.name,
            " or ".join(names),
            ", ".join(names),
            extra={"action": "index_missing", "site": shape.site, "source": shape.source.name},
        )

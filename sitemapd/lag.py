"""How a database source stands, asked of its database: triggers, and what waits in the outbox."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from producers.database.check import connect, encoded_columns, shape_of
from producers.database.dialect import Dialect
from producers.database.install import Stray, remove_stray, strays
from producers.database.outbox import read_checkpoint, read_lag
from producers.database.source import DatabaseSource
from producers.database.triggers import plan_of
from sitemap_store.errors import BadSetting, SitemapdError
from sitemap_store.model.site import Site
from sitemapd.build import Parts


def ask_databases(parts: Parts, sites: dict[str, dict[str, Any]]) -> None:
    """Add to the reports of sites what their databases say now: a relay that has died can't tell."""
    for name, report in sites.items():
        for source in parts.databases[name]:
            told = report["producers"].get(
                source.name, {"kind": "relay", "state": "not running", "problem": None, "seen": None}
            )
            row = standing(source, parts.sites[name])
            now = {field: value for field, value in row.items() if value is not None}
            report["producers"][source.name] = told | now


def standing(source: DatabaseSource, site: Site) -> dict[str, Any]:
    """One row for `status`; a database that can't be asked is a problem, and no error."""
    row: dict[str, Any] = {
        "triggers": None,
        "lag_rows": None,
        "lag_seconds": None,
        "rows": None,
        "without_url": None,
        "undated": None,
        "held_deletes": None,
        "problem": None,
    }
    try:
        dialect = connect(source)
        try:
            shape = shape_of(dialect, source, site)
            row["triggers"] = dialect.installed(plan_of(dialect, shape))
            dialect.rollback()
            if row["triggers"] != "missing":
                rows, seconds = read_lag(dialect, shape.label)
                row |= {"lag_rows": rows, "lag_seconds": round(seconds, 3)}
                checkpoint = read_checkpoint(dialect, shape.label)
                row |= {name: checkpoint[name] for name in row if name in checkpoint}
        finally:
            dialect.close()
    except SitemapdError as error:
        row["problem"] = str(error)
    return row


def encoded_twice(parts: Parts) -> list[str]:
    """A sentence on each column whose values seem to be percent-encoded already, and so are encoded twice."""
    found = []
    for site, sources in parts.databases.items():
        for source in sources:
            with _opened(source) as dialect:
                for column in encoded_columns(dialect, shape_of(dialect, source, parts.sites[site])):
                    found.append(
                        f"many values of column {column} of {source.name} are percent-encoded already: "
                        f"write {{{column}:encoded}} in its url"
                    )
    return found


def stray_sources(parts: Parts) -> list[tuple[Stray, DatabaseSource]]:
    """What the configured databases hold of sources that are not configured, each with a way to get there."""
    found: dict[tuple[str, str], tuple[Stray, DatabaseSource]] = {}
    for sources in parts.databases.values():
        for source in sources:
            with _opened(source) as dialect:
                shapes = [
                    shape_of(dialect, other, parts.sites[site])
                    for site, others in parts.databases.items()
                    for other in others
                    if other.dsn == source.dsn and other.outbox_schema == source.outbox_schema
                ]
                for stray in strays(dialect, shapes):
                    found.setdefault((source.dsn, stray.label), (stray, source))
    return list(found.values())


def remove_stray_source(parts: Parts, label: str) -> None:
    """Remove what `stray_sources` found under that label. Raises BadSetting when there is none."""
    found = [(stray, source) for stray, source in stray_sources(parts) if stray.label == label]
    if not found:
        raise BadSetting(
            setting="SOURCE",
            detail=f"nothing of {label!r} is left in the databases.",
            hint="`sitemapd triggers list` shows what there is.",
        )
    site, _, name = label.partition("/")
    keep = any(source.name == name for source in parts.databases.get(site, ()))
    for stray, source in found:
        with _opened(source) as dialect:
            remove_stray(dialect, stray, keep=keep)


@contextmanager
def _opened(source: DatabaseSource) -> Iterator[Dialect]:
    dialect = connect(source)
    try:
        yield dialect
    finally:
        dialect.close()

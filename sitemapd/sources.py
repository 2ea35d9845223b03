"""Settings → the content directories that are watched, and the database tables that are relayed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from producers.database.source import DatabaseSource
from producers.filesystem.source import FilesystemSource
from sitemap_store.errors import BadSetting
from sitemapd.build import near
from sitemapd.settings import Settings


def filesystem_sources(settings: Settings) -> Mapping[str, tuple[FilesystemSource, ...]]:
    """Each site's watched directories, checked. Raises BadSetting."""
    found = {}
    for name, site in settings.sites.items():
        try:
            found[name] = tuple(_source(source, given, site.output) for source, given in site.watch.items())
        except BadSetting as error:
            raise BadSetting(
                setting=f"sites.{name}.{error.setting}", detail=error.detail, hint=error.hint
            ) from error
    return MappingProxyType(found)


def database_sources(settings: Settings) -> Mapping[str, tuple[DatabaseSource, ...]]:
    """Each site's database sources, checked as far as that goes without the databases. Raises BadSetting."""
    found = {}
    for name, site in settings.sites.items():
        try:
            for source in site.database.keys() & site.watch.keys():
                raise BadSetting(
                    setting=f"database.{source}",
                    detail="has the name of a watched directory.",
                    hint="Give each source a name of its own.",
                )
            found[name] = tuple(_database(source, given) for source, given in site.database.items())
        except BadSetting as error:
            raise BadSetting(
                setting=f"sites.{name}.{error.setting}", detail=error.detail, hint=error.hint
            ) from error
    return MappingProxyType(found)


def _database(name: str, options: dict[str, Any]) -> DatabaseSource:
    known = [field.name for field in dataclasses.fields(DatabaseSource) if field.name != "name"]
    for key in options:
        if key not in known:
            raise BadSetting(
                setting=f"database.{name}.{key}", detail="is no setting of sitemapd.", hint=near(key, known)
            )
    for key in ("dsn", "url"):
        if key not in options:
            raise BadSetting(setting=f"database.{name}.{key}", detail="is missing.")
    return DatabaseSource(name=name, **options)


def _source(name: str, options: dict[str, Any], output: Path) -> FilesystemSource:
    known = {field.name: field for field in dataclasses.fields(FilesystemSource)}
    values: dict[str, Any] = {}
    for key, value in options.items():
        if key not in known or key == "name":
            raise BadSetting(
                setting=f"watch.{name}.{key}",
                detail="is no setting of sitemapd.",
                hint=near(key, [option for option in known if option != "name"]),
            )
        values[key] = tuple(value) if isinstance(value, list) else value
    if "directory" not in values:
        raise BadSetting(setting=f"watch.{name}.directory", detail="is missing.")
    values["directory"] = Path(values["directory"])
    if output.resolve().is_relative_to(values["directory"].resolve()):
        inside = output.resolve().relative_to(values["directory"].resolve())
        skip = f"/{inside}/" if str(inside) != "." else None
        if skip is not None:
            values["exclude"] = (*values.get("exclude", ()), skip)
    try:
        return FilesystemSource(name=name, **values)
    except TypeError as error:
        raise BadSetting(setting=f"watch.{name}", detail=f"has a value of a wrong type ({error}).") from error

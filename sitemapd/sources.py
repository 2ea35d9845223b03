"""Settings → the content directories that are watched, and the database tables that are relayed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pathspec import GitIgnoreSpec

from producers.database.source import DatabaseSource
from producers.filesystem.source import FilesystemSource
from sitemap_store.errors import BadSetting
from sitemapd.settings import Settings

_PUBLISHED: Final = ("/sitemap.xml", "/sitemap-*.xml", "/sitemap-*.xml.gz")
"""What sitemapd writes in its output, as git-ignore patterns."""


def filesystem_sources(settings: Settings) -> Mapping[str, tuple[FilesystemSource, ...]]:
    """Each site's watched directories, checked. Raises BadSetting."""
    found = {}
    ours = [site.output for site in settings.sites.values()]
    for name, site in settings.sites.items():
        try:
            found[name] = tuple(
                _without_ours(FilesystemSource.of(source, given), ours, settings.data_dir)
                for source, given in site.watch.items()
            )
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
            found[name] = tuple(DatabaseSource.of(source, given) for source, given in site.database.items())
        except BadSetting as error:
            raise BadSetting(
                setting=f"sites.{name}.{error.setting}", detail=error.detail, hint=error.hint
            ) from error
    return MappingProxyType(found)


def _without_ours(source: FilesystemSource, outputs: list[Path], data_dir: Path) -> FilesystemSource:
    """The source without the files that sitemapd itself writes: they would be news of themselves."""
    try:
        directory = source.directory.resolve()
        inside = {each.resolve() for each in (*outputs, data_dir)}
    except OSError:
        return source  # a link to itself: the watcher waits for the directory
    more = [
        f"/{_escaped(folder.relative_to(directory))}/"
        for folder in sorted(inside)
        if folder.is_relative_to(directory) and folder != directory
    ]
    if directory == data_dir.resolve():
        raise BadSetting(
            setting=f"watch.{source.name}.directory",
            detail=f"{source.directory} is data_dir, where sitemapd keeps its own files.",
            hint="Give data_dir a folder of its own.",
        )
    if directory in inside:
        include = GitIgnoreSpec.from_lines(source.include)
        more += [pattern for pattern in _PUBLISHED if include.match_file(pattern[1:].replace("*", "a-1"))]
    return source.replace(exclude=(*source.exclude, *more)) if more else source


def _escaped(path: Path) -> str:
    """A path as a git-ignore pattern that matches it alone."""
    text = re.sub(r"([\\*?\[\]!#])", r"\\\1", path.as_posix())
    return text[:-1] + "\\ " if text.endswith(" ") else text

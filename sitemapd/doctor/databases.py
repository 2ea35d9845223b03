"""Checks of the database sources: triggers, strays, values that are encoded twice."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from producers.database.install import WRONG
from producers.database.source import DatabaseSource
from sitemap_store.errors import SitemapdError
from sitemapd.build import Parts
from sitemapd.doctor.finding import Finding, attempt
from sitemapd.lag import encoded_twice, standing, stray_sources


def check_databases(parts: Parts) -> Iterator[Finding]:
    """The findings of all database sources; none where none is configured."""
    if not any(parts.databases.values()):
        return
    for name, sources in parts.databases.items():
        for source in sources:
            row = standing(source, parts.sites[name])
            command = parts.command_for(name)
            yield attempt(f"triggers of {source.name} of {name}", partial(_triggers, source, row, command))
    yield attempt("databases", partial(_strays, parts))
    yield attempt("database values", partial(_values, parts))


def _triggers(source: DatabaseSource, row: dict[str, Any], command: str) -> str:
    if row["problem"]:
        raise SitemapdError(row["problem"])
    if row["triggers"] in WRONG:
        if source.triggers == "auto":
            return f"they {WRONG[row['triggers']]}: the relay installs them when it starts"
        raise SitemapdError(f"they {WRONG[row['triggers']]}: run `{command} triggers install {source.name}`")
    if row["triggers"] == "unknown":
        return "the relay's user may not see them; the relay checks them when it starts"
    return f"are installed, {row['lag_rows']:,} changes wait"


def _strays(parts: Parts) -> str:
    found = [stray.label for stray, _ in stray_sources(parts)]
    if found:
        raise SitemapdError(
            f"triggers or changes of {', '.join(found)} are left, which no source is configured for: see "
            "`sitemapd triggers list`"
        )
    return "hold nothing of sources that are configured no more"


def _values(parts: Parts) -> str:
    if found := encoded_twice(parts):
        raise SitemapdError("; ".join(found))
    return "none seems to be percent-encoded twice"

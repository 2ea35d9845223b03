"""What is known of a URL, as the command and the push API tell it."""

from __future__ import annotations

import json

from sitemap_store.model.dates import format_instant
from sitemap_store.model.urls import normalise, normalise_listed
from sitemap_store.redis.store import Found, Store


def find_listed(store: Store, url: str) -> tuple[str, Found | None]:
    """The loc that a URL stands for, and what is known of it; None when it is not listed.

    A URL that is listed exactly as it is spelled is found, though the site may no longer cover it. Raises
    Refused for what is no URL, and for one outside the site that is not listed; Unavailable.
    """
    rules = store.site.rules
    exact = normalise_listed(url, rules).loc
    found = store.find(exact)
    if found is not None:
        return exact, found
    loc = normalise(url, rules).loc
    return loc, store.find(loc) if loc != exact else None


def described(found: Found) -> dict[str, object]:
    """An entry and its place as JSON; what is not known is null."""
    entry = found.entry
    return {
        "loc": entry.loc,
        "lastmod": entry.lastmod or None,
        "changefreq": entry.changefreq or None,
        "priority": entry.priority or None,
        "ext": json.loads(entry.ext) if entry.ext else {},
        "at": format_instant(entry.at),
        "source": entry.source or None,
        "section": found.section,
        "shard": found.shard,
        "file": found.file or None,
    }

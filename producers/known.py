"""What is known of a URL, as the command and the push API tell it."""

from __future__ import annotations

import json
from typing import Any

from sitemap_store.model.dates import format_instant
from sitemap_store.model.extensions import EXTENSIONS
from sitemap_store.model.style import Style
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


def described(found: Found, style: Style) -> dict[str, Any]:
    """An entry and its place as JSON; what is not known is null.

    `published` has what its file says of it, and `defaults` which of that the section's settings add.
    """
    entry = found.entry
    published = {"lastmod": entry.lastmod, "changefreq": entry.changefreq, "priority": entry.priority}
    defaults = {"changefreq": style.changefreq, "priority": style.priority}
    added = [name for name, value in defaults.items() if value and not published[name]]
    published |= {name: defaults[name] for name in added}
    return {
        "loc": entry.loc,
        "lastmod": entry.lastmod or None,
        "changefreq": entry.changefreq or None,
        "priority": entry.priority or None,
        "ext": shown_ext(entry.ext),
        "at": format_instant(entry.at),
        "source": entry.source or None,
        "section": found.section,
        "shard": found.number,
        "file": found.file or None,
        "published": {name: value for name, value in published.items() if value},
        "defaults": added,
    }


def shown_ext(ext: str) -> dict[str, Any]:
    """An entry's extensions as an event has them, without what its source notes for itself."""
    values = json.loads(ext) if ext else {}
    return {name: value for name, value in values.items() if name in EXTENSIONS}

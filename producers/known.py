"""What is known of a URL, as the command and the push API tell it."""

from __future__ import annotations

import json

from sitemap_store.model.dates import format_instant
from sitemap_store.redis.store import Found


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

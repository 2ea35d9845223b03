"""What the guard holds back, for `status`, `doctor` and `accept-deletes`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from producers.guard import sentence
from sitemap_store.model.dates import format_instant
from sitemap_store.redis.held import Held, held_deletes
from sitemapd.build import Parts


def held_of(parts: Parts, site: str) -> dict[str, Held]:
    """Source → what is held back; of sources that are configured, and of lists."""
    settings = parts.settings.sites[site]
    configured = {"watch": settings.watch, "relay": settings.database}
    return {
        source: held
        for source, held in held_deletes(parts.store(site)).items()
        if held.kind == "list" or source in configured[held.kind]
    }


def held_report(parts: Parts, site: str) -> dict[str, dict[str, Any]]:
    """`held_of` as JSON, each with a sentence and the command that lets it pass."""
    command = parts.command_for(site)
    return {
        source: {
            **{name: value for name, value in asdict(held).items() if name != "id"},
            "since": format_instant(held.since),
            "command": f"{command} accept-deletes {source}",
            "sentence": sentence(source, held),
        }
        for source, held in held_of(parts, site).items()
    }

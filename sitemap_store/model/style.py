"""How a section's entries look as XML, beside what the entries say themselves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """What rendering needs beside the entries: a section's defaults."""

    changefreq: str = ""
    """Written for entries that have none of their own; empty to leave it out."""
    priority: str = ""

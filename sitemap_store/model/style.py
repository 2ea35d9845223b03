"""How a section's entries look as XML, beside what the entries say themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """How one key of an entry's `ext` object becomes XML."""

    prefix: str
    namespace: str
    write: Callable[[object], str]
    """The extension's value, already checked on the way in → its escaped child elements of url."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """What rendering needs beside the entries: a section's defaults and the extensions in use."""

    changefreq: str = ""
    """Written for entries that have none of their own; empty to leave it out."""
    priority: str = ""
    extensions: Mapping[str, Extension] = field(default_factory=dict)

"""What must be listed at the end: a dict, and the rules of docs/wire-format.md. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

NOW: Final = 1 << 60
"""When an event without `at` happened: later than any event that carries one."""


class Entry(NamedTuple):
    """What a sitemap says of one URL; None for what is not there."""

    lastmod: str | None = None
    changefreq: str | None = None
    priority: str | None = None


class Push(NamedTuple):
    """One event of a pusher. `at` is a place on the run's own clock, in milliseconds."""

    op: str
    path: str
    entry: Entry = Entry()
    at: int | None = None


class Model:
    """The URLs of pushers. Late events lose, the order of events that carry `at` plays no part."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._known: dict[str, int] = {}

    def apply(self, events: Iterable[Push]) -> None:
        """Apply events in the order in which their producer sent them."""
        for event in events:
            self._apply(event)

    def _apply(self, event: Push) -> None:
        at = NOW if event.at is None else event.at
        if at < self._known.get(event.path, -1):
            return
        self._known[event.path] = at
        old = self.entries.get(event.path)
        if event.op == "delete":
            self.entries.pop(event.path, None)
        elif event.op == "update" and old is not None:
            self.entries[event.path] = Entry(
                *(was if new is None else new for was, new in zip(old, event.entry, strict=True))
            )
        else:
            self.entries[event.path] = event.entry


def differences(found: Mapping[str, Entry], expected: Mapping[str, Entry], most: int = 5) -> list[str]:
    """In words, how a tree differs from what must be listed; empty when it doesn't."""
    words = [f"{path} is missing" for path in sorted(expected.keys() - found.keys())]
    words += [f"{path} is listed and must not be" for path in sorted(found.keys() - expected.keys())]
    words += [
        f"{path} says {tuple(found[path])} and must say {tuple(expected[path])}"
        for path in sorted(found.keys() & expected.keys())
        if found[path] != expected[path]
    ]
    return words if len(words) <= most else [*words[:most], f"and {len(words) - most} more"]

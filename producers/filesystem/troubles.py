"""What is wrong with single files: said once each, and refusals kept for `sitemapd rejected`."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from producers.filesystem.source import FilesystemSource
from producers.sink import EventSink
from sitemap_store.errors import Refused

log = logging.getLogger(__name__)

MOST: Final = 10_000
"""Troubles that are remembered as said; after that some may be said twice."""
_LOGGED: Final = 20
"""Files that one flush names; the rest it counts."""


class Trouble(NamedTuple):
    """Something about one file that people should know, once."""

    path: bytes
    kind: str
    detail: str
    refused: Refused | None = None


class Troubles:
    """Gathers troubles while files are looked at; `flush` says them."""

    def __init__(self, source: FilesystemSource, publisher: EventSink) -> None:
        self._source = source
        self._publisher = publisher
        self._said: set[tuple[bytes, str, str]] = set()
        self._new: list[Trouble] = []
        self.last = ""

    def report(self, trouble: Trouble) -> None:
        """Take one in, unless it was said before."""
        key = (trouble.path, trouble.kind, trouble.detail)
        if key in self._said:
            return
        if len(self._said) >= MOST:
            self._said.clear()
        self._said.add(key)
        self._new.append(trouble)

    def flush(self) -> None:
        """Say what came in since the last time. Raises Unavailable, and says it then later."""
        if not self._new:
            return
        refused = [(each.refused, self._source.name) for each in self._new if each.refused]
        if refused:
            self._publisher.store.reject(refused)
        new, self._new = self._new, []
        for trouble in new[:_LOGGED]:
            self.last = f"{shown(trouble.path)}: {trouble.detail}"
            log.warning("%s", self.last, extra=self._extra(trouble.kind))
        if len(new) > _LOGGED:
            log.warning("%d more files like these.", len(new) - _LOGGED, extra=self._extra("more"))

    def _extra(self, kind: str) -> dict[str, str]:
        site = self._publisher.store.site.name
        action = f"file_{kind.replace(' ', '_')}"
        return {"action": action, "site": site, "source": self._source.name}


def shown(path: bytes) -> str:
    """A path for people: bytes that are no UTF-8, and controls, as escapes."""
    text = path.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")

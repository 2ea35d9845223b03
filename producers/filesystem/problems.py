"""What is wrong with single files: logged once each, and refusals kept for `sitemapd rejected`."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from producers.filesystem.source import FilesystemSource
from producers.sink import EventSink
from sitemap_store.errors import Refused

log = logging.getLogger(__name__)

MOST: Final = 10_000
"""Problems that are remembered as reported; after that some may be reported twice."""
_LOGGED: Final = 20
"""Files that one flush names; the rest it counts."""


class Problem(NamedTuple):
    """Something about one file that people should know, once."""

    path: bytes
    kind: str
    detail: str
    refused: Refused | None = None


class ProblemLog:
    """Gathers problems while files are looked at; `flush` logs them."""

    def __init__(self, source: FilesystemSource, sink: EventSink) -> None:
        self._source = source
        self._sink = sink
        self._reported: set[tuple[bytes, str, str]] = set()
        self._new: list[Problem] = []
        self.last = ""

    def report(self, problem: Problem) -> None:
        """Take one in, unless it was reported before."""
        key = (problem.path, problem.kind, problem.detail)
        if key in self._reported:
            return
        if len(self._reported) >= MOST:
            self._reported.clear()
        self._reported.add(key)
        self._new.append(problem)

    def flush(self) -> None:
        """Log what came in since the last time. Raises Unavailable, and logs it then later."""
        if not self._new:
            return
        refused = [(each.refused, self._source.name) for each in self._new if each.refused]
        if refused:
            self._sink.store.reject(refused)
        new, self._new = self._new, []
        for problem in new[:_LOGGED]:
            self.last = f"{shown(problem.path)}: {problem.detail}"
            log.warning("%s", self.last, extra=self._extra(problem.kind))
        if len(new) > _LOGGED:
            log.warning("%d more files like these.", len(new) - _LOGGED, extra=self._extra("more"))

    def _extra(self, kind: str) -> dict[str, str]:
        site = self._sink.store.site.name
        action = f"file_{kind.replace(' ', '_')}"
        return {"action": action, "site": site, "source": self._source.name}


def shown(path: bytes) -> str:
    """A path for people: bytes that are no UTF-8, and controls, as escapes."""
    text = path.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")

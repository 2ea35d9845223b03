"""Reports to the state how the watchers and relays of this process stand: the status page may be in another.

Every few seconds, on a thread of its own. With Redis away nothing is reported; the page then says since when.
A Redis that was restarted, or failed over, may have lost the last second of what the sources told it: each
then compares once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from sitemap_store.errors import SitemapdError
from sitemap_store.redis.observed import note_producer, run_id
from sitemapd.build import Parts

log = logging.getLogger(__name__)

EVERY_S: Final = 2.0
_DROPPED: Final = ("source", "ready")


class Watched(Protocol):
    """A watcher, as it is reported."""

    def health(self) -> Mapping[str, Any]:
        """How it stands: `site`, `source`, `state`, `problem` and what else there is to say."""

    def rescan(self) -> None:
        """Compare the whole source with the state, as soon as may be."""


class Reporter:
    """Reports from `start` to `stop`, and once more at the end."""

    def __init__(self, parts: Parts, watching: Sequence[Watched], *, kind: str = "watch") -> None:
        self._parts = parts
        self._watching = watching
        self._kind = kind
        # Made once: reading its scripts takes longer than all else that a report does.
        self._stores = {name: parts.store(name) for name in parts.sites}
        self._redis: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"report-{kind}", daemon=True)

    def start(self) -> None:
        """Begin; nothing to report is fine too."""
        if self._watching:
            self._thread.start()

    def stop(self) -> None:
        """Say how they stand now, which is stopped, and end."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _run(self) -> None:
        while True:
            ending = self._stop.is_set()
            self._report()
            self._compare_after_restart()
            if ending:
                return
            self._stop.wait(EVERY_S)

    def _report(self) -> None:
        for watched in self._watching:
            how = dict(watched.health())
            site, source = str(how.pop("site")), str(how["source"])
            told = {name: value for name, value in how.items() if name not in _DROPPED}
            try:
                note_producer(self._stores[site], source, {"kind": self._kind, **told})
            except SitemapdError as error:
                log.debug("Not reported: %s", error, extra={"action": "report_failed"})

    def _compare_after_restart(self) -> None:
        """Have each source compared once when another Redis process answers than before."""
        try:
            running = run_id(self._parts.client)
        except SitemapdError:
            return
        if self._redis is not None and running != self._redis:
            log.warning(
                "Redis was restarted or failed over, and may have lost its last second; %s compared again",
                "the source is" if len(self._watching) == 1 else f"{len(self._watching)} sources are",
                extra={"action": "redis_restarted"},
            )
            for watched in self._watching:
                watched.rescan()
        self._redis = running

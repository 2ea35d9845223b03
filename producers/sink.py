"""The one way in for events: append them to the site's state, then wake the workers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sitemap_store.errors import Refused, Unavailable
from sitemap_store.model.events import Event
from sitemap_store.model.wire import check
from sitemap_store.redis.claims import Wake
from sitemap_store.redis.store import Store
from sitemap_store.redis.wake import Waker

log = logging.getLogger(__name__)

BULK_DELAY_MS = 150
"""How long a shard waits for its rewrite while events come in bulk, so that it is full by then."""
WARNINGS = 100


class Refusal(NamedTuple):
    """One refused event of a batch: its place in the batch from 0, and why."""

    place: int
    refused: Refused


class PushResult(NamedTuple):
    """How many events of a batch were accepted, and which were refused."""

    accepted: int
    refused: tuple[Refusal, ...]
    warnings: tuple[str, ...]
    """What was changed or left out in accepted events, in sentences; the first `WARNINGS` of them."""


class EventSink:
    """Takes events for one site. Raises Unavailable when Redis can't take them."""

    def __init__(self, store: Store, waker: Waker) -> None:
        self.store = store
        self._waker = waker

    def send(self, events: Iterable[Event], *, bulk: bool = False) -> int:
        """Append events that are checked already, and wake the workers; returns how many.

        With `bulk` the workers start up to `BULK_DELAY_MS` later and rewrite less.
        """
        delay_ms, sent = BULK_DELAY_MS if bulk else 0, 0
        for count, wake in self.store.append_each(events, delay_ms=delay_ms):
            self._wake(wake)
            sent += count
        return sent

    def push(self, items: Sequence[Any], *, source: str | None = None, bulk: bool = False) -> PushResult:
        """Check decoded wire events (`sitemap_store.model.wire`) and append those that keep the rules.

        An item may be a `Refused` already (a line that could not be decoded). Refusals are
        counted and kept for `sitemapd rejected`; they never stop the batch.
        """
        now, site = self.store.now(), self.store.site
        refusals: list[Refusal] = []
        warnings: list[str] = []

        def accepted() -> Iterator[Event]:
            for place, item in enumerate(items):
                try:
                    event, said = check(item, site, now, source=source)
                except Refused as refused:
                    refusals.append(Refusal(place, refused.kept()))
                    continue
                warnings.extend(said)
                yield event

        count = self.send(accepted(), bulk=bulk)
        if refusals:
            self.store.reject([(refusal.refused, source or "") for refusal in refusals])
        return PushResult(count, tuple(refusals), tuple(warnings[:WARNINGS]))

    def _wake(self, wake: Wake) -> None:
        if not wake.members:
            return
        try:
            self._waker.wake(self.store.site.name, [wake])
        except Unavailable as error:
            # The events are durable and their shards due: the keeper enqueues the jobs.
            log.warning(
                "Events are stored, but the workers could not be woken: %s",
                error,
                extra={"action": "wake_failed", "site": self.store.site.name},
            )

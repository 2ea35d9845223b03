"""The one way in for events: append them to the site's state, then wake the workers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sitemap_store.errors import Refused, Unavailable
from sitemap_store.events import Event
from sitemap_store.store import Prepared, Store
from sitemap_store.wake import Waker
from sitemap_store.wire import check, quick

log = logging.getLogger(__name__)

BULK_DELAY_MS = 150
"""How long a shard waits for its rewrite while events come in bulk, so that it is full by then."""


class Refusal(NamedTuple):
    """One refused event of a batch: its place in the batch from 0, and why."""

    place: int
    refused: Refused


class Batch(NamedTuple):
    """A batch that is checked and not yet stored."""

    prepared: Sequence[Prepared]
    refused: tuple[Refusal, ...]
    warnings: tuple[str, ...]
    source: str
    """The source of refusals, as `sitemapd rejected` shows it."""


class Outcome(NamedTuple):
    """What became of a batch."""

    accepted: int
    refused: tuple[Refusal, ...]
    warnings: tuple[str, ...]
    """What was changed or left out in accepted events, in sentences; 100 at most."""


class EventSink:
    """Takes events for one site. Raises Unavailable when Redis can't take them."""

    def __init__(self, store: Store, waker: Waker) -> None:
        self.store = store
        self._waker = waker

    def send(self, events: Iterable[Event], *, bulk: bool = False) -> int:
        """Append events that are checked already, and wake the workers; returns how many.

        With `bulk` the workers start up to `BULK_DELAY_MS` later and rewrite less.
        """
        return self.send_prepared(self.store.prepare(events), bulk=bulk)

    def send_prepared(self, several: Iterable[Prepared], *, bulk: bool = False) -> int:
        """As `send`, of events that `Store.prepare` has encoded."""
        sent = 0
        for prepared in several:
            wakes = self.store.send(prepared, delay_ms=BULK_DELAY_MS if bulk else 0)
            sent += prepared.events
            try:
                self._waker.wake(self.store.site.name, wakes)
            except Unavailable as error:
                # The events are durable and their shards due: the keeper enqueues the jobs.
                log.warning(
                    "Events are stored, but the workers could not be woken: %s",
                    error,
                    extra={"action": "wake_failed", "site": self.store.site.name},
                )
        return sent

    def push(self, items: Iterable[Any], *, source: str | None = None, bulk: bool = False) -> Outcome:
        """Check decoded wire events (`sitemap_store.wire`) and append those that keep the rules.

        An item may be a `Refused` already (a line that could not be decoded). Refusals are
        counted and kept for `sitemapd rejected`; they never stop the batch.
        """
        return self.take(self.check(items, source=source), bulk=bulk)

    def check(self, items: Iterable[Any], *, source: str | None = None) -> Batch:
        """The first half of `push`, most of its work: nothing is stored yet."""
        now, site = self.store.now(), self.store.site
        events: list[Event] = []
        refusals: list[Refusal] = []
        warnings: list[str] = []
        plain = quick(site, source)
        for place, item in enumerate(items):
            known = plain(item)
            if known is not None:
                events.append(known)
                continue
            try:
                if isinstance(item, Refused):
                    raise item
                event, said = check(item, site, now, source=source)
            except Refused as refused:
                refusals.append(Refusal(place, refused))
                continue
            events.append(event)
            if said:
                warnings.extend(said)
        return Batch(list(self.store.prepare(events)), tuple(refusals), tuple(warnings[:100]), source or "")

    def take(self, batch: Batch, *, bulk: bool = False) -> Outcome:
        """The second half of `push`: append the events, count and keep the refusals."""
        accepted = self.send_prepared(batch.prepared, bulk=bulk)
        if batch.refused:
            self.store.reject([(refusal.refused, batch.source) for refusal in batch.refused])
        return Outcome(accepted, batch.refused, batch.warnings)

"""The one way in for events: append them to the site's state, then wake the workers."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from sitemap_store.errors import Refused, Unavailable
from sitemap_store.model.events import Adds, Event
from sitemap_store.model.wire import check, quick, quick_adds
from sitemap_store.redis.claims import Wake
from sitemap_store.redis.prepare import Prepared, prepare_adds
from sitemap_store.redis.store import Store
from sitemap_store.redis.stream import AppendStream
from sitemap_store.redis.wake import Waker

log = logging.getLogger(__name__)

BULK_DELAY_MS = 150
"""How long a shard waits for its rewrite while events come in bulk, so that it is full by then."""


_Quick = tuple[Callable[[Any], Event | None], Callable[[Sequence[Any]], Adds | None]]


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
        self._quick: dict[str | None, _Quick] = {}
        self._clock = 0
        self._looked = float("-inf")

    def send(self, events: Iterable[Event], *, bulk: bool = False) -> int:
        """Append events that are checked already, and wake the workers; returns how many.

        With `bulk` the workers start up to `BULK_DELAY_MS` later and rewrite less.
        """
        return self.send_prepared(self.store.prepare(events), bulk=bulk)

    def send_prepared(self, several: Iterable[Prepared], *, bulk: bool = False) -> int:
        """As `send`, of events that `Store.prepare` has encoded, or does while Redis takes others."""
        sent, delay_ms = 0, _delay(bulk)
        with self.store.stream() as stream:
            for prepared in several:
                self._wake(stream.send(prepared, delay_ms=delay_ms))
                sent += prepared.events
            self._wake(stream.settle())
        return sent

    def send_pieces(self, pieces: Iterable[Iterable[Event]]) -> Generator[int, None, None]:
        """As `send` in bulk, of pieces that are remembered one by one: for each, how many events it had.

        That is given once the piece is stored, and the next one is asked for and begun before: so at most
        two are held.
        """
        with self.store.stream() as stream:
            last: tuple[int, int] | None = None
            for piece in pieces:
                count = 0
                for prepared in self.store.prepare(piece):
                    self._wake(stream.send(prepared, delay_ms=BULK_DELAY_MS))
                    count += prepared.events
                if last is not None:
                    self._wake(stream.settle(last[0]))
                    yield last[1]
                last = stream.sent, count
            if last is not None:
                self._wake(stream.settle())
                yield last[1]

    def push(self, items: Sequence[Any], *, source: str | None = None, bulk: bool = False) -> Outcome:
        """Check decoded wire events (`sitemap_store.model.wire`) and append those that keep the rules.

        An item may be a `Refused` already (a line that could not be decoded). Refusals are
        counted and kept for `sitemapd rejected`; they never stop the batch.
        """
        return self.take(self.check(items, source=source), bulk=bulk)

    def check(self, items: Sequence[Any], *, source: str | None = None) -> Batch:
        """The first half of `push`, most of its work: nothing is stored yet."""
        if source not in self._quick:
            # They remember dates from batch to batch.
            self._quick = {source: (quick(self.store.site, source), quick_adds(self.store.site, source))}
        plain, all_plain = self._quick[source]
        adds = all_plain(items)
        if adds is not None:
            return Batch(list(prepare_adds(self.store.site, adds)), (), (), source or "")
        now, site = self._now(), self.store.site
        events: list[Event] = []
        refusals: list[Refusal] = []
        warnings: list[str] = []
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
        self.send_prepared(batch.prepared, bulk=bulk)
        return self._outcome(batch)

    @contextmanager
    def intake(self) -> Iterator[Intake]:
        """For many batches in a row, as a context: Redis takes one while the next is checked."""
        with self.store.stream() as stream:
            yield Intake(stream, self._wake, self._outcome)

    def _now(self) -> int:
        """Redis' time in epoch ms, asked for once a second: an answer comes after the appends before it."""
        looked = time.monotonic()
        if looked - self._looked >= 1.0:
            self._clock, self._looked = self.store.now(), looked
        return self._clock + round((looked - self._looked) * 1000)

    def _outcome(self, batch: Batch) -> Outcome:
        """What became of a batch whose events are stored."""
        if batch.refused:
            self.store.reject([(refusal.refused, batch.source) for refusal in batch.refused])
        accepted = sum(prepared.events for prepared in batch.prepared)
        return Outcome(accepted, batch.refused, batch.warnings)

    def _wake(self, wakes: Sequence[Wake]) -> None:
        if not wakes:
            return
        try:
            self._waker.wake(self.store.site.name, wakes)
        except Unavailable as error:
            # The events are durable and their shards due: the keeper enqueues the jobs.
            log.warning(
                "Events are stored, but the workers could not be woken: %s",
                error,
                extra={"action": "wake_failed", "site": self.store.site.name},
            )


class Intake:
    """Takes batches in their order, and says of each what became of it once its events are stored."""

    def __init__(
        self,
        stream: AppendStream,
        wake: Callable[[Sequence[Wake]], None],
        outcome: Callable[[Batch], Outcome],
    ) -> None:
        self._stream = stream
        self._wake = wake
        self._outcome = outcome
        self._waiting: deque[tuple[int, Batch]] = deque()
        """Batches, each with how many appends have been sent when all of its own have."""

    def take(self, batch: Batch, *, bulk: bool = False) -> Iterator[Outcome]:
        """Append a batch; gives the outcomes of earlier ones that are stored by now."""
        for prepared in batch.prepared:
            self._wake(self._stream.send(prepared, delay_ms=_delay(bulk)))
        self._waiting.append((self._stream.sent, batch))
        yield from self._stored()

    def settle(self) -> Iterator[Outcome]:
        """Wait until all is stored; gives the outcomes that are left."""
        self._wake(self._stream.settle())
        yield from self._stored()

    def _stored(self) -> Iterator[Outcome]:
        while self._waiting and self._waiting[0][0] <= self._stream.answered:
            yield self._outcome(self._waiting.popleft()[1])


def _delay(bulk: bool) -> int:
    return BULK_DELAY_MS if bulk else 0

"""Requests and Redis: what a request asks of one site's state, within a time that the client still waits.

Events go to Redis from one thread, those of requests that come together in one append:

1. While an append is under way the events of further requests gather, and the next append takes them all.
   So an idle server adds no delay, and a busy one makes few round trips.
2. A request's future is done after its own events are in Redis, and they go in in their order. When an
   append fails, what is left of its requests is not appended, and they are told so (503). The same happens
   to all that wait when Redis finishes no append for `patience` seconds, and to what comes from then
   on until it does: nobody waits long for a Redis that hangs, and memory does not grow meanwhile.
3. Small requests and long bodies take turns, and a long body goes in `BATCH` events at a time: a single event
   waits for one such append, not for all of somebody's upload.

An append takes the events of `TOGETHER` requests at the most, as a round trip about idempotency keys does
(`idempotency`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from itertools import chain
from threading import Lock
from typing import Final, TypeVar

from producers.http.idempotency import TOGETHER, Keys, late
from producers.http.problems import Problem, unavailable
from producers.sink import EventSink
from sitemap_store.errors import Refused, Unavailable
from sitemap_store.model.events import Event
from sitemap_store.redis.once import DEFAULT, Bounds
from sitemap_store.redis.store import BATCH

log = logging.getLogger(__name__)

THREADS: Final = 4
FRESH_S: Final = 0.5
"""How long what was asked of Redis' clock and backlog holds."""
AGAIN_S: Final = 0.2
"""After which it is asked for again, while requests go on with what is known: a busy API never waits."""
BULK: Final = 200
"""Events from which on a request is a long one, and the workers are better woken a little later."""

Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class _Part:
    """What one `send` brought."""

    events: Sequence[Event]
    done: asyncio.Future[None]
    taken: int = 0
    """How many of the events were given to Redis."""


class Appender:
    """Appends for one site and one event loop; Redis has `patience` seconds for each step."""

    def __init__(self, sink: EventSink, patience: float) -> None:
        self._sink = sink
        self._patience = patience
        self._thread = ThreadPoolExecutor(1, "append")
        self._open: dict[_Part, None] = {}
        """Parts whose request waits, the oldest first. The loop's alone."""
        self._timer: asyncio.TimerHandle | None = None
        self._moved = 0.0
        """The loop's time when Redis last finished an append, or began the first."""
        self._lock = Lock()
        """Over the three below, which the thread takes from."""
        self._small: deque[_Part] = deque()
        self._long: deque[_Part] = deque()
        self._running = False

    def send(self, events: Sequence[Event]) -> asyncio.Future[None]:
        """Append events: they are in Redis when the future is done. It raises Problem (503) otherwise."""
        loop = asyncio.get_running_loop()
        part = _Part(events, loop.create_future())
        with self._lock:
            idle = not self._running
            if idle:
                self._moved = loop.time()
            elif loop.time() - self._moved > self._patience:
                part.done.set_exception(late())
                return part.done
            (self._long if len(events) > BULK else self._small).append(part)
            self._running = True
        self._open[part] = None
        if self._timer is None:
            self._timer = loop.call_at(self._moved + self._patience, self._give_up, loop)
        if idle:
            self._thread.submit(self._run, loop).add_done_callback(partial(self._ended, loop))
        return part.done

    # In the thread

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Append until nothing is left."""
        longs_turn = False
        while parts := self._next(longs_turn):
            longs_turn = not longs_turn
            first = parts[0]
            failure: Unavailable | None = None
            try:
                self._append(parts)
            except Unavailable as error:
                failure = error
            first.taken += BATCH
            if failure is None and first.taken < len(first.events) and not first.done.done():
                with self._lock:
                    self._long.appendleft(first)
                loop.call_soon_threadsafe(self._settle, (), None)
            else:
                loop.call_soon_threadsafe(self._settle, parts, failure)

    def _append(self, parts: Sequence[_Part]) -> None:
        """Append the next events of one part, or all of several. Raises Unavailable."""
        first = parts[0]
        events = first.events[first.taken : first.taken + BATCH]
        if len(parts) > 1:
            events = list(chain.from_iterable(part.events for part in parts))
        self._sink.send(events, bulk=len(events) > BULK)

    def _next(self, longs_turn: bool) -> list[_Part]:
        """The parts of the next append, a long one alone; none when all is done, and the thread ends."""
        with self._lock:
            if self._long and (longs_turn or not self._small):
                return [self._long.popleft()]
            parts: list[_Part] = []
            count = 0
            while self._small and len(parts) < TOGETHER:
                count += len(self._small[0].events)
                if count > BATCH:
                    break
                parts.append(self._small.popleft())
            self._running = bool(parts)
            return parts

    def _ended(self, loop: asyncio.AbstractEventLoop, ended: Future[None]) -> None:
        error = ended.exception()
        if error is not None:
            loop.call_soon_threadsafe(self._break, error)

    # In the loop

    def _settle(self, parts: Sequence[_Part], failure: Unavailable | None) -> None:
        self._moved = asyncio.get_running_loop().time()
        for part in parts:
            self._open.pop(part, None)
            if part.done.done():
                continue
            if failure is None:
                part.done.set_result(None)
            else:
                part.done.set_exception(unavailable(f"{failure}."))

    def _break(self, error: BaseException) -> None:
        """An error that nobody foresaw ended the thread's work: it is that of all who wait."""
        with self._lock:
            self._small.clear()
            self._long.clear()
            self._running = False
        for part in self._open:
            if not part.done.done():
                part.done.set_exception(error)
        self._open.clear()

    def _give_up(self, loop: asyncio.AbstractEventLoop) -> None:
        """When Redis finished nothing for too long, answer all that wait and forget their events."""
        self._timer = None
        if not self._open:
            return
        if loop.time() - self._moved < self._patience:
            self._timer = loop.call_at(self._moved + self._patience, self._give_up, loop)
            return
        with self._lock:
            self._small.clear()
            self._long.clear()
        for part in self._open:
            if not part.done.done():
                part.done.set_exception(late())
        self._open.clear()


class SiteState:
    """What takes one site's events in. Its methods raise Problem (429, 503); all run in one event loop."""

    def __init__(
        self, sink: EventSink, *, max_unfolded: int, patience: float, remembered: Bounds = DEFAULT
    ) -> None:
        self.sink = sink
        self.remembered = remembered
        """How much is remembered of idempotency keys."""
        self.send = Appender(sink, patience).send
        """Append events: they are in Redis when the future that it gives is done. It raises Problem (503)."""
        self.keys = Keys(sink.store, patience)
        self._max_unfolded = max_unfolded
        self._patience = patience
        self._threads = ThreadPoolExecutor(THREADS, "state")
        self._syncs = ThreadPoolExecutor(THREADS, "sync")
        """For what may take long: it must not keep short questions waiting."""
        self._clock = ThreadPoolExecutor(1, "clock")
        """For what every request needs: it must not wait behind the refusals of some."""
        self._looking: asyncio.Task[None] | None = None
        self._offset = 0.0
        self._unfolded = 0
        self._looked = float("-inf")

    async def look(self) -> int:
        """Redis' time in epoch milliseconds, if there is room for events. Raises Problem (429)."""
        age = time.monotonic() - self._looked
        if age > AGAIN_S:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.ensure_future(self._ask())
                self._looking.add_done_callback(_seen)
            if age > FRESH_S:
                await self._patiently(asyncio.shield(self._looking))
        if self._unfolded >= self._max_unfolded:
            raise Problem(
                429,
                "backlog",
                f"{self._unfolded} events wait to be published, of {self._max_unfolded} that may: send it "
                "again when the workers have caught up; `sitemapd status` shows them.",
                headers={"Retry-After": "5"},
            )
        return int(time.time() * 1000 + self._offset)

    async def run(self, work: Callable[[], Answer], *, patience: float | None = None) -> Answer:
        """Do a piece of work with Redis in a thread; `patience` in seconds, when it may take long."""
        threads = self._threads if patience is None else self._syncs
        begun = threads.submit(copy_context().run, work)
        # Given up, what has not begun never will: no pile is left for the Redis that comes back.
        return await self._patiently(asyncio.wrap_future(begun), patience)

    async def reject(self, refused: Sequence[Refused], source: str | None) -> None:
        """Count and keep refusals for `sitemapd rejected`."""
        rows = [(each, source or "") for each in refused]
        await self.run(lambda: self.sink.store.reject(rows))

    async def _patiently(self, work: asyncio.Future[Answer], patience: float | None = None) -> Answer:
        try:
            async with asyncio.timeout(patience or self._patience):
                return await work
        except TimeoutError:
            raise late() from None
        except Unavailable as error:
            raise unavailable(f"{error}.") from error

    async def _ask(self) -> None:
        store = self.sink.store

        def ask() -> tuple[int, int]:
            return store.now(), store.unfolded()

        now, self._unfolded = await asyncio.wrap_future(self._clock.submit(ask))
        self._offset = now - time.time() * 1000
        self._looked = time.monotonic()


def _seen(task: asyncio.Task[Answer]) -> None:
    """Take note of a task's error, which nobody asks for once its request was answered."""
    if not task.cancelled():
        task.exception()

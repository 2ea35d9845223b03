"""Requests and Redis: the events of requests that come together are appended together.

An append and its wake-up take about a millisecond, mostly on the way. While one is under way, the events of
further requests gather, and the next append takes them all. A request is answered after its own
events are in Redis, and events go in as they came.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from producers.http.problem import Problem, unavailable
from producers.sink import EventSink
from sitemap_store.errors import Refused, Unavailable
from sitemap_store.events import Event
from sitemap_store.store import BATCH

FRESH_S: Final = 0.5
"""How long what was asked of Redis' clock and backlog holds."""
BULK: Final = 200
"""Events from which on the workers are better woken a little later."""

Answer = TypeVar("Answer")
_Waiting = tuple[Sequence[Event], "asyncio.Future[None]"]


class Intake:
    """What takes one site's events in. Its methods raise Problem (429, 503); all run in one event loop."""

    def __init__(self, sink: EventSink, *, max_unfolded: int, patience: float) -> None:
        self.sink = sink
        self._max_unfolded = max_unfolded
        self._patience = patience
        self._waiting: list[_Waiting] = []
        self._appending: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._offset = 0.0
        self._unfolded = 0
        self._looked = float("-inf")

    async def look(self) -> int:
        """Redis' time in epoch milliseconds, if there is room for events. Raises Problem (429)."""
        if time.monotonic() - self._looked > FRESH_S:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.ensure_future(self._ask())
                self._looking.add_done_callback(_seen)
            await self._patiently(asyncio.shield(self._looking))
        if self._unfolded >= self._max_unfolded:
            raise Problem(
                429,
                "backlog",
                f"{self._unfolded} events wait to be published: the workers must catch up first.",
                headers={"Retry-After": "5"},
            )
        return round(time.time() * 1000 + self._offset)

    async def send(self, events: Sequence[Event]) -> None:
        """Append events together with those of others; they are in Redis when it returns."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((events, done))
        if self._appending is None or self._appending.done():
            self._appending = asyncio.ensure_future(self._append())
        await self._patiently(done)

    async def run(self, work: Callable[[], Answer], *, patience: float | None = None) -> Answer:
        """Do a piece of work with Redis in a thread; `patience` in seconds, when it may take long."""
        task = asyncio.ensure_future(asyncio.to_thread(work))
        task.add_done_callback(_seen)
        return await self._patiently(asyncio.shield(task), patience)

    async def reject(self, refused: Sequence[Refused], source: str | None) -> None:
        """Count and keep refusals for `sitemapd rejected`."""
        rows = [(each, source or "") for each in refused]
        await self.run(lambda: self.sink.store.reject(rows))

    async def _patiently(self, work: asyncio.Future[Answer], patience: float | None = None) -> Answer:
        try:
            async with asyncio.timeout(patience or self._patience):
                return await work
        except TimeoutError:
            raise unavailable("Redis does not answer in time.") from None
        except Unavailable as error:
            raise unavailable(f"{error}.") from error

    async def _ask(self) -> None:
        store = self.sink.store

        def ask() -> tuple[int, int]:
            return store.now(), store.unfolded()

        now, self._unfolded = await asyncio.to_thread(ask)
        self._offset = now - time.time() * 1000
        self._looked = time.monotonic()

    async def _append(self) -> None:
        while self._waiting:
            taken, count = 0, 0
            for events, _ in self._waiting:
                taken, count = taken + 1, count + len(events)
                if count >= BATCH:
                    break
            together, self._waiting = self._waiting[:taken], self._waiting[taken:]
            all_events = [event for events, _ in together for event in events]
            try:
                await asyncio.to_thread(self.sink.send, all_events, bulk=count > BULK)
            except Unavailable as error:
                for _, done in together:
                    if not done.done():
                        done.set_exception(error)
                continue
            for _, done in together:
                if not done.done():
                    done.set_result(None)


def _seen(task: asyncio.Task[Answer]) -> None:
    """Take note of a task's error, which nobody asks for once its request was answered."""
    if not task.cancelled():
        task.exception()

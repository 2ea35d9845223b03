"""Requests and Redis: what a request asks of one site's state, within a time that the client still waits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeVar

from producers.http.appender import Appender
from producers.http.problem import Problem, unavailable
from producers.sink import EventSink
from sitemap_store.errors import Refused, Unavailable
from sitemap_store.redis.once import DEFAULT, Bounds

log = logging.getLogger(__name__)

THREADS: Final = 4
FRESH_S: Final = 0.5
"""How long what was asked of Redis' clock and backlog holds."""
AGAIN_S: Final = 0.2
"""After which it is asked for again, while requests go on with what is known: a busy API never waits."""

Answer = TypeVar("Answer")


class Intake:
    """What takes one site's events in. Its methods raise Problem (429, 503); all run in one event loop."""

    def __init__(
        self, sink: EventSink, *, max_unfolded: int, patience: float, remembered: Bounds = DEFAULT
    ) -> None:
        self.sink = sink
        self.remembered = remembered
        """How much is remembered of idempotency keys."""
        self.send = Appender(sink, patience).send
        """Append events: they are in Redis when the future that it gives is done. It raises Problem (503)."""
        self._max_unfolded = max_unfolded
        self._patience = patience
        self._threads = ThreadPoolExecutor(THREADS, "state")
        self._syncs = ThreadPoolExecutor(THREADS, "sync")
        """For what may take long: it must not keep short questions waiting."""
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
                f"{self._unfolded} events wait to be published: the workers must catch up first.",
                headers={"Retry-After": "5"},
            )
        return int(time.time() * 1000 + self._offset)

    async def run(self, work: Callable[[], Answer], *, patience: float | None = None) -> Answer:
        """Do a piece of work with Redis in a thread; `patience` in seconds, when it may take long."""
        threads = self._threads if patience is None else self._syncs
        begun = threads.submit(copy_context().run, work)
        # Given up, what has not begun never will: no pile is left for the Redis that comes back.
        return await self._patiently(asyncio.wrap_future(begun), patience)

    def run_later(self, work: Callable[[], object]) -> None:
        """Do a piece of work with Redis that no request waits for."""
        self._threads.submit(copy_context().run, work).add_done_callback(_ended)

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

        now, self._unfolded = await asyncio.wrap_future(self._threads.submit(ask))
        self._offset = now - time.time() * 1000
        self._looked = time.monotonic()


def _ended(work: Future[object]) -> None:
    error = None if work.cancelled() else work.exception()
    if error is not None:
        log.warning("%s", error, extra={"action": "http_late"})


def _seen(task: asyncio.Task[Answer]) -> None:
    """Take note of a task's error, which nobody asks for once its request was answered."""
    if not task.cancelled():
        task.exception()

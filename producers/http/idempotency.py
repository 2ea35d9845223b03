"""Idempotency keys and Redis: the keys of requests that come together are asked about in one round trip.

1. A request holds its key while it goes on, and the hold is renewed meanwhile (`sitemap_store.redis.once`).
2. A request that is told 503 is sent again, and must not meet its own hold. Its key is given back as soon as
   Redis takes that, also where Redis took the key after the request was given up, or may have.
3. A round trip serves `TOGETHER` requests at most: when Redis has answered, the loop goes on with all of them
   before it comes to anything else, such as `/livez`.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

from producers.http.problems import Problem, unavailable
from sitemap_store.errors import Unavailable
from sitemap_store.redis.once import HOLD_MS, RENEW_S, Ask, KeyState, Once, ask_each
from sitemap_store.redis.store import Store

TOGETHER: Final = 64
"""Requests that one round trip to Redis serves at the most."""
OWED: Final = 4096
"""Keys that wait to be given back, at the most; the holds of others end by themselves."""
GIVE_BACK_S: Final = 0.2
"""The pause before keys are given back once more, while Redis does not take that."""


def late() -> Problem:
    """The problem that Redis hangs."""
    return unavailable("Redis does not answer in time.")


class Keys:
    """One site's keys, in one event loop; Redis has `patience` seconds for each round trip."""

    def __init__(self, store: Store, patience: float) -> None:
        self._store = store
        self._patience = patience
        self._thread = ThreadPoolExecutor(1, "keys")
        self._waiting: deque[tuple[Ask, asyncio.Future[KeyState]]] = deque()
        self._owed: deque[tuple[Ask, float]] = deque(maxlen=OWED)
        """What gives keys back, and the loop's time from which on their holds have ended anyhow."""
        self._task: asyncio.Task[None] | None = None
        self._began = math.inf
        """The loop's time when the round trip began that goes on now."""

    async def ask(self, ask: Ask) -> KeyState:
        """Ask about a key. Raises Problem (503) when Redis hangs or is away."""
        done = self._submit(ask)
        try:
            while not done.done():
                await asyncio.wait([done], timeout=self._patience)
                if not done.done() and self._hangs():  # and does not just answer others first
                    raise late()
            return done.result()
        finally:
            done.cancel()

    @asynccontextmanager
    async def held(self, once: Once) -> AsyncIterator[None]:
        """Hold a key that was taken, for as long as the request goes on; one that fails gives it back."""
        holding = asyncio.ensure_future(self._hold(once))
        try:
            yield
        except Problem:
            self._give_back(once.release())
            raise
        finally:
            holding.cancel()

    async def _hold(self, once: Once) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            with suppress(Problem):  # Redis is away: the request itself says so
                await self.ask(once.renew())

    def _submit(self, ask: Ask) -> asyncio.Future[KeyState]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[KeyState] = loop.create_future()
        if self._hangs():
            done.set_exception(late())
            return done
        self._waiting.append((ask, done))
        self._start(loop)
        return done

    def _give_back(self, ask: Ask) -> None:
        loop = asyncio.get_running_loop()
        self._owed.append((ask, loop.time() + HOLD_MS / 1000))
        self._start(loop)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._task is None:
            self._began = loop.time()
            self._task = asyncio.ensure_future(self._run(loop))

    def _hangs(self) -> bool:
        """Whether the round trip that goes on now has taken longer than Redis may."""
        return self._task is not None and asyncio.get_running_loop().time() - self._began > self._patience

    async def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ask until nothing is left."""
        while self._waiting or self._owed:
            owed = [self._owed.popleft() for _ in range(min(TOGETHER, len(self._owed)))]
            owed = [(ask, until) for ask, until in owed if until > loop.time()]
            some = [self._waiting.popleft() for _ in range(min(TOGETHER, len(self._waiting)))]
            # Who has given up asks no more: no pile is left for the Redis that comes back.
            some = [(ask, done) for ask, done in some if not done.done()]
            asking = partial(ask_each, self._store, [ask for ask, _ in (*owed, *some)])
            self._began = loop.time()
            asked = asyncio.wrap_future(self._thread.submit(asking))
            await asyncio.wait([asked])
            error = asked.exception()
            for ask, done in some:
                if ask.action == "take" and (error is not None or done.done()):
                    self._give_back(ask.release())
            if error is None:
                for (_, done), found in zip(some, asked.result()[len(owed) :], strict=True):
                    if not done.done():
                        done.set_result(found)
                continue
            self._owed.extend(owed)
            for _, done in some:
                if not done.done():
                    done.set_exception(unavailable(f"{error}.") if isinstance(error, Unavailable) else error)
            if not self._waiting:
                self._began = math.inf
                await asyncio.sleep(GIVE_BACK_S)
        self._task = None

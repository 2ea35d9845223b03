"""Idempotency keys of requests that come together are asked about in one round trip."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event as Flag
from typing import Any

import pytest

from producers.http import idempotency
from producers.http.idempotency import TOGETHER, Keys
from producers.http.problems import Problem
from sitemap_store.errors import Unavailable
from sitemap_store.redis.once import Ask, KeyState, Once
from tests.acceptance.until import until


class Redis:
    """Answers in place of Redis once `open` is set, with the errors that it is given first."""

    def __init__(self) -> None:
        self.asks: list[Sequence[Ask]] = []
        self.answered: list[Ask] = []
        self.began = Flag()
        self.open = Flag()
        self.errors: list[Exception] = []

    def ask_each(self, store: object, asks: Sequence[Ask]) -> list[KeyState]:
        """Note what was asked."""
        self.began.set()
        assert self.open.wait(10)
        self.asks.append(asks)
        if self.errors:
            raise self.errors.pop(0)
        self.answered += asks
        return [KeyState("new", first=int(ask.digest[:4], 16)) for ask in asks]

    @property
    def asked(self) -> list[int]:
        """How many were asked about in each round trip."""
        return [len(asks) for asks in self.asks]


def start(keys: Keys, ask: Ask) -> asyncio.Task[KeyState]:
    """A request that asks."""
    return asyncio.ensure_future(keys.ask(ask))


Test = Callable[[Keys, Redis], Awaitable[None]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Redis]:
    """Give what runs a test in a loop of its own."""

    def running(test: Test, *, patience: float = 10.0) -> Redis:
        redis = Redis()
        monkeypatch.setattr(idempotency, "ask_each", redis.ask_each)
        store: Any = None

        async def main() -> None:
            await test(Keys(store, patience), redis)

        with ThreadPoolExecutor(1) as thread:  # the browser tests leave a loop running in this one
            thread.submit(asyncio.run, main()).result()
        return redis

    return running


def test_keys_that_come_together_take_one_round_trip(run: Callable[..., Redis]) -> None:
    """Each request gets the answer for its own key, and a round trip has a bound."""

    async def test(keys: Keys, redis: Redis) -> None:
        asks = [Once(str(number)).take() for number in range(101)]
        first = start(keys, asks[0])
        await asyncio.to_thread(redis.began.wait, 10)
        others = [start(keys, ask) for ask in asks[1:]]
        await asyncio.sleep(0)
        redis.open.set()
        found = await asyncio.gather(first, *others)
        assert [each.first for each in found] == [int(ask.digest[:4], 16) for ask in asks]

    assert run(test).asked == [1, TOGETHER, 100 - TOGETHER]


@pytest.mark.parametrize(
    ("error", "raised"),
    [(Unavailable(what="Redis", detail="is away"), Problem), (ValueError("a defect"), ValueError)],
)
def test_a_round_trip_that_fails_fails_its_requests_alone(
    run: Callable[..., Redis], error: Exception, raised: type[Exception]
) -> None:
    """The next one is tried as if nothing had been."""

    async def test(keys: Keys, redis: Redis) -> None:
        redis.open.set()
        redis.errors.append(error)
        with pytest.raises(raised):
            await keys.ask(Once("a").take())
        assert (await keys.ask(Once("b").take())).state == "new"

    run(test)


def test_nobody_waits_for_a_redis_that_is_known_to_hang(run: Callable[..., Redis]) -> None:
    """A request is refused at once then, and not asked about afterwards."""
    late = Once("late").take()

    async def test(keys: Keys, redis: Redis) -> None:
        waiting = [start(keys, Once(name).take()) for name in ("a", "b")]
        await asyncio.sleep(0.06)
        with pytest.raises(Problem):
            await keys.ask(late)
        for each in waiting:
            each.cancel()
        redis.open.set()
        while True:
            try:
                await keys.ask(Once("d").take())
            except Problem:
                await asyncio.sleep(0)
            else:
                return

    found = run(test, patience=0.05)
    assert found.asked[0] == 2
    assert late not in [ask for asks in found.asks for ask in asks]


@pytest.mark.parametrize("errors", [0, 1, 3])
def test_a_key_that_may_be_held_for_nobody_is_given_back(run: Callable[..., Redis], errors: int) -> None:
    """A request that was told 503 does not keep its key from the one that is sent again."""
    once, other = Once("a"), Once("b")

    async def test(keys: Keys, redis: Redis) -> None:
        asked = [start(keys, ask) for ask in (once.take(), other.done(b""), other.renew())]
        await asyncio.to_thread(redis.began.wait, 10)
        if errors:
            redis.errors += [Unavailable(what="Redis", detail="is away")] * errors
        else:
            asked[0].cancel()
        redis.open.set()
        await asyncio.gather(*asked, return_exceptions=True)
        await asyncio.to_thread(until, lambda: once.release() in redis.answered, what="it is given back")

    assert run(test).asks[1:] == [[once.release()]] * max(errors, 1)


def test_a_request_that_fails_gives_its_key_back(run: Callable[..., Redis]) -> None:
    """One that ends well keeps it."""
    failed, fine = Once("a"), Once("b")

    async def test(keys: Keys, redis: Redis) -> None:
        redis.open.set()
        with pytest.raises(Problem):
            async with keys.held(failed):
                raise Problem(503, "unavailable", "Redis is away.")
        async with keys.held(fine):
            await keys.ask(fine.done(b""))

    asked = [ask for asks in run(test).asks for ask in asks]
    assert asked == [failed.release(), fine.done(b"")]

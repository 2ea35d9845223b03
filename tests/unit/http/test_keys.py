"""Idempotency keys of requests that come together are asked about in one round trip."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event as Flag
from typing import Any

import pytest

from producers.http import state
from producers.http.problems import Problem
from producers.http.state import TOGETHER, Keys
from sitemap_store.errors import Unavailable
from sitemap_store.redis.once import Ask, KeyState, Once


class Redis:
    """Answers in place of Redis once `open` is set, with the errors that it is given first."""

    def __init__(self) -> None:
        self.asks: list[Sequence[Ask]] = []
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
        return [KeyState("new", first=int(ask.digest[:4], 16)) for ask in asks]

    @property
    def asked(self) -> list[int]:
        """How many were asked about in each round trip."""
        return [len(asks) for asks in self.asks]


Test = Callable[[Keys, Redis], Awaitable[None]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Redis]:
    """Give what runs a test in a loop of its own."""

    def running(test: Test, *, patience: float = 10.0) -> Redis:
        redis = Redis()
        monkeypatch.setattr(state, "ask_each", redis.ask_each)
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
        first = keys.ask(asks[0])
        await asyncio.to_thread(redis.began.wait, 10)
        others = [keys.ask(ask) for ask in asks[1:]]
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
        waiting = [keys.ask(Once(name).take()) for name in ("a", "b")]
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


@pytest.mark.parametrize("error", [None, Unavailable(what="Redis", detail="is away")])
def test_a_key_that_may_be_held_for_nobody_is_given_back(
    run: Callable[..., Redis], error: Exception | None
) -> None:
    """A request that was told 503 does not keep its key from the one that is sent again."""
    once, other = Once("a"), Once("b")

    async def test(keys: Keys, redis: Redis) -> None:
        asked = [keys.ask(ask) for ask in (once.take(), other.done(b""), other.renew())]
        await asyncio.to_thread(redis.began.wait, 10)
        if error is None:
            asked[0].cancel()
        else:
            redis.errors += [error, error]
        redis.open.set()
        await asyncio.wait(asked)
        again = await asyncio.gather(keys.ask(other.take()), return_exceptions=True)
        assert isinstance(again[0], KeyState if error is None else Problem)
        await keys.ask(other.take())

    later = [ask for asks in run(test).asks[1:] for ask in asks]
    assert later.count(once.release()) == (1 if error is None else 2)
    assert later.count(other.release()) == (0 if error is None else 1)
    assert later.index(once.release()) < later.index(other.take())

"""Events of requests that come together are appended together, and none is answered before its own are in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Event as Flag

import pytest

from producers.http.idempotency import TOGETHER
from producers.http.problems import Problem
from producers.http.state import Appender
from producers.sink import EventSink
from sitemap_store.errors import Unavailable
from sitemap_store.model.events import Event
from sitemap_store.redis.store import BATCH


class Redis(EventSink):
    """Takes events in place of Redis: each append waits until `open` is set, and may end in an error."""

    def __init__(self) -> None:
        self.appends: list[list[str]] = []
        self.began = Flag()
        self.open = Flag()
        self.errors: list[Exception] = []
        self.takes = 0.0
        """Seconds of an append."""

    def send(self, events: Iterable[Event], *, bulk: bool = False) -> int:
        """Note an append."""
        locs = [event.loc for event in events]
        self.began.set()
        assert self.open.wait(10)
        time.sleep(self.takes)
        if self.errors:
            raise self.errors.pop(0)
        self.appends.append(locs)
        return len(locs)


def events(name: str, count: int = 1) -> list[Event]:
    """That many events."""
    return [Event("add", f"{name}{number}") for number in range(count)]


def run(test: Callable[[Appender, Redis], Awaitable[None]], *, patience: float = 10.0) -> Redis:
    """Run a test in a loop of its own."""
    redis = Redis()

    async def main() -> None:
        await test(Appender(redis, patience), redis)

    with ThreadPoolExecutor(1) as thread:  # the browser tests leave a loop running in this one
        thread.submit(asyncio.run, main()).result()
    return redis


async def busy(appender: Appender, redis: Redis) -> asyncio.Future[None]:
    """Let one append be under way."""
    first = appender.send(events("first"))
    await asyncio.to_thread(redis.began.wait, 10)
    return first


def test_what_comes_during_an_append_goes_in_with_the_next() -> None:
    """An append under way holds nothing up but the next append, which takes all that came meanwhile."""

    async def test(appender: Appender, redis: Redis) -> None:
        first = await busy(appender, redis)
        others = [appender.send(events(name, 2)) for name in "abc"]
        await asyncio.sleep(0)
        assert not any(future.done() for future in (first, *others))
        redis.open.set()
        await asyncio.gather(first, *others)

    assert run(test).appends == [["first0"], ["a0", "a1", "b0", "b1", "c0", "c1"]]


def test_no_append_is_of_more_requests_than_the_loop_may_go_on_with_at_once() -> None:
    """What answers a hundred requests at once keeps the loop from everything else meanwhile."""

    async def test(appender: Appender, redis: Redis) -> None:
        first = await busy(appender, redis)
        others = [appender.send(events(f"n{number}-")) for number in range(100)]
        redis.open.set()
        await asyncio.gather(first, *others)

    assert [len(append) for append in run(test).appends] == [1, TOGETHER, 100 - TOGETHER]


def test_single_event_waits_for_a_part_of_a_long_body_only() -> None:
    """A body of many events goes in in parts, in order, and what others send comes between them."""

    async def test(appender: Appender, redis: Redis) -> None:
        first = await busy(appender, redis)
        long = [appender.send(events("long", 3 * BATCH)), appender.send(events("next", BATCH + 1))]
        single = appender.send(events("single"))
        redis.open.set()
        await asyncio.gather(first, single, *long)

    _, *appends = run(test).appends
    assert all(len(append) <= BATCH for append in appends)
    assert ["single0"] in appends[:2]
    for name, count in (("long", 3 * BATCH), ("next", BATCH + 1)):
        came = [loc for append in appends for loc in append if loc.startswith(name)]
        assert came == [event.loc for event in events(name, count)]


def test_failed_append_fails_its_requests_and_no_others() -> None:
    """Those whose append failed are told so; the rest of a long body is not appended, and others go on."""

    async def test(appender: Appender, redis: Redis) -> None:
        first = await busy(appender, redis)
        redis.errors += [Unavailable(what="Redis", detail="is away")] * 2
        long = appender.send(events("long", 2 * BATCH))
        redis.open.set()
        for future in (first, long):
            with pytest.raises(Problem) as caught:
                await future
            assert caught.value.status == 503
        await appender.send(events("again"))

    assert run(test).appends == [["again0"]]


def test_who_waits_too_long_is_told() -> None:
    """A request is answered when its patience is over, and what is not under way of it is forgotten."""

    async def test(appender: Appender, redis: Redis) -> None:
        for name in ("a", "b"):
            with pytest.raises(Problem) as caught:
                await appender.send(events(name))
            assert caught.value.status == 503
        redis.open.set()
        while True:  # until the append that was under way is known to have ended
            try:
                return await appender.send(events("c"))
            except Problem:
                await asyncio.sleep(0)

    assert run(test, patience=0.05).appends == [["a0"], ["c0"]]


def test_a_queue_that_moves_gives_nobody_up() -> None:
    """Waiting longer than the patience is fine as long as Redis finishes one append after the other.

    The patience is ten times an append's time, so that a machine that stands still for a moment is none.
    """

    async def test(appender: Appender, redis: Redis) -> None:
        redis.open.set()
        redis.takes = 0.4
        await asyncio.gather(*[appender.send(events(f"p{n}-", BATCH)) for n in range(12)])

    assert len(run(test, patience=4.0).appends) == 12


def test_error_that_nobody_foresaw_ends_no_later_append() -> None:
    """A fault of our own is the error of all who wait, and the next events go in."""

    async def test(appender: Appender, redis: Redis) -> None:
        first = await busy(appender, redis)
        second = appender.send(events("second"))
        redis.errors.append(ZeroDivisionError())
        redis.open.set()
        for future in (first, second):
            with pytest.raises(ZeroDivisionError):
                await future
        await appender.send(events("third"))

    assert run(test).appends == [["third0"]]

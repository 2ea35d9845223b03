"""Requests begin a few at a time, so that the loop comes to other work between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor

import pytest

from producers.http.limits import Admission
from producers.http.problems import Problem


def run(test: Awaitable[None]) -> None:
    """Run a test in a loop of its own."""

    async def main() -> None:
        await test

    with ThreadPoolExecutor(1) as thread:  # the browser tests leave a loop running in this one
        thread.submit(asyncio.run, main()).result()


def test_other_work_comes_between_the_requests() -> None:
    """Of a hundred requests that come at once, no more than four begin between two rounds of the loop."""
    began: list[int] = []
    rounds: list[int] = []

    async def test() -> None:
        admission = Admission(together=4)

        async def request(number: int) -> None:
            await admission.enter()
            began.append(number)

        requests = [asyncio.ensure_future(request(number)) for number in range(100)]
        while not all(each.done() for each in requests):
            before = len(began)
            await asyncio.sleep(0)
            rounds.append(len(began) - before)

    run(test())
    assert began == list(range(100)), "they begin in their order"
    assert max(rounds) == 4


def test_an_idle_server_lets_a_request_begin_at_once() -> None:
    """One that nobody is ahead of does not wait for a round of the loop."""

    async def test() -> None:
        admission = Admission(together=1)
        for _ in range(3):
            entering = admission.enter()
            with pytest.raises(StopIteration):
                entering.send(None)
            for _ in range(2):
                await asyncio.sleep(0)

    run(test())


def test_too_many_are_refused_and_who_went_away_takes_no_turn() -> None:
    """A full queue is 503 with Retry-After; a request whose client left leaves its place to the next."""

    async def test() -> None:
        admission = Admission(together=1, waiting=2)
        await admission.enter()
        gone, next_ = (asyncio.ensure_future(admission.enter()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await next_
        entered = [asyncio.ensure_future(admission.enter()) for _ in range(5)]
        answers = await asyncio.gather(*entered, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, Problem)]
        assert 2 <= len(refused) <= 3
        assert all(each.status == 503 and each.headers["Retry-After"] == "1" for each in refused)

    run(test())

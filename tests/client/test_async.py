"""The client for asyncio: the same answers and errors, and the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sitemapd_client import AsyncClient, Client, Problem, Unavailable
from tests.client.fake_server import FakeServer, never, problem

LOC = "https://shop.example.com/tea"


def finish(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end, in a thread of its own: a test before may have left a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


def test_it_has_the_methods_of_the_other() -> None:
    """Whoever knows one client knows the other."""

    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(AsyncClient) == public(Client)


def test_each_call_is_one_request(server: FakeServer) -> None:
    """Events arrive as with the blocking client."""

    async def work() -> None:
        async with AsyncClient(server.url, "smd_secret", "shop", source="cms") as client:
            assert (await client.add(LOC, lastmod="2026-03-21")).accepted == 1
            await client.update(LOC, priority=0.8)
            await client.delete(LOC)
            assert (await client.send([LOC, {"op": "delete", "loc": LOC}])).accepted == 2
            assert (await client.sync("cms", [LOC])).listed == 1

    finish(work())
    assert [len(request.events) for request in server.received] == [1, 1, 1, 2, 1]
    assert {request.connection for request in server.received} == {1}


def test_refusal_is_an_exception(server: FakeServer) -> None:
    """A problem comes through the thread as it is."""
    server.script.append(problem(422, "not-absolute"))

    async def work() -> None:
        async with AsyncClient(server.url) as client:
            with pytest.raises(Problem) as caught:
                await client.add("/x")
            assert caught.value.rule == "not-absolute"

    finish(work())


def test_asynchronous_iterables_are_streamed(server: FakeServer) -> None:
    """`send` and `sync` take an asynchronous generator, and its error is the caller's."""

    async def urls(count: int) -> AsyncIterator[str]:
        for number in range(count):
            await asyncio.sleep(0)
            yield f"{LOC}/{number}"
        if count == 7:
            raise RuntimeError("the cursor is gone")

    async def work() -> None:
        async with AsyncClient(server.url) as client:
            assert (await client.send(urls(1500))).accepted == 1500
            assert (await client.sync("cms", urls(500))).listed == 500
            with pytest.raises(RuntimeError, match="cursor"):
                await client.sync("cms", urls(7))

    finish(work())
    assert [len(request.events) for request in server.received] == [1500, 500]


def test_loop_goes_on(server: FakeServer) -> None:
    """While a server hangs, other tasks of the loop run, and a call can be cancelled."""
    server.script.extend([never, never])

    async def work() -> None:
        async with AsyncClient(server.url, timeout=0.3, patience=0) as client:
            with pytest.raises(Unavailable):
                await client.add(LOC)
            call = asyncio.ensure_future(client.add(LOC))
            ticks = 0
            while len(server.received) < 2:
                await asyncio.sleep(0.01)
                ticks += 1
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert ticks

    finish(work())


def test_calls_go_side_by_side(server: FakeServer) -> None:
    """Several calls at once use a connection each."""

    async def work() -> None:
        async with AsyncClient(server.url) as client:
            await asyncio.gather(*(client.add(f"{LOC}/{number}") for number in range(40)))

    finish(work())
    assert len({request.events[0]["loc"] for request in server.received}) == 40
    assert len({request.connection for request in server.received}) <= 4


def test_cancelled_list_reads_no_further(server: FakeServer) -> None:
    """When a `sync` is cancelled, its iterable is left alone and nothing is sent."""
    read: list[int] = []
    reading = asyncio.Event()

    async def urls() -> AsyncIterator[str]:
        for number in range(10**9):
            await asyncio.sleep(0)
            read.append(number)
            reading.set()
            yield f"{LOC}/{number}"

    async def work() -> None:
        async with AsyncClient(server.url) as client:
            call = asyncio.ensure_future(client.sync("cms", urls()))
            await reading.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    finish(work())
    assert len(read) < 10_000
    assert server.received == []

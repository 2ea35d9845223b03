"""The same client for asyncio: each call runs the blocking one in a thread, so that the loop goes on.

The standard library has no asynchronous HTTP client, and a thread that waits costs an app less than a second
implementation of the protocol would.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Final, TypeVar, Union

from sitemapd_client.client import Client, Date, Priority, Time
from sitemapd_client.lines import Item
from sitemapd_client.results import Sent, Synced

THREADS: Final = 4
"""Requests that may be under way at once; further calls wait, without a thread of the app's."""
PIECE: Final = 500
"""Items that are fetched at once from an asynchronous iterable."""

Items = Union[Iterable[Item], AsyncIterable[Item]]
_Result = TypeVar("_Result")


class AsyncClient:
    """`Client` with methods to be awaited, and the same arguments, results and errors.

    `send` and `sync` take asynchronous iterables too; others they iterate in a thread. A call that is
    cancelled may have been sent all the same.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        site: str = "main",
        *,
        source: str | None = None,
        timeout: float = 10.0,
        patience: float = 30.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._client = Client(
            url, token, site, source=source, timeout=timeout, patience=patience, context=context
        )
        self._threads = ThreadPoolExecutor(THREADS, "sitemapd-client")

    async def add(
        self,
        loc: str,
        *,
        lastmod: Date | None = None,
        changefreq: str | None = None,
        priority: Priority | None = None,
        at: Time | None = None,
        source: str | None = None,
        ext: Mapping[str, Any] | None = None,
    ) -> Sent:
        """The URL is there, and this is all that is known of it. Raises Problem, Unavailable."""
        return await self._run(
            partial(
                self._client.add,
                loc,
                lastmod=lastmod,
                changefreq=changefreq,
                priority=priority,
                at=at,
                source=source,
                ext=ext,
            )
        )

    async def update(
        self,
        loc: str,
        *,
        lastmod: Date | None = None,
        changefreq: str | None = None,
        priority: Priority | None = None,
        at: Time | None = None,
        source: str | None = None,
        ext: Mapping[str, Any] | None = None,
    ) -> Sent:
        """The given fields of the URL changed. Raises Problem, Unavailable."""
        return await self._run(
            partial(
                self._client.update,
                loc,
                lastmod=lastmod,
                changefreq=changefreq,
                priority=priority,
                at=at,
                source=source,
                ext=ext,
            )
        )

    async def delete(
        self, loc: str, *, at: Time | None = None, source: str | None = None, urgent: bool = False
    ) -> Sent:
        """The URL is gone. Raises Problem, Unavailable."""
        return await self._run(partial(self._client.delete, loc, at=at, source=source, urgent=urgent))

    async def send(self, events: Items) -> Sent:
        """Send events, some thousand in a request. Raises as `Client.send` does."""
        return await self._run_over(events, self._client.send)

    async def sync(
        self, source: str, urls: Items, *, accept_deletes: bool = False, timeout: float = 600.0
    ) -> Synced:
        """Send the whole list of a source. Raises as `Client.sync` does."""
        sync = partial(self._client.sync, source, accept_deletes=accept_deletes, timeout=timeout)
        return await self._run_over(urls, sync)

    async def close(self) -> None:
        """Wait for the calls under way, and close the connections. No call may follow."""
        await asyncio.get_running_loop().run_in_executor(None, self._threads.shutdown)
        self._client.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _run(self, work: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _run_over(self, items: Items, work: Callable[[Iterable[Item]], _Result]) -> _Result:
        """Run `work` over items in a thread; when the caller is cancelled, it gets no further ones."""
        over = threading.Event()
        plain = _plain(items, asyncio.get_running_loop(), over)
        try:
            return await self._run(partial(work, plain))
        finally:
            over.set()


def _plain(items: Items, loop: asyncio.AbstractEventLoop, over: threading.Event) -> Iterator[Item]:
    """The items, for a thread; asynchronous ones are fetched in their loop."""
    if not isinstance(items, AsyncIterable):
        for item in items:
            if over.is_set():
                raise asyncio.CancelledError
            yield item
        return
    iterator = items.__aiter__()
    while not over.is_set():
        piece = asyncio.run_coroutine_threadsafe(_some(iterator), loop).result()
        yield from piece
        if len(piece) < PIECE:
            return
    raise asyncio.CancelledError


async def _some(iterator: AsyncIterator[Item]) -> list[Item]:
    """The next `PIECE` items, or fewer at the end."""
    piece: list[Item] = []
    async for item in iterator:
        piece.append(item)
        if len(piece) == PIECE:
            break
    return piece

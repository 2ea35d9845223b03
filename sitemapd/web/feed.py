"""The live feed: what is published, and the headline's numbers, as server-sent events."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from sitemap_store.errors import SitemapdError
from sitemap_store.redis.observed import Published, feed
from sitemapd.web.access import Access
from sitemapd.web.page import SECURITY, live
from sitemapd.web.views import Calls, Views

PAUSE_S: Final = 1.0
ALIVE_S: Final = 15.0
"""A comment is sent at least that often, so that proxies keep the connection."""
READERS: Final = 50
"""Streams at a time."""
MOST: Final = 20
"""Entries of one look; of a bulk load's hundreds nobody could read more."""


class Feed:
    """The streams. They end when `closing` is set, and the browser comes back by itself."""

    def __init__(self, views: Views, calls: Calls, access: Access, closing: threading.Event) -> None:
        self._views = views
        self._calls = calls
        self._access = access
        self._closing = closing
        self._readers = 0

    async def answer(self, request: Request, name: str) -> Response:
        """One browser's stream, from the cursor that it gives on."""
        if name not in self._access.sites(request):
            return PlainTextResponse("Log in first.\n", 403, headers=SECURITY)
        if self._readers >= READERS:
            headers = {**SECURITY, "Retry-After": "30"}
            return PlainTextResponse("Too many live feeds are open.\n", 503, headers=headers)
        cursor = request.headers.get("last-event-id") or request.query_params.get("after", "")
        headers = {**SECURITY, "X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(name, cursor), headers=headers, media_type="text/event-stream")

    async def _events(self, name: str, cursor: str) -> AsyncIterator[str]:
        self._readers += 1
        shown: dict[str, str] = {}
        silent = 0.0
        try:
            yield "retry: 3000\n\n"
            while not self._closing.is_set():
                try:
                    entries, numbers = await self._calls.run(self._look, name, cursor)
                except SitemapdError:
                    entries, numbers = [], {}
                said = ""
                for entry in entries:
                    cursor = entry.cursor
                    said += _event("published", entry._asdict(), cursor)
                if changed := {key: value for key, value in numbers.items() if shown.get(key) != value}:
                    shown |= changed
                    said += _event("numbers", changed)
                silent = 0.0 if said else silent + PAUSE_S
                if silent >= ALIVE_S:
                    said, silent = ": still here\n\n", 0.0
                if said:
                    yield said
                await asyncio.sleep(PAUSE_S)
        finally:
            self._readers -= 1

    def _look(self, name: str, cursor: str) -> tuple[list[Published], dict[str, str]]:
        entries = feed(self._views.store(name), after=cursor, limit=MOST)
        return entries, dict(live(self._views.site(name)))


def _event(kind: str, data: object, cursor: str = "") -> str:
    place = f"id: {cursor}\n" if cursor else ""
    return f"event: {kind}\n{place}data: {json.dumps(data)}\n\n"

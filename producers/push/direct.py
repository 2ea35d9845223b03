"""Batches straight into Redis, for apps that can reach it. What the site is like, the workers left there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import sitemapd_client
from producers.ndjson import decode_many
from producers.sink import EventSink
from sitemap_store.errors import Unavailable
from sitemap_store.model.described import site_of
from sitemap_store.redis.connection import connect, translated
from sitemap_store.redis.keys import Keys
from sitemap_store.redis.store import Store
from sitemap_store.redis.wake import Waker
from sitemapd_client import Refusal

LOOK_AGAIN_S: Final = 60.0
"""How long the site's settings are believed: the workers may have been given others."""
BULK: Final = 200


class Direct:
    """Appends to the state in Redis; `queue_url` is that of RQ's queue, if another. Raises ValueError."""

    def __init__(self, url: str, site: str, source: str | None, queue_url: str | None) -> None:
        self._client = connect(url)
        self._queue = connect(queue_url or url)
        self._site = site
        self._source = source
        self._sink: EventSink | None = None
        self._looked = 0.0

    @property
    def target(self) -> str:
        """The site and the source."""
        return f"{self._site} {self._source or ''}"

    def send(self, lines: Sequence[str], key: str, timeout: float) -> list[Refusal]:
        """Deliver a batch. Raises sitemapd_client.Unavailable."""
        items = decode_many([line.encode() for line in lines])
        try:
            outcome = self._opened().push(items, source=self._source, bulk=len(items) > BULK)
        except Unavailable as error:
            raise sitemapd_client.Unavailable(str(error)) from error
        return [
            Refusal(place + 1, refused.loc, refused.rule, refused.detail)
            for place, refused in outcome.refused
        ]

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._queue.close()

    def _opened(self) -> EventSink:
        if self._sink is None or time.monotonic() - self._looked > LOOK_AGAIN_S:
            with translated():
                text = self._client.hget(Keys(self._site, 0).state(), "site")
            if text is None:
                raise sitemapd_client.Unavailable(
                    f"Redis knows no site {self._site!r}: it does once sitemapd's workers have run"
                )
            store = Store(self._client, site_of(self._site, text))
            self._sink = EventSink(store, Waker(self._queue))
            self._looked = time.monotonic()
        return self._sink

"""Batches straight into Redis, for apps that can reach it. What the site is like, the workers left there."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Final

from producers.push.transport import NotNow, Rejected
from producers.sink import EventSink
from sitemap_store.errors import Unavailable
from sitemap_store.model.described import site_of
from sitemap_store.redis.connection import connect, translated
from sitemap_store.redis.keys import prefix
from sitemap_store.redis.store import Store
from sitemap_store.redis.wake import Waker

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

    def send(self, events: Sequence[str], key: str) -> list[Rejected]:
        """Deliver a batch. Raises NotNow."""
        try:
            outcome = self._opened().push(
                [json.loads(event) for event in events], source=self._source, bulk=len(events) > BULK
            )
        except Unavailable as error:
            raise NotNow(str(error)) from error
        return [
            Rejected(loc=each.refused.loc, rule=each.refused.rule, detail=each.refused.detail)
            for each in outcome.refused
        ]

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._queue.close()

    def _opened(self) -> EventSink:
        if self._sink is None or time.monotonic() - self._looked > LOOK_AGAIN_S:
            with translated():
                text = self._client.hget(f"{prefix(self._site, 0)}:state", "site")
            if text is None:
                raise NotNow(f"Redis knows no site {self._site!r}: it does once sitemapd's workers have run")
            store = Store(self._client, site_of(self._site, text))
            self._sink = EventSink(store, Waker(self._queue))
            self._looked = time.monotonic()
        return self._sink

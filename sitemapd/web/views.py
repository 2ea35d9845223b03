"""What the status page shows, read from the state: one look a second at most, however many people look."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sitemap_store.errors import Refused, Unavailable
from sitemap_store.model.urls import normalise
from sitemap_store.redis.observed import (
    Lag,
    Minute,
    Published,
    Server,
    Totals,
    feed,
    last_hour,
    producers,
    server,
    shards,
    totals,
)
from sitemap_store.redis.store import Found, Store
from sitemapd.status import report
from sitemapd.web.shapes import Plot, ShardMap, plot, shard_map

FRESH_S = 1.0
THREADS = 8
PATIENCE_S = 1.5
"""How long a page waits for Redis."""
REFUSALS = 20
SILENT_MS = 30_000
"""A watcher or relay that said nothing for that long has stopped without saying so."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """A watcher or relay as the page shows it."""

    source: str
    kind: str
    state: str
    fine: bool
    seen: int
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One site at one moment."""

    name: str
    base: str
    now: int
    report: Mapping[str, Any]
    totals: Totals
    minutes: tuple[Minute, ...]
    lag: Lag
    plots: tuple[Plot, ...]
    map: ShardMap
    feed: tuple[Published, ...]
    refused: tuple[Mapping[str, str], ...]
    producers: tuple[Producer, ...]

    @property
    def last_minute(self) -> Minute:
        """The last whole minute."""
        return self.minutes[-2]

    @property
    def cursor(self) -> str:
        """Where the live feed goes on."""
        return self.feed[-1].cursor if self.feed else ""


@dataclass(slots=True)
class _Kept(Generic[T]):
    make: Callable[[], T]
    lock: threading.Lock = field(default_factory=threading.Lock)
    made: float = float("-inf")
    value: T | None = None

    def get(self) -> T:
        with self.lock:
            if self.value is None or time.monotonic() - self.made >= FRESH_S:
                self.value, self.made = self.make(), time.monotonic()
            return self.value


class Calls:
    """Runs what asks Redis in threads of its own: while Redis hangs, files are served all the same."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "state")

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Do a piece of work. Raises Unavailable after `PATIENCE_S`, and what the work raises."""
        begun = self._threads.submit(copy_context().run, work, *args)
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await asyncio.wrap_future(begun)
        except TimeoutError as error:
            raise Unavailable(what="Redis", detail="did not answer in time") from error


class Views:
    """The sites and their Redis. All raise Unavailable when it is away."""

    def __init__(self, stores: Callable[[], Mapping[str, Store]]) -> None:
        self._stores = stores
        self._kept: dict[str, _Kept[View]] = {}
        self._lock = threading.Lock()

    def store(self, name: str) -> Store:
        """A site's state."""
        return self._stores()[name]

    def site(self, name: str) -> View:
        """A site as it is now, or was a second ago."""
        with self._lock:
            kept = self._kept.setdefault(name, _Kept(lambda: look(self.store(name))))
        return kept.get()

    def server(self) -> Server:
        """The state's Redis."""
        return server(next(iter(self._stores().values())).client)

    def find(self, name: str, url: str) -> tuple[str, Found | None]:
        """A URL as the site spells it, and its entry. Raises Refused."""
        store = self.store(name)
        if len(url) > 10_000:
            raise Refused(loc=url[:80], rule="length", detail="The URL is longer than 10,000 characters.")
        loc = normalise(url, store.site.rules).loc
        return loc, store.find(loc)


def look(store: Store) -> View:
    """Read all that the page shows of a site."""
    now = store.now()
    minutes, lag = last_hour(store, now)
    return View(
        name=store.site.name,
        base=store.site.rules.base,
        now=now,
        report=report(store),
        totals=totals(store),
        minutes=minutes,
        lag=lag,
        plots=(
            plot("Events", minutes, (row.events for row in minutes)),
            plot("Rewrites", minutes, (row.rewrites for row in minutes)),
        ),
        map=shard_map(shards(store), now),
        feed=tuple(feed(store)),
        refused=tuple(store.rejected(REFUSALS)),
        producers=tuple(_producer(name, how, now) for name, how in producers(store).items()),
    )


def _producer(source: str, how: dict[str, Any], now: int) -> Producer:
    seen, state = int(how.pop("seen")), str(how.pop("state", "") or "unknown")
    kind = str(how.pop("kind", "watch"))
    silent = now - seen > SILENT_MS and state != "stopped"
    problem = how.get("problem")
    return Producer(
        source=source,
        kind=kind,
        state=f"not heard of since it was {state}" if silent else state,
        fine=not silent and not problem and not how.get("held_deletes") and state != "stopped",
        seen=seen,
        facts=how,
    )

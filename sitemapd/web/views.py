"""What the status page shows, read from the state: one look a second at most, however many people look."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from producers.http import Token
from producers.known import described, find_listed
from sitemap_store.errors import Refused, Unavailable
from sitemap_store.model.entries import Entry
from sitemap_store.model.site import Site
from sitemap_store.output.folder import Folder
from sitemap_store.redis.browse import (
    SectionPage,
    SizedShard,
    SourcePage,
    published_shard,
    section_page,
    shards,
    source_page,
)
from sitemap_store.redis.counts import DAY, HOUR, MONTH, Lag, Slot, Span, Totals, history
from sitemap_store.redis.observed import Published, Server, feed, producers, server
from sitemap_store.redis.state import REJECTED_MAX
from sitemap_store.redis.store import Store
from sitemapd.status import Problem, problems, read_counts, report
from sitemapd.web.display import Plot, ShardMap, duration, number, plot, shard_map

FRESH_S = 1.0
THREADS = 8
PATIENCE_S = 1.5
"""How long a page waits for Redis."""
REFUSALS = 20
ROWS = 100
"""Shards or URLs that one page shows."""
URL_MAX = 10_000
"""Characters of a URL that is looked up."""
SPANS = {span.name: span for span in (HOUR, DAY, MONTH)}
SILENT_MS = 30_000
"""A watcher or relay that said nothing for that long has stopped without saying so."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedSite:
    """What the server needs to know of a site."""

    site: Site
    folder: Folder
    store: Callable[[], Store]
    """May raise SitemapdError while there is no Redis."""
    tokens: tuple[Token, ...] = ()
    command: str = "sitemapd"
    """How a command line about the site begins."""
    held: Callable[[], Mapping[str, Mapping[str, Any]]] = dict
    """`sitemapd.held.held_report` of the site. May raise Unavailable."""
    indexnow_key: str | None = None


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
    problems: tuple[Problem, ...]
    last_minute: Slot
    """The last whole minute."""
    lag: Lag
    """Of the last hour."""
    span: Span
    slots: tuple[Slot, ...]
    events: Plot
    waited: Plot
    """The p99 of the lags, ms."""
    map: ShardMap
    feed: tuple[Published, ...]
    refused: tuple[Mapping[str, str], ...]
    producers: tuple[Producer, ...]

    @property
    def cursor(self) -> str:
        """Where the live feed goes on."""
        return self.feed[-1].cursor if self.feed else ""

    def headline(self) -> dict[str, str]:
        """The headline's numbers by name, as the page shows them: the live feed keeps these up to date."""
        report = self.report
        return {
            "urls": number(report["urls"]),
            "shards": number(report["shards"]),
            "due": number(report["due_shards"]),
            "unfolded": number(report["unfolded_events"]),
            "refused": number(report["refused"]),
            "workers": number(report["workers"]),
            "waiting": duration(report["waiting_ms"]),
            "events": number(self.last_minute.events),
            "p50": duration(self.lag.quantile(0.5)),
            "p99": duration(self.lag.quantile(0.99)),
        }


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

    def __init__(self, sites: Mapping[str, ServedSite]) -> None:
        self._sites = sites
        self._kept: dict[tuple[str, str], _Kept[View]] = {}
        self._lock = threading.Lock()

    def store(self, name: str) -> Store:
        """A site's state."""
        return self._sites[name].store()

    def site(self, name: str, span: str = HOUR.name) -> View:
        """A site as it is now, or was a second ago, with the plots of a span of `SPANS`."""
        with self._lock:
            site = self._sites[name]
            kept = self._kept.setdefault((name, span), _Kept(lambda: look(site, SPANS[span])))
        return kept.get()

    def file_path(self, name: str, file: str) -> str:
        """Where this server has a published file."""
        return f"/{name}/{file}" if len(self._sites) > 1 else f"/{file}"

    def server(self) -> Server:
        """The state's Redis."""
        return server(self.store(next(iter(self._sites))).client)

    def find(self, name: str, url: str) -> Looked:
        """What is known of a URL. Reads one shard, and the kept refusals where the URL is not listed."""
        store = self.store(name)
        if len(url) > URL_MAX:
            return Looked(url[:80], {}, (0, 0), f"The URL is longer than {URL_MAX:,} characters.", ())
        loc, detail, found = url, "", None
        try:
            loc, found = find_listed(store, url)
        except Refused as refused:
            detail = refused.detail
        if found is not None:
            place = store.site.partition_of(found.number), found.shard
            return Looked(loc, described(found, store.site.style(found.section)), place, "", ())
        refusals = tuple(row for row in store.rejected(REJECTED_MAX) if row["loc"] in (loc, url))
        return Looked(loc, {}, (0, 0), detail, refusals[:REFUSALS])

    def section(self, name: str, section: str, after: tuple[int, int]) -> SectionPage:
        """The published shards of a section behind a place (partition, id)."""
        return section_page(self.store(name), section, after=after, limit=ROWS)

    def has_section(self, name: str, section: str) -> bool:
        """Whether a site has such a section."""
        return any(section in partition.sections() for partition in self.store(name).partitions)

    def shard(
        self, name: str, partition: int, shard: int, page: int
    ) -> tuple[SizedShard, Page[Entry]] | None:
        """A published shard by its id, and a page (from 1) of its URLs in the order of its file."""
        store = self.store(name)
        found = published_shard(store, partition, shard)
        return None if found is None else (found, _paged(store.entries(partition, shard), page))

    def source(
        self, name: str, source: str, after: tuple[int, int], page: int
    ) -> tuple[SourcePage, Page[Entry], tuple[Mapping[str, str], ...], Producer | None]:
        """A page (from 1) of a source's URLs in the next shard behind `after`, its refusals and its state."""
        store = self.store(name)
        found = source_page(store, source, after=after)
        refusals = (row for row in store.rejected(REJECTED_MAX) if row["source"] == source)
        how = producers(store).get(source)
        state = None if how is None else _producer(source, how, store.now())
        return found, _paged(found.entries, page), tuple(islice(refusals, REFUSALS)), state


class Looked(NamedTuple):
    """What is known of a URL."""

    loc: str
    entry: Mapping[str, Any]
    """As `producers.known.described` has it; empty when it is not listed."""
    place: tuple[int, int]
    """The partition and the id of its shard."""
    refusal: str
    """Why the site would refuse it; empty when it would not."""
    refusals: tuple[Mapping[str, str], ...]
    """The events of it that were refused, newest first, as far as they are kept."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Up to `ROWS` rows, and whether there are more."""

    rows: Sequence[T]
    more: bool
    total: int = 0


def _paged(rows: Sequence[T], page: int) -> Page[T]:
    start = (page - 1) * ROWS
    return Page(rows[start : start + ROWS], len(rows) > start + ROWS, len(rows))


def look(site: ServedSite, span: Span = HOUR) -> View:
    """Read all that the page shows of a site."""
    store = site.store()
    now = store.now()
    counts = read_counts(store, now)
    slots = counts.hour if span is HOUR else history(store, now, span)[0]
    state = report(store, site.command, counts)
    return View(
        name=store.site.name,
        base=store.site.rules.base,
        now=now,
        report=state,
        totals=counts.totals,
        problems=tuple(problems(state, site.held(), site.command)),
        last_minute=counts.hour[-2],
        lag=counts.lag,
        span=span,
        slots=slots,
        events=plot("Events", slots, [slot.events for slot in slots]),
        waited=plot("Lag", slots, [round(slot.lag.quantile(0.99) or 0) for slot in slots]),
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
        state=f"no report since it was {state}" if silent else state,
        fine=not silent and not problem and not how.get("held_deletes") and state != "stopped",
        seen=seen,
        facts=how,
    )

"""`python -m benchmarks.bench_classifieds [--days N]`: a classifieds site's year, with and without merging.

20,000 advertisements are live. Each day 1,000 come and 1,000 go: those that are 60 days old, and else any.
The clock is simulated; Redis, the worker's code and files are real. Six hours' events come at once, but on
every thirtieth day and the last one, which a crawler follows: there each hour's events come at once, and the
crawler then reads the index and each file whose lastmod is another than before.

Its bytes are held against those of the same day's changes on a site without a past: the same advertisements,
all loaded the day before.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import redis
from rich.console import Console
from rich.table import Table

from sitemap_store.model.events import Event
from sitemapd.embedded import EmbeddedServer
from tests.published import listed, published
from tests.world import BASE, World, make_site
from worker.keeper import MERGE_S

LIVE = 20_000
EACH_DAY = 1_000
OLDEST = 60
SHARD = 1_000
DAY_MS = 24 * 3600 * 1000
CRAWLED = 30
"""Every how many days the crawler comes."""


@dataclass
class Board:
    """The advertisements: a URL and the day on which it came."""

    dice: random.Random
    ads: list[tuple[str, int]] = field(default_factory=list)
    made: int = 0

    def come(self, count: int, day: int) -> list[Event]:
        """New advertisements."""
        events = []
        for _ in range(count):
            self.made += 1
            loc = f"{BASE}ad/{self.made:07}-{self.dice.getrandbits(200):050x}"
            self.ads.append((loc, day))
            events.append(Event("add", loc, lastmod="2026-11-01T10:00:00Z"))
        return events

    def go(self, count: int, day: int) -> list[Event]:
        """Advertisements that end."""
        old = [ad for ad in self.ads if ad[1] <= day - OLDEST][:count]
        ended = old + self.dice.sample([ad for ad in self.ads if ad[1] > day - OLDEST], count - len(old))
        gone = set(ended)
        self.ads = [ad for ad in self.ads if ad not in gone]
        return [Event("delete", loc) for loc, _ in ended]


class Site:
    """A site with its state, its files, and a crawler."""

    def __init__(self, client: redis.Redis, folder: Path, name: str, compact_below: float) -> None:
        site = replace(make_site(name=name, shard_size=SHARD), compact_below=compact_below)
        folder.mkdir()
        self.world = World(client, site, folder)
        self._seen: dict[str, str] = {}
        self.merges = 0

    def take(self, events: list[Event]) -> None:
        """Take events, and let the workers work."""
        for wake in self.world.store.append(events):
            self.world.enqueue(wake)
        self.world.settle()

    def pass_time(self, ms: int) -> None:
        """Let time pass: the keeper has its turns at merging."""
        turns = ms // round(MERGE_S * 1000)
        files = len(listed(self.world.folder))
        before = self.world.now
        for _ in range(turns):
            now, section = self.world.store.partitions[0].merge_turn(600_000)
            if section is None or not self.world.worker("w").merge_sparse(0, section, now):
                break
            self.world.settle()
            self.world.now += round(MERGE_S * 1000)
        self.merges += files - len(listed(self.world.folder))
        self.world.now = max(self.world.now, before + ms)
        self.world.settle()

    def crawl(self) -> int:
        """Read what changed; how many bytes that were."""
        index = self.world.folder / "sitemap.xml"
        now = listed(self.world.folder)
        changed = [name for name, lastmod in now.items() if self._seen.get(name) != lastmod]
        self._seen = now
        return index.stat().st_size + sum((self.world.folder / name).stat().st_size for name in changed)


def a_day(site: Site, events: list[tuple[list[Event], list[Event]]]) -> int:
    """A day, its events in parts; the bytes of a crawler that comes after each part."""
    site.crawl()
    total = 0
    for come, go in events:
        site.take([*come, *go])
        site.pass_time(DAY_MS // len(events))
        total += site.crawl()
    return total


def events_of(board: Board, day: int, parts: int) -> list[tuple[list[Event], list[Event]]]:
    """A day's events in parts."""
    cuts = [EACH_DAY * n // parts for n in range(parts + 1)]
    counts = [end - start for start, end in pairwise(cuts)]
    return [(board.come(count, day), board.go(count, day)) for count in counts]


def year(client: redis.Redis, folder: Path, days: int, compact_below: float) -> dict[str, float]:
    """A site's days, one after the other."""
    name = "merged" if compact_below else "plain"
    board, site = Board(random.Random(3)), Site(client, folder / name, name, compact_below)
    for day in range(-LIVE // EACH_DAY, 0):
        site.take(board.come(EACH_DAY, day))
        site.pass_time(DAY_MS)
    files, crawled, fresh, last = 0, 0, 0, 0.0
    for day in range(days):
        if day % CRAWLED == CRAWLED - 1 or day == days - 1:
            new = Site(client, folder / f"{name}-{day}", f"{name}x{day}", 0.0)
            new.take([Event("add", loc, lastmod="2026-11-01T10:00:00Z") for loc, _ in board.ads])
            new.pass_time(DAY_MS)
            events = events_of(board, day, 24)
            without = a_day(new, events)
            with_churn = a_day(site, events)
            crawled, fresh, last = crawled + with_churn, fresh + without, with_churn / without
        else:
            for come, go in events_of(board, day, 4):
                site.take([*come, *go])
                site.pass_time(DAY_MS // 4)
        if published(site.world.folder).keys() != {loc for loc, _ in board.ads}:
            raise RuntimeError(f"day {day}: the files list other URLs than there are")
        files = len(listed(site.world.folder))
    return {
        "files": float(files),
        "needed": float(-(-LIVE // SHARD)),
        "files/needed": files * SHARD / LIVE,
        "merges": float(site.merges),
        "crawled/fresh": crawled / fresh,
        "last day's": last,
    }


def main() -> None:
    """Print a line of each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_classifieds")
    parser.add_argument("--days", type=int, default=365)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix=".bench-") as scratch:
        server = EmbeddedServer(Path(scratch) / "data")
        server.start()
        try:
            client = redis.Redis.from_url(server.url)
            table = Table(title=f"{chosen.days} days of a classifieds site")
            rows = {}
            for said, below in (("compact_below = 0.25", 0.25), ("compact_below = 0", 0.0)):
                began = time.perf_counter()
                rows[said] = year(client, Path(scratch), chosen.days, below)
                rows[said]["took s"] = time.perf_counter() - began
            table.add_column("")
            for column in next(iter(rows.values())):
                table.add_column(column, justify="right")
            for said, row in rows.items():
                table.add_row(said, *(f"{value:,.2f}" for value in row.values()))
            Console(width=140).print(table)
        finally:
            server.stop()


if __name__ == "__main__":
    main()

"""A whole site in one process: real Redis, real files, and jobs that run when the test says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from sitemap_store.model.protocol import STRICT, Limits
from sitemap_store.model.sections import SectionRule, Sections
from sitemap_store.model.site import Site
from sitemap_store.model.style import Style
from sitemap_store.model.urls import UrlRules
from sitemap_store.output.folder import Folder
from sitemap_store.redis.claims import Wake
from sitemap_store.redis.store import Store
from worker.merge import NOTHING_MS, merge_shards
from worker.publish import SitePublisher
from worker.scrub import Findings, Scrubber
from worker.site import WorkerSite, no_fault

BASE = "https://example.com/"
START = 1_790_000_000_000


class Crash(BaseException):
    """Stands for kill -9: nothing may catch it and go on."""


def make_site(
    *,
    sections: Mapping[str, str] | None = None,
    limits: Limits = STRICT,
    shard_size: int = 3,
    index_size: int = 1000,
    partitions: int = 1,
    gzip: bool = False,
    min_interval: float = 1.0,
    styles: Mapping[str, Style] | None = None,
    name: str = "shop",
    compact_below: float = 0.25,
) -> Site:
    """A site with small shards."""
    rules = [SectionRule(name=name, patterns=(pattern,)) for name, pattern in (sections or {}).items()]
    return Site(
        name=name,
        rules=UrlRules(base=BASE, limits=limits),
        sections=Sections(rules),
        styles=styles or {},
        limits=limits,
        shard_size=shard_size,
        index_size=index_size,
        partitions=partitions,
        gzip=gzip,
        min_interval=min_interval,
        compact_below=compact_below,
    )


@dataclass
class World:
    """Redis, an output folder, a clock that stands still, and a queue of jobs."""

    client: redis.Redis
    site: Site
    folder: Path
    now: int = START
    jobs: deque[tuple[int, str]] = field(default_factory=deque)
    fault: Callable[[str], None] = no_fault

    def __post_init__(self) -> None:
        self.output = Folder(self.folder, sync=False)
        self.output.prepare()
        self.store = Store(self.client, self.site, clock=lambda: self.now)
        self.adopt("state-1")

    def adopt(self, state_id: str) -> None:
        """Tie the state and the published tree together."""
        for partition in self.store.partitions:
            partition.adopt(state_id)
        self.output.mark(self.site.name, state_id)

    def worker(self, name: str) -> SitePublisher:
        """A worker of that name; its jobs and wake-ups go through the test's queue."""
        return SitePublisher(
            self.site,
            self.store.partitions,
            self.output,
            name,
            wake=self.enqueue,
            fault=self._reach,
        )

    def _reach(self, point: str) -> None:
        self.fault(point)

    def enqueue(self, wake: Wake) -> None:
        """Put the jobs of a wake-up into the queue."""
        self.jobs.extend((wake.partition, member) for member in wake.members)

    def run(self, worker: SitePublisher, partition: int, member: str) -> bool:
        """Look after one member; False when there was nothing to do for now."""
        if member.startswith("i"):
            wake = worker.publish_index(partition, int(member[1:]))
        else:
            wake = worker.rewrite_shard(partition, int(member))
        if wake is None:
            return False
        self.enqueue(wake)
        return True

    def merge(self, worker: str, partition: int, *shards: int) -> bool:
        """Have a worker make shards one; whether it did."""
        part = self.store.partitions[partition]
        section: Any = self.client.hget(part.keys.shard(shards[0]), "section") or b""
        at = WorkerSite(self.site, self.output, worker, self._reach)
        return merge_shards(at, part, section.decode(), shards)

    def merge_sparse(self, worker: str = "w1") -> None:
        """One turn of the keeper and the worker at merging, in every partition."""
        for part in self.store.partitions:
            now, section = part.merge_turn(NOTHING_MS)
            if section is not None:
                self.worker(worker).merge_sparse(part.number, section, now)

    def scrub(self) -> Findings:
        """One look of the scrubber at all files, whole."""
        return Scrubber(self.store, self.output, "scrubber/1/a", cpu=lambda: 0.0).look()

    def keep(self) -> None:
        """One round of the keeper on every partition."""
        for partition in self.store.partitions:
            _, wake = partition.keep(lost_ms=1000)
            self.enqueue(wake)

    def release(self, *workers: str) -> None:
        """What the supervisor does when workers are dead."""
        for partition in self.store.partitions:
            self.enqueue(partition.release(workers))

    def settle(self, worker: str = "settler") -> None:
        """Let time pass and jobs run until nothing waits to be published."""
        self.fault = no_fault
        hand = self.worker(worker)
        for _ in range(200):
            self.keep()
            for _ in range(10_000):
                if not self.jobs:
                    break
                self.run(hand, *self.jobs.popleft())
            else:
                raise AssertionError("jobs enqueue each other without end")
            if self.store.unsettled(self.now) == 0:
                return
            self.now += 1100
        raise AssertionError("the site does not settle")

    @contextmanager
    def crashing(self, point: str) -> Iterator[None]:
        """Within it, reaching that point is the end of the worker."""

        def fault(reached: str) -> None:
            if reached == point:
                raise Crash(point)

        self.fault = fault
        try:
            yield
        finally:
            self.fault = no_fault

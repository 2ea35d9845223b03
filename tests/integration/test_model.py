"""The heart: random events, late and duplicate ones, jobs in any order and crashes, against a dict."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sitemap_store.model.events import Event
from sitemap_store.model.protocol import STRICT
from sitemap_store.redis.merge import mergeable
from sitemapd.restore import restore_tree
from tests.examples import examples
from tests.published import images, listed, picture, published, shard_files, urls_of, valid_now
from tests.redis_server import RedisServer
from tests.world import BASE, Crash, World, make_site
from worker.site import no_fault

PATHS = [f"blog/{n}" for n in range(6)] + [f"p{n}?a=1&b={n}" for n in range(8)] + ["it's"]
POINTS = [
    *("claimed", "committed", "renamed", "published"),
    *("index_claimed", "index_renamed", "index_published"),
]
MERGE_POINTS = ["merge_claimed", "merge_committed"]
DAY = 24 * 3600 * 1000


class Row(NamedTuple):
    """A URL in the model: alive or not, since when, whose, and what is said of it."""

    alive: bool
    at: int
    source: str
    lastmod: str
    changefreq: str
    priority: str
    dead_at: int = 0
    image: str = ""


class Model:
    """The plain dict: one URL, one row; a page of rules, written apart from the fold."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}

    def apply(self, event: Event, now: int) -> None:
        row = self.rows.get(event.loc)
        ours = event.source or ""
        blocks = row is not None and (row.alive or event.op == "delete" or row.source in ("", ours))
        if row is not None and blocks and event.at is not None and event.at < row.at:
            return
        seen = row.at if row is not None and blocks else 0
        at = event.at if event.at is not None else max(now, seen)
        if event.op == "delete":
            if row is not None and row.alive and event.source and event.source != row.source:
                return
            owner = ours
            if row is not None and not row.alive and row.source == "":
                owner = ""
            self.rows[event.loc] = Row(False, at, owner, "", "", "", now)
        elif event.op == "update" and row is not None and row.alive:
            self.rows[event.loc] = row._replace(
                at=at,
                lastmod=row.lastmod if event.lastmod is None else event.lastmod,
                priority=row.priority if event.priority is None else event.priority,
                image=_image(event, row.image),
            )
        else:
            date, priority = event.lastmod or "", event.priority or ""
            self.rows[event.loc] = Row(True, at, ours, date, "", priority, image=_image(event, ""))

    def alive(self) -> dict[str, tuple[str | None, str | None, str | None]]:
        return {
            loc: (row.lastmod or None, row.changefreq or None, row.priority or None)
            for loc, row in self.rows.items()
            if row.alive
        }

    def images(self) -> dict[str, str]:
        return {loc: row.image for loc, row in self.rows.items() if row.alive and row.image}


def _image(event: Event, old: str) -> str:
    """The image after an event; each has one, says that there is none, or says nothing."""
    (image,) = (json.loads(event.ext)["images"] or [""]) if event.ext else [old]
    return str(image)


class Machine(RuleBasedStateMachine):
    """Producers, three workers, a keeper and a clock."""

    server: RedisServer

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="model-"))
        self.client = self.server.client()
        self.model = Model()
        self.lastmods: dict[str, str] = {}
        self.bodies: dict[str, bytes] = {}
        self.listed: set[str] = set()
        """URLs that were listed, and that nothing was said of which could take them away."""

    @initialize(
        partitions=st.sampled_from([1, 1, 3]),
        gzip=st.booleans(),
        index_size=st.sampled_from([2, 9]),
        urls_per_file=st.sampled_from([2, 4, 50_000]),
        shard_size=st.sampled_from([1, 3]),
    )
    def begin(
        self, partitions: int, gzip: bool, index_size: int, urls_per_file: int, shard_size: int
    ) -> None:
        self.client.flushall()
        site = make_site(
            sections={"blog": "/blog/**"},
            shard_size=shard_size,
            partitions=partitions,
            gzip=gzip,
            index_size=index_size,
            limits=dataclasses.replace(STRICT, urls_per_file=urls_per_file),
        )
        self.world = World(self.client, site, self.folder)

    @rule(
        op=st.sampled_from(["add", "add", "update", "delete"]),
        paths=st.lists(st.sampled_from(PATHS), min_size=1, max_size=6),
        lastmod=st.sampled_from([None, "2026-03-21", "2026-03-21T11:22:33Z"]),
        priority=st.sampled_from([None, None, "0.8"]),
        source=st.sampled_from([None, None, "cms", "files"]),
        late=st.sampled_from([None, None, 0, 500, 5000]),
        urgent=st.booleans(),
        twice=st.booleans(),
        image=st.sampled_from([None, None, "https://x.example/1&2", ""]),
    )
    def push(
        self,
        op: Any,
        paths: list[str],
        lastmod: str | None,
        priority: str | None,
        source: str | None,
        late: int | None,
        urgent: bool,
        twice: bool,
        image: str | None,
    ) -> None:
        at = None if late is None else self.world.now - late
        ext = {None: None, "": '{"images":null}' if op == "update" else ""}.get(
            image, f'{{"images":["{image}"]}}'
        )
        events = [
            Event(op, BASE + path, lastmod, None, priority, at, source, ext, urgent)
            if op != "delete"
            else Event(op, BASE + path, at=at, source=source, urgent=urgent)
            for path in paths
        ]
        if op == "delete":
            self.listed -= {event.loc for event in events}
        for event in events * (2 if twice else 1):
            self.model.apply(event, self.world.now)
        for wake in self.world.store.append(events * (2 if twice else 1)):
            self.world.enqueue(wake)

    @precondition(lambda self: self.world.jobs)
    @rule(pick=st.integers(0, 1000), worker=st.sampled_from("ABC"), again=st.booleans())
    def work(self, pick: int, worker: str, again: bool) -> None:
        job = self.world.jobs[pick % len(self.world.jobs)]
        if not again:
            self.world.jobs.remove(job)
        self.world.run(self.world.worker(worker), *job)

    @precondition(lambda self: self.world.jobs)
    @rule(pick=st.integers(0, 1000), worker=st.sampled_from("ABC"), point=st.sampled_from(POINTS))
    def crash(self, pick: int, worker: str, point: str) -> None:
        job = self.world.jobs[pick % len(self.world.jobs)]
        self.world.jobs.remove(job)
        try:
            with self.world.crashing(point):
                self.world.run(self.world.worker(worker), *job)
        except Crash:
            pass

    @precondition(lambda self: self.world.jobs)
    @rule(pick=st.integers(0, 1000), point=st.sampled_from(POINTS), pause=st.integers(61, 90))
    def stall(self, pick: int, point: str, pause: int) -> None:
        """A worker stands still past its lease; another does its job; then it goes on."""
        job = self.world.jobs[pick % len(self.world.jobs)]
        self.world.jobs.remove(job)
        reached = False

        def fault(at: str) -> None:
            nonlocal reached
            if at == point and not reached:
                reached = True
                self.world.now += pause * 1000
                self.world.run(self.world.worker("B"), *job)

        self.world.fault = fault
        self.world.run(self.world.worker("A"), *job)
        self.world.fault = lambda point: None

    @rule(
        picks=st.lists(st.integers(0, 1000), min_size=2, max_size=4),
        worker=st.sampled_from("ABC"),
        point=st.sampled_from([None, None, *MERGE_POINTS]),
        what=st.sampled_from(["dies", "stands still", "events come"]),
        settled=st.booleans(),
    )
    def merge(self, picks: list[int], worker: str, point: str | None, what: str, settled: bool) -> None:
        """Any shards, in any state or all that may be; the worker may die in it, or stand still for long."""
        if settled:
            self.world.settle()

        def fault(at: str) -> None:
            if at == point and what == "dies":
                raise Crash(at)
            if at == point and what == "events come":
                gone, *stay = PATHS[picks[0] % len(PATHS) :] + PATHS[: picks[1] % len(PATHS)]
                self.listed.discard(BASE + gone)
                events = [Event("update", BASE + path, priority="0.9") for path in stay]
                for event in (*events, Event("delete", BASE + gone)):
                    self.model.apply(event, self.world.now)
                    for wake in self.world.store.append([event]):
                        self.world.enqueue(wake)
            if at == point and what == "stands still":
                self.world.now += 61_000
                self.world.fault = no_fault
                self.world.keep()
                for job in list(self.world.jobs):
                    self.world.run(self.world.worker("B"), *job)

        part = self.world.store.partitions[picks[0] % self.world.site.partitions]
        names: Any = self.client.zrange(part.keys.shards(), 0, -1)
        ids = sorted(map(int, names))
        some = list(dict.fromkeys(ids[pick % len(ids)] for pick in picks if ids))
        if settled:
            some = [each.id for each in mergeable(part, "pages")]
        self.world.fault = fault
        if len(some) > 1:
            with suppress(Crash):
                self.world.merge(worker, part.number, *some)
        self.world.fault = no_fault

    @rule()
    def merge_by_itself(self) -> None:
        self.world.merge_sparse()

    @rule()
    def restore(self) -> None:
        """Redis is lost now and taken back from the tree: each URL that was listed has one seat."""
        tree: dict[str, set[tuple[str | None, ...]]] = {}
        for name in listed(self.folder):
            for loc, *values in urls_of(self.folder / name):
                tree.setdefault(loc, set()).add(tuple(values))
        self.client.flushall()
        self.world.jobs.clear()
        restore_tree(self.world.store, self.world.output)
        self.world.adopt(f"state-{self.world.now}")
        rows = list(self.world.store.listing())
        assert len(rows) == len(tree), "a URL has two seats, or none"
        self.model.rows = {}
        self.listed &= tree.keys()
        for row in rows:
            assert (row.lastmod or None, row.changefreq or None, row.priority or None) in tree[row.loc]
            (image,) = json.loads(row.ext)["images"] if row.ext else [""]
            self.model.rows[row.loc] = Row(
                True, 0, "", row.lastmod, row.changefreq, row.priority, image=image
            )
        for path in shard_files(self.folder):
            if path.name not in listed(self.folder):
                path.unlink()  # what the scrubber does a minute later

    @precondition(lambda self: self.world.jobs)
    @rule(pick=st.integers(0, 1000))
    def lose_job(self, pick: int) -> None:
        del self.world.jobs[pick % len(self.world.jobs)]

    @rule()
    def keeper(self) -> None:
        self.world.keep()

    @rule(dead=st.sampled_from("ABC"))
    def supervisor(self, dead: str) -> None:
        self.world.release(dead)

    @rule(ms=st.sampled_from([1, 400, 1000, 61_000]))
    def wait(self, ms: int) -> None:
        self.world.now += ms

    @rule()
    def rebuild(self) -> None:
        for partition in self.world.store.partitions:
            partition.want_all()

    @rule()
    def settle(self) -> None:
        self.world.settle()
        self.check_settled()

    @rule()
    def next_day(self) -> None:
        """Tombstones go; a model row that is dead for a day is forgotten with them."""
        self.world.settle()
        self.world.now += DAY + 120_000
        self.world.settle()
        self.world.now += DAY + 120_000
        self.world.settle()
        self.model.rows = {loc: row for loc, row in self.model.rows.items() if row.alive}
        self.check_settled()
        seats = sum(int(self.client.hget(p.keys.state(), "seats") or 0) for p in self.world.store.partitions)
        assert seats == len(self.model.alive()), "a seat is kept for nothing"

    def check_settled(self) -> None:
        assert published(self.folder) == self.model.alive()
        assert images(self.folder) == self.model.images()
        self.listed = set(self.model.alive())
        names = {path.name for path in shard_files(self.folder)}
        assert names == set(listed(self.folder)), "a file is left that no index names"
        entries = {entry.loc for entry in self.world.store.listing()}
        assert entries == set(self.model.alive())
        logged = sum(
            int(self.client.hget(p.keys.state(), "logged") or 0) for p in self.world.store.partitions
        )
        assert logged == 0

    @invariant()
    def valid_at_every_moment(self) -> None:
        if not hasattr(self, "world"):
            return
        valid_now(self.folder)
        lastmods = listed(self.folder)
        for name, lastmod in lastmods.items():
            if name in self.lastmods:
                assert lastmod >= self.lastmods[name], f"lastmod of {name} moved back"
        self.lastmods.update(lastmods)
        found = {url.loc for name in lastmods for url in urls_of(self.folder / name)}
        assert self.listed <= found, "a URL is listed nowhere"

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self.world.settle()
                self.check_settled()
                before = picture(self.folder)
                for partition in self.world.store.partitions:
                    partition.want_all()
                self.world.settle()
                assert picture(self.folder) == before, "a rebuild changed what was right"
        finally:
            self.client.close()
            shutil.rmtree(self.folder)


def run_machine(machine: type[Machine], server: RedisServer, *, count: int, steps: int) -> None:
    """Try a machine on a server: `count` examples of up to that many steps."""
    machine.server = server
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(count),
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_published_tree_equals_the_dict_model(redis_server: RedisServer) -> None:
    """Whatever comes in whatever order, once settled the tree holds what a dict would hold."""
    run_machine(Machine, redis_server, count=60, steps=40)


class Sparse(Machine):
    """A site of sparse shards, in which much is merged: at any step something comes, dies or stands still."""

    @initialize(
        partitions=st.sampled_from([1, 1, 3]),
        gzip=st.booleans(),
        index_size=st.sampled_from([2, 9]),
        urls_per_file=st.just(50_000),
        shard_size=st.just(3),
    )
    def begin(
        self, partitions: int, gzip: bool, index_size: int, urls_per_file: int, shard_size: int
    ) -> None:
        """Every second URL of full shards is deleted."""
        super().begin(partitions, gzip, index_size, urls_per_file, shard_size)
        self._say("add", PATHS)
        self.world.settle()
        self._say("delete", PATHS[::2])
        self.world.settle()
        self.check_settled()

    def _say(self, op: Any, paths: list[str]) -> None:
        events = [Event(op, BASE + path) for path in paths]
        for event in events:
            self.model.apply(event, self.world.now)
        for wake in self.world.store.append(events):
            self.world.enqueue(wake)

    @rule(
        picks=st.lists(st.integers(0, 1000), min_size=2, max_size=4),
        point=st.sampled_from(MERGE_POINTS),
        what=st.sampled_from(["dies", "stands still", "events come"]),
    )
    def merge_all(self, picks: list[int], point: str, what: str) -> None:
        """Shards that may be merged, and something happens in the middle of it."""
        self.merge(picks, "C", point, what, settled=True)

    @rule(paths=st.lists(st.sampled_from(PATHS), min_size=1, max_size=6), days=st.sampled_from([0, 0, 2]))
    def thin_out(self, paths: list[str], days: int) -> None:
        """Some URLs go; on some days long enough ago that nothing remembers them."""
        self.listed -= {BASE + path for path in paths}
        self._say("delete", paths)
        for _ in range(days):
            self.next_day()


def test_what_is_merged_equals_the_dict_model(any_redis: RedisServer) -> None:
    """The same with merges most of the time."""
    run_machine(Sparse, any_redis, count=30, steps=25)

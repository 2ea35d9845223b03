"""Processes are killed, stopped and ended at the worst moments; nothing is lost, and nothing comes twice."""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import redis

from sitemapd.faults import VARIABLE
from tests.acceptance.place import BASE, Place, Service, add, delete, ndjson, settings, update
from tests.acceptance.processes import arm, running, state
from tests.acceptance.until import PATIENCE, holds, until
from tests.published import listed, picture, published, shard_files, urls_of, valid_now
from tests.redis_server import RedisServer

POINTS = [
    *("claimed", "committed", "renamed", "published"),
    *("index_claimed", "index_renamed", "index_published"),
]


class Shop:
    """A site with small shards, the dict that it must equal, and a fault that waits to be armed."""

    def __init__(self, place: Place, server: RedisServer) -> None:
        self.place = place
        self.server = server
        self.faults = place.folder / "faults"
        self.faults.mkdir()
        self._fault = ("claimed", "kill")
        self.expected: dict[str, str | None] = {}
        place.configure(settings(server.url, shard_size=5, min_interval=0.2))

    def start(self, point: str = "claimed", action: str = "kill", *, processes: int = 2) -> Service:
        """Start workers that will meet the fault once it is armed."""
        self._fault = (point, action)
        return self.place.worker(env={VARIABLE: str(self.faults)}, processes=processes)

    def arm(self) -> None:
        """From now on the first worker to reach the point meets the fault."""
        arm(self.faults, *self._fault)

    def struck(self) -> None:
        """Wait for the fault."""
        until(lambda: not list(self.faults.iterdir()), what="a worker reaches the point")

    def push(self, *events: dict[str, object]) -> None:
        """Push events, and note in the dict what they make of it."""
        self.place.events(*events)
        for event in events:
            self.note(event)

    def note(self, event: dict[str, object]) -> None:
        """Apply one event to the dict."""
        loc, lastmod = str(event["loc"]), event.get("lastmod")
        if event["op"] == "delete":
            self.expected.pop(loc, None)
        elif event["op"] == "add" or lastmod is not None:
            self.expected[loc] = None if lastmod is None else str(lastmod)
        else:
            self.expected.setdefault(loc, None)

    def true(self) -> bool:
        """Whether the published set is the dict, and no index names a file that is not there."""
        valid_now(self.place.output)
        found = {loc: lastmod for loc, (lastmod, _, _) in published(self.place.output).items()}
        return found == self.expected

    def settled(self) -> None:
        """Wait until the tree is true, nothing waits, no lease is held and no temporary file is left."""
        until(self.true, what="the tree equals the dict")
        with self.server.client() as client:
            until(lambda: self._idle(client), what="nothing waits and no lease is held")
        assert self.true()
        assert not list(self.place.output.glob(".sitemapd-*.tmp"))

    def _idle(self, client: redis.Redis) -> bool:
        return not client.zcard("sm:{main.0}:pending") and not client.hlen("sm:{main.0}:leases")


@pytest.fixture
def shop(place: Place, any_redis: RedisServer) -> Shop:
    """Give a shop on an emptied server."""
    any_redis.flush()
    return Shop(place, any_redis)


def changes() -> list[dict[str, object]]:
    """Events for every shard of `stock`: adds, an update in each, and all of the second shard deleted."""
    return [
        *[add(f"new/{n}", lastmod="2026-03-21") for n in range(7)],
        *[update(f"p/{n}", lastmod="2026-03-22") for n in range(0, 17, 4)],
        *[delete(f"p/{n}") for n in range(5, 10)],
    ]


def stock() -> list[dict[str, object]]:
    """Events that fill three shards and a part of the fourth."""
    return [add(f"p/{n}", lastmod="2026-01-01") for n in range(17)]


@pytest.mark.parametrize(
    ("point", "processes"),
    [pytest.param(point, 2, marks=() if point.endswith("renamed") else pytest.mark.long) for point in POINTS]
    + [pytest.param(point, 1, marks=pytest.mark.long) for point in ("committed", "renamed", "index_renamed")],
)
def test_killed_worker_loses_nothing(shop: Shop, point: str, processes: int) -> None:
    """kill -9 between any two steps of a rewrite: all is published long before a lease ends, and once."""
    worker = shop.start(point, processes=processes)
    shop.push(*stock())
    shop.settled()

    shop.arm()
    shop.push(*changes())
    shop.struck()
    shop.settled()
    worker.says("by signal SIGKILL")
    worker.says("[worker_started", times=processes + 1)
    assert worker.stop() == 0
    assert not running(shop.place.folder)


@pytest.mark.parametrize("point", ["merge_claimed", "merge_committed"])
def test_killed_worker_loses_nothing_of_a_merge(shop: Shop, point: str) -> None:
    """kill -9 while sparse shards become one: no URL is listed nowhere meanwhile, and the merge ends well."""
    worker = shop.start()
    shop.push(*stock())
    shop.settled()
    assert worker.stop() == 0
    shop.place.configure(settings(shop.server.url, shard_size=20, compact_below=1, min_interval=0.2))
    with shop.server.client() as client:
        for shard in (1, 2, 3):
            client.hset(f"sm:{{main.0}}:s:{shard}", mapping={"rest": 1, "lm": 1})  # days ago

    shop.arm()
    worker = shop.start(point)
    shop.struck()
    assert set(shop.expected) <= crawled(shop.place.output)
    with shop.server.client() as client:
        client.hdel("sm:{main.0}:sec:pages", "merge")  # no wait of ten minutes for the keeper's next try
    until(lambda: merged(shop), what="two of the four files become one")
    shop.settled()
    worker.says("by signal SIGKILL")
    assert worker.stop() == 0


def crawled(folder: Path) -> set[str]:
    """What a crawler finds from the index on, however often; when a file has just gone, it asks again."""
    while True:
        with suppress(FileNotFoundError):
            return {url.loc for name in listed(folder) for url in urls_of(folder / name)}


def merged(shop: Shop) -> bool:
    """Whether three files are left; meanwhile each URL must be listed."""
    names = listed(shop.place.output)
    assert set(shop.expected) <= crawled(shop.place.output)
    return len(names) == len(shard_files(shop.place.output)) == 3


def test_killed_supervisor_takes_its_workers_along(shop: Shop) -> None:
    """kill -9 of the supervisor: its workers end by themselves, and a new start goes on at once."""
    worker = shop.start()
    shop.push(*stock())
    shop.settled()
    worker.kill()
    until(lambda: not running(shop.place.folder), what="the workers end by themselves")
    shop.push(*changes())
    again = shop.start()
    shop.settled()
    assert again.stop() == 0


def test_worker_left_behind_by_a_killed_supervisor_spoils_nothing(shop: Shop) -> None:
    """One that is stopped with a lease in hand is taken over at once; what it writes late does not stay."""
    worker = shop.start("committed", "stop")
    shop.push(*stock())
    shop.settled()
    shop.arm()
    shop.push(*changes())
    shop.struck()
    stuck = until(lambda: [pid for pid in worker.workers() if state(pid) == "T"], what="it stops")
    worker.kill()

    again = shop.start()
    shop.settled()
    shop.push(*[update(path, lastmod="2026-03-23") for path in ("p/0", "p/10", "p/16", "new/3")])
    shop.settled()
    for pid in stuck:
        os.kill(pid, signal.SIGCONT)
    until(lambda: not set(stuck) & running(shop.place.folder).keys(), what="the late one ends")
    shop.settled()
    assert again.stop() == 0


@pytest.mark.long
def test_stopped_worker_is_killed_and_another_takes_over(shop: Shop) -> None:
    """A worker that hangs in a rewrite is killed by its supervisor, and its shard is published by another."""
    worker = shop.start("committed", "stop")
    shop.push(*stock())
    shop.settled()
    shop.arm()
    shop.push(*changes())
    shop.struck()
    worker.says("[worker_stuck", within=2 * PATIENCE)
    shop.settled()
    assert worker.stop() == 0


class TestSoftEnd:
    """SIGTERM while there is work."""

    def test_the_job_in_hand_is_finished(self, shop: Shop) -> None:
        """A worker in the middle of a rewrite finishes it; exit 0, no lease left, no process left."""
        worker = shop.start("committed", "stop", processes=1)
        shop.push(*stock())
        shop.settled()
        shop.arm()
        shop.push(update("p/3", lastmod="2026-03-22"))
        shop.struck()
        (busy,) = until(lambda: [pid for pid in worker.workers() if state(pid) == "T"], what="it stops")
        published_before = worker.count("[shard_published")

        worker.signal(signal.SIGTERM)
        holds(worker.alive, during=0.5, what="it waits for the job in hand")
        os.kill(busy, signal.SIGCONT)
        assert worker.ended() == 0
        assert worker.count("[shard_published") == published_before + 1
        assert worker.count("[worker_killed") == 0
        assert not running(shop.place.folder)
        with shop.server.client() as client:
            assert not client.hlen("sm:{main.0}:leases")
        assert shop.true()

    def test_the_rest_waits_for_the_next_start(self, shop: Shop) -> None:
        """In the middle of a bulk load: nothing is lost, and the next start publishes the rest."""
        worker = shop.start()
        many = [add(f"bulk/{n}") for n in range(3000)]
        shop.push(*many)
        worker.says("[shard_published")
        assert worker.stop() == 0
        with shop.server.client() as client:
            assert not client.hlen("sm:{main.0}:leases")
            assert client.zcard("sm:{main.0}:pending"), "it was ended in the middle"
        valid_now(shop.place.output)
        again = shop.start()
        shop.place.wait()
        shop.settled()
        assert again.stop() == 0


class Pushers:
    """`push -` processes that run at the same time, each with lines of its own."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.codes: list[tuple[int, list[dict[str, object]]]] = []
        self._threads: list[threading.Thread] = []

    def start(self, *batches: list[dict[str, object]]) -> None:
        """Push batches one after the other, in a thread."""

        def push() -> None:
            for batch in batches:
                result = self._place.command("push", "-", stdin=ndjson(batch))
                self.codes.append((result.code, batch))

        thread = threading.Thread(target=push)
        self._threads.append(thread)
        thread.start()

    def some(self, number: int) -> bool:
        """Whether that many batches have been pushed."""
        return len(self.codes) >= number

    def done(self) -> None:
        """Wait for all of them."""
        for thread in self._threads:
            thread.join()


@pytest.mark.long
def test_killed_redis_keeps_what_it_acknowledged(shop: Shop) -> None:
    """kill -9 of Redis amid pushes, twice: each push that returned 0 is published, and workers reconnect."""
    worker = shop.start()
    with shop.server.client() as client:
        # Otherwise Redis holds writes back while it syncs, up to two seconds, and acknowledges them.
        client.config_set("appendfsync", "always")
    pushers = Pushers(shop.place)
    for who in "ab":
        pushers.start(*[[add(f"{who}/{k}/{n}") for n in range(300)] for k in range(5)])
    for done in (1, 3):
        until(partial(pushers.some, done), what="some pushes are done")
        shop.server.restart(kill=True)
    pushers.done()
    shop.push(add("last"))
    until(lambda: f"{BASE}last" in published(shop.place.output), what="workers have reconnected")

    failed = [batch for code, batch in pushers.codes if code != 0]
    shop.place.wait()
    for event in itertools.chain(*[batch for code, batch in pushers.codes if code == 0]):
        shop.note(event)
    extra = {str(event["loc"]) for event in itertools.chain(*failed)}
    found = published(shop.place.output).keys()
    assert found - extra == shop.expected.keys() - extra
    assert shop.expected.keys() - found == set()
    assert {code for code, _ in pushers.codes} <= {0, 1}

    # A push that failed may be repeated: what it left is in there once.
    for batch in failed:
        shop.push(*batch)
    shop.settled()
    assert worker.alive()
    assert worker.stop() == 0


def test_redis_that_is_away_is_waited_for(shop: Shop) -> None:
    """An outage of seconds, with a worker dying in it: it is said, nothing ends, and publishing goes on."""
    worker = shop.start()
    shop.push(*stock())
    shop.settled()
    shop.server.stop(kill=True)
    worker.says("[redis_away")
    os.kill(worker.workers()[0], signal.SIGKILL)
    worker.says("a worker waits")
    assert shop.place.command("push", "add", f"{BASE}x").code == 1
    holds(worker.alive, during=2.0, what="the supervisor outlives the outage")
    shop.server.start()
    worker.says("[redis_back")
    shop.push(*changes())
    shop.settled()
    assert worker.count("[redis_away") <= 6, "an outage is said, and not all the time"
    assert worker.stop() == 0


@pytest.mark.long
def test_two_supervisors_and_two_producers(shop: Shop) -> None:
    """3,000 random events by two producers at once, for two supervisors: the tree equals the dict."""
    chance = random.Random(20260321)
    workers = [shop.start(), shop.start()]
    pushers = Pushers(shop.place)
    for who in "ab":
        events = [one_of(chance, f"{who}/{chance.randrange(200)}") for _ in range(1500)]
        pushers.start(events[:500], events[500:510], events[510:])
        for event in events:
            shop.note(event)
    pushers.done()
    assert {code for code, _ in pushers.codes} == {0}
    shop.place.wait()
    shop.settled()
    before = picture(shop.place.output)
    assert [worker.stop() for worker in workers] == [0, 0]
    assert picture(shop.place.output) == before
    assert all(worker.count("[shard_published") for worker in workers), "both did some of it"


def one_of(chance: random.Random, path: str) -> dict[str, object]:
    """A random event for a path."""
    lastmod = f"2026-03-{chance.randrange(1, 29):02}"
    return chance.choice(
        [add(path), add(path, lastmod=lastmod), update(path, lastmod=lastmod), update(path), delete(path)]
    )

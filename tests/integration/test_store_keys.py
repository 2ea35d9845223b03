"""Every key that the store leaves in Redis is one of those that are documented, with that type."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import redis

from producers.http.webhooks import KeyedUrls
from producers.sink import EventSink
from sitemap_store.model.entries import digest
from sitemap_store.model.protocol import STRICT
from sitemap_store.redis.held import Held, Origin, accept, hold, note_origin
from sitemap_store.redis.keys import KEYS, Key
from sitemap_store.redis.observed import note_producer
from sitemap_store.redis.once import Once, ask_each
from sitemap_store.redis.state import FAILURES
from sitemap_store.redis.wake import Waker
from sitemapd.restore import restore_tree
from sitemapd.turn import turn
from tests.integration.store_world import DAY, add, delete, push, scores, seat, update, work
from tests.redis_server import RedisServer
from tests.world import BASE, World, make_site


def pattern(key: Key) -> re.Pattern[str]:
    """The names that a row of the table stands for."""
    parts = [part if part.startswith("<") else re.escape(part) for part in re.split(r"(<[a-z]+>)", key.name)]
    return re.compile(r"sm:\{shop\.[0-9]+\}:" + re.sub(r"<[a-z]+>", "[^:]+", "".join(parts)))


def row_of(name: str) -> Key:
    """The one row of the table that documents a key."""
    (found,) = [key for key in KEYS.values() if pattern(key).fullmatch(name)]
    return found


@pytest.mark.parametrize("partitions", [1, 2])
def test_every_key_of_a_busy_site_is_documented(
    redis_server: RedisServer, tmp_path: Path, partitions: int
) -> None:
    """On Redis and on Valkey: whatever a site goes through, no key is unknown, and no row is idle."""
    redis_server.flush()
    with redis_server.client() as client:
        seen = busy(client, tmp_path, partitions)
    for name, kind in seen.items():
        assert row_of(name).type == kind, name
    assert {row_of(name).name for name in seen} == {key.name for key in KEYS.values()}


def busy(client: redis.Redis, tmp_path: Path, partitions: int) -> dict[str, str]:
    """Take a site through everything, and note each key that was there at some time."""
    seen: dict[str, str] = {}

    def note(_point: str = "") -> None:
        for name in client.scan_iter("sm:*"):
            assert isinstance(name, bytes)
            kind = client.type(name)
            if kind != b"none":  # what a script deletes as it writes is never seen
                assert isinstance(kind, bytes)
                seen[name.decode("latin-1")] = kind.decode()

    site = make_site(
        sections={"blog": "/blog/**"},
        shard_size=100,
        index_size=3,
        partitions=partitions,
        limits=dataclasses.replace(STRICT, urls_per_file=5),
    )
    world = World(client, site, tmp_path / "public")
    world.fault = note
    push(world, *(add(f"p{n}", source="cms") for n in range(30)), *(add(f"blog/{n}") for n in range(30)))
    note()
    work(world)
    world.now += 5000
    push(world, *(delete(f"blog/{n}") for n in range(30)), delete("p1", urgent=True))
    work(world)
    note()
    world.settle()
    world.fault = note
    for partition in world.store.partitions:
        shard = min(map(int, scores(world, "shards", partition.number)))
        push(world, *(add(f"p{n}", priority="0.3") for n in range(30)))
        world.now += 5000
        assert partition.claim(shard, "vanished") is not None
        world.now += 61_000
        partition.claim(shard, "w2")
        partition.beat(["w2"])
        note()
    world.release("vanished", "w2")
    world.keep()
    sink = EventSink(world.store, Waker(client))
    sink.push([{"op": "add", "loc": "/nowhere"}, {"op": "add", "loc": BASE + "z"}], source="cms")
    once = Once("key")
    ask_each(world.store, [once.take()])
    KeyedUrls(world.store, "cms").write({"id": []}, {"id": [BASE + "z"]})
    note_producer(world.store, "watch:pages", {"state": "watching"})
    held = Held(id="1", kind="watch", deletes=1, moves=0, listed=1, examples=(BASE,), since=1)
    hold(world.store, "pages", held, digest(BASE))
    accept(world.store, "pages", held)
    note_origin(world.store, "pages", Origin("digest", "place"), "")
    for partition in world.store.partitions:
        partition.configure()
        partition.want_all()
    world.store.partitions[0].saw_marker("keeper", there=True, within_ms=20_000)
    world.store.partitions[0].want(["1", "2"], "gone")
    for _ in range(FAILURES):
        push(world, update("blog/0", priority="0.5"))
        world.now += 5000
        blog = seat(world, "blog/0")
        part = world.store.partitions[world.site.partition(digest(BASE + "blog/0"))]
        claim = part.claim(blog or 0, "w3")
        assert claim is not None
        part.postpone(str(claim.id), "w3", claim.lease, 0, reason="it can't be rendered")
    note()
    ask_each(world.store, [once.done(b"answer")])
    world.settle()
    world.fault = note
    note()
    world.now += DAY + 1000
    world.keep()
    work(world)
    note()
    client.flushall()
    push(world, add("early"))
    with turn(world.store, note):
        restore_tree(world.store, world.output)
        note()
    push(world, add("p3"), add("p4"), add("p5"), add("p6"))
    note()
    world.adopt("state-2")
    world.store.replay_held()
    world.site = dataclasses.replace(site, rules=dataclasses.replace(site.rules, base=f"{BASE}blog/"))
    for partition in world.store.partitions:
        partition.want_all()
    world.settle()
    note()
    return seen

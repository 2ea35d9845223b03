"""The directory grows with the site, a bucket at a time, and always finds who sits where."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sitemap_store.model.entries import digest
from sitemap_store.model.events import Event
from sitemap_store.model.site import Site
from sitemap_store.redis.directory import bucket_of, level
from tests.integration.store_world import DAY, add, consistent, delete, directory, fields, push, seat
from tests.world import BASE, World, make_site

MakeWorld = Callable[[Site], World]


def test_buckets_stay_small_and_even_as_the_site_grows(make_world: MakeWorld) -> None:
    """From one URL to 20,000: each bucket is a compact listpack, and every digest lies in its bucket."""
    world = make_world(make_site(shard_size=500))
    pushed = 0
    for goal in (1, 40, 100, 500, 501, 5000, 20_000):
        push(world, *(add(f"p{n}") for n in range(pushed, goal)))
        pushed = goal
        found = directory(world)
        buckets = int(fields(world, "state")["buckets"])
        assert sum(map(len, found.values())) == goal
        size, divided = level(buckets)
        assert set(found) <= {b + k * size for b in range(size) for k in range(4 if b < divided else 1)}
        assert goal / 64 <= buckets <= goal / 8 + 3
        for bucket, keys in found.items():
            assert all(bucket_of(key, buckets) == bucket for key in keys)
        assert max(map(len, found.values())) <= 128
    prefix = world.store.partitions[0].keys.prefix
    encodings = {world.client.object("encoding", key) for key in world.client.scan_iter(f"{prefix}:d:*")}
    assert encodings == {b"listpack"}


def test_every_url_is_found_after_the_directory_grew_and_emptied(make_world: MakeWorld) -> None:
    """Growth moves digests between buckets and loses none; it never shrinks, and that is fine."""
    world = make_world(make_site(shard_size=20))
    for n in range(0, 1000, 100):
        push(world, *(add(f"p{m}") for m in range(n, n + 100)))
    world.settle()
    assert all(world.store.find(f"{BASE}p{n}") for n in range(1000))
    push(world, *(delete(f"p{n}") for n in range(1000) if n % 10))
    world.settle()
    world.now += DAY + 1000
    world.settle()
    for n in range(1000):
        found = world.store.find(f"{BASE}p{n}")
        assert (found is None) == bool(n % 10)
    consistent(world)
    push(world, add("p1"))
    world.settle()
    assert world.store.find(BASE + "p1") is not None


def test_a_look_up_while_the_directory_grows_finds_its_url(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size is read, a batch splits some buckets, then the bucket is read."""
    world = make_world(make_site(shard_size=20))
    push(world, *(add(f"p{n}") for n in range(100)))
    world.settle()
    real = world.client.hget
    grown: list[Event] = []

    def hget(name: str, key: str) -> object:
        if ":d:" in name and grown:
            batch, grown[:] = list(grown), []
            world.store.append(batch)
        return real(name, key)

    for n in range(100):
        grown[:] = [add(f"more{n}-{m}") for m in range(n * 2)]
        with monkeypatch.context() as patch:
            patch.setattr(world.client, "hget", hget)
            found = world.store.find(f"{BASE}p{n}")
        assert found is not None, f"p{n} was not found"
        assert found.shard == seat(world, f"p{n}")


def test_a_look_up_of_an_unknown_url_ends(make_world: MakeWorld) -> None:
    """In an empty state, in one with URLs, and for a URL that was deleted."""
    world = make_world(make_site())
    assert world.store.find(BASE + "a") is None
    push(world, add("b"), add("c"), delete("c"))
    assert world.store.find(BASE + "a") is None
    assert world.store.find(BASE + "c") is None


@pytest.mark.parametrize("buckets", [1, 4, 7, 10, 13, 16, 19, 61, 64, 67, 1000, 1021, 1024, 1027])
def test_a_growing_directory_has_a_place_for_every_digest(buckets: int) -> None:
    """Linear hashing: three more buckets take from one other only, and from it alone."""
    keys = [digest(f"{BASE}{n}") for n in range(30_000)]
    before = [bucket_of(key, buckets) for key in keys]
    after = [bucket_of(key, buckets + 3) for key in keys]
    assert len(set(before)) == buckets
    assert len(set(after)) == buckets + 3
    moved = {(was, now) for was, now in zip(before, after, strict=True) if was != now}
    assert len({was for was, _ in moved}) == 1
    assert {now for _, now in moved} == set(after) - set(before)

"""Steps that the tests of the store share: push, run jobs, look at keys and files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, Unpack

from sitemap_store.model.entries import digest
from sitemap_store.model.events import Event
from sitemap_store.redis.directory import bucket_of
from tests.published import listed, picture, published, shard_files, urls_of, valid_now
from tests.world import BASE, Crash, World

DAY = 24 * 3600 * 1000
POINTS = ("claimed", "committed", "renamed", "published", "index_claimed", "index_renamed", "index_published")
"""The fault points of `worker.publish`, in the order in which a change passes them."""


class Fields(TypedDict, total=False):
    """What an event may say of its URL."""

    lastmod: str
    changefreq: str
    priority: str
    ext: str
    at: int
    source: str
    urgent: bool


def add(path: str, **fields: Unpack[Fields]) -> Event:
    """An add of a URL of the site."""
    return Event("add", BASE + path, **fields)


def update(path: str, **fields: Unpack[Fields]) -> Event:
    """An update of a URL of the site."""
    return Event("update", BASE + path, **fields)


def delete(path: str, **fields: Unpack[Fields]) -> Event:
    """A delete of a URL of the site."""
    return Event("delete", BASE + path, **fields)


def push(world: World, *events: Event, delay_ms: int = 0) -> None:
    """Append events and enqueue the jobs of their wake-ups."""
    for wake in world.store.append(events, delay_ms=delay_ms):
        world.enqueue(wake)


def work(world: World, worker: str = "w1") -> int:
    """Run the jobs that wait and those that they enqueue, at this moment; how many had work to do."""
    done = 0
    for _ in range(10_000):
        if not world.jobs:
            return done
        done += world.run(world.worker(worker), *world.jobs.popleft())
    raise AssertionError("jobs enqueue each other without end")


def settled(world: World, *paths: str) -> None:
    """Let the site settle; then exactly these URLs are published, in files that the index names."""
    world.settle()
    assert published(world.folder).keys() == {BASE + path for path in paths}
    valid_now(world.folder)
    assert {path.name for path in shard_files(world.folder)} == set(listed(world.folder))
    assert world.store.unfolded() == 0


def files(world: World) -> dict[str, list[str]]:
    """The shard files and the paths of their URLs."""
    return {
        path.name: [loc.removeprefix(BASE) for loc, *_ in urls_of(path)] for path in shard_files(world.folder)
    }


def changed(world: World, before: dict[str, tuple[bytes, int, int]]) -> set[str]:
    """The names of published files that are not byte by byte, inode and mtime as they were."""
    now = picture(world.folder)
    return {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}


def once_at(world: World, point: str, action: Callable[[], None]) -> None:
    """Do something the first time that a worker reaches a point."""
    reached = False

    def fault(name: str) -> None:
        nonlocal reached
        if name == point and not reached:
            reached = True
            action()

    world.fault = fault


def work_until_crash(world: World, point: str, nth: int, doing: Callable[[World], object] = work) -> bool:
    """Work until a point is reached for the nth time, and die there; whether it was."""
    reached = 0

    def fault(name: str) -> None:
        nonlocal reached
        reached += name == point
        if name == point and reached == nth:
            raise Crash(point)

    world.fault = fault
    try:
        doing(world)
    except Crash:
        return True
    return False


def _text(value: object) -> str:
    """Redis' answer as text; digests are any bytes."""
    assert isinstance(value, bytes)
    return value.decode("latin-1")


def fields(world: World, name: str, partition: int = 0) -> dict[str, str]:
    """A hash of the state, by its name after the prefix."""
    prefix = world.store.partitions[partition].keys.prefix
    return {_text(key): _text(value) for key, value in world.client.hgetall(f"{prefix}:{name}").items()}


def scores(world: World, name: str, partition: int = 0) -> dict[str, int]:
    """A sorted set of the state, by its name after the prefix."""
    prefix = world.store.partitions[partition].keys.prefix
    found: Any = world.client.zrange(f"{prefix}:{name}", 0, -1, withscores=True)
    return {_text(member): int(score) for member, score in found}


def seat(world: World, path: str) -> int | None:
    """The shard in which a URL has its seat, by the directory alone."""
    key = digest(BASE + path)
    number = world.site.partition(key)
    keys = world.store.partitions[number].keys
    buckets = int(fields(world, "state", number).get("buckets", "1"))
    found = world.client.hget(keys.directory(bucket_of(key, buckets)), key)
    return None if found is None else int(found)


def directory(world: World, partition: int = 0) -> dict[int, dict[bytes, int]]:
    """The whole directory: bucket → digest → shard."""
    prefix = world.store.partitions[partition].keys.prefix
    found = {}
    for name in world.client.scan_iter(f"{prefix}:d:*"):
        bucket = fields(world, _text(name).removeprefix(f"{prefix}:"), partition)
        found[int(_text(name).rpartition(":")[2])] = {
            key.encode("latin-1"): int(value) for key, value in bucket.items()
        }
    return found


def consistent(world: World) -> None:
    """The counts that the state keeps are those of what it holds, and nothing is kept for nothing."""
    for partition in world.store.partitions:
        p = partition.number
        shards = scores(world, "shards", p)
        seats: dict[int, int] = {}
        for bucket, keys in directory(world, p).items():
            buckets = int(fields(world, "state", p).get("buckets", "1"))
            for key, shard in keys.items():
                assert bucket_of(key, buckets) == bucket, "a digest lies in a bucket where nobody looks"
                seats[shard] = seats.get(shard, 0) + 1
        assert seats.keys() <= {int(name) for name in shards}, "a seat in a shard that is gone"
        assert int(fields(world, "state", p).get("seats", "0")) == sum(seats.values())
        places: dict[str, int] = {}
        sections: dict[str, list[int]] = {}
        for name in shards:
            meta = fields(world, f"s:{name}", p)
            assert int(meta["seats"]) == seats.get(int(name), 0), f"shard {name} counts its seats wrong"
            places[meta["index"]] = places.get(meta["index"], 0) + 1
            counts = sections.setdefault(meta["section"], [0, 0, 0])
            counts[0] += int(meta["urls"])
            counts[1] += 1
            counts[2] += int(meta["bytes"])
        sizes = {k: int(count) for k, count in fields(world, "index_sizes", p).items() if int(count)}
        assert sizes == places
        for section, counts in sections.items():
            kept = fields(world, f"sec:{section}", p)
            assert [int(kept.get(name, "0")) for name in ("urls", "shards", "bytes")] == counts, section
        for name in ("due", "pending", "leases", "scheduled", "aside"):
            kind = "zset" if name in ("due", "pending") else "hash"
            left = scores(world, name, p) if kind == "zset" else fields(world, name, p)
            assert not left, f"{name} still holds {left}"

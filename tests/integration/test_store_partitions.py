"""One site over several partitions, each in one slot of a Redis cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis.crc import key_slot

from sitemap_store.model.entries import digest
from sitemap_store.model.site import SHARD_NAME, Site
from tests.integration.store_world import add, consistent, delete, files, push, seat, settled
from tests.published import index_files, published, shard_files
from tests.world import BASE, World, make_site

MakeWorld = Callable[[Site], World]


@pytest.mark.parametrize("partitions", [2, 3, 8])
def test_a_site_over_partitions_is_one_site_to_a_crawler(make_world: MakeWorld, partitions: int) -> None:
    """Every URL once, whatever partition it lies in; files of two partitions share no name."""
    world = make_world(make_site(partitions=partitions, sections={"blog": "/blog/**"}, shard_size=5))
    paths = [f"p{n}" for n in range(40)] + [f"blog/{n}" for n in range(40)]
    push(world, *map(add, paths))
    settled(world, *paths)
    push(world, *(delete(path) for path in paths[::3]))
    settled(world, *(path for n, path in enumerate(paths) if n % 3))
    consistent(world)


def test_a_shards_number_tells_its_partition(make_world: MakeWorld) -> None:
    """That is how a restore knows where a file belongs."""
    world = make_world(make_site(partitions=3, shard_size=2))
    push(world, *(add(f"p{n}") for n in range(30)))
    world.settle()
    for path in shard_files(world.folder):
        match = SHARD_NAME.fullmatch(path.name)
        assert match is not None
        for loc in files(world)[path.name]:
            assert world.site.partition(digest(BASE + loc)) == (int(match[2]) - 1) % 3


def test_each_partition_has_index_files_of_its_own(make_world: MakeWorld) -> None:
    """Their numbers do not meet, and the store names those that are there."""
    world = make_world(make_site(partitions=2, shard_size=1, index_size=2))
    push(world, *(add(f"p{n}") for n in range(12)))
    world.settle()
    names = {path.name for path in index_files(world.folder)}
    numbers = world.store.index_files()
    assert names == {"sitemap.xml" if n == 1 else f"sitemap-{n}.xml" for n in numbers}
    assert {n % 2 for n in numbers} == {0, 1}
    assert len(published(world.folder)) == 12


def test_all_keys_of_a_partition_lie_in_one_slot(make_world: MakeWorld) -> None:
    """And different partitions in different ones."""
    world = make_world(make_site(partitions=4))
    push(world, *(add(f"p{n}") for n in range(40)))
    world.settle()
    slots: dict[str, set[int]] = {}
    for key in world.client.scan_iter():
        assert isinstance(key, bytes)
        slots.setdefault(key.decode("latin-1").partition("}")[0], set()).add(key_slot(key))
    assert len(slots) == 4
    assert all(len(found) == 1 for found in slots.values())
    assert len({next(iter(found)) for found in slots.values()}) == 4


def test_a_urls_seat_is_in_its_partition_alone(make_world: MakeWorld) -> None:
    """An update goes where the add went."""
    world = make_world(make_site(partitions=5, shard_size=3))
    push(world, *(add(f"p{n}") for n in range(25)))
    world.settle()
    before = [seat(world, f"p{n}") for n in range(25)]
    push(world, *(add(f"p{n}", priority="0.2") for n in range(25)))
    world.settle()
    assert [seat(world, f"p{n}") for n in range(25)] == before
    assert {row[2] for row in published(world.folder).values()} == {"0.2"}

"""What the tests of the store share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from sitemap_store.site import Site
from tests.world import World


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    """A connection to an emptied server."""
    with redis.Redis.from_url(redis_url) as found:
        yield found


@pytest.fixture
def make_world(client: redis.Redis, tmp_path: Path) -> Callable[[Site], World]:
    """Makes the world of a site: its state in the server, its output in a folder of the test's own."""
    return lambda site: World(client, site, tmp_path / "public")

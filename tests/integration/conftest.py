"""What the tests of the store share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import redis

from sitemap_store.model.site import Site
from sitemapd.web import connections, protocol, server
from tests.needs import require
from tests.world import World


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    """A connection to an emptied server."""
    with redis.Redis.from_url(redis_url) as found:
        yield found


@pytest.fixture(scope="module", params=["h11", "httptools"])
def parser(request: pytest.FixtureRequest) -> Iterator[str]:
    """Make servers read HTTP by one parser and then by the other; asyncio's own loop goes with h11."""
    chosen: str = request.param
    with pytest.MonkeyPatch.context() as patch:
        if chosen == "h11":
            patch.setattr(connections, "SPEAKS", protocol.H11)
            patch.setattr(server, "LOOP", "asyncio")
        else:
            require(find_spec("httptools"), "httptools is not installed: install the extra `fast`")
        yield chosen


@pytest.fixture
def make_world(client: redis.Redis, tmp_path: Path) -> Callable[[Site], World]:
    """Makes the world of a site: its state in the server, its output in a folder of the test's own."""
    return lambda site: World(client, site, tmp_path / "public")

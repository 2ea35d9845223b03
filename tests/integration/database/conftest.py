"""A running server of each kind of database, and a shop in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.database_servers import SERVERS, Server, running
from tests.integration.database_world import World


@pytest.fixture(scope="session", params=list(SERVERS))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Give a running database server; a test that takes it runs on each kind."""
    with running(request.param) as server:
        yield server


@pytest.fixture
def world(server: Server, redis_url: str) -> Iterator[World]:
    """Give an empty shop, in a server that runs even if the test before ended it."""
    server.start()
    world = World(server, redis_url)
    try:
        world.make_products()
        yield world
    finally:
        world.close()

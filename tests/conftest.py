"""What all tests share: Hypothesis profiles and real Redis servers."""

import signal
from collections.abc import Iterator
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

from tests import needs
from tests.redis_server import KINDS, RedisServer, any_kind

# No deadline in either: it would fail on a busy machine. How fast things are, benchmarks/ says.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if needs.in_ci() else "default")


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def pytest_configure() -> None:
    """Let SIGTERM end the run as Ctrl-C does, fixtures last, so that no server is left behind."""
    signal.signal(signal.SIGTERM, _interrupt)


@pytest.fixture(scope="session", params=KINDS)
def redis_server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """Give a running server; a test that takes it runs on Redis and again on Valkey.

    It is shared by the session and not emptied: take `each_redis_url`, or call its `flush()`.
    """
    yield from _running(RedisServer(request.param))


@pytest.fixture(scope="session")
def any_redis() -> Iterator[RedisServer]:
    """Give one running server, for tests to which its make does not matter."""
    yield from _running(RedisServer(any_kind()))


@pytest.fixture
def redis_url(any_redis: RedisServer) -> str:
    """Give the URL of the one server, emptied, and running even if the test before ended it."""
    any_redis.flush()
    return any_redis.url


@pytest.fixture
def each_redis_url(redis_server: RedisServer) -> str:
    """Give the URL of an emptied server, once for Redis and once for Valkey."""
    redis_server.flush()
    return redis_server.url


def _running(server: RedisServer) -> Iterator[RedisServer]:
    try:
        server.start()
        yield server
    finally:
        server.close()

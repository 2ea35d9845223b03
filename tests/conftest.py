"""What all tests share: Hypothesis profiles, the order of the tests, and real Redis servers.

`make test` runs the tests in several processes (pytest-xdist). Each has servers of its own, started
when its first test asks for them and shared by its later ones; so a fixture with the scope "session" lives
once in each process.
"""

import os
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from tests import needs
from tests.redis_server import KINDS, RedisServer, any_kind

# No deadline in any: it would fail on a busy machine. How fast things are, benchmarks/ says.
# "ci" tries the same examples at each run; "long" (`make test-long`) tries ten times as many, and new ones.
PATIENT: Final = [HealthCheck.too_slow]
settings.register_profile("default", deadline=None)
settings.register_profile(
    "ci", deadline=None, derandomize=True, database=None, print_blob=True, suppress_health_check=PATIENT
)
settings.register_profile(
    "long",
    deadline=None,
    derandomize=False,
    max_examples=10 * settings.get_profile("ci").max_examples,
    print_blob=True,
    suppress_health_check=PATIENT,
)
settings.load_profile("ci" if needs.in_ci() else "default")


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def pytest_configure(config: pytest.Config) -> None:
    """Let SIGTERM end the run as Ctrl-C does, fixtures last, so that no server is left behind."""
    signal.signal(signal.SIGTERM, _interrupt)
    config.addinivalue_line("markers", "slow: waits for a time-out of the service's own, so it starts first")
    config.addinivalue_line("markers", "long: only `make test-long` runs it")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Take two processes a core for `--numprocesses=auto`: half of the tests' time is waiting."""
    return 2 * len(os.sched_getaffinity(0))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that wait longest, beside which the others run."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


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

"""What the acceptance tests share: a place in which real processes run, and end with the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.place import Place


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker of tests that have to wait for a long time-out; `-m "not slow"` leaves them out."""
    config.addinivalue_line("markers", "slow: waits for a time-out of the service's own")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Give a folder to run the command in. At the end nothing runs there and no traceback was seen."""
    place = Place(tmp_path)
    try:
        yield place
    finally:
        place.close()

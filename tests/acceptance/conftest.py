"""What the acceptance tests share: a place in which real processes run, and end with the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Give a folder to run the command in. At the end nothing runs there and no traceback was seen."""
    place = Place(tmp_path)
    try:
        yield place
    finally:
        place.close()

"""Waiting for a condition instead of sleeping."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

POLL: Final = 0.02
PATIENCE: Final = 45.0
"""Seconds until a condition that has not come true is a failure.

No condition takes a fifth of it, even on a busy machine; how long it should take, benchmarks and the torture
say. It is less than a lease (60 s), so that what comes true only because a lease ended is a failure too.
"""

Answer = TypeVar("Answer")


def until(condition: Callable[[], Answer], *, what: str, within: float = PATIENCE) -> Answer:
    """Ask again and again until the answer is true, and return it.

    A condition may also assert, or look at a file that is just being replaced: that counts as "not
    yet", and as the reason when `within` seconds have passed.
    """
    deadline = time.monotonic() + within
    reason: Exception | None = None
    while True:
        try:
            if answer := condition():
                return answer
            reason = None
        except (AssertionError, OSError) as error:
            reason = error
        if time.monotonic() >= deadline:
            raise AssertionError(f"after {within:g} s still not so: {what}") from reason
        time.sleep(POLL)


def holds(condition: Callable[[], object], *, during: float, what: str) -> None:
    """See that a condition holds all the time: for what must not happen."""
    deadline = time.monotonic() + during
    while time.monotonic() < deadline:
        assert condition(), what
        time.sleep(POLL)

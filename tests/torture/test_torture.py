"""Forty seconds of torture with a fixed seed: no promise is broken. `make torture` is the long one."""

from __future__ import annotations

from tests.redis_server import any_kind, binary
from tests.torture.faults import chosen, faults
from tests.torture.run import Options, Torture

FAULTS = "kill-worker kill-redis lose-answers kill-supervisor enospc reset-connections kill-watcher"


def test_no_promise_is_broken() -> None:
    """Processes and Redis are killed, answers get lost, the disk is full: zero violations."""
    binary(any_kind())
    said: list[str] = []
    options = Options(
        seconds=40, rounds=5, seed=20260321, faults=chosen(FAULTS, faults()), say=said.append, keys=False
    )
    outcome = Torture(options).run()
    assert outcome.report.total == 0, "\n".join([*said, *outcome.kept])
    assert outcome.rounds
    assert outcome.visits

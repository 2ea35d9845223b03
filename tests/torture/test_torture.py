"""A minute of torture with a fixed seed: no promise is broken. `make torture` is the long one."""

from __future__ import annotations

from tests.redis_server import any_kind, binary
from tests.torture.faults import chosen, faults
from tests.torture.run import Options, Torture

FAULTS = (
    "kill-worker kill-redis lose-answers kill-supervisor enospc reset-connections kill-watcher "
    "wipe-output delete-files reply-BUSY reply-OOM"
)


def test_no_promise_is_broken() -> None:
    """Processes and Redis are killed, answers get lost, the disk is full, the output is wiped: all holds."""
    binary(any_kind())
    said: list[str] = []
    options = Options(seconds=60, rounds=8, seed=20260321, faults=chosen(FAULTS, faults()), say=said.append)
    outcome = Torture(options).run()
    assert outcome.report.total == 0, "\n".join([*said, *outcome.kept])
    assert outcome.rounds
    assert outcome.visits

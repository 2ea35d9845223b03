"""Torture with a fixed seed and with a fresh one: no promise is broken."""

from __future__ import annotations

import random

import pytest

from tests.redis_server import any_kind, binary
from tests.torture.faults import LEASE_S, chosen, faults
from tests.torture.run import Options, Torture
from tests.torture.wild import Wild

FIXED = 20260321
FRESH = random.SystemRandom().randrange(10**6)
"""Another one each time. `make torture SEED=…` with the one of a failed test runs the same plan."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [pytest.param(FIXED, id="fixed"), pytest.param(FRESH, id="fresh")])
def test_no_promise_is_broken(seed: int) -> None:
    """Processes and Redis are killed, answers get lost, the disk is full, the output is wiped: all holds."""
    binary(any_kind())
    said: list[str] = []
    options = Options(seconds=50, rounds=8, seed=seed, faults=chosen("all", faults(LEASE_S)), say=said.append)
    outcome = Torture(options).run()
    assert outcome.report.total == 0, "\n".join([f"seed {seed}", *said, *outcome.kept])
    assert outcome.rounds
    assert outcome.visits


def test_every_event_is_accepted_or_refused_by_a_rule() -> None:
    """Twelve thousand random and near-miss events; `make torture TORTURE_ARGS="--fuzz N"` is the long one."""
    said: list[str] = []
    wild = Wild(12_000, FIXED, said.append)
    wild.run()
    assert wild.found == [], "\n".join(said)

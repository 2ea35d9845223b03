"""`python -m tests.torture`: what `make torture` runs."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
from types import FrameType

from tests.redis_server import KINDS
from tests.torture.faults import LEASE_S, chosen, faults
from tests.torture.run import Options, Torture
from tests.torture.wild import Wild


def main() -> int:
    """Torture the service; exit code 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--rounds", type=int, help="no more rounds than that")
    parser.add_argument("--seed", type=int, default=None, help="the plan's; a new one without it")
    parser.add_argument("--faults", default="all", help="names, groups, all or none; -NAME leaves one out")
    parser.add_argument("--lease", type=float, default=LEASE_S, help="seconds; 60 is the service's own")
    parser.add_argument(
        "--server", choices=KINDS, help="what stores the state; else one whose clock can be set"
    )
    parser.add_argument(
        "--settle", type=float, default=60, help="seconds until a round that does not end is a violation"
    )
    parser.add_argument("--no-keys", action="store_true", help="push without an Idempotency-Key")
    parser.add_argument(
        "--fuzz", type=int, metavar="N", help="no faults: N random events by push, HTTP and the RQ job"
    )
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    if given.fuzz:
        return _fuzz(given.fuzz, seed)
    try:
        selected = chosen(given.faults, faults(given.lease))
    except ValueError as error:
        parser.error(str(error))
    signal.signal(signal.SIGTERM, _interrupt)
    _say(f"seed {seed}, {given.seconds:g} s, {len(selected)} faults")
    torture = Torture(
        Options(
            seconds=given.seconds,
            seed=seed,
            faults=selected,
            rounds=given.rounds,
            settle=given.settle,
            keys=not given.no_keys,
            lease=given.lease,
            server=given.server,
            say=_say,
        )
    )
    try:
        torture.run()
    except KeyboardInterrupt:
        _say("interrupted")
    outcome = torture.outcome
    report = outcome.report
    _say("")
    _say(report.table())
    _say("")
    injections = sum(len(part.injections) for part in outcome.rounds)
    _say(
        f"seed {seed}: {len(outcome.rounds)} rounds, {injections} faults, {outcome.events} changes, "
        f"{outcome.visits} files read by the crawler, {report.total} violations"
    )
    for text in report.late():
        _say(f"slower than promised: {text}")
    for folder in dict.fromkeys(outcome.kept):
        _say(f"kept: {folder}{os.sep}")
    return 1 if report.total else 0


def _fuzz(count: int, seed: int) -> int:
    _say(f"seed {seed}, {count:,} events")
    wild = Wild(count, seed, _say)
    wild.run()
    for found in wild.found[:20]:
        _say(f"violation: {found}")
    _say(f"seed {seed}: {count:,} events, {len(wild.found)} violations")
    return 1 if wild.found else 0


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

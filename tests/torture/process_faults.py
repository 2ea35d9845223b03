"""Faults of our processes: killed, stopped, at random and at each step of a rewrite; their clock set back."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

from tests.acceptance.processes import arm, state
from tests.acceptance.until import until
from tests.torture.checks import Found, told
from tests.torture.fault import LOSES_NOTHING, Fault, Strike
from tests.torture.world import SUPERVISORS, go_on, kill, stop

STEPS: Final = (
    *("claimed", "committed", "renamed", "published"),
    *("index_claimed", "index_renamed", "index_published"),
)
"""The points of docs/reliability.md that a worker comes to by itself."""
MERGE_STEPS: Final = ("merge_claimed", "merge_committed")
"""Those of `compact`. The keeper's merges have them too, and need shards that were at rest for a day."""
COMPACT_S: Final = 60.0
"""How long `compact` may take; it gives up after 10 when shards stay in use."""
REACHED_S: Final = 3.0
"""How long the load has to bring a worker to a step."""
NEVER_OLD: Final = "old bytes win never for good"


@contextmanager
def _kill_worker(strike: Strike) -> Iterator[None]:
    who = strike.world.workers(strike.chance.choice(SUPERVISORS))
    kill([strike.chance.choice(who)] if who else [])
    yield


@contextmanager
def _kill_workers(strike: Strike) -> Iterator[None]:
    kill([*strike.world.workers("supervisor-1"), *strike.world.workers("supervisor-2")])
    yield


@contextmanager
def _kill_push(strike: Strike) -> Iterator[None]:
    deadline = time.monotonic() + 3
    while not (pids := strike.world.pushes()) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(strike.chance.uniform(0, 0.8))
    kill(pids)
    yield


@contextmanager
def _kill_service(names: tuple[str, ...], strike: Strike) -> Iterator[None]:
    name = strike.chance.choice(names)
    strike.world.services[name].kill()
    yield
    strike.world.begin(name)


@contextmanager
def _stop_worker(strike: Strike) -> Iterator[None]:
    who = strike.world.workers(strike.chance.choice(SUPERVISORS))
    chosen = [strike.chance.choice(who)] if who else []
    stop(chosen)
    yield
    go_on(chosen)


@contextmanager
def _stop_host(strike: Strike) -> Iterator[None]:
    name = strike.chance.choice(SUPERVISORS)
    chosen = [strike.world.services[name].pid, *strike.world.workers(name)]
    stop(chosen)
    yield
    go_on(chosen[::-1])


@contextmanager
def _stop_service(name: str, strike: Strike) -> Iterator[None]:
    pid = strike.world.services[name].pid
    stop([pid])
    yield
    go_on([pid])


@contextmanager
def _kill_at(step: str, strike: Strike) -> Iterator[None]:
    _struck(strike, step, "kill")
    yield


@contextmanager
def _stop_at(step: str, strike: Strike) -> Iterator[None]:
    """Stop a worker with its lease in hand; half of the time its supervisor too, which would kill it."""
    chosen = _struck(strike, step, "stop")
    if strike.chance.random() < 0.5:
        chosen += [
            strike.world.services[name].pid
            for name in SUPERVISORS
            if not set(chosen).isdisjoint(strike.world.workers(name))
        ]
        stop(chosen)
    yield
    go_on(chosen)


@contextmanager
def _compact(step: str, action: str, strike: Strike) -> Iterator[None]:
    """Merge shards beside the load, and strike the command at a step, if one is named."""
    world = strike.world
    if step:
        arm(world.steps, step, action)
    command = world.place.service("compact")

    def came_to_it() -> bool:
        return not command.alive() or state(command.pid) == "T"

    until(came_to_it, within=COMPACT_S, what="compact ends, or is struck")
    if step:
        with suppress(FileNotFoundError):
            (world.steps / step).unlink()
            strike.missed = True
    if strike.missed or not command.alive():
        strike.lasts = 0.0
    yield
    go_on([command.pid])
    code = command.ended(within=COMPACT_S)
    strike.found += told(command.log.splitlines(), "compact")
    if code not in ((-signal.SIGKILL,) if action == "kill" and not strike.missed else (0, 1)):
        strike.found.append(Found("compact", f"exit {code}: {command.log[-300:]}"))


def _struck(strike: Strike, step: str, action: str) -> list[int]:
    """Strike the next worker that comes to a step; who is stopped then. It may miss."""
    world = strike.world
    arm(world.steps, step, action)
    deadline = time.monotonic() + REACHED_S
    while (world.steps / step).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    with suppress(FileNotFoundError):
        (world.steps / step).unlink()
        strike.missed, strike.lasts = True, 0.0
        return []
    everybody = [pid for name in SUPERVISORS for pid in world.workers(name)]
    while action == "stop" and time.monotonic() < deadline + 1:
        if stopped := [pid for pid in everybody if state(pid) == "T"]:
            return stopped
        time.sleep(0.01)
    return []


@contextmanager
def _clock_back(strike: Strike) -> Iterator[None]:
    strike.world.set_clock("hosts", -3600)
    yield
    strike.world.set_clock("hosts", 0)


def process_faults(lease: float) -> Iterator[Fault]:
    """Them all. A lease lasts `lease` seconds; who is stopped past one wakes up after another took over."""
    at_once, past = (0.0, 0.0), (1.1 * lease, 1.3 * lease)
    ours = partial(Fault, group="processes", within=5.0)
    killed = partial(ours, promised=LOSES_NOTHING, lasts=at_once)
    yield killed(name="kill-worker", means=_kill_worker)
    yield killed(name="kill-workers", means=_kill_workers)
    yield ours(
        name="kill-push", promised="what it had not stored is pushed again", means=_kill_push, lasts=at_once
    )
    for name, names in {
        "kill-supervisor": SUPERVISORS,
        "kill-watcher": ("watcher",),
        "kill-relay": ("relay",),
        "kill-http": ("http",),
    }.items():
        yield ours(name=name, promised=LOSES_NOTHING, means=partial(_kill_service, names))
    for step in STEPS:
        yield killed(name=f"kill-at-{step}", means=partial(_kill_at, step))
    # What a dead `compact` has leased is free again when the lease ends.
    merging = partial(ours, promised="no URL is lost or listed twice", within=5.0 + lease)
    yield merging(name="compact", means=partial(_compact, "", ""), lasts=at_once)
    for step in MERGE_STEPS:
        yield merging(name=f"kill-at-{step}", means=partial(_compact, step, "kill"), lasts=at_once)
        yield merging(name=f"stop-at-{step}", means=partial(_compact, step, "stop"), lasts=past)
    yield ours(name="stop-worker", promised=NEVER_OLD, means=_stop_worker, lasts=(0.5, past[1]))
    yield ours(name="stop-host", promised=NEVER_OLD, means=_stop_host, lasts=past)
    for step in STEPS:
        yield ours(name=f"stop-at-{step}", promised=NEVER_OLD, means=partial(_stop_at, step), lasts=past)
    for name in ("watcher", "relay", "http"):
        yield ours(
            name=f"stop-{name}", promised=LOSES_NOTHING, means=partial(_stop_service, name), lasts=(0.5, 3.0)
        )
    yield ours(
        name="clock-back-hosts",
        promised="no effect on what is published",
        means=_clock_back,
        lasts=(2.0, 4.0),
    )

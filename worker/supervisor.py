"""The supervisor: keeps N worker processes running, and runs the keeper between looking at them.

Rules:

1. A child that ends is started anew, whatever its exit status: RQ workers may exit 0 when Redis goes away.
   When it ends within `QUICK_S` of its start twice and more in a row, there is a pause before that
   doubles up to `PAUSE_MAX_S`.
2. A dead child's leases are freed at once; its temp files are removed. Until Redis can be told, the name
   stays on the list.
3. A child that holds a lease for longer than any rewrite takes is killed, before another may take it over.
4. SIGTERM or SIGINT: children finish the job in hand; those that don't within `GRACE_S` are killed.
5. A child ends when its supervisor dies: it holds the read end of a pipe that then closes.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sitemap_store.errors import Unavailable
from worker.keeper import Beat, Keeper

log = logging.getLogger(__name__)

GRACE_S = 25.0
QUICK_S = 5.0
PAUSE_MAX_S = 10.0


@dataclass(slots=True)
class _Child:
    slot: int
    name: str
    process: subprocess.Popen[bytes]
    started: float


class Supervisor:
    """Runs until `stop` is set.

    `command` makes the command line of a worker from its name; `spec` is written to each child's
    standard input, which then stays open as the sign that the supervisor lives. `swept` is called
    with the name of each dead worker.
    """

    def __init__(
        self,
        *,
        workers: int,
        command: Callable[[str], Sequence[str]],
        spec: bytes,
        keeper: Callable[[Beat], Keeper],
        swept: Callable[[str], None],
    ) -> None:
        self._workers = workers
        self._command = command
        self._spec = spec
        self._swept = swept
        self._host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:40] or "host"
        self._run = f"{self._host}.{os.getpid()}.{secrets.token_hex(3)}"
        self._children: dict[int, _Child] = {}
        self._born = 0
        self._fails: dict[int, int] = {}
        self._due: dict[int, float] = {}
        self._dead: list[str] = []
        self._keeper = keeper(Beat(self.alive, self._kill_stuck))
        self.ready = threading.Event()
        self.heard: set[str] = set()
        """Names of workers that were seen to take jobs."""

    def alive(self) -> list[str]:
        """The names of the workers that run."""
        children = list(self._children.values())  # other threads ask too
        return [child.name for child in children if child.process.poll() is None]

    def run(self, stop: threading.Event) -> None:
        """Start the workers and look after them until `stop` is set; then end them."""
        self._adopt_leftovers()
        for slot in range(self._workers):
            self._due[slot] = 0.0
        try:
            while not stop.is_set():
                self._reap()
                self._start_due()
                self._release_dead()
                self.ready.set()
                stop.wait(self._keeper.tick())
        finally:
            self._end()

    def _adopt_leftovers(self) -> None:
        try:
            self._dead += self._keeper.leftovers(self._host, self._is_dead)
        except Unavailable as error:
            log.error("%s; the supervisor starts without it", error, extra={"action": "redis_away"})

    def _is_dead(self, name: str) -> bool:
        _host, pid, run, *_ = [*name.split("."), "", ""]
        if not pid.isdigit() or int(pid) == os.getpid():
            return f"{self._host}.{pid}.{run}" != self._run
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False

    def _start_due(self) -> None:
        for slot, due in list(self._due.items()):
            if time.monotonic() >= due:
                del self._due[slot]
                self._start(slot)

    def _start(self, slot: int) -> None:
        self._born += 1
        name = f"{self._run}.{slot}.{self._born}"
        process = subprocess.Popen(self._command(name), stdin=subprocess.PIPE, start_new_session=True)
        assert process.stdin is not None
        try:
            process.stdin.write(self._spec + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended already: the next look at it says so
        self._children[slot] = _Child(slot, name, process, time.monotonic())
        log.info("Worker %s started", name, extra={"action": "worker_started", "worker": name})

    def _reap(self) -> None:
        for slot, child in list(self._children.items()):
            status = child.process.poll()
            if status is None:
                continue
            del self._children[slot]
            if child.process.stdin:
                child.process.stdin.close()
            self._dead.append(child.name)
            quick = time.monotonic() - child.started < QUICK_S
            self._fails[slot] = self._fails.get(slot, 0) + 1 if quick else 0
            pause = min(PAUSE_MAX_S, 2.0 ** (self._fails[slot] - 2)) if self._fails[slot] > 1 else 0.0
            self._due[slot] = time.monotonic() + pause
            log.warning(
                "Worker %s ended (%s); another starts%s",
                child.name,
                _how(status),
                f" in {pause:g} s" if pause else "",
                extra={"action": "worker_ended", "worker": child.name, "status": status},
            )

    def _release_dead(self) -> None:
        if not self._dead:
            return
        try:
            self._keeper.release(self._dead)
        except Unavailable:
            return  # the keeper says that Redis is away; the names stay for the next round
        for name in self._dead:
            self._swept(name)
        self._dead.clear()

    def _kill_stuck(self, names: Sequence[str]) -> None:
        for child in self._children.values():
            if child.name in names:
                log.error(
                    "Worker %s held one lease for too long; the supervisor kills it",
                    child.name,
                    extra={"action": "worker_stuck", "worker": child.name},
                )
                child.process.kill()

    def _end(self) -> None:
        children = list(self._children.values())
        for child in children:
            if child.process.poll() is None:
                child.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        for child in children:
            try:
                child.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.error(
                    "Worker %s did not finish in %.0f s and is killed",
                    child.name,
                    GRACE_S,
                    extra={"action": "worker_killed", "worker": child.name},
                )
                child.process.kill()
                child.process.wait()
            if child.process.stdin:
                child.process.stdin.close()
            self._dead.append(child.name)
        self._children.clear()
        self._release_dead()
        log.info("All workers have ended", extra={"action": "workers_ended"})


def _how(status: int) -> str:
    if status < 0:
        return f"by signal {signal.Signals(-status).name}"
    return f"with status {status}"

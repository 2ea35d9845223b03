"""How busy the machine is, and what processes take of it, from /proc."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path


class Machine:
    """Measures from its making on: the seconds, and how much slower than a free machine this one is."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._cores = len(os.sched_getaffinity(0))
        self._waiting = [_waiting()]

    def look(self) -> None:
        """Count those that want to run now."""
        self._waiting.append(_waiting())

    @property
    def seconds(self) -> float:
        """Since when it measures."""
        return time.monotonic() - self._began

    @property
    def slowness(self) -> float:
        """Processes that want to run, or wait for the disk, for each core; at least 1."""
        return max(1.0, sum(self._waiting) / len(self._waiting) / self._cores)


def _waiting() -> int:
    rows = dict(line.split(" ", 1) for line in Path("/proc/stat").read_text().splitlines())
    return int(rows["procs_running"]) + int(rows["procs_blocked"])


def peak_mb(pid: int) -> int:
    """The most memory that a process has had, in MB; 0 when it is gone."""
    return _status(pid, "VmHWM:")


def memory_mb(pid: int) -> int:
    """The memory that a process has now, in MB; 0 when it is gone."""
    return _status(pid, "VmRSS:")


def _status(pid: int, name: str) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) // 1024
    return 0

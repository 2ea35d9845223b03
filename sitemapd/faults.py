"""Fault injection for the tests: `SITEMAPD_TEST_FAULTS=FOLDER` in the environment of a worker or `compact`.

The process that first reaches a point (a name in `worker.publish`, `worker.index` or `worker.merge`) for
which FOLDER has a file of that name removes the file, and is then killed or stopped, as the file says
(`kill`, `stop`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from worker.site import no_fault

VARIABLE = "SITEMAPD_TEST_FAULTS"
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def from_environment(environ: Mapping[str, str]) -> Callable[[str], None]:
    """The fault hook of a process: does nothing unless the variable is set."""
    if not environ.get(VARIABLE):
        return no_fault
    folder = Path(environ[VARIABLE])

    def fault(reached: str) -> None:
        armed = folder / reached
        try:
            action = armed.read_text()
            armed.unlink()
        except FileNotFoundError:
            return  # not armed, or another process was first
        os.kill(os.getpid(), _SIGNALS[action])

    return fault

"""Fault injection for the tests: `SITEMAPD_TEST_FAULT=POINT:ACTION:FLAG` in a worker's environment.

At the first time that any worker reaches POINT (a name in `worker.publish`), the file FLAG is made and
the process is killed (ACTION `kill`) or stopped (`stop`). With FLAG there already, nothing happens.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping

from worker.site import no_fault

VARIABLE = "SITEMAPD_TEST_FAULT"
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def from_environment(environ: Mapping[str, str]) -> Callable[[str], None]:
    """The fault hook of a worker: does nothing unless the variable is set."""
    text = environ.get(VARIABLE)
    if not text:
        return no_fault
    point, action, flag = text.split(":", 2)

    def fault(reached: str) -> None:
        if reached != point:
            return
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), _SIGNALS[action])

    return fault

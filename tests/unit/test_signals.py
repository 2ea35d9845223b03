"""A signal may come at any moment of what the main thread does."""

from __future__ import annotations

import subprocess
import sys

STORM = """
import os, signal, subprocess, sys, threading
from sitemapd.services import on_signals, stop_on_signals

stop, came = stop_on_signals(), threading.Event()
on_signals(came.set, signal.SIGHUP)
subprocess.Popen([sys.executable, "-c", f'''
import os, signal
for _ in range(10_000):
    os.kill({os.getpid()}, signal.SIGHUP)
os.kill({os.getpid()}, signal.SIGTERM)
'''])
heard = 0
while not stop.wait(1e-6):
    if came.wait(1e-6):
        heard += 1
        came.clear()
print(heard > 0)
"""


def test_no_signal_blocks_the_wait_that_it_ends() -> None:
    """An event that is set in a handler while the main thread holds its lock would never be set."""
    done = subprocess.run([sys.executable, "-c", STORM], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr

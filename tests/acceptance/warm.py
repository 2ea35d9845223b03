"""Processes of the command that start in milliseconds: forks of one that has imported the command already.

Importing takes two thirds of the CPU time of most commands, and the tests run hundreds. A fork is a process
like any other: with its own process id, environment, working folder, descriptors, signals and exit code, and
`sitemapd.cli.main` runs in it to the interpreter's regular end. Services' workers, and commands that another
program or an environment variable of the interpreter's must start, are started from nothing all the same.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
_LARGEST: Final = 128 * 1024
"""Bytes of a request at the most: arguments and environment."""


class Process:
    """One process of the command, with the methods of `subprocess.Popen` that the tests use."""

    def __init__(self, pid: int, said: socket.socket) -> None:
        self.pid = pid
        self._said = said
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._code(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; its exit code. Raises subprocess.TimeoutExpired."""
        code = self._code(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send it SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _code(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            self._said.settimeout(timeout)
            try:
                self.returncode = int(self._said.recv(32))
            except (BlockingIOError, TimeoutError):
                return None
            self._said.close()
        return self.returncode


def start(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    streams: tuple[int, int, int],
    new_session: bool = False,
) -> Process:
    """Start `sitemapd ARGUMENTS` with these descriptors as its standard input, output and error."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    request = {"arguments": [*arguments], "cwd": str(cwd), "env": dict(env), "session": new_session}
    with theirs:
        socket.send_fds(_server(os.getpid()), [json.dumps(request).encode()], [*streams, theirs.fileno()])
    return Process(int(ours.recv(32)), ours)


@cache
def _server(owner: int) -> socket.socket:
    """The way to the process that forks; it ends when its owner does, which has the only other end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SITEMAPD_")}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.acceptance.warm"],
            cwd=ROOT,
            env={**plain, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end() -> None:
        ours.shutdown(socket.SHUT_RDWR)  # even if a fork of the owner holds it too
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _serve() -> dict[str, Any]:
    """Fork for each request, until nobody can send one; returns in the fork, with what it shall run."""
    for package in ("sitemap_store", "producers", "worker", "sitemapd"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    gc.freeze()  # what is shared is not looked at again, so it stays shared
    requests = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks that wait
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, _LARGEST, 4)
        if not request:
            sys.exit()
        if os.fork() == 0:
            requests.close()
            return _become(json.loads(request), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> dict[str, Any]:
    """Fork once more: one is the command, the other waits for it and says how it ended."""
    *streams, last = descriptors
    said = socket.socket(fileno=last)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if pid := os.fork():
        for descriptor in (0, 1, 2, *streams):
            os.close(descriptor)
        said.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        try:
            said.send(str(os.waitstatus_to_exitcode(status)).encode())
        finally:
            os._exit(0)
    said.close()
    for standard, stream in enumerate(streams):
        os.dup2(stream, standard)
        os.close(stream)
    if request["session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    return request


if __name__ == "__main__":
    from sitemapd.cli import main

    sys.argv = ["sitemapd", *_serve()["arguments"]]
    main()

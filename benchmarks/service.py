"""A service to measure: a Redis server, `sitemapd worker`, and the command, in a temp folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from benchmarks.urls import BASE
from sitemapd.build import Parts, build
from sitemapd.embedded import EmbeddedServer
from sitemapd.settings import load


class Service:
    """Runs while the context `running` is open; everything it started is ended by process id."""

    def __init__(self, folder: Path, *, workers: int = 2, extra: str = "") -> None:
        self.folder = folder
        self.server = EmbeddedServer(folder / "data")
        self.output = folder / "public"
        self.config = folder / "sitemapd.toml"
        self.config.write_text(
            f'redis_url = "{self.server.url}"\nworkers = {workers}\n'
            f'[sites.main]\nbase_url = "{BASE}"\noutput = "public"\n{extra}'
        )
        self._worker: subprocess.Popen[bytes] | None = None

    def command(self, *args: str) -> list[str]:
        """The command line of `sitemapd` for this service."""
        return [sys.executable, "-m", "sitemapd", "--config", str(self.config), *args]

    def parts(self) -> Parts:
        """The service's parts, in this process."""
        return build(load(self.config))

    def start(self) -> None:
        """Start Redis and the workers, and wait until they take jobs."""
        self.server.start()
        with (self.folder / "worker.log").open("ab") as log:
            self._worker = subprocess.Popen(self.command("--log-level", "warning", "worker"), stderr=log)
        client = redis.Redis(unix_socket_path=str(self.server.socket))
        deadline = time.monotonic() + 30
        while not client.scard("rq:workers:sitemapd"):
            if time.monotonic() > deadline or self._worker.poll() is not None:
                raise RuntimeError((self.folder / "worker.log").read_text())
            time.sleep(0.05)
        client.close()

    def stop_workers(self) -> None:
        """End the workers."""
        if self._worker is not None:
            self._worker.terminate()
            self._worker.wait(40)

    def stop(self) -> None:
        """End the workers, then Redis."""
        self.stop_workers()
        self.server.stop()

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU so far of Redis, and of the supervisor and its workers together."""
        assert self._worker is not None
        with redis.Redis(unix_socket_path=str(self.server.socket)) as client:
            server = int(client.info("server")["process_id"])
        pids = [self._worker.pid, *_children(self._worker.pid)]
        return {"Redis": cpu_seconds(server), "workers": sum(map(cpu_seconds, pids))}

    def worker_peaks(self) -> dict[int, int]:
        """Peak resident bytes of each worker process and of the supervisor, by process id."""
        assert self._worker is not None
        pids = [self._worker.pid, *_children(self._worker.pid)]
        return {pid: peak_bytes(pid) for pid in pids}


@contextmanager
def running(*, workers: int = 2, extra: str = "") -> Iterator[Service]:
    """A service in a temp folder on the disk that holds the working folder."""
    folder = Path(tempfile.mkdtemp(prefix=".bench-", dir=os.getcwd()))
    service = Service(folder, workers=workers, extra=extra)
    try:
        service.start()
        yield service
    finally:
        service.stop()
        shutil.rmtree(folder, ignore_errors=True)


def cpu_seconds(pid: int) -> float:
    """Seconds of CPU that a process took so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> list[int]:
    listing = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in listing.split()]


def peak_bytes(pid: int) -> int:
    """Peak resident bytes of a process; 0 for one that has ended."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def quantile(values: list[float], share: float) -> float:
    """The value below which that share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]

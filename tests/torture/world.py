"""The processes: Redis and its replica behind a proxy, two supervisors, four workers, watcher, relay, HTTP.

What only the inside of a process can bring about is in `inside/sitecustomize.py`, which each of ours runs.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from glob import glob
from pathlib import Path
from typing import Final

import httpx

from sitemap_store.model.entries import digest
from sitemap_store.redis.directory import bucket_of
from sitemap_store.redis.store import Store
from sitemapd.build import build
from sitemapd.faults import VARIABLE
from sitemapd.settings import load
from tests.acceptance.place import BASE, ROOT, Place, Service
from tests.acceptance.processes import running, state
from tests.acceptance.until import until
from tests.redis_server import Kind, RedisServer, any_kind, has_valkey
from tests.torture.proxy import Proxy

SETTINGS: Final = """
redis_url = "{redis}"
data_dir = "data"

[sites.main]
base_url = "{base}"
output = "public"
shard_size = 20
index_size = 12
min_interval = 0.2

[sites.main.sections.rows]
match = "/rows/**"

[sites.main.watch.pages]
directory = "content"
url = "/pages/{{path}}/"
lastmod = ["front-matter"]
max_delete = 1.0

[sites.main.database.rows]
dsn = "sqlite:///rows.db"
table = "pages"
url = "/rows/{{slug}}"
where = "live"
lastmod = "changed"
triggers = "auto"
max_delete = 1.0

[sites.wild]
base_url = "https://wild.example.com/"
output = "wild"
gzip = true
shard_size = 50
"""
TABLE: Final = "CREATE TABLE pages (id INTEGER PRIMARY KEY, slug TEXT UNIQUE, live INTEGER, changed TEXT)"
SUPERVISORS: Final = ("supervisor-1", "supervisor-2")
INSIDE: Final = Path(__file__).with_name("inside")
FAKETIME: Final = "/usr/lib/*/faketime/libfaketimeMT.so.1"
COMMANDS: Final = {
    "supervisor-1": ("worker", "--workers", "2"),
    "supervisor-2": ("worker", "--workers", "2"),
    "watcher": ("watch",),
    "relay": ("relay",),
    "http": ("serve", "--port", "0"),
}
ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:[0-9]+")
READY: Final = {
    "supervisor-1": "[worker_started",
    "supervisor-2": "[worker_started",
    "watcher": "[compared",
    "relay": "[relay_ready",
    "http": "Serving at ",
}


class World:
    """One run's folder and everything that runs for it. `close` ends all of it, by process id."""

    def __init__(self, lease: float, server: Kind | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sm-torture-"))
        self.steps = self.folder / "steps"
        """A file here, named like a step, strikes the worker that comes to that (`sitemapd.faults`)."""
        self._eio = self.folder / "eio"
        found = glob(FAKETIME)
        self._faketime = found[0] if found else ""
        self.clocks = {"hosts": 0, "redis": 0}
        """By how many seconds the clocks of our processes and of Redis are wrong."""
        self.server: Kind = server or ("valkey" if self._faketime and has_valkey() else any_kind())
        self.place = Place(self.folder, env=self._env(lease), prefix=_unprivileged())
        self.output = self.folder / "public"
        self.content = self.folder / "content"
        self.table = self.folder / "rows.db"
        self.services: dict[str, Service] = {}
        self.past: list[tuple[str, Service]] = []
        """Services that were killed, with their names."""
        self.address = ""
        self.clock = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)
        """When the run's own clock began: each `at` is long past, also for a clock that is an hour behind."""
        self.no_mount = "it is not mounted yet"
        """Why the output is no small disk of its own; empty when it is."""
        self.may_all = "" if os.geteuid() or self.place.prefix else "root may write everywhere"
        # libfaketime and the memory allocator of Debian's redis-server don't go together.
        self.no_redis_clock = (
            "" if self._faketime and self.server == "valkey" else "needs faketime and Valkey"
        )
        self.redis: RedisServer | None = None
        self.replica: RedisServer | None = None
        self._ports: dict[RedisServer, int] = {}
        self.proxy: Proxy | None = None

    def start(self) -> None:
        """Start everything, and return once it is ready."""
        for folder in (self.output, self.content, self.folder / "wild", self.steps):
            folder.mkdir()
        self._mount()
        self.set_clock("hosts", 0)
        self.set_clock("redis", 0)
        self.redis, self.replica = self._server(), self._server()
        self.sync_always()
        self._follow()
        self.proxy = Proxy(str(self.redis.socket))
        (self.folder / "sitemapd.toml").write_text(SETTINGS.format(redis=self.proxy.url, base=BASE))
        connection = sqlite3.connect(self.table)
        connection.execute(TABLE)
        connection.close()
        for name in COMMANDS:
            self.begin(name)
        for name, said in READY.items():
            self.services[name].says(said)

    def _env(self, lease: float) -> dict[str, str]:
        return {
            "PYTHONPATH": os.pathsep.join((str(INSIDE), str(ROOT))),
            "SITEMAPD_TORTURE": str(self.folder),
            "SITEMAPD_TORTURE_LEASE": str(lease),
            VARIABLE: str(self.steps),
        }

    def _clock_env(self) -> dict[str, str]:
        """What makes a server read its clock with the offset in a file, looked at once a second."""
        if self.no_redis_clock:
            return {}
        return {
            "LD_PRELOAD": self._faketime,
            "FAKETIME_TIMESTAMP_FILE": str(self.folder / "clock-redis"),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DISABLE_SHM": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set_clock(self, whose: str, seconds: int) -> None:
        """Set the clocks of our processes (`hosts`), or of Redis and its replica (`redis`), wrong by that."""
        half = self.folder / "clock.new"
        half.write_text(f"{seconds:+d}\n")
        half.replace(self.folder / f"clock-{whose}")
        self.clocks[whose] = seconds

    def sees_clock(self) -> None:
        """Wait until Redis' clock is as wrong as it was set."""
        assert self.redis is not None
        with self.redis.client() as client:
            wrong = self.clocks["redis"]
            until(lambda: abs(client.time()[0] - time.time() - wrong) < 60, what="Redis has the other time")

    def fail_calls(self, names: Collection[str]) -> None:
        """Let those functions of `os` fail with EIO, in all our processes, below the output."""
        if not names:
            self._eio.unlink(missing_ok=True)
            return
        half = self.folder / "eio.new"
        half.write_text("\n".join((str(self.output), *names)))
        half.replace(self._eio)

    def _server(self) -> RedisServer:
        port = _free_port()
        options = ("--bind", "127.0.0.1", "--port", str(port))
        server = RedisServer(self.server, options=options, env=self._clock_env())
        self._ports[server] = port
        server.start()
        return server

    def _follow(self) -> None:
        """Let the replica follow Redis, and wait until it has all."""
        assert self.redis is not None
        assert self.replica is not None
        with self.replica.client() as client:
            client.replicaof("127.0.0.1", str(self._ports[self.redis]))
            until(
                lambda: client.info("replication")["master_link_status"] == "up", what="the replica follows"
            )

    def part(self) -> None:
        """From now on the replica gets nothing. Waits until it follows."""
        assert self.replica is not None
        with self.replica.client() as client:
            until(
                lambda: client.info("replication")["master_link_status"] == "up", what="the replica follows"
            )
            client.replicaof("NO", "ONE")

    def promote(self) -> None:
        """Put the replica in Redis' place; what was Redis forgets everything and follows it."""
        assert self.redis is not None
        assert self.replica is not None
        assert self.proxy is not None
        self.redis, self.replica = self.replica, self.redis
        self.sync_always()
        self.proxy.switch(str(self.redis.socket))
        self.replica.stop(kill=True)
        self.replica.forget()
        self.replica.start()
        self._follow()

    def begin(self, name: str) -> None:
        """Start a service, again perhaps."""
        if name in self.services:
            self.past.append((name, self.services[name]))
        self.services[name] = self.place.service(*COMMANDS[name])
        if name == "http":
            self.address = ""

    def find_http(self) -> str:
        """The address that HTTP listens on; empty while it doesn't."""
        if not self.address and (said := ADDRESS.search(self.services["http"].log)):
            self.address = f"{said[0]}/"
        return self.address

    def workers(self, supervisor: str) -> list[int]:
        """The process ids of a supervisor's workers."""
        return [
            pid
            for pid, line in sorted(running(self.folder).items())
            if "sitemapd.child" in line and _parent(pid) == self.services[supervisor].pid
        ]

    def pushes(self) -> list[int]:
        """The process ids of the `push` commands that run now."""
        return [pid for pid, line in running(self.folder).items() if line.split()[-2:] == ["push", "-"]]

    def sync_always(self) -> None:
        """Let Redis wait for the disk before each answer."""
        self.sync("always")

    def sync(self, how: str) -> None:
        """Set how Redis syncs its file."""
        assert self.redis is not None
        with self.redis.client() as client:
            client.config_set("appendfsync", how)

    def restart_redis(self, *, kill: bool) -> None:
        """End Redis and start it on its data. Nobody gets through before it syncs always again."""
        assert self.redis is not None
        assert self.proxy is not None
        self.redis.stop(kill=kill)
        self.proxy.refuse()
        self.redis.start()
        self.sync_always()
        self.proxy.pass_on()

    def waits(self) -> bool:
        """Whether anything is still to be published, as `/v1/status` says."""
        sites = httpx.get(f"{self.find_http()}v1/status", timeout=10).raise_for_status().json()["sites"]
        return any(site["due_shards"] or site["unfolded_events"] for site in sites.values())

    def held_in(self, file: str, locs: Collection[str]) -> bool:
        """Whether one of these URLs is in a file of the main site, or was until it was deleted."""
        site = build(load(self.folder / "sitemapd.toml")).sites["main"]
        assert self.redis is not None
        with self.redis.client() as client:
            (part,) = Store(client, site).partitions
            for key in map(digest, locs):
                buckets = int(client.hget(part.keys.state(), "buckets") or 1)
                seat = client.hget(part.keys.directory(bucket_of(key, buckets)), key)
                if seat is not None:
                    section, number = client.hmget(part.keys.shard(int(seat)), "section", "number")
                    if section and site.shard_file(section.decode(), int(number)) == file:
                        return True
        return False

    def remount(self, how: str) -> None:
        """Make the output's disk read-only (`ro`) or writable (`rw`)."""

        def done() -> bool:
            return not subprocess.run(
                ["mount", "-o", f"remount,{how}", str(self.output)], capture_output=True
            ).returncode

        # A file that is just being written keeps the disk writable.
        until(done, within=10, what=f"the output is mounted {how}")

    def close(self) -> list[str]:
        """End everything that was started; what was wrong with that, in words."""
        wrong = []
        if self.proxy is not None:
            self.proxy.pass_on()
        if self.redis is not None and self.redis.pid is not None:
            os.kill(self.redis.pid, signal.SIGCONT)
        try:
            self.place.close()
        except AssertionError as error:
            if "Traceback" not in str(error):
                wrong.append(str(error)[:300])
        finally:
            if self.proxy is not None:
                self.proxy.close()
            for server in (self.redis, self.replica):
                if server is not None:
                    server.close()
            if not self.no_mount:
                subprocess.run(["umount", str(self.output)], check=True)
        return wrong

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _mount(self) -> None:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m,mode=755", "tmpfs", str(self.output)],
            capture_output=True,
            text=True,
        )
        self.no_mount = done.stderr.strip() or str(done.returncode) if done.returncode else ""


def _free_port() -> int:
    """A port that is free, and that no connection gets by chance while a server on it is down."""
    while True:
        port = random.randrange(10_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def _unprivileged() -> Sequence[str]:
    """What root puts before a command so that a folder's mode holds for it; nothing where it can't be had."""
    setpriv = shutil.which("setpriv")
    return () if os.geteuid() or not setpriv else (setpriv, "--bounding-set", "-dac_override")


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def stop(pids: list[int]) -> None:
    """SIGSTOP processes that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)


def go_on(pids: list[int]) -> None:
    """SIGCONT processes that are still there."""
    for pid in pids:
        if state(pid) == "T":
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def kill(pids: list[int]) -> None:
    """SIGKILL processes that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

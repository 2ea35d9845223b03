"""The processes: Redis behind a proxy, two supervisors with two workers each, a watcher, a relay and HTTP."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import httpx

from tests.acceptance.place import BASE, Place, Service
from tests.acceptance.processes import running, state
from tests.acceptance.until import until
from tests.redis_server import RedisServer, any_kind
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
    "watcher": "[reconciled",
    "relay": "[relay_ready",
    "http": "Serving at ",
}


class World:
    """One run's folder and everything that runs for it. `close` ends all of it, by process id."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sm-torture-"))
        self.place = Place(self.folder)
        self.output = self.folder / "public"
        self.content = self.folder / "content"
        self.table = self.folder / "rows.db"
        self.services: dict[str, Service] = {}
        self.past: list[tuple[str, Service]] = []
        """Services that were killed, with their names."""
        self.address = ""
        self.clock = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)
        """When the run's own clock began: every `at` is long past."""
        self.mounted = False
        self.no_mount = ""
        """Why the output is no small disk of its own; empty when it is."""
        self.redis: RedisServer | None = None
        self.proxy: Proxy | None = None

    def start(self) -> None:
        """Start everything, and return once it is ready."""
        for folder in (self.output, self.content, self.folder / "wild"):
            folder.mkdir()
        self._mount()
        self.redis = RedisServer(any_kind())
        self.redis.start()
        self.sync_always()
        self.proxy = Proxy(str(self.redis.socket))
        (self.folder / "sitemapd.toml").write_text(SETTINGS.format(redis=self.proxy.url, base=BASE))
        connection = sqlite3.connect(self.table)
        connection.execute(TABLE)
        connection.close()
        for name in COMMANDS:
            self.begin(name)
        for name, said in READY.items():
            self.services[name].says(said)

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
            if self.redis is not None:
                self.redis.close()
            if self.mounted:
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
        self.mounted = not done.returncode
        self.no_mount = done.stderr.strip()


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

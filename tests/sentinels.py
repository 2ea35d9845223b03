"""A primary and a replica of Redis with three sentinels over them, on loopback, for the tests."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import redis

from tests.redis_server import Kind, binary

SERVICE: Final = "shop"
DOWN_AFTER_MS: Final = 500
START_S: Final = 30.0


class Node:
    """One server of Redis, or a sentinel, on a port of its own. A restart keeps its port and its folder."""

    def __init__(self, program: str, folder: Path, lines: Sequence[str], *, sentinel: bool = False) -> None:
        self.port = free_port()
        self.folder = folder
        self._command = [program, str(folder / "node.conf"), *(("--sentinel",) if sentinel else ())]
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        self.configure(f"port {self.port}", "bind 127.0.0.1", f"dir {folder}", *lines)

    def configure(self, *lines: str) -> None:
        """Add lines to its configuration, before it starts."""
        with (self.folder / "node.conf").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def start(self) -> None:
        """Start, and return once it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + START_S
        with redis.Redis.from_url(f"redis://127.0.0.1:{self.port}") as client:
            while time.monotonic() < deadline and self._process.poll() is None:
                try:
                    client.ping()
                except redis.AuthenticationError:  # it answers, and wants a password first
                    return
                except redis.RedisError:
                    time.sleep(0.02)
                else:
                    return
        raise RuntimeError(f"no answer from {self._command}:\n{(self.folder / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        """Kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None


class Sentinels:
    """Two servers of Redis, of which one is the primary, and the three sentinels that choose it."""

    def __init__(self, kind: Kind, *, password: str = "") -> None:
        program = binary(kind)
        self.folder = Path(tempfile.mkdtemp(prefix="sm-sentinel-"))
        own = [f"requirepass {password}", f"masterauth {password}"] if password else []
        own += ["appendonly yes", 'save ""', "maxmemory-policy noeviction", "repl-diskless-sync-delay 0"]
        self._nodes = [Node(program, self.folder / name, own) for name in ("a", "b")]
        first = self._nodes[0]
        self._nodes[1].configure(f"replicaof 127.0.0.1 {first.port}")
        watch = [
            f"sentinel monitor {SERVICE} 127.0.0.1 {first.port} 2",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {SERVICE} 3000",
            *([f"sentinel auth-pass {SERVICE} {password}"] if password else []),
        ]
        self.watchers = [
            Node(program, self.folder / f"sentinel-{place}", watch, sentinel=True) for place in range(3)
        ]
        # They would find each other and the replica by themselves, in 12 seconds.
        names = {node: secrets.token_hex(20) for node in self.watchers}
        for node in self.watchers:
            node.configure(
                f"sentinel myid {names[node]}",
                f"sentinel known-replica {SERVICE} 127.0.0.1 {self._nodes[1].port}",
                *(
                    f"sentinel known-sentinel {SERVICE} 127.0.0.1 {other.port} {name}"
                    for other, name in names.items()
                    if other is not node
                ),
            )
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.watchers)
        self.url = f"redis+sentinel://{f':{password}@' if password else ''}{hosts}/{SERVICE}/0"
        self._password = password or None

    def start(self) -> None:
        """Start all, and return once the sentinels know each other and the replica follows the primary."""
        for node in (*self._nodes, *self.watchers):
            node.start()
        self._until(lambda: all(self._knows_all(node) for node in self.watchers))

    def primary(self) -> Node:
        """The server that the sentinels name."""
        with redis.Redis(port=self.watchers[0].port, decode_responses=True) as client:
            state = client.execute_command("SENTINEL", "MASTER", SERVICE)
        fields = state if isinstance(state, dict) else dict(zip(state[::2], state[1::2], strict=True))
        return next(node for node in self._nodes if node.port == int(fields["port"]))

    def fail_over(self) -> Node:
        """Kill the primary, and return it once the sentinels name the other."""
        lost = self.primary()
        lost.kill()
        self._until(lambda: self.primary() is not lost)
        return lost

    def close(self) -> None:
        """End all, and remove their folder."""
        for node in (*self.watchers, *self._nodes):
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _knows_all(self, node: Node) -> bool:
        with redis.Redis(port=node.port, decode_responses=True) as client:
            info = client.info("sentinel")["master0"]
        with redis.Redis(port=self._nodes[1].port, password=self._password) as replica:
            follows = replica.info("replication")["master_link_status"] == "up"
        return bool(info["sentinels"] == 3 and info["slaves"] == 1 and info["status"] == "ok" and follows)

    def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_S
        while not holds():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the sentinels under {self.folder} do not agree within {START_S:g} s")
            time.sleep(0.05)


@contextmanager
def sentinels(kind: Kind, *, password: str = "") -> Iterator[Sentinels]:
    """Run them for the time of a test."""
    found = Sentinels(kind, password=password)
    try:
        found.start()
        yield found
    finally:
        found.close()


def free_port() -> int:
    """A port of loopback that nobody has at this moment."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port

"""`python -m benchmarks.bench_http [--seconds N]`: the push API under load, on loopback.

The client takes little: requests are made beforehand, one thread polls non-blocking sockets, and of an answer
it looks at the status and the length alone. What it takes all the same is in the table, as CPU µs of its
own beside that of the server; both are for each event and depend on other load far less than rates do.
Server, Redis, workers and client share the machine, as they would on a small one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import selectors
import socket
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from benchmarks.service import Service, quantile, running
from benchmarks.urls import BASE

SITE = "main"
LINES = 5000
"""Events of one NDJSON request."""


class Server(NamedTuple):
    """A running `sitemapd serve`."""

    address: tuple[str, int]
    pid: int
    probes: tuple[str, int]
    """The listener of probes alone."""

    def cpu(self) -> float:
        """The seconds of CPU that it took so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def request(body: bytes, kind: str) -> bytes:
    """One POST, as it goes over the wire."""
    head = (
        f"POST /v1/sites/{SITE}/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def single(number: int, shards: int = 0) -> bytes:
    """A POST of one event; over so many shards of known URLs, or (0) of a new URL."""
    path = f"item-{number % (shards * 1000)}" if shards else f"new-{number}"
    day = number % 28 + 1
    event = {"op": "add", "loc": f"{BASE}{path}", "lastmod": f"2026-11-{day:02}T10:{number % 60:02}:00Z"}
    return request(json.dumps(event).encode(), "application/json")


def batch(first: int, size: int) -> bytes:
    """A POST of NDJSON."""
    lines = [
        json.dumps({"op": "add", "loc": f"{BASE}item-{n}", "lastmod": "2026-11-01"})
        for n in range(first, first + size)
    ]
    return request("\n".join(lines).encode(), "application/x-ndjson")


class Connection:
    """One keep-alive connection, and the request that is under way on it."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.since = 0.0
        self._unsent = memoryview(b"")
        self._came = b""

    def ask(self, sent: bytes, since: float) -> int:
        """Begin a request that was due at a time; the events to wait for."""
        self.since = since
        self._unsent = memoryview(sent)
        return self.write()

    def write(self) -> int:
        """Send what the socket takes; the events to wait for."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            return selectors.EVENT_READ | selectors.EVENT_WRITE
        return selectors.EVENT_READ

    def answered(self) -> bool:
        """Take in what came; whether the answer is whole."""
        came = self._came = self._came + self.socket.recv(65536)
        if not came:
            raise RuntimeError("the server hung up")
        head, _, body = came.partition(b"\r\n\r\n")
        place = head.find(b"content-length: ") + 16
        if place < 16 or len(body) < int(head[place:].split(b"\r\n", 1)[0]):
            return False
        if not came.startswith(b"HTTP/1.1 202"):
            raise RuntimeError(came.decode())
        self._came = b""
        return True


def load(server: Server, requests: Sequence[bytes], connections: int, rate: float = 0.0) -> list[float]:
    """Send requests as fast as they are answered, or at a rate; how long each took, in seconds.

    At a rate, the time of each runs from when it was due: what queues counts.
    """
    took: list[float] = []
    with selectors.EpollSelector() as poll, ExitStack() as stack:
        free = deque(Connection(server.address) for _ in range(connections))
        for connection in free:
            stack.callback(connection.socket.close)
            poll.register(connection.socket, selectors.EVENT_READ, connection)
        begin, sent = time.perf_counter(), 0
        while len(took) < len(requests):
            now = time.perf_counter()
            while free and sent < len(requests) and (not rate or begin + sent / rate <= now):
                connection = free.popleft()  # in turn, or the server would close those that idle
                waits = connection.ask(requests[sent], begin + sent / rate if rate else now)
                if waits & selectors.EVENT_WRITE:
                    poll.modify(connection.socket, waits, connection)
                sent += 1
            paced = rate and free and sent < len(requests)
            for key, ready in poll.select(begin + sent / rate - now if paced else None):
                connection = key.data
                if ready & selectors.EVENT_WRITE:
                    poll.modify(connection.socket, connection.write(), connection)
                if ready & selectors.EVENT_READ and connection.answered():
                    took.append(time.perf_counter() - connection.since)
                    free.append(connection)
    return took


def measured(
    server: Server, requests: Sequence[bytes], connections: int, *, rate: float = 0.0, events: int = 1
) -> dict[str, float]:
    """The figures of a load; `events` in each request."""
    begin, own, theirs = time.perf_counter(), time.process_time(), server.cpu()
    took = load(server, requests, connections, rate)
    elapsed, count = time.perf_counter() - begin, len(requests) * events
    return {
        "events/s": count / elapsed,
        "p50 ms": quantile(took, 0.5) * 1000,
        "p99 ms": quantile(took, 0.99) * 1000,
        "server's CPU µs": (server.cpu() - theirs) / count * 1e6,
        "client's": (time.process_time() - own) / count * 1e6,
    }


@contextmanager
def serving(service: Service) -> Iterator[Server]:
    """`sitemapd serve` beside a service."""
    log = service.folder / "serve.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            service.command("serve", "--port", "0"),
            stderr=out,
            env={**os.environ, "SITEMAPD_PROBES": "127.0.0.1:0"},
        )
    try:
        deadline = time.monotonic() + 30
        while "Serving at http" not in log.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text())
            time.sleep(0.05)
        said = log.read_text()
        yield Server(place_in(said, "Serving at "), process.pid, place_in(said, "Answering probes at "))
    finally:
        process.terminate()
        process.wait(20)


def place_in(text: str, words: str) -> tuple[str, int]:
    """Host and port of the address behind these words."""
    parts = urlsplit(text.partition(words)[2].split()[0])
    return parts.hostname or "", parts.port or 0


def settled(service: Service) -> None:
    """Wait until all is published."""
    subprocess.run(service.command("wait", "--timeout", "300"), check=True)


def main() -> None:
    """Measure and print a table."""
    from benchmarks.__main__ import show

    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_http")
    parser.add_argument("--seconds", type=float, default=10.0, help="about how long each part takes")
    seconds = parser.parse_args().seconds
    dice = random.Random(7)
    batches = [batch(first, LINES) for first in range(0, round(40_000 * seconds), LINES)]
    singles = [single(dice.randrange(10**6)) for _ in range(round(1500 * seconds))]
    paced = [single(number, shards=4) for number in range(round(200 * seconds))]
    rows: dict[str, dict[str, float]] = {}
    with running() as service, serving(service) as server:
        load(server, [*batches[:2], *singles[:100]], 1)
        rows[f"NDJSON, {LINES} events a request"] = measured(server, batches, 2, events=LINES)
        settled(service)
        rows["one event a request, 16 connections"] = measured(server, singles, 16)
        settled(service)
        rows["200 requests/s while 4 shards are rewritten"] = measured(server, paced, 16, rate=200)
        settled(service)
        upload = multiprocessing.get_context("fork").Process(target=load, args=(server, batches * 9, 1))
        upload.start()
        rows["200 requests/s while another uploads NDJSON"] = measured(server, paced, 16, rate=200)
        upload.terminate()
        upload.join()
    show("push API", rows)


if __name__ == "__main__":
    main()

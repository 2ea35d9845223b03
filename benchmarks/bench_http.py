"""`python -m benchmarks.bench_http [--seconds N]`: the push API under load, on loopback.

The client speaks HTTP/1.1 over raw sockets with requests made beforehand, so that it takes little.
Server, Redis, workers and client share the machine, as they would on a small one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from benchmarks.service import Service, quantile, running
from benchmarks.urls import BASE

SITE = "main"


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
    """One keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, sent: bytes) -> int:
        """Send a request; the answer's status."""
        self._writer.write(sent)
        head = await self._reader.readuntil(b"\r\n\r\n")
        place = head.lower().index(b"content-length:")
        length = int(head[place + 15 : head.index(b"\r\n", place)])
        await self._reader.readexactly(length)
        return int(head[9:12])


async def connect(address: str, connections: int) -> list[Connection]:
    """Open connections."""
    parts = urlsplit(address)
    return [
        Connection(*await asyncio.open_connection(parts.hostname, parts.port)) for _ in range(connections)
    ]


async def flat_out(address: str, requests: Sequence[bytes], connections: int) -> dict[str, float]:
    """Send the requests as fast as they are answered."""
    queue = iter(requests)
    took: list[float] = []

    async def work(connection: Connection) -> None:
        for sent in queue:
            begin = time.perf_counter()
            status = await connection.ask(sent)
            assert status == 202, status
            took.append(time.perf_counter() - begin)

    opened = await connect(address, connections)
    begin = time.perf_counter()
    await asyncio.gather(*(work(connection) for connection in opened))
    elapsed = time.perf_counter() - begin
    return {
        "requests/s": len(requests) / elapsed,
        "p50 ms": quantile(took, 0.5) * 1000,
        "p99 ms": quantile(took, 0.99) * 1000,
    }


async def at_rate(
    address: str, requests: Sequence[bytes], rate: float, connections: int = 16
) -> dict[str, float]:
    """Send requests at a rate, each from the moment that it was due: what queues counts."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for connection in await connect(address, connections):
        free.put_nowait(connection)
    took: list[float] = []

    async def one(sent: bytes, due: float) -> None:
        connection = await free.get()
        status = await connection.ask(sent)
        assert status == 202, status
        took.append(time.perf_counter() - due)
        free.put_nowait(connection)

    begin = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number, sent in enumerate(requests):
            due = begin + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(one(sent, due))
    return {
        "requests/s": len(requests) / (time.perf_counter() - begin),
        "p50 ms": quantile(took, 0.5) * 1000,
        "p99 ms": quantile(took, 0.99) * 1000,
    }


@contextmanager
def serving(service: Service) -> Iterator[str]:
    """`sitemapd serve` beside a service; its address."""
    log = service.folder / "serve.log"
    with log.open("wb") as out:
        process = subprocess.Popen(service.command("serve", "--port", "0"), stderr=out)
    try:
        deadline = time.monotonic() + 30
        while "Serving at http" not in log.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text())
            time.sleep(0.05)
        text = log.read_text()
        yield text[text.index("http://") :].split()[0]
    finally:
        process.terminate()
        process.wait(20)


def main() -> None:
    """Measure and print a table."""
    from benchmarks.__main__ import show

    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_http")
    parser.add_argument("--seconds", type=float, default=10.0, help="about how long each part takes")
    seconds = parser.parse_args().seconds
    dice = random.Random(7)
    rows: dict[str, dict[str, float]] = {}
    with running() as service, serving(service) as address:
        size = 5000
        batches = [batch(first, size) for first in range(0, round(40_000 * seconds), size)]
        bulk = asyncio.run(flat_out(address, batches, 2))
        events = bulk["requests/s"] * size
        rows[f"NDJSON, {size} events a request"] = {**bulk, "events/s": events}
        subprocess.run(service.command("wait", "--timeout", "300"), check=True)
        singles = [single(dice.randrange(10**6)) for _ in range(round(1500 * seconds))]
        flat = asyncio.run(flat_out(address, singles, 16))
        rows["one event a request, 16 connections"] = {**flat, "events/s": flat["requests/s"]}
        subprocess.run(service.command("wait", "--timeout", "300"), check=True)
        paced = [single(number, shards=4) for number in range(round(200 * seconds))]
        calm = asyncio.run(at_rate(address, paced, 200))
        rows["200 requests/s while 4 shards are rewritten"] = {**calm, "events/s": calm["requests/s"]}
    show("push API", rows)


if __name__ == "__main__":
    main()

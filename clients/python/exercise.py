"""Uses everything that the client has, with the standard library alone: for any Python from 3.9 on.

`python exercise.py` prints "fine" and what it ran on. The other tests need pytest, and so a newer Python.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timezone
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

from sitemapd_client import AsyncClient, Client, Problem, Publisher, Unavailable

LOC = "https://shop.example.com/"


class Server(ThreadingHTTPServer):
    """Accepts everything, but what says that it is bad, and fails as often as it is told to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.locs: list[str] = []
        self.keys: list[str] = []
        self.failures = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        """Take events."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        events = [json.loads(line) for line in body.splitlines()]
        self.server.keys.append(self.headers["Idempotency-Key"])
        if self.server.failures:
            self.server.failures -= 1
            return self.say(503, {"rule": "unavailable", "detail": "Redis is away."})
        self.server.locs += [event["loc"] for event in events]
        refused = [
            {"line": place, "loc": event["loc"], "rule": "not-absolute", "detail": "D"}
            for place, event in enumerate(events, 1)
            if event["loc"].startswith("/")
        ]
        said = {"accepted": len(events) - len(refused), "refused": refused}
        if refused and len(refused) == len(events):
            return self.say(422, {**said, "rule": "not-absolute", "detail": "D"})
        return self.say(202, said)

    def do_PUT(self) -> None:
        """Take a list."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        names = ("added", "updated", "deleted", "unchanged", "held")
        self.say(202, {"listed": body.count(b"\n"), **dict.fromkeys(names, 0), "refused": []})

    def say(self, status: int, said: object) -> None:
        """Answer."""
        text = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *arguments: Any) -> None:
        """Log nothing."""


_Error = TypeVar("_Error", bound=Exception)


def raised(kind: type[_Error], call: Callable[[], object]) -> _Error:
    """The error that a call must raise."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


def clients(server: Server) -> None:
    """The blocking client and the one for asyncio."""
    with Client(server.url, "smd_x", "shop", source="cms") as client:
        client.add(LOC, lastmod=datetime.now(timezone.utc), priority=Decimal("0.7"))
        server.failures = 2
        client.delete(LOC)
        assert len(set(server.keys[1:])) == 1
        assert raised(Problem, lambda: client.add("/x")).rule == "not-absolute"
        sent = client.send([LOC, "/y", {"op": "delete", "loc": LOC}])
        assert (sent.accepted, sent.refused[0].line) == (2, 2)
        assert client.sync("cms", (f"{LOC}{number}" for number in range(10_000))).listed == 10_000

    async def urls() -> AsyncIterator[str]:
        for number in range(1200):
            yield f"{LOC}{number}"

    async def work() -> None:
        async with AsyncClient(server.url) as client:
            assert (await client.send(urls())).accepted == 1200
            await asyncio.gather(*(client.add(LOC) for _ in range(10)))

    asyncio.run(work())


def publishers(server: Server) -> None:
    """The publisher: batches, outages, forks, spools, and the warning."""
    server.locs.clear()
    with Publisher(server.url, timeout=20) as sitemap:
        server.failures = 2
        for number in range(1000):
            sitemap.add(f"{LOC}{number}")
        child = os.fork()
        if child == 0:
            sitemap.add(LOC + "child")
            sitemap.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    assert sorted(server.locs) == sorted([*(f"{LOC}{number}" for number in range(1000)), LOC + "child"])

    away = Publisher("http://127.0.0.1:9/", queue_max=3, timeout=0.1)
    for _ in range(10):
        away.add(LOC)
    assert away.counts().dropped == 7
    assert "3 events" in str(raised(Unavailable, away.close))

    server.locs.clear()
    with tempfile.TemporaryDirectory() as folder:
        victim = os.fork()
        if victim == 0:
            spooled = Publisher("http://127.0.0.1:9/", spool=folder)
            for number in range(100):
                spooled.add(f"{LOC}{number}")
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(victim, 0)
        with Publisher(server.url, spool=folder, fsync=True, timeout=20) as sitemap:
            sitemap.add(LOC + "next")
        assert server.locs == [*(f"{LOC}{number}" for number in range(100)), LOC + "next"]
        assert os.listdir(folder) == []

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        forgotten = Publisher(server.url)
        del forgotten
        deadline = time.monotonic() + 20
        while not caught and time.monotonic() < deadline:
            gc.collect()
    assert caught[0].category is ResourceWarning


def main() -> None:
    """Run all."""
    logging.disable()
    server = Server()
    clients(server)
    publishers(server)
    server.shutdown()
    server.server_close()
    sys.stdout.write(f"fine on {sys.implementation.name} {sys.version.split()[0]}\n")


if __name__ == "__main__":
    main()

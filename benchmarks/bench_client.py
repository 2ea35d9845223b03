"""`python -m benchmarks.bench_client [--events N]`: how many events a second an app can push with the client.

One app, which shares the machine with server, Redis and workers. Rates are until the last event is stored;
"add" is how long one call of the publisher holds the app up.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator

from benchmarks.bench_http import SITE, Server, serving, settled
from benchmarks.service import quantile, running
from benchmarks.urls import BASE
from sitemapd_client import Client, Publisher

LASTMOD = "2026-11-02T10:00:00Z"


def main() -> None:
    """Measure and print a table."""
    from benchmarks.__main__ import show

    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_client")
    parser.add_argument("--events", type=int, default=200_000, help="events of each part")
    count = parser.parse_args().events
    rows: dict[str, dict[str, float]] = {}
    with running() as service, serving(service) as server:
        with client_of(server) as client:
            client.send(events(1000, "warm"))
            rows["Client.send, an iterable"] = timed(
                server, count, lambda: client.send(events(count, "send"))
            )
            settled(service)
            rows["Client.sync, new URLs"] = timed(
                server, count, lambda: client.sync("bench", events(count, "sync"), accept_deletes=True)
            )
            settled(service)
            few = count // 100
            one_by_one = [f"{BASE}one-{number}" for number in range(few)]
            rows["Client.add, one after the other"] = timed(
                server, few, lambda: [client.add(url, lastmod=LASTMOD) for url in one_by_one]
            )
            settled(service)
        with tempfile.TemporaryDirectory() as folder:
            publishers: dict[str, dict[str, float]] = {}
            for name, spool in (("in memory", None), ("with a spool", folder)):
                publishers[name] = published(server, min(count, 100_000), spool)
                settled(service)
    show("client", rows)
    show("publisher", publishers)


def client_of(server: Server) -> Client:
    """A client of the server."""
    return Client(address_of(server), site=SITE)


def address_of(server: Server) -> str:
    """Where the server is."""
    return "http://{}:{}/".format(*server.address)


def events(count: int, name: str) -> Iterator[dict[str, object]]:
    """Events of new URLs."""
    return ({"op": "add", "loc": f"{BASE}{name}-{number}", "lastmod": LASTMOD} for number in range(count))


def timed(server: Server, count: int, work: Callable[[], object]) -> dict[str, float]:
    """The figures of a call that returns when all is stored."""
    begin, own, theirs = time.perf_counter(), time.process_time(), server.cpu()
    work()
    return figures(server, count, begin, own, theirs)


def published(server: Server, count: int, spool: str | None) -> dict[str, float]:
    """The figures of a publisher, with what its calls took."""
    took: list[float] = []
    publisher = Publisher(address_of(server), site=SITE, queue_max=count, spool=spool, when_full="error")
    begin, own, theirs = time.perf_counter(), time.process_time(), server.cpu()
    for number in range(count):
        before = time.perf_counter()
        publisher.add(f"{BASE}{'spool' if spool else 'memory'}-{number}", lastmod=LASTMOD)
        took.append(time.perf_counter() - before)
    publisher.close(300)
    calls = {"add p50 µs": quantile(took, 0.5) * 1e6, "add p99 µs": quantile(took, 0.99) * 1e6}
    return {**figures(server, count, begin, own, theirs), **calls}


def figures(server: Server, count: int, begin: float, own: float, theirs: float) -> dict[str, float]:
    """Events a second until stored, and the CPU of each."""
    elapsed = time.perf_counter() - begin
    return {
        "events/s": count / elapsed,
        "app's CPU µs": (time.process_time() - own) / count * 1e6,
        "server's CPU µs": (server.cpu() - theirs) / count * 1e6,
    }


if __name__ == "__main__":
    main()

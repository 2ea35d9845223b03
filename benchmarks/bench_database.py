"""`python -m benchmarks.bench_database [--rows N] [KIND…]`: what triggers, relay and comparison cost."""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.service import Service, quantile, running
from producers.database import DatabaseSource, Relay
from producers.database.check import connect, shape_of
from producers.database.install import install, uninstall
from tests.integration.database_servers import SERVERS, Server
from tests.integration.database_servers import running as database_running

BULK: Final = 10_000
TYPES: Final = {
    "postgresql": ("varchar(200)", "timestamptz"),
    "mysql": ("varchar(200)", "timestamp(6) NULL"),
    "sqlite": ("TEXT", "TEXT"),
}


class Bench:
    """A table of products in one database, and a site."""

    def __init__(self, server: Server, service: Service, rows: int) -> None:
        self.server, self.service, self.rows = server, service, rows
        self.database = server.create()
        self.application = server.connect(self.database)
        self.source = DatabaseSource(
            name="catalogue",
            dsn=server.dsn(self.database),
            table="products",
            url="/products/{slug}",
            lastmod="updated_at",
            where="published",
            timezone="UTC",
            notify=server.kind == "postgresql",
        )
        self.sink = service.parts().publisher("main")
        self._fill()

    def run(self, *statements: str) -> float:
        """Statements in one transaction; the seconds that they took."""
        cursor = self.application.cursor()
        begin = time.perf_counter()
        for statement in statements:
            cursor.execute(statement)
        self.application.commit()
        return time.perf_counter() - begin

    def _fill(self) -> None:
        text, when = TYPES[self.server.kind]
        self.run(
            f"CREATE TABLE products (id integer PRIMARY KEY, slug {text}, published boolean, "
            f"updated_at {when}, price integer)",
            "CREATE INDEX by_slug ON products (slug)",
        )
        cursor = self.application.cursor()
        for start in range(1, self.rows + 1, 5000):
            values = ", ".join(
                f"({n}, 'a-product-with-a-name-of-some-length-{n}', true, '2026-01-01 00:00:00', 1)"
                for n in range(start, min(start + 5000, self.rows + 1))
            )
            cursor.execute(f"INSERT INTO products VALUES {values}")
        self.application.commit()
        if self.server.kind == "postgresql":
            self.run("ANALYZE products")

    def with_dialect(self, what: Any) -> None:
        """Call `install` or `uninstall` for the source."""
        dialect = connect(self.source)
        what(dialect, shape_of(dialect, self.source, self.sink.store.site))
        dialect.close()

    def overhead(self, repeats: int = 7) -> dict[str, float]:
        """A bulk UPDATE of lastmods, without triggers and with them, turn by turn."""
        without, with_triggers = [], []
        for turn in range(repeats):
            self.with_dialect(uninstall)
            without.append(self._update(turn))
            self.with_dialect(install)
            with_triggers.append(self._update(turn + repeats))
        plain, noted = statistics.median(without), statistics.median(with_triggers)
        return {"ms without": plain * 1000, "ms with": noted * 1000, "ratio": noted / plain}

    def _update(self, turn: int) -> float:
        if self.server.kind == "postgresql":
            self.application.autocommit = True
            self.application.execute("VACUUM products")
            self.application.autocommit = False
        minute = f"2026-02-01 00:{turn:02}:00"
        return self.run(f"UPDATE products SET updated_at = '{minute}' WHERE id <= {BULK}")

    def drain(self) -> dict[str, float]:
        """Rows of the outbox, all of different URLs, from there to Redis."""
        self.with_dialect(install)
        relay = Relay(self.source, self.sink)
        relay.sync(accept=True)
        count = min(self.rows, 5 * BULK)
        self.run(f"UPDATE products SET updated_at = '2026-03-01 00:00:00' WHERE id <= {count}")
        dialect = connect(self.source)
        label = shape_of(dialect, self.source, self.sink.store.site).label
        assert dialect.lag(label).rows == count
        begin = time.perf_counter()
        relay.start()
        while dialect.lag(label).rows:
            dialect.rollback()
            time.sleep(0.1)
        took = time.perf_counter() - begin
        relay.stop()
        dialect.close()
        return {"rows": count, "seconds": took, "rows/s": count / took}

    def latency(self, samples: int = 100) -> dict[str, float]:
        """From the commit of one row to the index file that says so."""
        relay = Relay(self.source, self.sink)
        relay.start()
        relay.ready.wait(300)
        while self.sink.store.unsettled(2**52):
            time.sleep(0.05)
        index = self.service.output / "sitemap.xml"
        shards = max(1, self.rows // 1000)
        took = []
        for n in range(samples):
            before = os.stat(index).st_ino
            key = (n % shards) * 1000 + n % 1000 + 1
            self.run(f"UPDATE products SET updated_at = '2026-04-01 00:{n % 60:02}:00' WHERE id = {key}")
            begin = time.perf_counter()
            while os.stat(index).st_ino == before and time.perf_counter() - begin < 5:
                time.sleep(0.0005)
            took.append((time.perf_counter() - begin) * 1000)
            time.sleep(max(0.05, 1.3 / shards))
        relay.stop()
        return {"p50 ms": quantile(took, 0.5), "p99 ms": quantile(took, 0.99)}

    def unchanged(self) -> dict[str, float]:
        """A comparison of a table in which nothing changed, in a process of its own."""
        Relay(self.source, self.sink).sync(accept=True)
        code = (
            "import sys\n"
            "from benchmarks.bench_database import compare_once\n"
            "compare_once(sys.argv[1], sys.argv[2])\n"
        )
        told = subprocess.run(
            [sys.executable, "-c", code, str(self.service.config), self.source.dsn],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        took, events, peak = float(told[0]), int(told[1]), float(told[2])
        return {"rows": self.rows, "rows/s": self.rows / took, "events": events, "peak MB": peak}


def compare_once(config: str, dsn: str) -> None:
    """In a child process: compare, and print seconds, events and the peak of resident memory in MB."""
    from pathlib import Path

    from sitemapd.build import build
    from sitemapd.settings import load

    source = DatabaseSource(
        name="catalogue",
        dsn=dsn,
        table="products",
        url="/products/{slug}",
        lastmod="updated_at",
        where="published",
        timezone="UTC",
        notify=dsn.startswith("postgresql"),
    )
    relay = Relay(source, build(load(Path(config))).publisher("main"))
    begin = time.perf_counter()
    result = relay.sync(accept=False)
    took = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(took, result.sent + result.deleted, peak)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_database")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(SERVERS))
    parser.add_argument("--rows", type=int, default=1_000_000, help="size of the table")
    parser.add_argument("--only", choices=["overhead", "drain", "latency", "unchanged"])
    chosen = parser.parse_args()
    parts = [chosen.only] if chosen.only else ["overhead", "drain", "unchanged", "latency"]
    for kind in chosen.kinds or list(SERVERS):
        with running() as service, database_running(kind) as server:
            bench = Bench(server, service, chosen.rows)
            for part in parts:
                show(f"{kind}, {chosen.rows:,} rows: {part}", getattr(bench, part)())


def show(title: str, row: dict[str, float]) -> None:
    """Print one row of figures."""
    table = Table(*row, title=title)
    table.add_row(*(f"{value:,.2f}" for value in row.values()))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

"""`python -m benchmarks.bench_database [--rows N] [KIND…]`: what triggers, relay and comparison cost.

A million rows are filled in and listed once, which takes a few minutes; what is measured then takes seconds.
CPU is that of our own process, database, Redis and workers not included: of all figures it depends the
least on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.service import Service, peak_bytes, quantile, running
from benchmarks.urls import BASE
from producers.database import Relay
from producers.database.check import connect, shape_of
from producers.database.install import install, uninstall
from producers.database.outbox import read_lag
from sitemap_store.model.site import index_file
from sitemapd.memory import ease_collector
from tests.integration.database_servers import SERVERS, Server
from tests.integration.database_servers import running as database_running

BULK: Final = 10_000
GOLDEN: Final = 0.618034
"""Its multiples are spread evenly, neighbours far apart: a shard is rewritten once a second at most."""
APART_S: Final = 0.25
"""Seconds between two commits, so that none waits for what the one before it caused."""
SLUG: Final = "a-product-with-a-name-of-some-length-{}"
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
        notify = str(server.kind == "postgresql").lower()
        with service.config.open("a") as config:
            config.write(
                f'[sites.main.database.catalogue]\ndsn = "{server.dsn(self.database)}"\n'
                'table = "products"\nurl = "/products/{slug}"\nlastmod = "updated_at"\n'
                f'where = "published"\ntimezone = "UTC"\nnotify = {notify}\n'
            )
        parts = service.parts()
        (self.source,) = parts.databases["main"]
        self.sink = parts.publisher("main")
        self._fill()
        self._listed = False

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
                f"({n}, '{SLUG.format(n)}', true, '2026-01-01 00:00:00', 1)"
                for n in range(start, min(start + 5000, self.rows + 1))
            )
            cursor.execute(f"INSERT INTO products VALUES {values}")
        self.application.commit()
        if self.server.kind == "postgresql":
            self.run("ANALYZE products")

    def _settled(self) -> None:
        """All rows are listed, and nothing is left to publish."""
        if not self._listed:
            self.with_dialect(install)
            Relay(self.source, self.sink).sync(accept=True)
            self._listed = True
        while self.sink.store.unsettled(2**52):
            time.sleep(0.05)

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

    def single(self, turns: int = 60) -> dict[str, float]:
        """An UPDATE of one row and its commit, without triggers and with them, turn by turn.

        Half of the updates are of the configured column lastmod, half of a column that no setting names. The
        statements have parameters, as an application's have.
        """
        took: dict[tuple[str, bool], list[float]] = {}
        for turn in range(turns):
            for with_triggers in (False, True):
                self.with_dialect(install if with_triggers else uninstall)
                for column in ("updated_at", "price"):
                    took.setdefault((column, with_triggers), []).append(
                        self._update_singly(column, 2 * turn + with_triggers)
                    )
        found = {}
        for column, name in (("updated_at", "lastmod"), ("price", "other")):
            plain, noted = took[column, False], took[column, True]
            found[f"{name}: µs without"] = statistics.median(plain) * 1e6
            found["µs with" if name == "lastmod" else "with"] = statistics.median(noted) * 1e6
            ratios = [with_ / without for with_, without in zip(noted, plain, strict=True)]
            found["ratio" if name == "lastmod" else "its ratio"] = statistics.median(ratios)
        return found

    def _update_singly(self, column: str, number: int) -> float:
        mark = "?" if self.server.kind == "sqlite" else "%s"
        sql = f"UPDATE products SET {column} = {mark} WHERE id = {mark}"
        cursor, took = self.application.cursor(), []
        for key in range(1, 41):
            value = number if column == "price" else f"2026-02-02 {number // 60:02}:{number % 60:02}:{key:02}"
            begin = time.perf_counter()
            cursor.execute(sql, (value, key))
            self.application.commit()
            took.append(time.perf_counter() - begin)
        # The first ones plan the statement, and look at the triggers that were made just now.
        return statistics.median(took[10:])

    def _update(self, turn: int) -> float:
        if self.server.kind == "postgresql":
            self.application.autocommit = True
            self.application.execute("VACUUM products")
            self.application.autocommit = False
        minute = f"2026-02-01 00:{turn:02}:00"
        return self.run(f"UPDATE products SET updated_at = '{minute}' WHERE id <= {BULK}")

    def drain(self) -> dict[str, float]:
        """Rows of the outbox, all of different URLs, from there to Redis."""
        self._settled()
        relay = Relay(self.source, self.sink)
        count = min(self.rows, 5 * BULK)
        self.run(f"UPDATE products SET updated_at = '2026-03-01 00:00:00' WHERE id <= {count}")
        dialect = connect(self.source)
        label = shape_of(dialect, self.source, self.sink.store.site).label
        assert read_lag(dialect, label).rows == count
        begin, cpu = time.perf_counter(), time.process_time()
        relay.start()
        while (
            relay.health()["sent"] < count or read_lag(dialect, label).rows
        ):  # to count them would slow it down
            dialect.rollback()
            time.sleep(0.01)
        took, cpu = time.perf_counter() - begin, time.process_time() - cpu
        relay.stop()
        dialect.close()
        return {"rows": count, "seconds": took, "rows/s": count / took, "CPU µs/row": cpu / count * 1e6}

    def latency(self, samples: int = 100) -> dict[str, float]:
        """From the commit of one row to the index file that says so."""
        self._settled()
        relay = Relay(self.source, self.sink)
        relay.start()
        relay.ready.wait(300)
        self._settled()
        took = []
        for n in range(samples):
            key = int(n * GOLDEN % 1 * self.rows) + 1
            index, file = self._listing(key)
            before, said = os.stat(index).st_ino, _lastmod_of(file, index)
            self.run(f"UPDATE products SET updated_at = '2026-04-01 00:{n % 60:02}:00' WHERE id = {key}")
            begin = time.perf_counter()
            while time.perf_counter() - begin < 5:
                if os.stat(index).st_ino != before:
                    before = os.stat(index).st_ino
                    if _lastmod_of(file, index) != said:
                        break
                time.sleep(0.0005)
            took.append((time.perf_counter() - begin) * 1000)
            time.sleep(APART_S)
        relay.stop()
        return {"rows": self.rows, "p50 ms": quantile(took, 0.5), "p99 ms": quantile(took, 0.99)}

    def _listing(self, key: int) -> tuple[Path, str]:
        """The index that lists the file with a row's URL, and the file."""
        found = self.sink.store.find(f"{BASE}products/{SLUG.format(key)}")
        assert found is not None
        indexes = (self.service.output / index_file(number) for number in self.sink.store.index_files())
        return next(index for index in indexes if f"/{found.file}<" in index.read_text()), found.file

    def unchanged(self) -> dict[str, float]:
        """`sitemapd sync` of a table in which nothing changed; its start is part of the time."""
        self._settled()
        command = self.service.command("sync", "--source", self.source.name, "--json")
        begin = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        peak, ended = 0, 0
        while not ended:
            # Not getrusage's: that begins with the peak of the process which started this one.
            peak = max(peak, peak_bytes(child.pid))
            time.sleep(0.005)
            ended, child.returncode, used = os.wait4(child.pid, os.WNOHANG)
        took = time.perf_counter() - begin
        told = json.loads(child.stdout.read())
        return {
            "rows": told["wanted"],
            "seconds": took,
            "rows/s": told["wanted"] / took,
            "CPU µs/row": (used.ru_utime + used.ru_stime) / told["wanted"] * 1e6,
            "events": told["added"] + told["updated"] + told["deleted"],
            "peak MB": peak / 1e6,
        }


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_database")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(SERVERS))
    parser.add_argument("--rows", type=int, default=1_000_000, help="size of the table")
    parser.add_argument("--only", choices=["overhead", "single", "drain", "latency", "unchanged"])
    chosen = parser.parse_args()
    ease_collector()  # as `sitemapd relay` does
    parts = [chosen.only] if chosen.only else ["overhead", "single", "drain", "unchanged", "latency"]
    for kind in chosen.kinds or list(SERVERS):
        with running() as service, database_running(kind) as server:
            bench = Bench(server, service, chosen.rows)
            for part in parts:
                show(f"{kind}, {chosen.rows:,} rows: {part}", getattr(bench, part)())


def _lastmod_of(file: str, index: Path) -> str:
    """What an index says of when a file changed."""
    return index.read_text().partition(f"/{file}</loc><lastmod>")[2].partition("<")[0]


def show(title: str, row: dict[str, float]) -> None:
    """Print one row of figures."""
    table = Table(*row, title=title)
    table.add_row(*(f"{value:,.2f}" for value in row.values()))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

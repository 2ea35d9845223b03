"""`python -m benchmarks [NAME…] [--urls N] [--write]`: run the benchmarks and print a table of each."""

from __future__ import annotations

import argparse
import os
import platform
import time
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from benchmarks import figures
from benchmarks.bulk import bulk, scattered
from benchmarks.latency import one_event, steady
from benchmarks.service import running

NAMES = ("latency", "steady", "bulk", "scattered")
STEADY = 300_000
"""URLs of the site that changes steadily: 300 shards."""


def show(title: str, rows: dict[str, dict[str, float]]) -> None:
    """Print rows of figures."""
    table = Table(title=title)
    table.add_column("")
    columns = list(next(iter(rows.values())))
    for column in columns:
        table.add_column(column, justify="right")
    for name, row in rows.items():
        values = (row[column] for column in columns)
        table.add_row(
            name, *(f"{value:,}" if isinstance(value, int) else f"{value:,.1f}" for value in values)
        )
    Console(width=170).print(table)


def _beside(row: dict[str, float], peer: float) -> dict[str, float]:
    """Latency figures and how often the change fits into the peer's rebuild of everything."""
    return {**row, "peer's rebuild ms": peer * 1000, "peer/p50": peer * 1000 / row["p50 ms"]}


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--urls", type=int, default=1_000_000, help="size of the large site")
    parser.add_argument(
        "--write", action="store_true", help="write docs/figures.json and the pages that quote it"
    )
    chosen = parser.parse_args()
    names = chosen.names or NAMES
    if chosen.write and not {"latency", "scattered"} <= set(names):
        parser.error("--write needs the benchmarks latency and scattered")
    Console().print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    if "steady" in names:
        with running() as service:
            bulk(service, STEADY)
            time.sleep(5)  # until no shard rests from the load any more
            show("ten changes a second, at random", {f"{STEADY:,} URLs": steady(service, STEADY)})
    if "latency" in names:
        rows: dict[int, dict[str, float]] = {}
        for site in (chosen.urls // 100, chosen.urls // 10):
            with running() as service:
                peer = bulk(service, site)["peer's rebuild s"]
                rows[site] = _beside(one_event(service, site), peer)
        with running() as service:
            loaded = bulk(service, chosen.urls)
            rows[chosen.urls] = _beside(one_event(service, chosen.urls), loaded["peer's rebuild s"])
            spread = scattered(service, chosen.urls, chosen.urls // 10) if "scattered" in names else None
        show("one event → index bumped", {f"{site:,} URLs": row for site, row in rows.items()})
        show("bulk push -", {f"{chosen.urls:,} URLs": loaded})
        if spread:
            show("events spread at random", {f"over {chosen.urls:,} URLs": spread})
            if chosen.write:
                command = f"python -m benchmarks --urls {chosen.urls}"
                figures.write(figures.measured(command, datetime.now(UTC).date(), rows, loaded, spread))
    elif {"bulk", "scattered"} & set(names):
        with running() as service:
            show("bulk push -", {f"{chosen.urls:,} URLs": bulk(service, chosen.urls)})
            if "scattered" in names:
                spread = scattered(service, chosen.urls, chosen.urls // 10)
                show("events spread at random", {f"over {chosen.urls:,} URLs": spread})


if __name__ == "__main__":
    main()

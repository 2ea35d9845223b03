"""Keeps the figures that the docs quote in one place: docs/figures.json.

`python -m benchmarks --write` (`make bench`) writes the file and fills it into the pages: what stands between
`<!-- figures: NAME -->` and `<!-- end of figures -->` is made here. A test compares the pages with the file.
"""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
FILE: Final = ROOT / "docs" / "figures.json"
PAGES: Final = (ROOT / "README.md", ROOT / "docs" / "performance.md")

_BLOCK: Final = re.compile(r"(<!-- figures: (\w+) -->\n\n).*?(\n\n<!-- end of figures -->)", re.DOTALL)


def read() -> dict[str, Any]:
    """Return the figures that the pages quote."""
    figures: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return figures


def measured(
    command: str,
    day: date,
    latency: dict[int, dict[str, float]],
    load: dict[str, float],
    scattered: dict[str, float],
    crowd: dict[str, float],
) -> dict[str, Any]:
    """Return what the benchmarks' rows mean for the pages; `latency` has a row for each size of site."""
    return {
        "measured": day.isoformat(),
        "command": command,
        "change": [
            {
                "urls": urls,
                "p50_ms": round(row["p50 ms"]),
                "p99_ms": round(row["p99 ms"]),
                "rebuild_s": _digits(row["peer's rebuild ms"] / 1000),
            }
            for urls, row in latency.items()
        ],
        "load": {
            "urls": int(load["URLs"]),
            "seconds": round(load["seconds"], 1),
            "urls_per_second": round(load["URLs/s"], -2),
            "times_rebuild": round(load["took/peer"], 1),
            "push_us": round(load["CPU µs/URL: push"]),
            "redis_us": round(load["Redis"]),
            "workers_us": round(load["workers"]),
            "redis_bytes": round(load["Redis bytes/URL"], 1),
            "worker_mb": round(load["worker peak MB"]),
        },
        "scattered": {
            "events": int(scattered["events"]),
            "events_per_second": round(scattered["events/s"], -2),
            "files": int(scattered["files rewritten"]),
            "shards": int(load["URLs"]) // 1000,
        },
        "crowd": {
            "clients": int(crowd["clients"]),
            "seconds": round(crowd["seconds"]),
            "answers_per_second": round(crowd["answered 202/s"]),
            "p50_ms": round(crowd["p50 ms"]),
            "p99_ms": round(crowd["p99 ms"]),
            "livez_max_ms": round(crowd["livez max ms"]),
            "probes_max_ms": round(crowd["probes max ms"]),
            "lost": int(crowd["lost"]),
            "mb": [round(crowd[name]) for name in ("MB at start", "1st third", "2nd third", "3rd third")],
        },
    }


def blocks(figures: dict[str, Any]) -> dict[str, str]:
    """Return the Markdown of each block, by its name."""
    change, load, scattered = figures["change"], figures["load"], figures["scattered"]
    crowd = figures["crowd"]
    before, *thirds = crowd["mb"]
    command, day = figures["command"], figures["measured"]
    sizes = " / ".join(f"{row['urls']:,}" for row in change)
    p50 = " / ".join(f"{row['p50_ms']:g}" for row in change)
    rebuild = " / ".join(f"{row['rebuild_s']:.2g}" for row in change)
    seconds, memory, worker = (
        f"{load['seconds']:g} s",
        f"{load['redis_bytes']:g} bytes",
        f"{load['worker_mb']} MB",
    )
    speed, times = f"{load['urls_per_second']:,.0f} URLs/s", f"{load['times_rebuild']:g} times"
    cpu = " + ".join(f"{load[f'{part}_us']:g}" for part in ("push", "redis", "workers"))
    urls, events = f"{load['urls']:,} URLs", f"{scattered['events_per_second']:,.0f} events/s"
    files = f"{scattered['files']:,} files written for {scattered['shards']:,} shards that changed"
    return {
        "command": f"`{command}`, on {day}",
        "summary": _table(
            (f"measured on {day} with `{command}`", ""),
            (f"one change until the index names the new file, on {sizes} URLs", f"p50 {p50} ms"),
            ("the same with a rebuild of everything (lxml, one process)", f"{rebuild} s"),
            (f"a bulk load of {urls} until all is published", seconds),
            ("Redis memory", f"{memory} a URL"),
            ("a worker's memory", worker),
        ),
        "change": _table(
            ("site", "p50", "p99", "the peer's rebuild", "peer / p50"),
            *(
                (
                    f"{row['urls']:,} URLs",
                    f"{row['p50_ms']:g} ms",
                    f"{row['p99_ms']:g} ms",
                    f"{row['rebuild_s']:g} s",
                    f"{row['rebuild_s'] * 1000 / row['p50_ms']:.0f}",
                )
                for row in change
            ),
        ),
        "load": _table(
            (urls, ""),
            ("until all is published", f"{seconds}, {speed}; {times} the peer, which keeps no state"),
            ("CPU for each URL: `push`, Redis, workers", f"{cpu} µs"),
            ("Redis memory for each URL", memory),
            ("largest worker", worker),
        ),
        "crowd": _table(
            (f"{crowd['clients']:,} clients for {crowd['seconds']} s", ""),
            ("events lost, or published though refused", f"{crowd['lost']}"),
            (
                "answers 202",
                f"{crowd['answers_per_second']}/s, p50 {crowd['p50_ms']:,} ms, p99 {crowd['p99_ms']:,} ms",
            ),
            ("longest answer of `/livez` on the clients' port", f"{crowd['livez_max_ms']:,} ms"),
            ("longest answer of `/livez` and `/readyz` on their own port", f"{crowd['probes_max_ms']:,} ms"),
            (
                "memory of `serve` before, and at most in each third",
                f"{before}; {', '.join(map(str, thirds))} MB",
            ),
        ),
        "scattered": f"{scattered['events']:,} updates spread at random over these URLs: {events}, {files}.",
    }


def _table(*rows: tuple[str, ...]) -> str:
    """Return rows as a table, the first one as its header."""
    lines = [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows]
    return "\n".join((lines[0], "|---" * len(rows[0]) + "|", *lines[1:]))


def _digits(number: float) -> float:
    """Return a number rounded to three digits."""
    return float(f"{number:.3g}")


def filled(page: str, figures: dict[str, Any]) -> str:
    """Return a page's text with each of its blocks as the figures have it; KeyError for an unknown block."""
    texts = blocks(figures)
    return _BLOCK.sub(lambda block: block[1] + texts[block[2]] + block[3], page)


def write(figures: dict[str, Any]) -> None:
    """Write the file, and fill it into the pages."""
    FILE.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    for page in PAGES:
        page.write_text(filled(page.read_text("utf-8"), figures), "utf-8")

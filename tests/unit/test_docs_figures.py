"""The figures of the README and of docs/performance.md are those of docs/figures.json."""

from datetime import date
from pathlib import Path

import pytest

from benchmarks import figures
from tests import markdown


@pytest.mark.parametrize("page", figures.PAGES, ids=markdown.name)
def test_pages_quote_the_file(page: Path) -> None:
    """Each block of figures says what the file has; `make bench` writes both."""
    text = page.read_text("utf-8")
    assert "<!-- figures: " in text
    assert figures.filled(text, figures.read()) == text


def test_each_block_is_quoted() -> None:
    """No block is made that no page shows."""
    pages = "".join(page.read_text("utf-8") for page in figures.PAGES)
    assert all(f"<!-- figures: {name} -->" in pages for name in figures.blocks(figures.read()))


def test_a_run_gives_what_the_pages_quote() -> None:
    """What a run of the benchmarks returns has every figure that the file has."""
    change = {"p50 ms": 15.2, "p99 ms": 19.8, "peer's rebuild ms": 157.3}
    load = dict.fromkeys(
        ("seconds", "URLs/s", "took/peer", "CPU µs/URL: push", "Redis", "workers", "Redis bytes/URL"), 1.0
    )
    load |= {"URLs": 2000, "worker peak MB": 57.4}
    spread = {"events": 10.0, "events/s": 13_612.0, "files rewritten": 3.0}
    crowd = dict.fromkeys(("answered 202/s", "p50 ms", "p99 ms", "livez max ms", "lost", "MB at start"), 1.0)
    crowd["probes max ms"] = 1.0
    crowd |= {"clients": 2000, "seconds": 60.0, "1st third": 1.0, "2nd third": 1.0, "3rd third": 1.0}
    made = figures.measured("python -m benchmarks", date(2026, 12, 1), {10_000: change}, load, spread, crowd)
    kept = figures.read()
    assert made["change"] == [{"urls": 10_000, "p50_ms": 15, "p99_ms": 20, "rebuild_s": 0.157}]
    assert made["change"][0].keys() == kept["change"][0].keys()
    assert made.keys() == kept.keys()
    assert [made[name].keys() for name in ("load", "scattered", "crowd")] == [
        kept[name].keys() for name in ("load", "scattered", "crowd")
    ]
    assert figures.blocks(made).keys() == figures.blocks(kept).keys()

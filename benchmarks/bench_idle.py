"""`python -m benchmarks.bench_idle [--files N] [--seconds S]`: what `sitemapd run` costs at rest.

A watched tree, as in `bench_filesystem`, and all that `run` starts: Redis, workers, the watcher, the scrubber
and the HTTP server. The kernel's scheduler counts the time of each thread on a core, in nanoseconds, and how
often it slept.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.__main__ import show
from benchmarks.bench_filesystem import grow
from benchmarks.urls import BASE

REST_S = 20.0
"""The pause before the measurement: what `run` still had to do after the last file is done."""
CONFIGURATION = f"""
data_dir = "data"
[sites.main]
base_url = "{BASE}"
output = "public"
[sites.main.watch.pages]
directory = "content"
"""


@contextmanager
def running(files: int) -> Iterator[int]:
    """The process id of a `sitemapd run` that has published a tree of that many files."""
    folder = Path(tempfile.mkdtemp(prefix=".bench-", dir=Path.cwd()))
    log = folder / "run.log"
    (folder / "sitemapd.toml").write_text(CONFIGURATION)
    command = [sys.executable, "-m", "sitemapd", "--config", str(folder / "sitemapd.toml")]
    grow(folder / "content", files)
    with log.open("wb") as out:
        process = subprocess.Popen([*command, "run", "--port", "0"], stdout=out, stderr=out)
    try:
        while b"URLs added or updated" not in log.read_bytes():
            if process.poll() is not None:
                raise RuntimeError(log.read_text())
            time.sleep(0.1)
        subprocess.run([*command, "wait", "--timeout", "600"], check=True)
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def processes(pid: int) -> dict[int, str]:
    """A process and its descendants by id, each with what it is."""
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
    program = Path(f"/proc/{pid}/comm").read_text().strip()
    found = {
        pid: "worker" if b"sitemapd.child" in arguments else "run" if b"sitemapd" in arguments else program
    }
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            found |= processes(int(child))
    return found


def spent(pid: int) -> tuple[float, int]:
    """Seconds on a core of a process so far, and how often one of its threads went to sleep."""
    seconds, sleeps = 0.0, 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        seconds += int((task / "schedstat").read_text().split()[0]) / 1e9
        status = (task / "status").read_text()
        sleeps += int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return seconds, sleeps


def at_rest(pid: int, seconds: float) -> dict[str, dict[str, float]]:
    """The share of a core that each process takes, and all of them."""
    found = processes(pid)
    before = {each: spent(each) for each in found}
    time.sleep(seconds)
    rows = {}
    for each, name in found.items():
        took = [(now - then) / seconds for now, then in zip(spent(each), before[each], strict=True)]
        rows[f"{name} {each}"] = {"‰ of a core": took[0] * 1000, "wake-ups/s": took[1]}
    rows["together"] = {
        column: sum(row[column] for row in rows.values()) for column in next(iter(rows.values()))
    }
    return rows


def main() -> None:
    """Measure a service at rest."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_idle")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    chosen = parser.parse_args()
    with running(chosen.files) as pid:
        time.sleep(REST_S)
        show(f"`run` at rest, {chosen.files:,} files", at_rest(pid, chosen.seconds))


if __name__ == "__main__":
    main()

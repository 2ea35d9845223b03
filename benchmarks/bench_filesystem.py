"""`python -m benchmarks.bench_filesystem [--files N] [--idle SECONDS]`: a watched tree, scanned and edited.

Real files, a real watcher process (`sitemapd watch`), Redis and two workers on this machine. Half of
the files are Markdown with front matter, half are HTML with a canonical link in their head.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.__main__ import show
from benchmarks.service import Service, cpu_seconds, quantile, running
from benchmarks.urls import BASE

PER_FOLDER = 100
BODY = "<p>A paragraph of text, as pages have them, of about a hundred characters in all, or so.</p>\n" * 30
MARKDOWN = "---\ntitle: Page {n}\ndate: 2026-{month:02}-{day:02}\ntags: [a, b]\n---\n\n# Page {n}\n\n" + BODY
HTML = (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Page {n}</title>\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    '<meta name="description" content="What page {n} is about, in a sentence or two.">\n'
    '<link rel="stylesheet" href="/assets/site.css">\n<link rel="icon" href="/favicon.ico">\n'
    '<link rel="canonical" href="' + BASE + '{path}">\n<script src="/assets/site.js" defer></script>\n'
    "</head>\n<body>\n" + BODY + "</body>\n</html>\n"
)
CONFIGURATION = """
[sites.main.watch.pages]
directory = "{content}"
front_matter = {reads}
html_head = {reads}
rescan_interval = 0
"""


def grow(content: Path, files: int) -> list[Path]:
    """Make the tree, in folders of 100."""
    made = []
    for n in range(files):
        folder = content / f"{n // PER_FOLDER // 50:03}" / f"section-{n // PER_FOLDER:05}"
        if n % PER_FOLDER == 0:
            folder.mkdir(parents=True)
        name = f"page-{n:07}-of-the-benchmark.{'md' if n % 2 else 'html'}"
        path = folder / name
        text = MARKDOWN if n % 2 else HTML
        told = {"n": n, "month": n % 12 + 1, "day": n % 28 + 1, "path": path.relative_to(content)}
        path.write_text(text.format(**told))
        made.append(path)
    return made


class Watching:
    """A `sitemapd watch` process that has sent its first difference."""

    def __init__(self, service: Service, log: Path) -> None:
        begin = time.perf_counter()
        with log.open("wb") as err:
            self.process = subprocess.Popen(service.command("--log-json", "watch"), stderr=err)
        while True:
            said = [json.loads(line) for line in log.read_text().splitlines()]
            found = [record for record in said if record.get("action") == "compared"]
            if found:
                break
            if self.process.poll() is not None:
                raise RuntimeError(log.read_text())
            time.sleep(0.01)
        self.seconds = time.perf_counter() - begin
        self.said = str(found[0]["message"])
        self.cpu = cpu_seconds(self.process.pid)

    def peak_mb(self) -> float:
        """Its peak resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1000


@contextmanager
def watching(service: Service) -> Iterator[Watching]:
    """Run `sitemapd watch` from its start to its end."""
    watch = Watching(service, service.folder / "watch.log")
    try:
        yield watch
    finally:
        watch.process.terminate()
        watch.process.wait(30)


def scans(files: int, *, reads: bool, samples: int, idle: float) -> dict[str, float]:
    """First scan, restart, single edits and `idle` quiet seconds on a tree of that many files."""
    content = Path.cwd() / ".bench-content"
    shutil.rmtree(content, ignore_errors=True)
    try:
        made = grow(content, files)
        extra = CONFIGURATION.format(content=content, reads=str(reads).lower())
        with running(extra=extra) as service:
            return measure(service, content, made, samples, idle)
    finally:
        shutil.rmtree(content, ignore_errors=True)


def measure(service: Service, content: Path, made: list[Path], samples: int, idle: float) -> dict[str, float]:
    """Scan, restart, edit and wait."""
    files = len(made)
    away = content.with_name(".bench-away")
    content.rename(away)
    content.mkdir()
    with watching(service) as watch:
        start = watch.seconds, watch.cpu
    content.rmdir()
    away.rename(content)
    with watching(service) as watch:
        first, first_cpu = watch.seconds - start[0], watch.cpu - start[1]
        subprocess.run(service.command("wait", "--timeout", "600"), check=True)
    stats = service.parts().client.hgetall("sm:{main.0}:stats")
    with watching(service) as watch:
        again, again_cpu = watch.seconds - start[0], watch.cpu - start[1]
        sent = sum(
            int(value) - int(stats.get(name, 0))
            for name, value in service.parts().client.hgetall("sm:{main.0}:stats").items()
            if name in (b"add", b"update", b"delete")
        )
        took = edits(service, made, samples)
        peak = watch.peak_mb()
        quiet = quiet_share(watch, idle) if idle else float("nan")
    return {
        "first scan s": first,
        "files/s": files / first,
        "CPU µs/file": first_cpu / files * 1e6,
        "restart s": again,
        "restart CPU µs/file": again_cpu / files * 1e6,
        "events sent": sent,
        "edit p50 ms": quantile(took, 0.5),
        "edit p99 ms": quantile(took, 0.99),
        "watcher peak MB": peak,
        "idle CPU %": quiet * 100,
    }


def quiet_share(watch: Watching, seconds: float) -> float:
    """The share of a core that the watcher takes while nothing happens."""
    time.sleep(10)  # what it still had to do is done
    before = cpu_seconds(watch.process.pid)
    time.sleep(seconds)
    return (cpu_seconds(watch.process.pid) - before) / seconds


def edits(service: Service, made: list[Path], samples: int) -> list[float]:
    """Milliseconds from the writing of a file to the change of the index, one at a time."""
    index, dice = service.output / "sitemap.xml", random.Random(7)
    took = []
    for n in range(samples):
        path = dice.choice(made)
        before = os.stat(index).st_ino
        begin = time.perf_counter()
        path.write_text(path.read_text().replace("date: 2026", f"date: {2000 + n % 25}"))
        while os.stat(index).st_ino == before:
            if time.perf_counter() - begin > 10:
                raise RuntimeError(f"the index did not change within 10 s of an edit of {path}")
            time.sleep(0.001)
        took.append((time.perf_counter() - begin) * 1000)
        time.sleep(1.2)  # longer than the shards' min_interval, so that edits don't wait for another
    return took


def main() -> None:
    """Measure without and with reading the files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_filesystem")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--samples", type=int, default=30)
    parser.add_argument("--idle", type=float, default=0.0, metavar="SECONDS", help="measure it at rest too")
    chosen = parser.parse_args()
    rows = {
        name: scans(chosen.files, reads=reads, samples=chosen.samples, idle=chosen.idle)
        for name, reads in (("names and times", False), ("front matter and heads", True))
    }
    show(f"a watched tree of {chosen.files:,} files", rows)


if __name__ == "__main__":
    main()

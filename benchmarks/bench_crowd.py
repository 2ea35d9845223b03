"""`python -m benchmarks.bench_crowd [--clients N] [--seconds N]`: a crowd at `sitemapd serve`, on loopback.

Two thousand clients for a minute, with slow, broken and hostile ones among them (benchmarks/crowd.py). Exits
with 1 if an event that was answered with 202 is not published, if anything else is, if an answer was wrong,
if `/livez` or `/readyz` failed, if its memory grew, or if a log has a traceback. Clients, server,
Redis and workers share the machine, so latencies are those of the clients' processes too.
"""

from __future__ import annotations

import argparse
import http.client
import multiprocessing
import re
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import crowd
from benchmarks.bench_http import Server, serving, settled
from benchmarks.service import quantile, running

PROCESSES: Final = 2
EVERY_S: Final = 0.2
"""How often `/livez` is asked and the memory read."""
PEAK_MB: Final = 250.0
GROWTH_MB: Final = 15.0
"""How much larger the memory may become in the last third of a run than it was in the second."""
_URL: Final = re.compile(r"<loc>([^<]+)</loc><lastmod>([^<]+)</lastmod>")

_TRACEBACK: Final = re.compile(r"^Traceback .*\n(?: .*\n)*.*", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What was seen of the server from outside while the crowd was there."""

    megabytes: list[float]
    """Of its resident memory, from before the first client to after the last."""
    livez: list[float]
    """Seconds of each answer of `/livez` on the clients' port."""
    probes: list[float]
    """Seconds of each answer of `/livez` and `/readyz` on a port of their own."""
    faults: list[str]

    def third(self, number: int) -> float:
        """The largest memory, in MB, of a third (0, 1, 2) of the run."""
        size = max(1, len(self.megabytes) // 3)
        return max(self.megabytes[number * size : (number + 1) * size or None])


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run came to."""

    figures: dict[str, float]
    answers: Counter[tuple[str, str]]
    faults: list[str]


def press(server: Server, clients: int, seconds: float) -> tuple[crowd.Notes, Watch]:
    """Let the crowd at a server, and watch it meanwhile."""
    watch = Watch(megabytes=[_resident(server.pid)], livez=[], probes=[], faults=[])
    with (
        ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as processes,
        ThreadPoolExecutor(1) as patient,
    ):
        parts = [
            processes.submit(crowd.run, server.address, clients, slice(number, None, PROCESSES), seconds)
            for number in range(PROCESSES)
        ]
        among_clients = patient.submit(_livez, server, watch)
        while not all(part.done() for part in parts):
            watch.probes.extend(_ask(server.probes, path, watch.faults) for path in ("/livez", "/readyz"))
            watch.megabytes.append(_resident(server.pid))
            if among_clients.done():
                among_clients = patient.submit(_livez, server, watch)
            time.sleep(EVERY_S)
        notes = crowd.Notes()
        for part in parts:
            notes.join(part.result())
    return notes, watch


def judge(notes: crowd.Notes, watch: Watch, output: Path, clients: int, seconds: float) -> Report:
    """Compare what is published, once all is, with what the clients were told."""
    published = listed(output)
    lost = [loc for loc, lastmod in notes.expected.items() if lastmod and published.get(loc) != lastmod]
    extra = [loc for loc in published if notes.expected.get(loc) is None]
    faults = [*notes.faults, *watch.faults]
    faults += [f"lost: {loc} {notes.expected[loc]}, published is {published.get(loc)}" for loc in lost]
    faults += [f"published, though it was refused or deleted: {loc}" for loc in extra]
    growth = watch.third(2) - watch.third(1)
    if growth > GROWTH_MB or max(watch.megabytes) > PEAK_MB:
        faults.append(f"memory: {growth:.0f} MB of growth, {max(watch.megabytes):.0f} MB at most")
    figures: dict[str, float] = {
        "clients": clients,
        "seconds": seconds,
        "answered 202/s": len(notes.took) / seconds,
        "p50 ms": quantile(notes.took, 0.5) * 1000,
        "p99 ms": quantile(notes.took, 0.99) * 1000,
        "livez max ms": max(watch.livez) * 1000,
        "probes max ms": max(watch.probes) * 1000,
        "MB at start": watch.megabytes[0],
        "1st third": watch.third(0),
        "2nd third": watch.third(1),
        "3rd third": watch.third(2),
        "URLs": len(published),
        "lost": len(lost) + len(extra),
    }
    return Report(figures=figures, answers=notes.answers, faults=faults)


def listed(output: Path) -> dict[str, str]:
    """The URLs of the published files, with their lastmods; one that stands twice is a ValueError."""
    found: dict[str, str] = {}
    for file in output.glob("sitemap-*.xml"):
        for loc, lastmod in _URL.findall(file.read_text("utf-8")):
            if loc in found:
                raise ValueError(f"{loc} is published twice")
            found[loc] = lastmod
    return found


def run(clients: int, seconds: float) -> Report:
    """Start a service, let the crowd at it, and judge what came of it."""
    with running(extra=crowd.SETTINGS) as service:
        with serving(service) as server:
            notes, watch = press(server, clients, seconds)
            settled(service)
        report = judge(notes, watch, service.output, clients, seconds)
        for log in ("serve.log", "worker.log"):
            report.faults.extend(
                f"{log}: {found}" for found in tracebacks((service.folder / log).read_text())
            )
    return report


def tracebacks(log: str) -> list[str]:
    """The tracebacks of a log."""
    return [found[0] for found in _TRACEBACK.finditer(log)]


def _livez(server: Server, watch: Watch) -> None:
    watch.livez.append(_ask(server.address, "/livez", watch.faults))


def _ask(address: tuple[str, int], path: str, faults: list[str]) -> float:
    """Seconds until an answer on a new connection."""
    begin = time.perf_counter()
    asked = http.client.HTTPConnection(*address, timeout=30)
    try:
        asked.request("GET", path)
        status = asked.getresponse().status
        if status != 200:
            faults.append(f"{path} was answered with {status}")
    except OSError as error:
        faults.append(f"{path} was not answered: {error!r}")
    finally:
        asked.close()
    return time.perf_counter() - begin


def _resident(pid: int) -> float:
    """Resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1000


def show_report(report: Report, title: str) -> None:
    """Print the figures, the answers by the kind of request, and the faults."""
    from benchmarks.__main__ import show

    statuses = sorted({status for _, status in report.answers})
    names = sorted({name for name, _ in report.answers})
    show(title, {"": report.figures})
    show("answers", {name: {each: report.answers[name, each] for each in statuses} for name in names})
    for fault in report.faults[:20]:
        print(f"FAULT {fault}", file=sys.stderr)
    if len(report.faults) > 20:
        print(f"… and {len(report.faults) - 20} more", file=sys.stderr)


def main() -> None:
    """Run it and print two tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_crowd")
    parser.add_argument("--clients", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60.0)
    chosen = parser.parse_args()
    report = run(chosen.clients, chosen.seconds)
    show_report(report, f"{chosen.clients:,} clients for {chosen.seconds:g} s")
    sys.exit(bool(report.faults))


if __name__ == "__main__":
    main()

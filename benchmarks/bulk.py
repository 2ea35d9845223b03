"""Bulk load through `push -`, and what a million URLs cost; then events spread at random over them."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

from benchmarks.peer import rebuild
from benchmarks.service import Service, cpu_seconds
from benchmarks.urls import ndjson, urls
from sitemap_store.model.events import Event
from sitemap_store.redis.claims import Wake


def write_input(file: Path, count: int) -> None:
    """The events of a bulk load as a file, made before the clock starts."""
    with file.open("w") as lines:
        lines.writelines(ndjson(count))


def bulk(service: Service, count: int) -> dict[str, float]:
    """Push `count` URLs from a file and wait until they are published."""
    source = service.folder / "bulk.ndjson"
    write_input(source, count)
    client = service.parts().client
    before, cpu = client.info("memory")["used_memory"], service.cpu()
    begin = time.perf_counter()
    command = service.command("push", "-", "--wait", "600")
    with source.open("rb") as lines, subprocess.Popen(command, stdin=lines, stdout=subprocess.PIPE) as push:
        assert push.stdout is not None
        push.stdout.readline()  # "accepted …": all is in Redis
        pushed = time.perf_counter() - begin
        cpu_push = cpu_seconds(push.pid)
    took = time.perf_counter() - begin
    if push.returncode:
        raise RuntimeError(f"push ended with {push.returncode}")
    cpu = {name: seconds - cpu[name] for name, seconds in service.cpu().items()}
    time.sleep(1)
    after = client.info("memory")["used_memory"]
    peaks = service.worker_peaks()
    peer = rebuild(source, service.folder / "peer")
    source.unlink()
    return {
        "URLs": count,
        "seconds": took,
        "URLs/s": count / took,
        "push alone URLs/s": count / pushed,
        "CPU µs/URL: push": cpu_push / count * 1e6,
        "Redis": cpu["Redis"] / count * 1e6,
        "workers": cpu["workers"] / count * 1e6,
        "Redis bytes/URL": (after - before) / count,
        "worker peak MB": max(list(peaks.values())[1:]) / 1e6,
        "peer's rebuild s": peer,
        "took/peer": took / peer,
        "rewrites": int(client.hget("sm:{main.0}:stats", "rewrites") or 0),
    }


def scattered(service: Service, site: int, count: int) -> dict[str, float]:
    """Update `count` URLs spread at random over a site of `site` URLs, one batch after the other."""
    parts = service.parts()
    store, client = parts.store("main"), parts.client
    dice = random.Random(3)
    locs = [loc for loc, _ in urls(site)]
    events = [Event("update", dice.choice(locs), lastmod="2026-11-30T10:00:00Z") for _ in range(count)]
    before = int(client.hget("sm:{main.0}:stats", "rewrites") or 0)
    begin = time.perf_counter()
    for start in range(0, count, 500):
        wakes: list[Wake] = store.append(events[start : start + 500], delay_ms=150)
        parts.waker.wake("main", wakes)
    appended = time.perf_counter() - begin
    while store.unsettled(2**52):
        time.sleep(0.02)
    took = time.perf_counter() - begin
    rewrites = int(client.hget("sm:{main.0}:stats", "rewrites") or 0) - before
    return {
        "events": count,
        "seconds": took,
        "events/s": count / took,
        "append alone events/s": count / appended,
        "files rewritten": rewrites,
        "events per rewrite": count / max(1, rewrites),
    }

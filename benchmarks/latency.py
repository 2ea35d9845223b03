"""One event → its shard's lastmod bumped in the index file, as a reader of the output sees it."""

from __future__ import annotations

import os
import random
import time

from benchmarks.service import Service, quantile
from benchmarks.urls import urls
from sitemap_store.model.events import Event


def one_event(service: Service, site: int, samples: int = 200) -> dict[str, float]:
    """Update one URL at a time, and watch the index file change.

    The shards take turns, so that none is met again within its `min_interval`: what is measured is
    the leading edge.
    """
    publisher = service.parts().publisher("main")
    dice = random.Random(5)
    locs = [loc for loc, _ in urls(site)]
    shards = [locs[start : start + 1000] for start in range(0, site, 1000)]
    gap = max(0.05, 1.3 / len(shards))
    index = service.output / "sitemap.xml"
    took: list[float] = []
    for n in range(samples):
        loc = dice.choice(shards[n % len(shards)])
        before = os.stat(index).st_ino
        begin = time.perf_counter()
        publisher.send([Event("update", loc, lastmod=f"2026-11-{n % 28 + 1:02}T10:{n % 60:02}:00Z")])
        while os.stat(index).st_ino == before:
            if time.perf_counter() - begin > 5:
                raise RuntimeError("the index did not change within 5 s")
            time.sleep(0.0005)
        took.append((time.perf_counter() - begin) * 1000)
        time.sleep(gap)
    return {"p50 ms": quantile(took, 0.5), "p99 ms": quantile(took, 0.99), "max ms": max(took)}

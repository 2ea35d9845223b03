"""One event → its shard's lastmod bumped in the index file, as a reader of the output sees it."""

from __future__ import annotations

import os
import random
import re
import time
from typing import Final

from benchmarks.service import Service, quantile
from benchmarks.urls import urls
from sitemap_store.model.dates import format_instant
from sitemap_store.model.events import Event

_LISTED: Final = re.compile(rb"<loc>[^<]*/([^</]+)</loc><lastmod>([^<]+)</lastmod>")


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


def steady(service: Service, site: int, *, rate: float = 10.0, seconds: float = 60.0) -> dict[str, float]:
    """Update URLs at random moments, `rate` a second, wherever they lie; a shard may be met again at once.

    A change is seen when the index gives its shard a lastmod from after the change was sent.
    """
    publisher = service.parts().publisher("main")
    store, dice = publisher.store, random.Random(7)
    locs = [loc for loc, _ in urls(site)]
    index = service.output / "sitemap.xml"
    took: list[float] = []
    waiting: list[tuple[bytes, str, float]] = []
    begin = time.perf_counter()
    due, seen, sent = begin, 0, 0
    while time.perf_counter() < begin + seconds or waiting:
        now = time.perf_counter()
        if due <= now < begin + seconds:
            loc = dice.choice(locs)
            found = store.find(loc)
            assert found is not None
            waiting.append((found.file.encode(), format_instant(store.now(), always_milliseconds=True), now))
            day = f"2026-11-{sent % 28 + 1:02}T{sent // 28 % 24:02}:{sent // 700 % 60:02}:00Z"
            publisher.send([Event("update", loc, lastmod=day)])
            sent, due = sent + 1, due + dice.expovariate(rate)
        if (inode := os.stat(index).st_ino) != seen:
            seen = inode
            read = time.perf_counter()
            listed = dict(_LISTED.findall(index.read_bytes()))
            for each in list(waiting):
                file, since, sent_at = each
                if _padded(listed[file].decode()) > since:
                    waiting.remove(each)
                    took.append((read - sent_at) * 1000)
        if waiting and time.perf_counter() - waiting[0][2] > 10:
            raise RuntimeError("the index did not show a change within 10 s")
        time.sleep(0.0005)
    return {
        "changes": float(sent),
        "p50 ms": quantile(took, 0.5),
        "p99 ms": quantile(took, 0.99),
        "max ms": max(took),
    }


def _padded(lastmod: str) -> str:
    """A lastmod with its milliseconds, so that texts sort as their times do."""
    return lastmod if "." in lastmod else lastmod.replace("Z", ".000Z")

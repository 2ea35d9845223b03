"""How often the keeper looks: rarely while jobs wait anyway, and never less than once a second."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from sitemap_store.redis.claims import Wake
from worker.keeper import BUSY_S, ENOUGH, ENOUGH_S, SLOWEST_S, Beat, Keeper


class Partition:
    """Stands for a partition with one shard that is due at each look."""

    site = SimpleNamespace(name="shop", compact_below=0)

    def __init__(self) -> None:
        self.looks: list[float] = []

    def has_due(self) -> bool:
        """It is."""
        return True

    def keep(self, *, lost_ms: int) -> tuple[int | None, Wake]:
        """Note when it was asked."""
        self.looks.append(time.monotonic())
        return None, Wake(0, ("1",))

    def beat(self, names: list[str]) -> list[str]:
        """Nobody is stuck."""
        return []


@pytest.mark.parametrize("jobs", [0, ENOUGH - 1, ENOUGH, 10 * ENOUGH])
def test_due_shards_wait_while_jobs_do_and_not_for_long(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few jobs every tick looks; with enough of them the ticks within a second don't."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    partition, enqueued = Partition(), []
    waker: Any = SimpleNamespace(
        waiting=lambda: jobs, wake=lambda site, wakes: enqueued.append((site, *wakes))
    )
    some: Any = [partition]
    keeper = Keeper(some, waker, Beat(alive=list, stuck=lambda _: None))
    ticks = 0
    while now < 103:
        pause = keeper.tick()
        assert 0 < pause <= max(BUSY_S, SLOWEST_S)
        now += pause
        ticks += 1
    assert len(enqueued) == len(partition.looks)
    gaps = [late - early for early, late in zip(partition.looks, partition.looks[1:], strict=False)]
    if jobs < ENOUGH:
        assert len(partition.looks) == ticks
    else:
        assert len(partition.looks) < ticks
        assert max(gaps) < ENOUGH_S + 2 * BUSY_S
        assert min(gaps) >= ENOUGH_S


def test_a_keeper_with_nothing_due_asks_no_more_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """At rest it runs the script only for leases and tombstones; once a shard is due, with the next look."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    partition = Partition()
    due = False
    monkeypatch.setattr(partition, "has_due", lambda: due)
    waker: Any = SimpleNamespace(waiting=lambda: 0, wake=lambda site, wakes: None)
    some: Any = [partition]
    keeper = Keeper(some, waker, Beat(alive=list, stuck=lambda _: None))
    while now < 110:
        now += keeper.tick()
    assert 4 <= len(partition.looks) <= 10
    due = True
    keeper.tick()
    assert partition.looks[-1] == now

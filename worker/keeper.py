"""The keeper: enqueues what is due and has no job, and says which workers are alive.

Wake-ups get lost (RQ's Redis away, a producer killed between append and enqueue, a worker killed with
a job in hand) and times come (min_interval, tombstones): all of that is in the state, and one script
call per partition finds it. Several keepers may run; what one returns is marked as scheduled.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sitemap_store.errors import Unavailable
from sitemap_store.redis.state import Partition
from sitemap_store.redis.wake import Waker
from worker.merge import NOTHING_MS

log = logging.getLogger(__name__)

LOST_IDLE_MS = 1000
"""With an empty queue: how old a job's mark may be before the job counts as lost."""
LOST_BUSY_MS = 60_000
"""With jobs waiting: theirs may be among them."""
FASTEST_S = 0.03
SLOWEST_S = 0.15
"""Also the pause after finding something: what comes due meanwhile then shares a job."""
IDLE_S = 0.3
"""The pause while nothing is due. What an append or a worker makes due at once is enqueued by them, so this
delays only what is put off (by `min_interval` or as part of a bulk load) just after a quiet time."""
BUSY = 8
BUSY_S = 0.3
"""The pause after finding that many members at once: in bulk, more of them then share RQ's work for a job."""
ENOUGH = 4
ENOUGH_S = 1.0
"""How long what is due may wait while that many jobs do: it then shares fewer and longer ones."""
BEAT_S = 2.0
"""Also how often the keeper looks although nothing is due: for leases and tombstones whose time is over."""
MERGE_S = 5.0
"""How often the keeper looks for a section with sparse shards; two of them are then merged."""


class Beat(NamedTuple):
    """Names of the workers that run, and what to do with those that hold a lease for too long."""

    alive: Callable[[], Sequence[str]]
    stuck: Callable[[Sequence[str]], None]


class Keeper:
    """Looks after the partitions of all sites."""

    def __init__(self, partitions: Iterable[Partition], waker: Waker, beat: Beat) -> None:
        self._partitions = tuple(partitions)
        self._waker = waker
        self._beat = beat
        self._next_beat = 0.0
        self._next_merge = 0.0
        self._kept = float("-inf")
        self._away = False

    def tick(self) -> float:
        """Enqueue what is due; seconds until the next tick. Redis being away is said once."""
        try:
            pause = self._tick()
        except Unavailable as error:
            if not self._away:
                log.error(
                    "%s %s; nothing is published until it is back",
                    error.what[:1].upper() + error.what[1:],
                    error.detail,
                    extra={"action": "redis_away"},
                )
            self._away = True
            return 0.5
        if self._away:
            log.info("Redis is back, and publishing goes on", extra={"action": "redis_back"})
        self._away = False
        return pause

    def _tick(self) -> float:
        now = time.monotonic()
        if now < min(self._next_beat, self._next_merge) and not any(
            partition.has_due() for partition in self._partitions
        ):
            return IDLE_S
        jobs, pause = self._waker.waiting(), BUSY_S
        if jobs < ENOUGH or now - self._kept >= ENOUGH_S:
            self._kept = now
            pause = self._keep(LOST_BUSY_MS if jobs else LOST_IDLE_MS)
        if jobs < ENOUGH and now >= self._next_merge:
            self._next_merge = now + MERGE_S
            self._merge()
        if now >= self._next_beat:
            self._next_beat = now + BEAT_S
            names = self._beat.alive()
            for partition in self._partitions:
                stuck = partition.beat(names)
                if stuck:
                    self._beat.stuck(stuck)
        return pause

    def _keep(self, lost_ms: int) -> float:
        pause, found = SLOWEST_S, 0
        for partition in self._partitions:
            wait, wake = partition.keep(lost_ms=lost_ms)
            found += len(wake.members)
            if wake.members:
                self._waker.wake(partition.site.name, [wake])
            if wait is not None and not wake.members:
                pause = min(pause, max(FASTEST_S, wait / 1000))
        return BUSY_S if found >= BUSY else pause

    def _merge(self) -> None:
        for partition in self._partitions:
            if partition.site.compact_below:
                now, section = partition.merge_turn(NOTHING_MS)
                if section is not None:
                    self._waker.merge(partition.site.name, partition.number, section, now)

    def release(self, workers: Sequence[str]) -> None:
        """Free what dead workers held and enqueue it. Raises Unavailable."""
        for partition in self._partitions:
            wake = partition.release(workers)
            if wake.members:
                log.warning(
                    "Took back %s from dead workers %s",
                    ", ".join(wake.members),
                    ", ".join(workers),
                    extra={"action": "leases_released", "site": partition.site.name},
                )
                self._waker.wake(partition.site.name, [wake])

    def leftovers(self, host: str, dead: Callable[[str], bool]) -> list[str]:
        """Lease holders of this host that are dead, from an earlier run. Raises Unavailable."""
        names: set[str] = set()
        for partition in self._partitions:
            names.update(partition.holders())
        return sorted(name for name in names if name.startswith(f"{host}.") and dead(name))

"""Wake-ups: RQ jobs that tell the workers to look at a shard or an index file.

RQ is only the wake-up. The truth is in the state, so a job that is lost, late or run twice costs
time and nothing else: the keeper enqueues again what is due and has no job.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import redis
from rq import Queue
from rq.serializers import JSONSerializer

from sitemap_store.model.wire import PUBLISH_INDEX, QUEUE, REWRITE_SHARDS
from sitemap_store.redis.claims import Wake
from sitemap_store.redis.connection import translated

MERGE_SHARDS = "worker.jobs.merge_shards"
"""The dotted name of the job that merges two shards: only the keeper enqueues it."""
JOB_TIMEOUT_S = 120
FAILURE_TTL_S = 24 * 3600
SHARDS_PER_JOB = 32
"""RQ asks Redis 27 times for a job, ten times as often as the rewrites do: in bulk, jobs take many shards."""


class Waker:
    """Enqueues the jobs of wake-ups. Raises Unavailable when the queue's Redis is."""

    def __init__(self, client: redis.Redis) -> None:
        self._queue = Queue(QUEUE, connection=client, serializer=JSONSerializer)

    def wake(self, site: str, wakes: Iterable[Wake]) -> int:
        """Enqueue jobs for the members; returns how many. Index files go to the queue's head.

        Shards that turn due at once share jobs, 4 to 32 in each.
        """
        jobs: list[tuple[str, list[object]]] = []
        indexes: list[tuple[str, list[object]]] = []
        for partition, members in wakes:
            shards = [int(member) for member in members if not member.startswith("i")]
            size = min(SHARDS_PER_JOB, max(4, (len(shards) + 1) // 2))
            for start in range(0, len(shards), size):
                jobs.append((REWRITE_SHARDS, [site, partition, shards[start : start + size]]))
            for member in members:
                if member.startswith("i"):
                    indexes.append((PUBLISH_INDEX, [site, partition, int(member[1:])]))
        if jobs or indexes:
            with translated("the queue's Redis"):
                self._enqueue(jobs, at_front=False)
                self._enqueue(indexes, at_front=True)
        return len(jobs) + len(indexes)

    def merge(self, site: str, partition: int, section: str, now: int) -> None:
        """Enqueue a job that merges two sparse shards of a section, by what was old at `now` (epoch ms)."""
        with translated("the queue's Redis"):
            self._enqueue([(MERGE_SHARDS, [site, partition, section, now])], at_front=False)

    def waiting(self) -> int:
        """How many jobs wait in the queue."""
        with translated("the queue's Redis"):
            return len(self._queue)

    def _enqueue(self, jobs: list[tuple[str, list[object]]], *, at_front: bool) -> None:
        if not jobs:
            return
        self._queue.enqueue_many(
            [
                Queue.prepare_data(
                    name,
                    args=args,
                    job_id=uuid.uuid4().hex,
                    timeout=JOB_TIMEOUT_S,
                    result_ttl=0,
                    failure_ttl=FAILURE_TTL_S,
                    description=f"{name.rpartition('.')[2]} {args}",
                    at_front=at_front,
                )
                for name, args in jobs
            ]
        )

"""One worker process: an RQ SimpleWorker that runs our jobs and nothing else."""

from __future__ import annotations

import logging

import redis
from rq import Queue, SimpleWorker
from rq.job import Job
from rq.serializers import JSONSerializer

from sitemap_store.wire import QUEUE
from worker.jobs import Sites, job_class

WORKER_TTL_S = 60
MAINTENANCE_S = 30


class ShardWorker(SimpleWorker):
    """Ends after the job in hand when Redis was lost in it, as it does on SIGTERM."""

    redis_lost = False
    # RQ waits up to a minute between two tries to reconnect; a change must not.
    max_connection_wait_time = 2.0

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run one job in this process."""
        super().execute_job(job, queue)
        if self.redis_lost:
            self._stop_requested = True


class _NoTraceback(logging.Filter):
    """RQ logs an outage with its traceback; an operator needs the sentence."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, redis.RedisError):
            record.msg, record.args = "Redis went away (%s); the worker ends and starts anew", (error,)
            record.exc_info = None
            record.action = "redis_lost"
        return True


def run_worker(client: redis.Redis, name: str, sites: Sites) -> bool:
    """Work until SIGTERM or SIGINT, or until Redis is lost; whether any job was run.

    Logging must be configured before: RQ would add handlers of its own otherwise. `client` is the
    queue's Redis, apart from the state's, since RQ changes its time-outs.
    """
    for logger in ("rq.worker", "rq.job", "rq.queue"):
        logging.getLogger(logger).setLevel(logging.WARNING)
    logging.getLogger("rq.worker").addFilter(_NoTraceback())
    holder: list[ShardWorker] = []

    def lost() -> None:
        holder[0].redis_lost = True

    jobs = job_class(sites, lost)
    worker = ShardWorker(
        [Queue(QUEUE, connection=client, serializer=JSONSerializer, job_class=jobs)],
        name=name,
        connection=client,
        job_class=jobs,
        serializer=JSONSerializer,
        worker_ttl=WORKER_TTL_S,
        maintenance_interval=MAINTENANCE_S,
        default_result_ttl=0,
        log_job_description=False,
    )
    holder.append(worker)
    return bool(worker.work(logging_level="WARNING"))

"""One worker process: an RQ SimpleWorker that runs our jobs and nothing else."""

from __future__ import annotations

import logging
import time

import redis
from rq import Queue, SimpleWorker
from rq.job import Job
from rq.serializers import JSONSerializer

from sitemap_store.errors import Unavailable
from sitemap_store.model.wire import QUEUE
from sitemap_store.redis.connection import translated
from worker.jobs import Sites, job_class

log = logging.getLogger(__name__)

WORKER_TTL_S = 60
MAINTENANCE_S = 30
RETRY_S = 0.5
PROBE = "rq:sitemapd:probe"
"""Below RQ's own prefix, so that a Redis user with RQ's rights may write it."""
_OUR_PART = "/worker/jobs.py"
"""In each traceback of a job of ours that had begun and not ended."""
SAY_AGAIN_S = 60.0
"""RQ tries to reconnect every second, and says so each time."""


class ShardWorker(SimpleWorker):
    """Ends after the job in hand when Redis was lost in it, as it does on SIGTERM."""

    redis_lost = False
    # RQ waits up to a minute between two tries to reconnect; a change must not.
    max_connection_wait_time = 1.0

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run one job in this process."""
        super().execute_job(job, queue)
        if self.redis_lost:
            self._stop_requested = True


class Sentences(logging.Filter):
    """What RQ says of an outage, as a sentence with an action, without its traceback and once a minute."""

    def __init__(self, worker: str) -> None:
        super().__init__()
        self._worker = worker
        self._silent_until = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Put a record into our words; false for one that was said a moment ago."""
        error = record.exc_info[1] if record.exc_info else None
        message = record.getMessage()
        record.worker = self._worker
        if isinstance(error, redis.RedisError):
            record.msg = "Redis went away (%s); the worker ends and another starts"
            record.args, record.exc_info, record.action = (error,), None, "redis_lost"
        elif "could not connect to Redis" in message:
            if time.monotonic() < self._silent_until:
                return False
            self._silent_until = time.monotonic() + SAY_AGAIN_S
            error = next((arg for arg in record.args or () if isinstance(arg, Exception)), None)
            record.msg = "Redis can't be reached (%s); the worker tries again every second"
            record.args, record.action = (str(error or "").rstrip("."),), "redis_away"
        elif "Traceback" in message:
            reason = message.rstrip().rpartition("\n")[2]
            if reason.startswith("redis."):
                record.msg = "Redis went away during a job (%s); the keeper has it done again"
                record.args, record.action = (reason,), "redis_lost"
            elif reason.startswith("rq."):  # not ours: data that can't be read, a time-out
                record.msg, record.args, record.action = "A job was given up (%s)", (reason,), "job_failed"
            elif _OUR_PART not in message:  # such as a record of a job that RQ itself has removed already
                record.msg = (
                    "RQ could not start or finish a job (%s); the keeper has it done again if need be"
                )
                record.args, record.action = (reason,), "job_failed"
        return True


def _await_redis(client: redis.Redis, name: str) -> None:
    """Return once Redis takes a write: a worker that ended instead would be started again and again.

    One that is full, or has too few replicas, answers a ping all the same.
    """
    said = False
    while True:
        try:
            with translated("the queue's Redis"):
                client.set(PROBE, name, px=1000)
        except Unavailable as error:
            if not said:
                log.error(
                    "%s; a worker waits for it",
                    _capital(error),
                    extra={"action": "redis_away", "worker": name},
                )
            said = True
            time.sleep(RETRY_S)
        else:
            return


def _capital(error: Unavailable) -> str:
    text = f"{error.what} {error.detail}".rstrip(".")
    return text[:1].upper() + text[1:]


def run_worker(client: redis.Redis, name: str, sites: Sites) -> bool:
    """Work until SIGTERM or SIGINT, or until Redis is lost in a job; whether any job was run.

    Logging must be configured before: RQ would add handlers of its own otherwise. `client` is the
    queue's Redis, apart from the state's, since RQ changes its time-outs. Raises Unavailable.
    """
    for logger in ("rq.worker", "rq.job", "rq.queue"):
        logging.getLogger(logger).setLevel(logging.WARNING)
    logging.getLogger("rq.worker").addFilter(Sentences(name))
    holder: list[ShardWorker] = []

    def lost() -> None:
        holder[0].redis_lost = True

    jobs = job_class(sites, lost)
    _await_redis(client, name)
    with translated("the queue's Redis"):
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

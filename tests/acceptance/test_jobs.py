"""Jobs that were enqueued by others' hands: RQ's queue is only a bell, and anybody may ring it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rq import Callback, Queue
from rq.serializers import JSONSerializer

from sitemap_store.model.wire import PUBLISH_INDEX, QUEUE, REWRITE_SHARDS
from tests.acceptance.place import BASE, Place, Service, add, settings
from tests.acceptance.until import until
from tests.published import picture, published
from tests.redis_server import RedisServer


@pytest.fixture
def queue(any_redis: RedisServer) -> Iterator[Queue]:
    """Give the workers' queue on an emptied server."""
    any_redis.flush()
    with any_redis.client() as client:
        yield Queue(QUEUE, connection=client, serializer=JSONSerializer)


@pytest.fixture
def worker(place: Place, any_redis: RedisServer, queue: Queue) -> Service:
    """Give a worker with twelve URLs in two shards published, and a module that leaves a trace when run."""
    place.configure(settings(any_redis.url, shard_size=10))
    (place.folder / "evil.py").write_text(
        "from pathlib import Path\n"
        "Path('imported').touch()\n"
        "def run(*args, **kwargs):\n    Path('ran').touch()\n"
    )
    worker = place.worker()
    place.events(*[add(f"p/{n}") for n in range(12)])
    place.wait()
    return worker


def traces(place: Place) -> list[str]:
    """What ran that must not."""
    return [path.name for path in place.folder.iterdir() if path.name in {"imported", "ran"}]


def test_a_function_that_is_not_ours_is_refused(place: Place, worker: Service, queue: Queue) -> None:
    """`os.system` and others are named in the log, and neither imported nor run; the worker goes on."""
    trace = place.folder / "ran"
    queue.enqueue("os.system", f"touch {trace}")
    queue.enqueue("evil.run")
    queue.enqueue("worker.jobs.log.error", "x")
    worker.says("'os.system'")
    worker.says("[job_refused", times=3)
    assert traces(place) == []
    place.ok("push", "add", f"{BASE}more")
    place.wait()
    assert f"{BASE}more" in published(place.output)
    assert worker.count("[worker_started") == 2, "no worker had to be started anew"


def test_callbacks_of_a_job_are_not_run(place: Place, worker: Service, queue: Queue) -> None:
    """A job of ours that names callbacks runs, and they don't."""
    hooks = {"on_success": Callback("evil.run"), "on_failure": Callback("evil.run")}
    queue.enqueue("os.system", f"touch {place.folder / 'ran'}", **hooks)
    queue.enqueue(REWRITE_SHARDS, "main", 0, [1], **hooks)
    worker.says("[job_refused")
    until(queue.is_empty, what="the jobs are done")
    place.ok("push", "add", f"{BASE}more")
    place.wait()
    assert traces(place) == []


def test_jobs_of_ours_may_come_twice_or_for_nothing(place: Place, worker: Service, queue: Queue) -> None:
    """Needless, repeated and wrong jobs change no file and end no worker."""
    before = picture(place.output)
    for _ in range(3):
        queue.enqueue(REWRITE_SHARDS, "main", 0, [1, 2, 2, 1])
        queue.enqueue(PUBLISH_INDEX, "main", 0, 1)
    for wrong in (
        ("nowhere", 0, [1]),
        ("main", 7, [1]),
        ("main", 0, [99]),
        ("main", 0, ["x"]),
        ("main",),
        (),
    ):
        queue.enqueue(REWRITE_SHARDS, *wrong)
        queue.enqueue(PUBLISH_INDEX, *wrong)
    until(queue.is_empty, what="the jobs are done")
    place.ok("push", "add", f"{BASE}more")
    queue.enqueue(REWRITE_SHARDS, "main", 0, [2])
    place.wait()
    assert set(published(place.output)) == {f"{BASE}p/{n}" for n in range(12)} | {f"{BASE}more"}
    after = picture(place.output)
    assert {name for name in after if after[name] != before.get(name)} == {
        "sitemap.xml",
        "sitemap-pages-2.xml",
    }
    assert worker.count("[worker_started") == 2
    assert worker.stop() == 0


def test_a_job_that_can_not_be_read_is_passed_over(place: Place, worker: Service, queue: Queue) -> None:
    """A job whose data is no JSON, or that is gone, stops nobody."""
    job = queue.enqueue("os.system", "true", at_front=True)
    queue.connection.hset(job.key, "data", b"\x80\x04no json")
    queue.connection.rpush(queue.key, "no-such-job")
    place.ok("push", "add", f"{BASE}more")
    place.wait()
    assert Path(place.output / "sitemap-pages-2.xml").read_text().count("more") == 1
    assert worker.alive()

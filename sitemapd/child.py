"""A worker process, as the supervisor starts it: `python -m sitemapd.child NAME`, settings on stdin."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from producers.sink import EventSink
from sitemap_store.errors import SitemapdError, Unavailable
from sitemap_store.model.wire import check_source
from sitemap_store.redis.claims import Wake
from sitemap_store.redis.state import Partition
from sitemapd.begin import Configs
from sitemapd.build import Parts, build
from sitemapd.faults import from_environment
from sitemapd.logs import configure
from sitemapd.memory import ease_collector
from sitemapd.settings import Settings, from_json
from worker.process import run_worker
from worker.publish import SitePublisher

log = logging.getLogger(__name__)

BULK = 200
"""Events of one job from which on the workers are better woken a little later."""


def command(name: str) -> list[str]:
    """The command line of a worker process."""
    return [sys.executable, "-m", "sitemapd.child", name]


def spec(settings: Settings, configs: Configs, *, as_json: bool) -> bytes:
    """What a worker process reads from its standard input: one line."""
    start = {"log_json": as_json, "settings": json.loads(settings.model_dump_json()), "configs": configs}
    return json.dumps(start).encode()


class PushingPublisher(SitePublisher):
    """What a worker does for a site: it rewrites, and takes in the events that apps enqueue."""

    def __init__(self, sink: EventSink, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._sink = sink

    def push(self, items: Sequence[Any], source: str | None) -> None:
        """Check wire events and append them; what is refused is counted and kept."""
        if source is not None:
            check_source(source)
        self._sink.push(items, source=source, bulk=len(items) > BULK)


def publishers(
    parts: Parts, worker: str, fault: Callable[[str], None], configs: Configs
) -> dict[str, PushingPublisher]:
    """What a worker works with, by site."""

    def partitions(site: str) -> tuple[Partition, ...]:
        found = parts.store(site).partitions
        for partition, config in zip(found, configs[site], strict=True):
            partition.config = config
        return found

    def wake(site: str) -> Callable[[Wake], None]:
        def send(members: Wake) -> None:
            try:
                parts.waker.wake(site, [members])
            except Unavailable as error:
                log.warning("%s; the keeper enqueues the jobs later", error, extra={"action": "wake_failed"})

        return send

    return {
        name: PushingPublisher(
            parts.publisher(name),
            site,
            partitions(name),
            parts.folder(name),
            worker,
            wake=wake(name),
            fault=fault,
        )
        for name, site in parts.sites.items()
    }


def end_with_parent(stdin: int) -> None:
    """Ask this process to stop when its standard input closes: the supervisor is gone."""

    def watch() -> None:
        # The descriptor and not the file object: a thread that waits in the object's buffer at exit
        # is a fatal error of the interpreter.
        while os.read(stdin, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def read_line(descriptor: int) -> bytes:
    """The first line of an unbuffered descriptor."""
    line = b""
    while not line.endswith(b"\n") and (more := os.read(descriptor, 65536)):
        line += more
    return line


def main() -> None:
    """Run one worker until it is asked to stop."""
    name = sys.argv[1]
    stdin = sys.stdin.fileno()
    start = json.loads(read_line(stdin))
    configure(as_json=start["log_json"])
    end_with_parent(stdin)
    ease_collector()
    parts = build(from_json(json.dumps(start["settings"])))
    sites = publishers(parts, name, from_environment(os.environ), start["configs"])
    try:
        run_worker(parts.queue_client, name, sites)
    except SitemapdError as error:
        log.error("Worker %s ends: %s", name, error, extra={"action": "worker_failed"})
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()

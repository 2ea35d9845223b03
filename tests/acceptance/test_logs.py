"""What the services log: sentences for people, JSON for machines, and in either an outage is one story."""

from __future__ import annotations

import json
import os
import re
import signal
from typing import Any

import pytest

from tests.acceptance.place import BASE, Place, Service, settings
from tests.acceptance.until import until
from tests.published import published
from tests.redis_server import RedisServer

SENTENCE = re.compile(
    r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING|ERROR) +"
    r"[A-Z][^\[]+( \[[a-z_]+( [a-z_]+=\S*)*\])?"
)


def story(place: Place, server: RedisServer, *flags: str) -> Service:
    """A worker's life: a publish, an outage of Redis, the death of a process, a refused output, the end."""
    server.flush()
    place.secret = "s3cr3t"  # the user named default has none, and so takes any
    place.configure(settings(server.url.replace("unix://", f"unix://default:{place.secret}@")))
    worker = place.worker(*flags)
    place.ok("push", "add", f"{BASE}a")
    place.wait()
    server.stop(kill=True)
    worker.says("nothing is published until it is back")
    os.kill(worker.workers()[0], signal.SIGKILL)
    worker.says("worker_ended")
    worker.says("a worker waits")
    server.start()
    worker.says("redis_back")
    file = place.output / "sitemap-pages-1.xml"
    file.unlink()
    file.mkdir()
    place.ok("push", "add", f"{BASE}b")
    worker.says("publish_postponed")
    file.rmdir()
    until(lambda: f"{BASE}b" in published(place.output), what="it is published after all")
    assert worker.stop() == 0
    return worker


@pytest.fixture
def lines(place: Place, any_redis: RedisServer) -> list[dict[str, Any]]:
    """Give the JSON lines of that life."""
    return [json.loads(line) for line in story(place, any_redis, "--log-json").log.splitlines()]


def test_json_lines_have_time_level_message_and_action(lines: list[dict[str, Any]]) -> None:
    """Every line of every process is one object with the four fields, and the actions tell the story."""
    for line in lines:
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
        assert line["level"] in {"info", "warning", "error"}
        assert line["message"]
        assert "\n" not in line["message"]
        assert line["action"]
    actions = [line["action"] for line in lines]
    assert actions[0] == "started"
    assert actions[-1] == "workers_ended"
    told = [
        "worker_started",
        "shard_published",
        "redis_away",
        "worker_ended",
        "redis_back",
        "publish_postponed",
    ]
    places = [actions.index(action) for action in told]
    assert places == sorted(places)
    first = next(line for line in lines if line["action"] == "shard_published")
    assert (first["site"], first["file"]) == ("main", "sitemap-pages-1.xml")


def test_plain_lines_are_sentences(place: Place, any_redis: RedisServer) -> None:
    """Every line is time, level, a sentence and an action with ids; none is a traceback or a password."""
    for line in story(place, any_redis).log.splitlines():
        assert SENTENCE.match(line), line

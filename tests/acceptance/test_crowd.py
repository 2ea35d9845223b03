"""A crowd with slow, broken and hostile clients in it presses a real server: the load run, made short."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from benchmarks import bench_crowd, crowd
from benchmarks.bench_http import Server
from tests.acceptance.place import Place, settings


@pytest.mark.long
def test_nothing_is_lost_in_a_crowd(place: Place, redis_url: str) -> None:
    """What was answered with 202 is published and nothing else is; no answer was wrong."""
    place.configure("connections = 150\n" + settings(redis_url, fsync=False) + crowd.SETTINGS)
    place.worker()
    service = place.service("serve", "--port", "0")
    said = service.says("Serving at ")
    at = urlsplit(said[said.index("http://") :].split()[0])
    server = Server((at.hostname or "", at.port or 0), service.pid)
    notes, watch = bench_crowd.press(server, 200, 5.0)
    place.wait()
    report = bench_crowd.judge(notes, watch, place.output, 200, 5.0)
    assert not report.faults
    assert report.figures["URLs"] > 0
    asked = {name for name, _ in report.answers}
    assert {"one event", "NDJSON", "webhook", "file", "slow", "torn upload", "idle connections"} <= asked

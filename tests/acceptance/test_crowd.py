"""A crowd with slow, broken and hostile clients in it presses a real server: the load run, made short."""

from __future__ import annotations

import pytest

from benchmarks import bench_crowd, crowd
from benchmarks.bench_http import Server, place_in
from tests.acceptance.place import Place, settings


@pytest.mark.long
def test_nothing_is_lost_in_a_crowd(place: Place, redis_url: str) -> None:
    """What was answered with 202 is published and nothing else is; no answer was wrong."""
    place.configure(
        'connections = 150\nprobes = "127.0.0.1:0"\n' + settings(redis_url, fsync=False) + crowd.SETTINGS
    )
    place.worker()
    service = place.service("serve", "--port", "0")
    at = [place_in(service.says(words), words) for words in ("Serving at ", "Answering probes at ")]
    server = Server(at[0], service.pid, at[1])
    notes, watch = bench_crowd.press(server, 200, 5.0)
    place.wait()
    report = bench_crowd.judge(notes, watch, place.output, 200, 5.0)
    assert not report.faults
    assert report.figures["URLs"] > 0
    asked = {name for name, _ in report.answers}
    assert {"one event", "NDJSON", "webhook", "file", "slow", "torn upload", "idle connections"} <= asked

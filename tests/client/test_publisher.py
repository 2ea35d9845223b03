"""The publisher: it never holds an app up, keeps order, tries again, and says what it dropped."""

from __future__ import annotations

import gc
import logging
import signal
import threading
import tracemalloc
import uuid
from collections.abc import Sequence
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from sitemapd_client import Counts, Publisher, Refusal, Unavailable
from tests.acceptance.until import until
from tests.client.fake_server import (
    Behaviour,
    FakeServer,
    accept,
    answer,
    cut_off,
    hang_up,
    never,
    problem,
    reset,
)

LOC = "https://shop.example.com/tea"
NOBODY = "http://127.0.0.1:9/"


def locs(server: FakeServer) -> list[str]:
    """The URLs of all events that came, in order."""
    return [event["loc"] for request in server.received for event in request.events]


def delivering() -> int:
    """How many threads deliver."""
    return sum(thread.name == "sitemapd-push" for thread in threading.enumerate())


def test_events_are_gathered(server: FakeServer) -> None:
    """Many calls are few requests, in the order of the calls, over one connection."""
    with Publisher(server.url, "smd_secret", "shop", source="cms", timeout=20) as sitemap:
        for number in range(1200):
            sitemap.add(f"{LOC}/{number}")
        sitemap.update(LOC, priority=0.8)
        sitemap.delete(LOC)
        sitemap.flush()
        assert sitemap.counts() == Counts(taken=1202, delivered=1202, refused=0, dropped=0)
    assert locs(server) == [f"{LOC}/{number}" for number in range(1200)] + [LOC, LOC]
    assert len(server.received) < 10
    assert {request.path for request in server.received} == {"/v1/sites/shop/events?source=cms"}
    assert {request.connection for request in server.received} == {1}


@pytest.mark.parametrize(
    "failure",
    [
        problem(503, "unavailable", "Redis is away."),
        problem(429, "backlog", "Wait."),
        problem(401, "token", "The token is not known."),
        problem(404, "site", "No such site."),
        problem(500, "internal"),
        answer(502, b"<html>"),
        answer(202, b"<html>It works!"),
        hang_up,
        reset,
        cut_off,
    ],
)
def test_batch_is_tried_until_it_is_stored(server: FakeServer, failure: Behaviour) -> None:
    """Whatever fails, the same lines come again with the same idempotency key, and later events wait."""
    server.script.extend([failure, failure])
    with Publisher(server.url, timeout=20, batch=1) as sitemap:
        sitemap.add(LOC + "/a")
        sitemap.delete(LOC + "/b")
    assert [request.events[0]["loc"][-1] for request in server.received] == ["a", "a", "a", "b"]
    assert [request.key for request in server.received[:3]] == [server.received[0].key] * 3
    assert server.received[3].key != server.received[0].key


def test_refused_events_are_reported(server: FakeServer, caplog: pytest.LogCaptureFixture) -> None:
    """A refused event is given to the callback, whose error stops nothing, and is counted."""
    row = {"line": 1, "loc": "/x", "rule": "not-absolute", "detail": "D"}
    server.script.append(answer(422, {"accepted": 0, "refused": [row]}))
    told: list[Refusal] = []

    def callback(refusal: Refusal) -> None:
        told.append(refusal)
        raise RuntimeError("of the app")

    with Publisher(server.url, timeout=20, on_refused=callback) as sitemap:
        sitemap.add("/x")
        sitemap.flush()
        sitemap.add(LOC)
        sitemap.flush()
        assert sitemap.counts() == Counts(taken=2, delivered=2, refused=1, dropped=0)
    assert told == [Refusal(1, "/x", "not-absolute", "D")]
    assert "RuntimeError: of the app" in caplog.text


def test_batch_that_is_too_large_is_halved(server: FakeServer) -> None:
    """A server that takes less at once gets less, and a single event that it can't take is refused."""

    taken: list[str] = []

    def small(connection: Any, received: Any) -> bool:
        big = len(received.events) > 2 or b"huge" in received.body
        if big:
            return problem(413, "too-large", "Too large.")(connection, received)
        taken.extend(event["loc"] for event in received.events)
        return accept(connection, received)

    server.script.extend([small] * 99)
    refused: list[Refusal] = []
    with Publisher(server.url, timeout=20, on_refused=refused.append) as sitemap:
        for number in range(9):
            sitemap.add(f"{LOC}/{number}")
        sitemap.add(LOC + "/huge")
    assert [refusal.loc for refusal in refused] == [LOC + "/huge"]
    assert taken == [f"{LOC}/{number}" for number in range(9)]


def test_events_that_waited_long_say_when_they_happened(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an outage an event has the time of its call as `at`, unless it has one."""
    monkeypatch.setattr("sitemapd_client.pending.LATE_S", -1.0)
    with Publisher(server.url, timeout=20) as sitemap:
        sitemap.add(LOC)
        sitemap.delete(LOC, at="2026-03-21")
        sitemap.add(LOC, ext={"at": 1})
    first, second, third = server.received[0].events
    assert first["at"].startswith("20")
    assert second["at"] == "2026-03-21"
    assert third["at"].startswith("20")


# Room


def test_full_queue_drops_and_counts(caplog: pytest.LogCaptureFixture) -> None:
    """Without room an event is dropped, counted and logged, and the app goes on; the log does not fill up."""
    sitemap = Publisher(NOBODY, queue_max=5, timeout=0.5)
    for number in range(105):
        sitemap.add(f"{LOC}/{number}")
    assert sitemap.counts() == Counts(taken=5, delivered=0, refused=0, dropped=100)
    with pytest.raises(Unavailable, match=r"5 events yet \(.*can't be reached"):
        sitemap.close()
    assert sitemap.counts().dropped == 105
    assert caplog.text.count("events are dropped so far") == 7


def test_full_queue_is_an_error_where_that_was_chosen() -> None:
    """With `when_full="error"` the call raises, and says why."""
    sitemap = Publisher(NOBODY, queue_max=1, when_full="error", timeout=0.2)
    sitemap.add(LOC)
    with pytest.raises(Unavailable, match="queue is full: 1 events wait"):
        sitemap.add(LOC)
    with pytest.raises(Unavailable):
        sitemap.close()
    with pytest.raises(Unavailable, match="closed"):
        sitemap.add(LOC)


def test_memory_is_bounded_while_the_server_is_away() -> None:
    """However many and however long events are, what waits in memory has a bound."""
    sitemap = Publisher(NOBODY, timeout=0.1)
    tracemalloc.start()
    try:
        for number in range(100):
            sitemap.add(f"{LOC}/{number}", ext={"x": "x" * 1_000_000})
        for number in range(20_000):
            sitemap.add(f"{LOC}/{number}")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024 * 1024
    assert sitemap.counts().taken < 10_001
    with pytest.raises(Unavailable):
        sitemap.close()


def test_call_never_waits_for_a_server_that_hangs(server: FakeServer) -> None:
    """While a request hangs, calls return: all of them, before the server is let go."""
    server.script.append(never)
    sitemap = Publisher(server.url, timeout=0.1)
    sitemap.add(LOC)
    until(lambda: server.received, what="the request hangs")
    for number in range(5000):
        sitemap.add(f"{LOC}/{number}")
    assert sitemap.counts().taken == 5001
    with pytest.raises(Unavailable, match="5001 events"):
        sitemap.close()


@pytest.mark.parametrize("value", [object(), b"x", float("nan"), {1}])
def test_what_cannot_be_sent_is_refused_at_the_call(server: FakeServer, value: Any) -> None:
    """It is the developer's mistake, whatever `when_full` says, and later events are delivered."""
    with Publisher(server.url, timeout=20) as sitemap:
        with pytest.raises((TypeError, ValueError), match=LOC):
            sitemap.add(LOC, ext={"x": value})
        loc: Any = uuid.UUID(int=7)
        with pytest.raises(TypeError, match="loc is text"):
            sitemap.add(loc)
        sitemap.add(LOC)
    assert locs(server) == [LOC]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"target": "shop.example.com"}, "no address"),
        ({"target": NOBODY, "token": "a\nb"}, "token"),
        ({"target": NOBODY, "source": "my cms"}, "no source"),
        ({"target": NOBODY, "when_full": "wait"}, "when_full"),
    ],
)
def test_wrong_arguments_are_an_error_at_once(arguments: dict[str, Any], said: str) -> None:
    """A publisher that can't work is not made."""
    with pytest.raises(ValueError, match=said):
        Publisher(**arguments)


# Its end


def test_no_thread_is_left(server: FakeServer) -> None:
    """A `with` block and `close` end the thread, however often."""
    for number in range(20):
        with Publisher(server.url, timeout=20) as sitemap:
            sitemap.add(f"{LOC}/{number}")
        sitemap.add(LOC)  # dropped: it is closed
        assert sitemap.counts().dropped == 1
        sitemap.close()
    assert delivering() == 0
    assert len(locs(server)) == 20


def test_thread_that_idles_ends_and_another_starts(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quiet app has no thread and no connection of ours."""
    monkeypatch.setattr("sitemapd_client.delivery.IDLE_S", 0.05)
    with Publisher(server.url, timeout=20) as sitemap:
        for _ in range(2):
            sitemap.add(LOC)
            sitemap.flush()
            until(lambda: delivering() == 0, what="the idle thread ends")
    assert [request.connection for request in server.received] == [1, 2]


def test_publisher_that_is_forgotten_warns(server: FakeServer) -> None:
    """What was not closed gives a ResourceWarning, and what it took is delivered all the same."""
    sitemap = Publisher(server.url, timeout=20, linger=5)
    sitemap.add(LOC)
    held = [sitemap]
    del sitemap
    with pytest.warns(ResourceWarning, match="was not closed"):
        held.clear()  # the last reference
    until(lambda: locs(server) == [LOC] and delivering() == 0, what="it is delivered, and the thread ends")
    gc.collect()


def test_error_of_the_block_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """An error of the app in the `with` block is not hidden by one of the publisher."""

    def work() -> None:
        with Publisher(NOBODY, timeout=0.1) as sitemap:
            sitemap.add(LOC)
            raise KeyError("of the app")

    with pytest.raises(KeyError):
        work()
    assert "has not taken 1 events" in caplog.text


def test_thread_that_ended_by_a_defect_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect that ends the delivering thread is the error of every later call: none waits for ever."""
    monkeypatch.setattr(threading, "excepthook", print)

    class Broken:
        target = "broken"

        def send(self, lines: Sequence[str], key: str, timeout: float) -> Sequence[Refusal]:
            raise RuntimeError("a defect")

        def close(self) -> None:
            pass

    sitemap = Publisher(Broken(), timeout=20, when_full="error")
    sitemap.add(LOC)
    with pytest.raises(Unavailable, match="a defect"):
        sitemap.flush()
    with pytest.raises(Unavailable, match="a defect"):
        sitemap.add(LOC)
    with pytest.raises(Unavailable, match="a defect"):
        sitemap.close()


def test_no_thread_can_be_had(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread starts, events wait without an error, and `close` delivers them itself."""

    class Unstartable(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        sitemap = Publisher(server.url, timeout=20)
        without = SimpleNamespace(**{**vars(threading), "Thread": Unstartable})
        patch.setattr("sitemapd_client.delivery.threading", without)
        sitemap.add(LOC)
        sitemap.close()
    assert locs(server) == [LOC]


def test_signal_handler_may_push(server: FakeServer) -> None:
    """A handler that interrupts a call of the same thread takes no lock twice."""
    with Publisher(server.url, timeout=20) as sitemap:

        def handle(_number: int, _frame: FrameType | None) -> None:
            sitemap.add(LOC + "/signal")

        before = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
            for number in range(3000):
                sitemap.add(f"{LOC}/{number}")
            sitemap.flush()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    plain = [loc for loc in locs(server) if not loc.endswith("signal")]
    assert plain == [f"{LOC}/{number}" for number in range(3000)]


def test_the_log_has_no_token(server: FakeServer, caplog: pytest.LogCaptureFixture) -> None:
    """A token that is not known is logged as such, and not shown."""
    caplog.set_level(logging.DEBUG)
    server.script.append(problem(401, "token", "The token is not known."))
    with Publisher(server.url, "smd_very-secret", timeout=20) as sitemap:
        sitemap.add(LOC)
    assert "answered 401: The token is not known." in caplog.text
    assert "very-secret" not in caplog.text

"""The publisher, over HTTP and straight into Redis: it batches, and outages hold nobody up."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from producers.push import Publisher
from sitemapd_client import Refusal, Unavailable
from sitemapd_client.endpoint import Answer, Endpoint
from tests.acceptance.until import until
from tests.integration.http_world import SECRET, HttpWorld, token
from tests.redis_server import RedisServer
from tests.world import BASE


@pytest.fixture
def world(redis_url: str) -> Iterator[HttpWorld]:
    """Give a server whose site has a token, and whose state says what a producer must know."""
    world = HttpWorld(redis_url, tokens=(token(),))
    for partition in world.store.partitions:
        partition.configure()
    yield world
    world.close()


@pytest.fixture(params=["http", "redis"])
def app(request: pytest.FixtureRequest, world: HttpWorld, redis_url: str) -> Iterator[Publisher]:
    """Give a client, once over HTTP and once straight into Redis."""
    if request.param == "http":
        publisher = Publisher(world.server.address, "shop", token=SECRET, source="app", timeout=20)
    else:
        publisher = Publisher(redis_url, "shop", source="app", timeout=20)
    yield publisher
    publisher.close()


def test_everything_arrives_in_order(world: HttpWorld, app: Publisher) -> None:
    """Adds, updates and deletes of several batches fold to what they say, with the client's source."""
    with app:
        for number in range(1500):
            app.add(f"{BASE}p{number}", lastmod=date(2026, 3, 21), changefreq="daily", priority=0.5)
        app.update(BASE + "p1", lastmod=datetime(2026, 3, 22, 10, tzinfo=UTC))
        app.delete(BASE + "p0")
        app.add(BASE + "p0", at="2026-01-01T00:00:00Z")
    assert world.locs("app") == {f"p{n}" for n in range(1, 1500)}
    found = world.store.find(BASE + "p1")
    assert found is not None
    assert (found.entry.lastmod, found.entry.priority) == ("2026-03-22T10:00:00+00:00", "0.5")


def test_refused_events_are_told(world: HttpWorld, redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A refused event is given to the callback, or logged, and the others arrive."""
    told: list[Refusal] = []
    for target, secret in ((world.server.address, SECRET), (redis_url, None)):
        told.clear()
        with Publisher(target, "shop", token=secret, timeout=20, on_refused=told.append) as app:
            app.add("/x")
            app.add(BASE + "a")
        until(lambda: told, what="the refusal is told")
        assert (told[0].loc, told[0].rule) == ("/x", "not-absolute")
    with Publisher(redis_url, "shop", timeout=20) as app:
        app.add("/y")
    until(lambda: "'/y' is not absolute" in caplog.text, what="the refusal is logged")
    assert world.locs() == {"a"}


def test_callback_that_fails_stops_nothing(world: HttpWorld, caplog: pytest.LogCaptureFixture) -> None:
    """An error in the app's callback is logged with its traceback, and later events are delivered."""

    def fail(refusal: Refusal) -> None:
        raise RuntimeError(refusal.loc)

    app = Publisher(world.server.address, "shop", token=SECRET, timeout=20, on_refused=fail)
    app.add("/x")
    until(lambda: "RuntimeError: /x" in caplog.text, what="the error is logged")
    app.add(BASE + "a")
    app.close()
    assert world.locs() == {"a"}


def test_outage_holds_nobody_up(world: HttpWorld, any_redis: RedisServer, app: Publisher) -> None:
    """While Redis is away `add` returns at once, `flush` ends in time, and all arrives when it is back."""
    app.add(BASE + "a")
    app.flush()
    any_redis.stop(kill=True)
    begin = time.monotonic()
    for number in range(300):
        app.add(f"{BASE}p{number}")
    with pytest.raises(Unavailable, match="300 events"):
        app.flush(0.2)
    assert time.monotonic() - begin < 20, "something waited for the client's own timeout"
    any_redis.start()
    app.flush(40)
    assert world.locs() == {"a"} | {f"p{n}" for n in range(300)}


@pytest.mark.parametrize(
    ("secret", "site", "said"),
    [
        ("wrong", "shop", "answered 401"),
        (SECRET, "nope", "answered 404"),
        ("smd_" + "o" * 40, "shop", "answered 403"),
    ],
)
def test_wrong_token_keeps_the_events(
    world: HttpWorld, secret: str, site: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What the server turns away is kept and tried again, and the reason is in the error and the log."""
    caplog.set_level(logging.WARNING)
    app = Publisher(world.server.address, site, token=secret, timeout=2.0)
    app.add(BASE + "a")
    with pytest.raises(Unavailable, match=said):
        app.flush()
    assert said in caplog.text
    assert secret not in caplog.text
    with pytest.raises(Unavailable):
        app.close()
    assert world.locs() == set()


def test_site_that_redis_does_not_know(redis_url: str) -> None:
    """Straight into Redis, a site whose workers never ran is an error that says so."""
    app = Publisher(redis_url, "shop", timeout=2.0)
    app.add(BASE + "a")
    with pytest.raises(Unavailable, match="knows no site 'shop'"):
        app.flush()
    with pytest.raises(Unavailable):
        app.close()


def test_answer_that_was_lost_counts_once(world: HttpWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch whose answer was lost is sent again with its key, and does not undo what came in between."""
    keys: list[str] = []
    ask = Endpoint.ask_lines

    def lossy(self: Endpoint, path: str, lines: bytes, key: str, *, timeout: float | None = None) -> Answer:
        answer = ask(self, path, lines, key, timeout=timeout)
        keys.append(key)
        if len(keys) == 1:
            world.post({"op": "delete", "loc": BASE + "a"}, Authorization=f"Bearer {SECRET}")
            return Answer(502, None, {})
        return answer

    monkeypatch.setattr(Endpoint, "ask_lines", lossy)
    with Publisher(world.server.address, "shop", token=SECRET, timeout=20) as app:
        app.add(BASE + "a")
    assert keys[0] == keys[1]
    assert world.locs() == set()


def test_child_after_a_fork_pushes_on_its_own(world: HttpWorld, app: Publisher) -> None:
    """A forked worker process uses the client that its parent made; what waited is the parent's."""
    app.add(BASE + "parent")
    app.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            app.add(BASE + "child")
            app.flush(20)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    app.add(BASE + "parent-again")
    app.flush()
    assert world.locs() == {"parent", "child", "parent-again"}


def test_values_of_an_app_are_converted(world: HttpWorld, app: Publisher) -> None:
    """Decimals and dates are stored as what they mean."""
    with app:
        app.add(BASE + "a", priority=Decimal("0.7"), lastmod=datetime(2026, 3, 21, tzinfo=UTC))
    found = world.store.find(BASE + "a")
    assert found is not None
    assert (found.entry.priority, found.entry.lastmod) == ("0.7", "2026-03-21T00:00:00+00:00")


CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (object(), TypeError),
        (b"bytes", TypeError),
        ({1, 2}, TypeError),
        (float("nan"), ValueError),
        (Decimal("Infinity"), ValueError),
        (CIRCLE, ValueError),
        ({(1, 2): 3}, TypeError),
    ],
)
def test_what_cannot_be_sent_is_refused_at_the_call(
    world: HttpWorld, value: Any, error: type[Exception]
) -> None:
    """The caller gets the error, with the URL in it, and later events are delivered."""
    with Publisher(world.server.address, "shop", token=SECRET, timeout=20) as app:
        with pytest.raises(error, match=BASE + "bad"):
            app.add(BASE + "bad", ext={"images": value})
        app.add(BASE + "good")
    assert world.locs() == {"good"}

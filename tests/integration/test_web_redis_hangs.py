"""While Redis hangs, what needs no Redis is served as before, and what needs it says so soon."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from sitemap_store.redis.once import HOLD_MS
from sitemapd.build import build
from sitemapd.services import health
from sitemapd.serving import Listeners, served, server
from sitemapd.settings import Settings
from sitemapd.web import listen
from tests.acceptance.until import until
from tests.integration.web_site import Answer, Web, publish
from tests.integration.web_site import add as added
from tests.redis_server import RedisServer
from tests.world import BASE, World

SOON: Final = 1.0
"""Seconds that nothing takes which waits for no Redis, on a busy machine too. What waits takes 1.5."""
EVENT: Final = json.dumps({"op": "add", "loc": BASE + "new"}).encode()


@pytest.fixture
def web(any_redis: RedisServer, redis_url: str, tmp_path: Path) -> Iterator[Web]:
    """Give the server that `serve` makes, of a published site."""
    site = {"base_url": BASE, "output": str(tmp_path / "public"), "fsync": False}
    parts = build(Settings.model_validate({"redis_url": redis_url, "sites": {"shop": site}}))
    with ExitStack() as stack:
        client = stack.enter_context(any_redis.client())
        publish(World(client, parts.sites["shop"], tmp_path / "public"), added("page"))
        listener = stack.enter_context(listen("127.0.0.1", 0))
        running = server(parts, served(parts, lambda: health(parts, None, [])), Listeners(listener))
        running.start()
        stack.callback(running.stop)
        yield Web(running.address)


@pytest.fixture
def hangs(web: Web, any_redis: RedisServer) -> Iterator[Web]:
    """Let Redis hang once the server has used it."""
    assert post(web).status == 202
    assert web.page().status == 200
    assert any_redis.pid is not None
    os.kill(any_redis.pid, signal.SIGSTOP)
    try:
        yield web
    finally:
        os.kill(any_redis.pid, signal.SIGCONT)


def post(web: Web) -> Answer:
    """Push an event."""
    return web.ask("/v1/sites/shop/events", "POST", EVENT, Content_Type="application/json")


def look_up(web: Web) -> Answer:
    """Ask for a URL."""
    return web.ask(f"/v1/sites/shop/urls?loc={BASE}page")


def put(web: Web) -> Answer:
    """Send a list."""
    return web.ask("/v1/sites/shop/sources/cms", "PUT", EVENT, Content_Type="application/x-ndjson")


def took(web: Web, path: str) -> float:
    """Seconds of a request that is answered well."""
    began = time.monotonic()
    assert web.ask(path).status == 200
    return time.monotonic() - began


def test_files_are_served_while_pages_and_pushes_wait(hangs: Web) -> None:
    """However many requests wait for Redis, files, robots.txt and livez wait for nothing."""
    with ThreadPoolExecutor(80) as waiting:
        asked = [waiting.submit(hangs.page) for _ in range(30)]
        asked += [waiting.submit(post, hangs) for _ in range(20)]
        asked += [waiting.submit(look_up, hangs) for _ in range(10)]
        asked += [waiting.submit(hangs.ask, "/readyz") for _ in range(10)]
        metrics = waiting.submit(hangs.ask, "/metrics")
        files = ("/sitemap.xml", "/sitemap-pages-1.xml", "/robots.txt", "/livez")
        times = sorted(took(hangs, path) for path in files * 5)
        assert times[len(times) // 2] < SOON
        assert {each.result().status for each in asked} == {503}
    assert b"sitemapd_redis_up 0.0" in metrics.result().body


@pytest.mark.parametrize(
    "ask",
    [post, look_up, put, Web.page, lambda web: web.ask("/v1/status"), lambda web: web.ask("/readyz")],
    ids=["push", "look-up", "list", "page", "status", "health"],
)
def test_what_needs_redis_is_503_before_a_command_times_out(hangs: Web, ask: Callable[[Web], Answer]) -> None:
    """The answer waits 1.5 seconds for Redis, where a command, tried again, takes more than ten."""
    began = time.monotonic()
    assert ask(hangs).status == 503
    assert time.monotonic() - began < 5


def test_all_goes_on_when_redis_does(web: Web, any_redis: RedisServer) -> None:
    """Once Redis answers again, so do push and page, without a restart."""
    assert any_redis.pid is not None
    os.kill(any_redis.pid, signal.SIGSTOP)
    try:
        assert post(web).status == 503
        assert web.page().status == 503
    finally:
        os.kill(any_redis.pid, signal.SIGCONT)
    until(lambda: post(web).status == 202, within=20, what="events are taken again")
    until(lambda: web.page().status == 200, within=20, what="the page is there again")


def test_a_key_whose_request_was_given_up_is_free_again(hangs: Web, any_redis: RedisServer) -> None:
    """What was answered with 503 while Redis hung is taken in when it is sent again: it is not under way."""

    def push() -> int:
        headers = {"Content_Type": "application/json", "Idempotency_Key": "k"}
        return hangs.ask("/v1/sites/shop/events", "POST", EVENT, **headers).status

    assert [push() for _ in range(2)] == [503, 503]
    assert any_redis.pid is not None
    os.kill(any_redis.pid, signal.SIGCONT)
    # In half of the time after which the hold of a request that was cut off ends by itself.
    until(lambda: push() == 202, within=HOLD_MS / 2000, what="the event is taken in")

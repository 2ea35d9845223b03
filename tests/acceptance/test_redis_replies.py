"""Redis says "not now": no service ends, commands and HTTP say why, and all goes on afterwards."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import partial

import httpx
import pytest

from tests.acceptance.place import BASE, Place, settings
from tests.acceptance.until import until
from tests.error_replies import REPLIES
from tests.published import published
from tests.redis_proxy import RedisProxy, always

SOURCES = """
[sites.main.watch.pages]
directory = "content"
url = "/c/{path}"

[sites.main.database.catalogue]
dsn = "sqlite:///shop.db"
table = "products"
url = "/p/{slug}"
"""


@pytest.fixture
def proxy(redis_url: str) -> Iterator[RedisProxy]:
    """Give a proxy before the emptied server."""
    found = RedisProxy(redis_url)
    yield found
    found.close()


def _insert(place: Place, slug: str) -> None:
    connection = sqlite3.connect(place.folder / "shop.db", timeout=20)
    connection.execute("CREATE TABLE IF NOT EXISTS products (id INTEGER PRIMARY KEY, slug TEXT UNIQUE)")
    connection.execute("INSERT INTO products (slug) VALUES (?)", (slug,))
    connection.commit()
    connection.close()


def _lists(place: Place, expected: set[str]) -> bool:
    assert {loc.removeprefix(BASE) for loc in published(place.output)} == expected
    return True


@pytest.mark.parametrize(
    "codes",
    [
        pytest.param(("READONLY", "OOM", "NOPERM", "MOVED"), id="some"),
        pytest.param(tuple(REPLIES), id="all", marks=pytest.mark.long),
    ],
)
def test_a_reply_is_waited_out(place: Place, proxy: RedisProxy, codes: tuple[str, ...]) -> None:
    """Workers, watcher, relay and HTTP outlive each reply, say why meanwhile, and then publish what came."""
    place.configure(settings(proxy.url) + SOURCES)
    (place.folder / "content").mkdir()
    _insert(place, "first")
    place.ok("triggers", "install", "catalogue")
    service = place.service("run", "--port", "0")
    address = service.says("Serving at http").rpartition(" ")[2].rstrip("/")
    expected = {"p/first"}
    for code in codes:
        with proxy.breaking(always(REPLIES[code])):
            (place.folder / "content" / f"{code}.html").write_text("<title>x</title>")
            _insert(place, code)
            pushed = place.command("push", "add", f"{BASE}{code}")
            assert pushed.code == 1
            assert pushed.err.startswith("sitemapd: Redis can't take this now, because "), pushed
            body = {"op": "add", "loc": f"{BASE}{code}"}
            answer = httpx.post(f"{address}/v1/sites/main/events", json=body, timeout=30, trust_env=False)
            assert answer.status_code == 503
            assert int(answer.headers["Retry-After"]) > 0
            assert "can't take this now" in answer.json()["detail"]
            assert service.alive()
        answer = httpx.post(f"{address}/v1/sites/main/events", json=body, timeout=30, trust_env=False)
        assert answer.status_code in (200, 202), answer.text
        expected |= {code, f"p/{code}", f"c/{code}.html"}
        until(partial(_lists, place, expected), within=20, what=f"what came during {code} is published")
    assert service.stop() == 0


@pytest.mark.parametrize("code", ["NOREPLICAS", "BUSY", "LOADING"])
def test_a_start_waits(place: Place, proxy: RedisProxy, code: str) -> None:
    """A service that starts while Redis can't take its writes says why, and starts when it can."""
    place.configure(settings(proxy.url))
    writes = () if code != "NOREPLICAS" else ("EVALSHA", "SET", "HSET", "EXEC")
    with proxy.breaking(always(REPLIES[code], *writes)):
        worker = place.service("worker", "--workers", "1")
        worker.says("can't take this now, because ")
        assert worker.alive()
    worker.says("worker_started")
    assert worker.stop() == 0


@pytest.mark.parametrize("command", [["wait"], ["status"], ["rebuild"], ["show", f"{BASE}x"], ["rejected"]])
def test_commands_say_why_and_exit_1(place: Place, proxy: RedisProxy, command: list[str]) -> None:
    """A command ends with exit code 1 and one sentence."""
    place.configure(settings(proxy.url))
    with proxy.breaking(always(REPLIES["MISCONF"])):
        result = place.command(*command)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("sitemapd: Redis can't take this now, because it can't write its data")

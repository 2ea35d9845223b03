"""One log line for each request, with an id that client and log share, and no secret in it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import redis

from sitemapd.logs import JsonLines
from sitemapd.web import Server, listen
from sitemapd.web.application import application
from tests.acceptance.until import until
from tests.integration.http_world import SECRET, HttpWorld, add, token
from tests.integration.web_site import Web, served_site, serving
from tests.world import BASE, World, make_site


class Lines(logging.Handler):
    """Keeps what --log-json would print."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line of ours; `logs.configure` mutes uvicorn's, and httpx is the client."""
        if record.name.startswith(("uvicorn", "httpx", "httpcore")):
            return
        self.lines.append(json.loads(self.format(record)))

    def requests(self) -> list[dict[str, Any]]:
        """The lines about requests."""
        return [line for line in self.lines if line["action"] == "request"]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Give the log from now on."""
    handler, root = Lines(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel("INFO")
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def world(redis_url: str, lines: Lines) -> Iterator[HttpWorld]:
    """Give a server with a token."""
    world = HttpWorld(redis_url, tokens=(token(),))
    yield world
    world.close()


def test_each_request_is_one_line(world: HttpWorld, lines: Lines) -> None:
    """Method, path, status, ms, bytes, peer, the token's name and the request's id."""
    answer = world.post(add("a"), Authorization=f"Bearer {SECRET}")
    world.client.get("nothing")
    until(lambda: len(lines.requests()) == 2, within=10, what="both lines are written")
    pushed, missed = lines.requests()
    assert pushed["ms"] > 0
    assert {name: pushed[name] for name in ("method", "path", "status", "bytes", "peer", "token")} == {
        "method": "POST",
        "path": "/v1/sites/shop/events",
        "status": 202,
        "bytes": len(answer.content),
        "peer": "127.0.0.1",
        "token": "test",
    }
    assert pushed["request_id"] == answer.headers["X-Request-ID"]
    assert (missed["path"], missed["status"], missed["token"]) == ("/nothing", 404, "")
    assert missed["request_id"] not in ("", pushed["request_id"])


def test_no_secret_is_in_the_log(world: HttpWorld, lines: Lines) -> None:
    """Of the query the names are logged, and the values of those that hold no secret; no header, no body."""
    query = "?source=cms&api_key=in-the-query&in-the-name"
    world.post(add("in-the-body"), query=query, Authorization="Bearer in-the-header-" + "x" * 30)
    world.client.get(f"v1/sites/shop/urls?loc={BASE}a?token=in-the-loc")
    until(lambda: len(lines.requests()) == 2, within=10, what="both lines are written")
    text = json.dumps(lines.lines)
    for secret in ("in-the-body", "in-the-query", "in-the-header", "in-the-loc"):
        assert secret not in text
    assert lines.requests()[0]["path"] == "/v1/sites/shop/events?source=cms&api_key=...&in-the-name=..."


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("0af7651916cd43dd", True),
        ("a b/c~!", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("", False),
        ("caf\u00e9", False),
        ("a\tb", False),
        ("a\x7fb", False),
    ],
)
def test_a_request_id_is_taken_or_made(world: HttpWorld, lines: Lines, given: str, kept: bool) -> None:
    """Up to 128 printable ASCII characters are kept; anything else is replaced, and echoed either way."""
    raw = world.raw(
        b"GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Request-ID: "
        + given.encode("latin-1")
        + b"\r\n\r\n"
    )
    head = raw.partition(b"\r\n\r\n")[0].decode("latin-1").lower()
    if " 400 " in head.partition("\r\n")[0]:
        assert not kept
        return
    until(lambda: len(lines.requests()) == 1, within=10, what="the line is written")
    request_id = lines.requests()[0]["request_id"]
    assert f"x-request-id: {request_id}".lower() in head
    assert (request_id == given) is kept


def test_every_line_of_a_request_has_its_id(world: HttpWorld, lines: Lines) -> None:
    """What is logged on the way has the id too, and what belongs to no request has none."""
    logging.getLogger("elsewhere").info("nothing of a request")
    answer = world.post(add("a"), Authorization="Bearer wrong", X_Request_ID="mine-1")
    assert answer.headers["X-Request-ID"] == "mine-1"
    until(lambda: len(lines.requests()) == 1, within=10, what="the line is written")
    of_request = [line for line in lines.lines if line.get("request_id") == "mine-1"]
    assert {line["action"] for line in of_request} == {"push_refused", "request"}
    assert all("request_id" not in line for line in lines.lines if line["action"] == "elsewhere")


@pytest.mark.parametrize(
    ("forwarded", "peer"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("198.51.100.1, 203.0.113.9", "203.0.113.9"),  # what a client says stands before what the proxy does
        ("203.0.113.9, 127.0.0.5", "203.0.113.9"),  # through two proxies of ours
        (None, "127.0.0.1"),
    ],
)
def test_a_trusted_proxy_says_who_asks(
    client: redis.Redis, tmp_path: Path, lines: Lines, forwarded: str | None, peer: str
) -> None:
    """Behind one of `trusted_proxies` the log has the client's address, and nobody counts as local."""
    site = served_site(World(client, make_site(), tmp_path / "public"))
    app = application({"shop": site}, lambda: (True, {}), proxies=[ip_network("127.0.0.0/8")])
    with listen("127.0.0.1", 0) as listener:
        server = Server(app, listener)
        server.start()
        try:
            headers = {} if forwarded is None else {"X_Forwarded_For": forwarded}
            assert Web(server.address).page(**headers).status == 403
        finally:
            server.stop()
    assert [line["peer"] for line in lines.requests()] == [peer]


def test_nobody_else_says_who_asks(client: redis.Redis, tmp_path: Path, lines: Lines) -> None:
    """Without `trusted_proxies` the header is not believed: the peer is who the connection is from."""
    site = served_site(World(client, make_site(), tmp_path / "public"))
    with serving({"shop": site}) as web:
        assert web.page(X_Forwarded_For="203.0.113.9").status == 403
    assert [line["peer"] for line in lines.requests()] == ["127.0.0.1"]

"""Strangers can neither stall the server nor fill its memory: bounds on headers, bodies and connections."""

from __future__ import annotations

import gc
import gzip
import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from producers.http.mapping import Rule, Template
from producers.http.signatures import Signature
from producers.http.webhooks import Webhook
from sitemapd.web import listen, page
from sitemapd.web.application import application
from sitemapd.web.connections import Connections, Patient
from sitemapd.web.server import Server
from tests.acceptance.until import until
from tests.integration.http_world import SECRET, HttpWorld, add, token
from tests.integration.web_site import Web, publish, served_site, serving
from tests.integration.web_site import add as added
from tests.redis_server import RedisServer
from tests.world import BASE, World, make_site

MIB = 1024 * 1024
SIGNED = Webhook(
    rules=(Rule(op="add", loc=Template.parse(BASE + "{/slug}")),),
    signature=Signature(secrets=(b"a secret of both",), header="X-Signature"),
)
PATH = "/v1/sites/shop/webhooks/"


@pytest.fixture
def world(redis_url: str, parser: str) -> Iterator[HttpWorld]:
    """Give a server with webhooks that sign, and one that shows a token."""
    hooks = {
        "signed": SIGNED,
        "large": Webhook(rules=SIGNED.rules, signature=SIGNED.signature, max_body=3 * MIB),
        "token": Webhook(rules=SIGNED.rules),
    }
    world = HttpWorld(redis_url, webhooks=hooks, tokens=(token(),))
    yield world
    world.close()


def hook(name: str, *headers: str, length: int) -> bytes:
    """The head of a delivery."""
    lines = [f"POST {PATH}{name} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


def status(answer: bytes) -> int:
    """The status of a raw answer."""
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize("pieces", [1, 3])
def test_headers_have_16_kib_in_all(world: HttpWorld, pieces: int) -> None:
    """One byte count for all of them, whether they come at once or bit by bit; below it they are taken."""
    for size, expected in ((12_000, 401), (17_000, 431), (60_000, 431)):
        head = hook("signed", *(f"X-{n}: {'x' * 100}" for n in range(size // 108)), length=0)
        with socket.create_connection(("127.0.0.1", world.port), timeout=10) as wire:
            try:
                for n in range(pieces):
                    wire.sendall(head[n * len(head) // pieces : (n + 1) * len(head) // pieces])
                got = wire.recv(65536)
            except (BrokenPipeError, ConnectionResetError):
                # The server had enough and closed: its answer was overtaken by the end of the connection.
                assert expected == 431
                continue
        assert status(got) == expected, size


def test_a_header_of_many_signatures_is_refused(world: HttpWorld) -> None:
    """Whatever number of signatures fits into the headers, the answer is 401 or 431."""
    for count in (9, 130, 1450):
        signatures = ",".join(["sha256=" + "0" * 40] * count)
        answer = world.raw(
            hook("signed", f"X-Signature: {signatures}", "Connection: close", length=2) + b"{}"
        )
        # Of headers that are far too long, the answer may be overtaken by the end of the connection.
        assert answer or count == 1450
        assert not answer or status(answer) in (401, 431), count


def test_a_body_without_a_token_has_a_mebibyte(world: HttpWorld) -> None:
    """A signature is no token: more is 413, inflated too, unless max_body allows it or a token comes."""
    long = json.dumps({"slug": "a", "more": "x" * (2 * MIB)}).encode()
    for name, expected in (("signed", 413), ("large", 401)):
        answer = world.client.post(
            PATH + name, content=long, headers={"Content-Type": "application/json", "X-Signature": "0" * 64}
        )
        assert answer.status_code == expected
        packed = world.client.post(
            PATH + name,
            content=gzip.compress(long),
            headers={
                "Content-Type": "application/json",
                "Content-Encoding": "gzip",
                "X-Signature": "0" * 64,
            },
        )
        assert packed.status_code == expected
    with_token = {"Content-Type": "application/json", "Authorization": f"Bearer {SECRET}"}
    assert world.client.post(PATH + "token", content=long, headers=with_token).status_code == 202


def test_bodies_without_a_token_have_64_mebibytes_together(world: HttpWorld) -> None:
    """Beyond that they are 429, while who shows a token is served; the room comes back when they end."""
    with ExitStack() as stack:
        wires = []
        for _ in range(70):
            wire = stack.enter_context(socket.create_connection(("127.0.0.1", world.port), timeout=10))
            wire.sendall(hook("signed", f"X-Signature: {'0' * 64}", length=MIB))
            wire.sendall(b" " * (MIB - 1))
            wires.append(wire)

        def refused() -> int:
            count = 0
            for wire in wires:
                wire.setblocking(False)
                try:
                    got = wire.recv(65536, socket.MSG_PEEK)
                except BlockingIOError:
                    continue
                assert status(got) == 429
                count += 1
            return count

        until(lambda: refused() >= 6, within=20, what="what is too much is refused")
        assert refused() < 35, "those that fit are not refused with the others"
        content = json.dumps({"slug": "a" * 1000}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {SECRET}"}
        assert world.client.post(PATH + "token", content=content, headers=headers).status_code == 202

    def delivered() -> bool:
        headers = {"Content-Type": "application/json", "X-Signature": "0" * 64}
        return world.client.post(PATH + "signed", content=b"{}", headers=headers).status_code == 401

    until(delivered, within=20, what="the room is free again")


@pytest.fixture
def site(any_redis: RedisServer, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a published site."""
    with any_redis.client() as client:
        world = World(client, make_site(), tmp_path_factory.mktemp("limits"))
        publish(world, added("page"))
        yield world


@pytest.mark.parametrize("kind", ["idle", "head", "body"])
def test_idle_and_slow_connections_make_room(site: World, parser: str, kind: str) -> None:
    """With all places taken by clients that idle or trickle, the next one is served, again and again."""
    begun = {
        "idle": b"",
        "head": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
        "body": b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx",
    }[kind]
    app = application({"shop": served_site(site)}, lambda: (True, {}))
    with listen("127.0.0.1", 0) as listener, ExitStack() as stack:
        server = Server(app, listener, connections=32)
        server.start()
        stack.callback(server.stop)
        web = Web(server.address)
        for _ in range(64):
            wire = stack.enter_context(web.connect())
            wire.sendall(begun)
        until(lambda: served(web), within=20, what="a place is made for those that ask")
        for _ in range(40):
            assert web.ask("/sitemap.xml").status == 200


def test_making_room_does_not_look_at_all_connections_each_time() -> None:
    """With 1000 connections open, 200 more take the places of the 200 oldest in a few looks at all."""

    class Idle(Patient):
        looks = 0

        def __init__(self, since: int) -> None:
            self.since = since

        def use(self) -> tuple[int, float]:
            Idle.looks += 1
            return 0, float(self.since)

        def cut(self) -> None:
            gone.append(self.since)

    gone: list[int] = []
    connections = Connections(1000, 256, lambda peer: True)
    assert all(connections.admit(Idle(number), "127.0.0.1") for number in range(1200))
    assert gone == list(range(200))
    assert Idle.looks < 3000


def served(web: Web) -> bool:
    """Whether a request is answered with the index."""
    try:
        return web.ask("/sitemap.xml").status == 200
    except (OSError, http.client.HTTPException):
        return False


def test_requests_that_go_on_are_not_cut_off(site: World, parser: str) -> None:
    """When all places are taken by live feeds, the next connection is told so, and they stay."""
    app = application({"shop": served_site(site)}, lambda: (True, {}))
    with listen("127.0.0.1", 0) as listener, ExitStack() as stack:
        server = Server(app, listener, connections=16)
        server.start()
        stack.callback(server.stop)
        web = Web(server.address)
        feeds = [stack.enter_context(web.connect()) for _ in range(16)]
        for feed in feeds:
            feed.sendall(b"GET /sites/shop/feed HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in feed.recv(1024)
        with web.connect() as wire:
            assert status(wire.recv(1024)) == 503
        feeds.pop().close()
        until(lambda: served(web), within=20, what="a place that is given up is taken")


def test_one_address_has_its_own_bound(site: World, parser: str) -> None:
    """An address with too many connections loses its own idle ones, and nobody else's."""
    app = application({"shop": served_site(site)}, lambda: (True, {}))
    with listen("127.0.0.1", 0) as listener, ExitStack() as stack:
        server = Server(app, listener, per_peer=4, shared=lambda peer: peer == "127.0.0.1")
        server.start()
        stack.callback(server.stop)
        web = Web(server.address)
        host, _, port = web.netloc.rpartition(":")
        mine = stack.enter_context(web.connect())

        def other() -> socket.socket:
            return stack.enter_context(
                socket.create_connection((host, int(port)), timeout=10, source_address=("127.0.0.2", 0))
            )

        first = other()
        more = [other() for _ in range(4)]
        assert first.recv(1024) == b"" or first.fileno() >= 0
        more[-1].sendall(b"GET /sitemap.xml HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status(more[-1].recv(65536)) == 200
        mine.sendall(b"GET /sitemap.xml HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status(mine.recv(65536)) == 200


def test_requests_sent_ahead_are_answered_in_order_up_to_a_bound(site: World, parser: str) -> None:
    """Sixteen wait behind the first; beyond that the connection closes, and its memory has a bound."""
    with serving({"shop": served_site(site)}) as web, web.connect() as wire:
        wire.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * 17)
        got = b""
        while got.count(b'{"live":true}') < 17:
            got += wire.recv(65536)
        # The first of these waits: they all come while a feed is on its way.
        wire.sendall(b"GET /sites/shop/feed HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in wire.recv(1024)
        before = len(gc.get_objects())
        for _ in range(10):
            wire.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
        assert served(web)
        assert len(gc.get_objects()) - before < 5000


def test_no_http_behind_a_request_does_not_answer_it(world: HttpWorld) -> None:
    """What follows a request in the same packet, and is no HTTP, leaves that request its own answer."""
    head = [
        "POST /v1/sites/shop/events HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Authorization: Bearer {SECRET}",
    ]
    body = json.dumps(add("a")).encode()
    request = "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body
    assert status(world.raw(request + b"no HTTP\r\n\r\n")) == 202
    assert world.locs() == {"a"}
    assert status(world.raw(request + b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000)) == 202


@pytest.mark.parametrize("ahead", [0, 1])
def test_a_client_that_goes_away_ends_its_request(
    site: World,
    parser: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    ahead: int,
) -> None:
    """A live feed ends with its connection, with requests sent ahead too, and no error is logged."""
    monkeypatch.setattr(page, "ALIVE_S", 0.0)
    monkeypatch.setattr(page, "READERS", 4)

    def feed_of(wire: socket.socket) -> bool:
        wire.sendall(b"GET /sites/shop/feed HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return status(wire.recv(1024)) == 200

    with serving({"shop": served_site(site)}) as web:
        with ExitStack() as stack:
            for _ in range(page.READERS):
                wire = stack.enter_context(web.connect())
                assert feed_of(wire)
                wire.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * ahead)

        def is_free() -> bool:
            with web.connect() as wire:
                return feed_of(wire)

        until(is_free, what="a feed may be read again")
    assert not [record for record in caplog.records if record.exc_info]


def test_a_page_of_another_site_cannot_push(redis_url: str) -> None:
    """What a browser sends from elsewhere is 403, though no token is needed on this machine."""
    world = HttpWorld(redis_url)
    try:
        for headers in (
            {"Origin": "https://evil.example"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Host": "evil.example"},
            {"Host": "[::1].evil.example"},
        ):
            answer = world.post(add("a"), **headers)
            assert answer.status_code == 403
            assert answer.json()["rule"] in ("cross-site", "loopback")
            assert world.put("cms", {"loc": BASE + "a"}, **headers).status_code == 403
        assert world.locs() == set()
        assert world.post(add("a"), Sec_Fetch_Site="same-origin").status_code == 202
    finally:
        world.close()

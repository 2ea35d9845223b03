"""What no client would send: bad requests get the right answer, and the server goes on as before."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from sitemapd.web import connections
from tests.integration.web_site import Web, add, made_token, publish, served_site, serving
from tests.redis_server import RedisServer
from tests.world import World, make_site


@pytest.fixture(scope="module")
def world(any_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a published site."""
    any_redis.flush()
    with any_redis.client() as client:
        world = World(client, make_site(), tmp_path_factory.mktemp("bad"))
        publish(world, add("page"))
        yield world


@pytest.fixture(scope="module")
def web(world: World, parser: str) -> Iterator[Web]:
    """Give its server, with a token."""
    with serving({"shop": served_site(world, made_token()[1])}) as web:
        yield web


@pytest.fixture(autouse=True)
def _goes_on(web: Web) -> Iterator[None]:
    """After each test the server serves."""
    yield
    assert web.ask("/sitemap.xml").status == 200


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /../../etc/passwd HTTP/1.1", b"404"),
        (b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1", b"404"),
        (b"GET /..%5c..%5csitemap.xml HTTP/1.1", b"404"),
        (b"GET /sitemap.xml%00 HTTP/1.1", b"404"),
        (b"GET /sitemap.xml%00.html HTTP/1.1", b"404"),
        (b"GET /%ff%fe.xml HTTP/1.1", b"404"),
        (b"GET /static/%2e%2e/page.py HTTP/1.1", b"404"),
        (b"GET /static/..%2fpage.py HTTP/1.1", b"404"),
        (b"GET /.sitemapd HTTP/1.1", b"404"),
        (b"GET /sites/shop%0d%0aX-Y:z HTTP/1.1", b"404"),
        (b"GET http://[::1/sitemap.xml HTTP/1.1", b"40"),  # 404, or 400 where addresses are taken apart
        (b"GET sitemap.xml HTTP/1.1", b"40"),
        (b"GET /sitemap\0.xml HTTP/1.1", b"400"),
        (b"BREW /sitemap.xml HTTP/1.1", b"40"),  # 405, or 400 where methods are known by name
        (b"nonsense", b"400"),
    ],
)
def test_a_strange_request_leads_nowhere(web: Web, request_line: bytes, status: bytes) -> None:
    """Whatever the path, no other file is read, and no header is smuggled into the answer."""
    answer = web.raw(request_line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    head = answer.partition(b"\r\n\r\n")[0]
    assert head.split(b" ")[1].startswith(status), head
    assert b"root:" not in answer
    assert b"\r\nX-Y" not in head


def test_a_huge_header_is_refused(web: Web) -> None:
    """Headers beyond what anybody needs end in 400 (or the connection's end), not in memory."""
    with web.connect() as wire:
        wire.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: ")
        try:
            for _ in range(200):
                wire.sendall(b"x" * 65536)
            answer = wire.recv(65536)
        except (ConnectionError, BrokenPipeError):
            return
    assert answer == b"" or answer.split(b" ")[1] in (b"400", b"431")


def test_huge_headers_behind_a_request_in_hand_take_no_memory(web: Web) -> None:
    """The headers of the next request have their bound too, while the first is being answered."""
    with web.connect() as wire:
        wire.sendall(b"GET /sites/shop/feed HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in wire.recv(65536)
        wire.settimeout(1)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            wire.sendall(b"GET / HTTP/1.1\r\nCookie: ")
            for _ in range(1000):
                wire.sendall(b"x" * 65536)
            pytest.fail("64 MiB of headers were taken")
        except (ConnectionError, TimeoutError):
            pass  # cut off, or not read on
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024


@pytest.mark.parametrize(
    "header",
    [
        "Range: bytes=" + "9" * 4000 + "-",
        "If-None-Match: " + '"x", ' * 2000,
        "If-Modified-Since: Mon, 99 Xyz 99999 99:99:99 GMT",
        "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 +9999999999",
        "Accept-Encoding: " + "gzip;q=0.5," * 1000,
        "Accept-Encoding: gzip;q=" + "9" * 3000,
        "Cookie: sitemapd=" + "9" * 30000,
        "Authorization: Bearer " + "x" * 30000,
        "Host: " + "x" * 3000,
        "X-Forwarded-For: " + "1.1.1.1, " * 3000,
        "Last-Event-ID: " + "1-1," * 3000,
    ],
)
@pytest.mark.parametrize("path", ["/sitemap.xml", "/", "/sites/shop", "/metrics"])
def test_a_strange_header_is_no_error(web: Web, header: str, path: str) -> None:
    """A header that is wrong, or that goes on for ever, is never a 500, nor much work."""
    worked = time.process_time()
    begin = f"GET {path} HTTP/1.1\r\nConnection: close\r\nAccept: text/html\r\n"
    answer = web.raw(f"{begin}{header}\r\n\r\n".encode())
    assert 200 <= int(answer.split(b" ")[1]) < 500, answer[:200]
    assert time.process_time() - worked < 5


def test_a_login_form_has_a_bound(web: Web) -> None:
    """A body that goes on for ever is refused while it comes."""
    with web.connect() as wire:
        wire.sendall(b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        got = b""
        try:
            for _ in range(100):
                wire.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        except (ConnectionError, BrokenPipeError):
            pass
        try:
            got = wire.recv(65536)
        except ConnectionError:
            return
    assert got.split(b" ")[1] == b"413"


def test_headers_that_never_end_are_cut_off(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection whose request does not begin, or trickles, is closed; one with a request is not."""
    monkeypatch.setattr(connections, "HEADER_S", 1.5)
    with serving({"shop": served_site(world)}) as web:
        for begun in (b"", b"GET / HT", b"GET /sitemap.xml HTTP/1.1\r\nHost: localhost\r\nX: "):
            with web.connect() as wire:
                wire.sendall(begun)
                assert wire.recv(1024) == b""
        with web.connect() as wire:  # a second request that trickles, after one that was answered
            wire.sendall(b"GET /sitemap.xml HTTP/1.1\r\nHost: localhost\r\n\r\nGET / H")
            got = b""
            while more := wire.recv(65536):
                got += more
            assert got.count(b"HTTP/1.1 200") == 1
        with web.connect() as wire:  # the live feed is one request that lasts
            wire.sendall(b"GET /sites/shop/feed HTTP/1.1\r\nHost: localhost\r\n\r\n")
            ends = time.monotonic() + 3
            got = b""
            wire.settimeout(0.2)
            while time.monotonic() < ends:
                try:
                    more = wire.recv(65536)
                except TimeoutError:
                    continue
                assert more != b"", "the feed was cut off"
                got += more
            assert b"text/event-stream" in got


def test_a_slow_reader_of_a_large_file_costs_no_memory(world: World, web: Web) -> None:
    """Many clients that read a large file slowly, or not at all, don't bring it into memory."""
    name = "sitemap-large-1.xml"
    with (world.folder / name).open("wb") as file:
        for _ in range(48):
            file.write(os.urandom(1024 * 1024))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wires = []
    try:
        for accepts in ("identity", "gzip") * 5:
            wire = web.connect()
            wires.append(wire)
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            wire.sendall(
                f"GET /{name} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: {accepts}\r\n\r\n".encode()
            )
        for wire in wires:
            assert b"200" in wire.recv(64)
        assert web.ask("/sitemap.xml").status == 200
    finally:
        for wire in wires:
            wire.close()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    (world.folder / name).unlink()
    assert grown < 24 * 1024, f"{grown} kB for 10 readers of a file of 49152 kB"


def test_a_file_that_is_replaced_is_read_to_its_end(world: World, web: Web, tmp_path: Path) -> None:
    """A download that goes on while the file is replaced gets the old bytes, whole."""
    name = "sitemap-moving-1.xml"
    old = b"o" * (8 * 1024 * 1024)
    (world.folder / name).write_bytes(old)
    with web.connect() as wire:
        wire.sendall(f"GET /{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        got = wire.recv(1000)
        (tmp_path / "new").write_bytes(b"n" * 100)
        os.replace(tmp_path / "new", world.folder / name)
        while more := wire.recv(1 << 20):
            got += more
    (world.folder / name).unlink()
    assert got.partition(b"\r\n\r\n")[2] == old


def test_feeds_have_a_bound(world: World) -> None:
    """More live feeds than can be are told to come again later, and pages are answered all the same."""
    with serving({"shop": served_site(world)}) as web:
        wires = []
        try:
            for _ in range(50):
                wire = web.connect()
                wires.append(wire)
                wire.sendall(b"GET /sites/shop/feed HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert b"200" in wire.recv(64)
            answer = web.ask("/sites/shop/feed")
            assert (answer.status, answer.headers["Retry-After"]) == (503, "30")
            assert web.page().status == 200
        finally:
            for wire in wires:
                wire.close()


def test_redis_is_not_needed_for_bad_paths(web: Web, world: World) -> None:
    """A 404 costs no look at Redis; a few tries, as what an earlier test left may still be asking it."""
    client: redis.Redis = world.client

    def asked() -> int:
        before = client.info("stats")["total_commands_processed"]
        for n in range(20):
            web.ask(f"/nothing-{n}.php")
        return int(client.info("stats")["total_commands_processed"]) - int(before)

    assert min(asked() for _ in range(5)) <= 1

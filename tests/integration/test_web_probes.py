"""A listener of its own answers probes, however busy the server of everything is."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from sitemap_store.errors import BadSetting
from sitemapd.build import build
from sitemapd.services import health
from sitemapd.serving import Listeners, listeners, served, server
from sitemapd.settings import Settings
from tests.integration.web_site import Web, publish
from tests.integration.web_site import add as added
from tests.redis_server import RedisServer
from tests.world import BASE, World


def settings(**given: object) -> Settings:
    """Settings with these."""
    return Settings.model_validate(given)


class Busy:
    """An application that keeps its loop busy with one request until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold the loop."""
        if scope["type"] == "http":
            self.begun.set()
            self.go_on.wait(30)


@pytest.fixture
def busy() -> Iterator[Busy]:
    """Give an application that is let go at the end."""
    busy = Busy()
    yield busy
    busy.go_on.set()


@pytest.fixture
def probes(redis_server: RedisServer, each_redis_url: str, tmp_path: Path, busy: Busy) -> Iterator[Web]:
    """Give the probes of a server whose other loop is held up by a client."""
    site = {"base_url": BASE, "output": str(tmp_path / "public"), "fsync": False}
    parts = build(settings(redis_url=each_redis_url, probes="127.0.0.1:0", sites={"shop": site}))
    with ExitStack() as stack:
        client = stack.enter_context(redis_server.client())
        publish(World(client, parts.sites["shop"], tmp_path / "public"), added("page"))
        taken = stack.enter_context(listeners(parts.settings, "127.0.0.1", 0))
        app = served(parts, lambda: health(parts, None, []))
        running = server(parts, app._replace(asgi=busy), taken)
        running.start()
        stack.callback(running.stop)
        stack.callback(busy.go_on.set)
        wire = stack.enter_context(Web(running.address).connect())
        wire.sendall(b"GET /sitemap.xml HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert busy.begun.wait(30)
        assert taken.probes is not None
        host, port, *_ = taken.probes.getsockname()
        yield Web(f"http://{host}:{port}/")


def test_probes_are_answered_while_the_server_is_busy(probes: Web, busy: Busy) -> None:
    """All three are 200 while the loop of the other clients stands still."""
    for path in ("/livez", "/readyz", "/metrics"):
        assert probes.ask(path).status == 200
    assert b"sitemapd_redis_up 1" in probes.ask("/metrics").body
    assert not busy.go_on.is_set()


@pytest.mark.parametrize("path", ["/", "/sitemap.xml", "/login", "/v1/status", "/sites/shop"])
def test_the_probes_listener_has_nothing_else(probes: Web, path: str) -> None:
    """Files, page and push API are not there."""
    assert probes.ask(path).status == 404


def test_metrics_need_a_token_from_elsewhere(probes: Web) -> None:
    """A request that came through a proxy is not of this machine: 401, as on the other port."""
    assert probes.ask("/metrics", X_Forwarded_For="192.0.2.1").status == 401
    assert probes.ask("/livez", X_Forwarded_For="192.0.2.1").status == 200


@pytest.mark.parametrize("wrong", ["8322", "localhost:", ":8322", "localhost:http", "localhost:65536", ""])
def test_probes_must_be_an_address_and_a_port(wrong: str) -> None:
    """The error names the setting and the value."""
    with pytest.raises(BadSetting) as caught, listeners(settings(probes=wrong), "127.0.0.1", 0):
        pass
    assert caught.value.setting == "probes"
    assert repr(wrong) in str(caught.value)


@pytest.mark.parametrize("address", ["localhost:0", "[::1]:0", "127.0.0.1:0"])
def test_probes_may_be_a_name_or_an_address(address: str) -> None:
    """IPv6 in brackets too; without the setting there is no such listener."""
    with listeners(settings(probes=address), "127.0.0.1", 0) as taken:
        assert taken.probes is not None
        assert taken.probes.getsockname()[1]
    assert taken.probes.fileno() == -1
    with listeners(settings(), "127.0.0.1", 0) as taken:
        assert taken == Listeners(taken.http)


def test_a_port_that_is_taken_is_an_error_of_the_setting() -> None:
    """It names `probes`, not --port."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with (
            pytest.raises(BadSetting, match=address) as caught,
            listeners(settings(probes=address), "127.0.0.1", 0),
        ):
            pass
    assert caught.value.setting == "probes"

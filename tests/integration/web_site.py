"""The HTTP application on a loopback port, over a real site in Redis and a folder."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

from producers.http import Token
from producers.http.auth import digest_of, hash_of, new_token
from sitemap_store.model.events import Event
from sitemapd.web import Server, application, listen
from sitemapd.web.views import ServedSite
from tests.world import BASE, World

KEY = "0123456789abcdef-IndexNow"


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        """Its body as text."""
        return self.body.decode()


class Web:
    """A server, asked exactly as written: no client of ours tidies a path up."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.netloc = urlsplit(address).netloc

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, /, **headers: str) -> Answer:
        """The answer to one request; `Accept_Encoding="gzip"` is a header."""
        connection = http.client.HTTPConnection(self.netloc, timeout=10)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, names)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def page(self, path: str = "/", /, **headers: str) -> Answer:
        """A page, as a browser asks for it."""
        return self.ask(path, Accept="text/html,application/xhtml+xml", **headers)

    def connect(self) -> socket.socket:
        """A raw connection, for what no client would send."""
        host, _, port = self.netloc.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=30)

    def raw(self, request: bytes) -> bytes:
        """All that comes back for some bytes, until the server closes or the answer is whole."""
        with self.connect() as wire:
            wire.sendall(request)
            wire.settimeout(5)
            got = b""
            while b"\r\n\r\n" not in got and (more := wire.recv(65536)):
                got += more
            return got


def made_token(name: str = "ops") -> tuple[str, Token]:
    """A new token as people hold it, and as the settings do."""
    text = new_token()
    return text, Token(name=name, digest=digest_of(hash_of(text)))


def served_site(world: World, *tokens: Token) -> ServedSite:
    """A world as the application serves it, without its standing clock: ages are as of now."""
    return ServedSite(
        site=world.site,
        folder=world.output,
        store=lambda: world.store,
        tokens=tokens,
        indexnow_key=KEY,
    )


@contextmanager
def serving(sites: Mapping[str, ServedSite]) -> Iterator[Web]:
    """A running server of some sites."""
    with listen("127.0.0.1", 0) as listener:
        server = Server(application(sites, lambda: (True, {"waiting_for": []})), listener)
        server.start()
        try:
            yield Web(server.address)
        finally:
            server.stop()


def add(path: str, source: str | None = None) -> Event:
    """An event that adds the URL of that path."""
    return Event("add", BASE + path, "2026-03-21", source=source)


def publish(world: World, *events: Event) -> None:
    """Append events and let everything be published."""
    world.store.append(events)
    world.settle()

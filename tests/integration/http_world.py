"""The push API on a real uvicorn server on loopback, with a real Redis behind it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from typing import Any, Final

import httpx
from starlette.applications import Starlette

from producers.http import Api, ApiSite, Caps, Gate, Token
from producers.http.auth import digest_of, hash_of
from producers.http.webhooks import Webhook
from producers.sink import EventSink
from sitemap_store.model.site import Site
from sitemap_store.redis.connection import connect
from sitemap_store.redis.store import Store
from sitemap_store.redis.wake import Waker
from sitemapd.status import report
from sitemapd.web import Server, listen
from sitemapd.web.application import Application
from sitemapd.web.front import Front
from tests.world import BASE, make_site

NDJSON: Final = "application/x-ndjson"
JSON: Final = "application/json"
SECRET: Final = "smd_of-the-tests-0123456789-0123456789"


def token(secret: str = SECRET, *, name: str = "test", sources: Iterable[str] | None = None) -> Token:
    """A token as the settings give it."""
    allowed = None if sources is None else frozenset(sources)
    return Token(name=name, digest=digest_of(hash_of(secret)), sources=allowed)


def add(path: str, **fields: object) -> dict[str, object]:
    """An event that adds the URL of that path."""
    return {"op": "add", "loc": BASE + path, **fields}


def ndjson(*items: object) -> bytes:
    """Items as NDJSON; text as it is."""
    return b"".join((item if isinstance(item, str) else json.dumps(item)).encode() + b"\n" for item in items)


class HttpWorld:
    """A running server with one site `shop`; `client` asks it."""

    def __init__(
        self,
        redis_url: str,
        *,
        tokens: tuple[Token, ...] = (),
        webhooks: Mapping[str, Webhook] | None = None,
        caps: Caps | None = None,
        max_unfolded: int = 1_000_000,
        owners: Mapping[str, str] | None = None,
        site: Site | None = None,
    ) -> None:
        self.redis = connect(redis_url, timeout=10.0)
        self.queue = connect(redis_url, timeout=10.0)
        self.site = site or make_site(shard_size=1000)
        self.store = Store(self.redis, self.site)
        shop = ApiSite(
            sink=EventSink(self.store, Waker(self.queue)),
            tokens=tokens,
            webhooks=webhooks or {},
            max_unfolded=max_unfolded,
            owners=owners or {},
        )
        gate = Gate({"shop": tokens, "other": (token("smd_" + "o" * 40, name="other"),)})
        other = ApiSite(
            sink=EventSink(Store(self.redis, make_site(name="other")), Waker(self.queue)),
            tokens=(token("smd_" + "o" * 40, name="other"),),
        )
        api = Api(
            {"shop": shop, "other": other},
            gate=gate,
            status=lambda name: report(Store(self.redis, make_site(name=name))),
            caps=caps,
        )
        app = Application(asgi=Front(Starlette(), api), probes=Starlette(), closing=threading.Event())
        self._listener = listen("127.0.0.1", 0)
        self.server = Server(app, self._listener)
        self.server.start()
        self.client = httpx.Client(base_url=self.server.address, timeout=30, trust_env=False)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        """End the server and the connections."""
        self.client.close()
        self.server.stop()
        self._listener.close()
        self.redis.close()
        self.queue.close()

    def post(
        self, content: Any, kind: str | None = None, *, query: str = "", **headers: str
    ) -> httpx.Response:
        """POST events: bytes as they are (NDJSON unless said), everything else as JSON."""
        raw = isinstance(content, bytes) or hasattr(content, "__next__")
        body = content if raw else json.dumps(content).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named.setdefault("Content-Type", kind or (NDJSON if raw else JSON))
        return self.client.post(f"v1/sites/shop/events{query}", content=body, headers=named)

    def put(self, source: str, *items: object, query: str = "", **headers: str) -> httpx.Response:
        """PUT the list of a source."""
        named = {"Content-Type": NDJSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self.client.put(
            f"v1/sites/shop/sources/{source}{query}", content=ndjson(*items), headers=named
        )

    def locs(self, source: str | None = None) -> set[str]:
        """The paths that the state lists."""
        return {entry.loc.removeprefix(BASE) for entry in self.store.listing(source)}

    def raw(self, sent: bytes, *, end: bool = False, timeout: float = 10.0) -> bytes:
        """What the server answers to these bytes until it closes; `end`: the client closes its side first."""
        with closing(socket.create_connection(("127.0.0.1", self.port), timeout=timeout)) as connection:
            with suppress(BrokenPipeError, ConnectionResetError):  # it closed before it had all of it
                connection.sendall(sent)
            if end:
                connection.shutdown(socket.SHUT_WR)
            received = b""
            try:
                while more := connection.recv(65536):
                    received += more
            except (TimeoutError, ConnectionResetError):
                pass
            return received

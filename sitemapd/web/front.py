"""What every request passes first: its id, its log line, the bound on its headers, and the proxies.

Plain ASGI, as it stands before the push API too; everything that is not the API's goes on to Starlette.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from producers.http.auth import PROXIED, TOKEN
from producers.http.problems import stated
from sitemapd.logs import REQUEST_ID

log = logging.getLogger("sitemapd.access")

HEADER_MAX: Final = 16 * 1024
"""Bytes of a request's line and headers."""
ID_MAX: Final = 128
_PATH_SHOWN: Final = 300
_SHOWN: Final = frozenset({"source", "accept_deletes"})
"""Query parameters whose value the log may show; of others it has the names."""

Network = IPv4Network | IPv6Network


class Front:
    """The outermost ASGI application: `api` for what is below /v1/, `app` for the rest."""

    def __init__(self, app: ASGIApp, api: ASGIApp, *, proxies: Sequence[Network] = ()) -> None:
        self._app = app
        self._api = api
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        size = len(scope["raw_path"] or b"") + len(scope["query_string"])
        given = b""
        for name, value in scope["headers"]:
            size += len(name) + len(value) + 4
            if name == b"x-request-id":
                given = value
        request_id = _request_id(given)
        REQUEST_ID.set(request_id)
        if self._proxies:
            self._look_behind(scope)
        status = sent = 0

        async def noted(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            else:
                sent += len(message.get("body", b""))
            await send(message)

        try:
            if size > HEADER_MAX:
                detail = f"The request's line and headers are over {HEADER_MAX} bytes."
                await stated(431, "headers", detail, {"Connection": "close"}).send(noted)
            elif scope["path"].startswith("/v1/"):
                await self._api(scope, receive, noted)
            else:
                await self._app(scope, receive, noted)
        finally:
            if log.isEnabledFor(logging.INFO):
                _note(scope, status, sent, time.perf_counter() - began)

    def _look_behind(self, scope: Scope) -> None:
        """Take the client's address and scheme from a proxy of ours."""
        peer = scope.get("client")
        if peer is None or not self._ours(peer[0]):
            return
        scope[PROXIED] = True
        for name, value in scope["headers"]:
            text = value.decode("latin-1")
            if name == b"x-forwarded-for":
                hops = [hop.strip() for hop in text.split(",") if hop.strip()]
                client = next((hop for hop in reversed(hops) if not self._ours(hop)), None)
                if client is not None:
                    scope["client"] = (client, 0)
            elif name == b"x-forwarded-proto" and text in ("http", "https"):
                scope["scheme"] = text

    def _ours(self, host: str) -> bool:
        try:
            address = ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._proxies)


def _request_id(given: bytes) -> str:
    if 0 < len(given) <= ID_MAX and all(32 <= byte < 127 for byte in given):
        return given.decode("ascii")
    return f"{random.getrandbits(64):016x}"


def _note(scope: Scope, status: int, sent: int, took: float) -> None:
    path = ascii(scope["path"])[1:-1]
    if scope["query_string"]:
        pairs = parse_qsl(scope["query_string"].decode("latin-1")[:2000], keep_blank_values=True)
        shown = (f"{name}={value if name in _SHOWN else '...'}" for name, value in pairs)
        path += ascii("?" + "&".join(shown))[1:-1]
    peer = scope.get("client")
    fields = {
        "action": "request",
        "method": scope["method"],
        "path": path[:_PATH_SHOWN],
        "status": status,
        "ms": round(took * 1000, 1),
        "bytes": sent,
        "peer": peer[0] if peer else "",
        "token": scope.get(TOKEN, ""),
    }
    log.info("%s %s is answered with %d", fields["method"], fields["path"], status, extra=fields)

"""`/livez`, `/readyz` and `/metrics`: what probes and monitoring ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sitemap_store.errors import SitemapdError
from sitemapd.web.access import Access
from sitemapd.web.files import HEADERS
from sitemapd.web.metrics import StateCollector
from sitemapd.web.views import Calls, Views

Health = Callable[[], tuple[bool, Mapping[str, object]]]


class Probes:
    """The answers, for the server of everything and for a listener of probes alone.

    They ask Redis in threads of their own (`Calls`): a crowd that looks at pages delays no probe.
    """

    def __init__(self, health: Health, views: Views, access: Access) -> None:
        self._health = health
        self._views = views
        self._access = access
        self._calls = Calls()
        self.routes = [
            Route("/livez", self._livez),
            Route("/readyz", self._readyz),
            Route("/metrics", self._metrics),
        ]

    async def _livez(self, request: Request) -> Response:
        return JSONResponse({"live": True}, headers=HEADERS)

    async def _readyz(self, request: Request) -> Response:
        try:
            ready, detail = await self._calls.run(self._health)
        except SitemapdError:
            ready, detail = False, {"waiting_for": ["redis"]}
        return JSONResponse({"ready": ready, **detail}, status_code=200 if ready else 503, headers=HEADERS)

    async def _metrics(self, request: Request) -> Response:
        sites = self._access.sites(request)
        if not sites:
            headers = {**HEADERS, "WWW-Authenticate": 'Bearer realm="sitemapd"'}
            return PlainTextResponse("A token is needed.\n", 401, headers=headers)
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        headers = {**HEADERS, "Content-Type": kind, "Cache-Control": "no-store"}

        def collected(views: Views | None) -> bytes:
            registry = CollectorRegistry()
            registry.register(StateCollector(views, sites))
            return encode(registry)

        try:
            return Response(await self._calls.run(collected, self._views), headers=headers)
        except SitemapdError:
            return Response(collected(None), headers=headers)

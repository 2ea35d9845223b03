"""The application: which address is answered by what.

With one site its files are at `/`, with several at `/SITE/`. A site may have any name: what is no page
or file of the page's own is looked for among the published files.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata, resources
from typing import Final, NamedTuple

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from producers.http.problems import stated
from sitemap_store.errors import SitemapdError
from sitemap_store.model.site import INDEX_NAME
from sitemapd.web.access import Access
from sitemapd.web.files import CACHE, HEADERS, Files, missing
from sitemapd.web.front import Front, Network
from sitemapd.web.page import FORM_MAX, SECURITY, Feed, Page
from sitemapd.web.probes import Health, Probes
from sitemapd.web.views import Calls, ServedSite, Views

FORM_S: Final = 10.0
"""Seconds that a login form may take to come."""
ASSETS: Final = {"style.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}


async def no_api(scope: Scope, receive: Receive, send: Send) -> None:
    """Stands for the push API where there is no Redis: 503."""
    detail = "There is no Redis: set redis_url, or start `sitemapd run`, and start this server again."
    await stated(503, "unavailable", detail, {"Retry-After": "30"}).send(send)


def application(
    sites: Mapping[str, ServedSite],
    health: Health,
    *,
    api: ASGIApp = no_api,
    proxies: Sequence[Network] = (),
) -> Application:
    """The application; `api` is the push API. There must be a site.

    `/livez` answers 200 as long as the process serves. `/readyz` answers 200 once everything is ready
    and 503 before, with what it waits for.
    """
    closing = threading.Event()
    views, access = Views(sites), Access({name: each.tokens for name, each in sites.items()})
    probes = Probes(health, views, access).routes
    served = _Served(sites, views, access, closing)
    app = Starlette(
        routes=[
            *probes,
            Route("/login", served.login_form, methods=["GET"]),
            Route("/login", served.login, methods=["POST"]),
            Route("/logout", served.logout, methods=["POST"]),
            Route("/sites/{site}/feed", served.feed),
            Route("/sites/{site}/{part}", served.part),
            Route("/", served.home),
            Route("/{name}", served.top),
            Route("/{site}/{name}", served.below),
        ],
    )
    app.router.redirect_slashes = False  # a file's name has one spelling
    alone = Starlette(routes=probes)
    return Application(
        asgi=Front(app, api, proxies=proxies),
        probes=Front(alone, alone, proxies=proxies),
        closing=closing,
    )


class Application(NamedTuple):
    """What a server runs, and the flag that ends its live feeds."""

    asgi: ASGIApp
    probes: ASGIApp
    """`/livez`, `/readyz` and `/metrics` alone."""
    closing: threading.Event


class _Served:
    def __init__(
        self, sites: Mapping[str, ServedSite], views: Views, access: Access, closing: threading.Event
    ) -> None:
        self._sites = sites
        self._files = {name: Files(each.folder) for name, each in sites.items()}
        self._page = Page(views, access, metadata.version("sitemapd"))
        self._calls = Calls()
        self._feed = Feed(views, self._calls, access, closing)
        folder = resources.files("sitemapd.web").joinpath("static")
        self._assets = {name: folder.joinpath(name).read_bytes() for name in ASSETS}

    async def home(self, request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return await self._shown(self._page.home, request)
        return await run_in_threadpool(self._addresses, request)

    def _addresses(self, request: Request) -> Response:
        lines = []
        for name, files in self._files.items():
            prefix = f"{name}/" if len(self._files) > 1 else ""
            try:
                lines += [f"{request.base_url}{prefix}{file}" for file in files.index_files()]
            except SitemapdError:
                return PlainTextResponse("The output can't be read now.\n", 503, headers=HEADERS)
        said = "\n".join(lines) if lines else "Nothing is published yet."
        return PlainTextResponse(said + "\n", headers={**HEADERS, "Vary": "Accept, Cookie"})

    def login_form(self, request: Request) -> Response:
        return self._page.login_form(request)

    async def login(self, request: Request) -> Response:
        body = bytearray()
        try:
            async with asyncio.timeout(FORM_S):
                async for piece in request.stream():
                    body += piece
                    if len(body) > FORM_MAX:
                        return PlainTextResponse("That is no login form.\n", 413, headers=SECURITY)
        except TimeoutError:
            return PlainTextResponse("The form came too slowly.\n", 408, headers=SECURITY)
        return await run_in_threadpool(self._page.login, request, bytes(body))

    def logout(self, request: Request) -> Response:
        return self._page.logout(request)

    async def feed(self, request: Request) -> Response:
        return await self._feed.answer(request, request.path_params["site"])

    def top(self, request: Request) -> Response:
        if len(self._sites) > 1:
            return missing()
        return self._file(request, next(iter(self._sites)), request.path_params["name"])

    async def below(self, request: Request) -> Response:
        site, name = request.path_params["site"], request.path_params["name"]
        if site == "static" and name in self._assets:
            headers = {**SECURITY, "Content-Type": ASSETS[name], "Cache-Control": "no-cache"}
            return Response(self._assets[name], headers=headers)
        if site in self._sites and len(self._sites) > 1 and "." in name:
            return await run_in_threadpool(self._file, request, site, name)
        if site == "sites" and "." not in name:
            return await self._shown(self._page.site, request, name)
        return missing()

    async def part(self, request: Request) -> Response:
        names = request.path_params
        return await self._shown(self._page.part, request, names["site"], names["part"])

    async def _shown(self, page: Callable[..., Response], request: Request, *args: str) -> Response:
        """A page, or the one that says so when Redis does not answer in time."""
        try:
            return await self._calls.run(page, request, *args)
        except SitemapdError as error:
            return self._page.away(request, error)

    def _file(self, request: Request, site: str, name: str) -> Response:
        files, key = self._files[site], self._sites[site].indexnow_key
        if key is not None and name == f"{key}.txt":
            return PlainTextResponse(key, headers={**HEADERS, "Cache-Control": CACHE})
        if name == "robots.txt":
            try:
                found = files.index_files() or [INDEX_NAME]
            except SitemapdError:
                return PlainTextResponse("The output can't be read now.\n", 503, headers=HEADERS)
            lines = [f"Sitemap: {self._sites[site].site.address(each)}\n" for each in found]
            return PlainTextResponse("".join(lines), headers={**HEADERS, "Cache-Control": CACHE})
        return files.answer(request, name)

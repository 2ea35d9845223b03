"""The status page: read-only, made on the server, whole without a script; and its live feed.

Templates are in `templates/`. The feed sends what is published, and the headline's numbers, as events.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse

from producers.http.auth import same_origin
from sitemap_store.errors import SitemapdError
from sitemap_store.redis.observed import Published, feed
from sitemapd.web import display
from sitemapd.web.access import COOKIE, Access
from sitemapd.web.views import SPANS, Calls, Views

SECURITY: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex",
    "Cache-Control": "no-store",
    "Vary": "Accept, Cookie",
}
FORM_MAX: Final = 4096
"""Bytes of a login form."""
PAUSE_S: Final = 1.0
ALIVE_S: Final = 15.0
"""A comment is sent at least that often, so that proxies keep the connection."""
READERS: Final = 50
"""Streams at a time."""
MOST: Final = 20
"""Entries of one look; of a bulk load's hundreds nobody could read more."""
_NEXT: Final = re.compile(r"/(?:sites/[a-z][a-z0-9_-]*)?")


class Page:
    """The page's handlers. They run in threads, since they read Redis."""

    def __init__(self, views: Views, access: Access, version: str) -> None:
        self._views = views
        self._access = access
        self._jinja = Environment(
            loader=PackageLoader("sitemapd.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._jinja.filters.update(
            number=display.number,
            duration=display.duration,
            size=display.size,
            iso=display.iso,
            clock=display.clock,
            millis=display.millis,
        )
        self._jinja.globals.update(ago=display.ago, link=_link, version=version)

    def home(self, request: Request) -> Response:
        """All sites; with one site, that one."""
        sites = sorted(self._access.sites(request))
        if not sites:
            return self.ask(request)
        if len(sites) == 1:
            return self._site(request, sites[0], home=True)
        try:
            rows = [self._views.site(name) for name in sites]
            return self._html(request, "sites.html", views=rows, server=self._views.server())
        except SitemapdError as error:
            return self.away(request, error)

    def site(self, request: Request, name: str) -> Response:
        """One site."""
        sites = self._access.sites(request)
        if not sites:
            return self.ask(request)
        if name not in sites:
            title, said = "No such site", f"There is no site {name[:40]} that you may see."
            return self._html(request, "message.html", status=404, title=title, said=said)
        return self._site(request, name, home=False)

    def part(self, request: Request, name: str, part: str) -> Response:
        """A section, a shard or a source of a site, a page of it at a time."""
        show = {"section": self._section, "shard": self._shard, "source": self._source}.get(part)
        if show is None or name not in self._access.sites(request):
            return self.site(request, name) if show else self._missing(request, "This page")
        try:
            return show(request, name)
        except SitemapdError as error:
            return self.away(request, error)

    def _section(self, request: Request, name: str) -> Response:
        section, after = request.query_params.get("name", ""), _place(request)
        found = self._views.section(name, section, after)
        if not found.shards and not self._views.has_section(name, section):
            return self._missing(request, f"The section {section[:40]}")
        return self._html(request, "section.html", site=name, section=section, found=found)

    def _shard(self, request: Request, name: str) -> Response:
        (partition, shard), page = _place(request, "id"), _number(request, "page", 1)
        found = self._views.shard(name, partition, shard, page)
        if found is None:
            return self._missing(request, "This shard")
        (row, _, _), urls = found
        path = self._views.file_path(name, row.file)
        return self._html(request, "shard.html", site=name, row=row, urls=urls, page=page, path=path)

    def _source(self, request: Request, name: str) -> Response:
        source, page, after = (
            request.query_params.get("name", ""),
            _number(request, "page", 1),
            _place(request),
        )
        found, urls, refusals, state = self._views.source(name, source, after, page)
        values: dict[str, Any] = {
            "source": source,
            "found": found,
            "after": after,
            "urls": urls,
            "page": page,
            "refusals": refusals,
            "state": state,
        }
        return self._html(request, "source.html", site=name, **values)

    def _missing(self, request: Request, what: str) -> Response:
        said = f"{what} is not there, or not published yet."
        return self._html(request, "message.html", status=404, title="Not found", said=said)

    def ask(self, request: Request) -> Response:
        """Ask for a token, or say that there is none to be had."""
        if self._access.any_token:
            known = _NEXT.match(request.url.path)
            target = known[0] if known else "/"
            suffix = f"?next={target}" if target != "/" else ""
            return RedirectResponse(f"/login{suffix}", 303, headers=SECURITY)
        said = (
            "Without tokens the status page is shown on this machine itself alone: open it at a loopback "
            "address, or make a token with `sitemapd token` and name it in the settings."
        )
        return self._html(request, "message.html", status=403, title="Not from here", said=said)

    def login_form(self, request: Request) -> Response:
        """The form that takes a token."""
        if self._access.sites(request):
            return RedirectResponse("/", 303, headers=SECURITY)
        if not self._access.any_token:
            return self.ask(request)
        return self._login(request, request.query_params.get("next", "/"))

    def login(self, request: Request, body: bytes) -> Response:
        """Take a token from the form, and give the browser its cookie."""
        fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=8)
        token, target = (fields.get(name, [""])[0].strip() for name in ("token", "next"))
        if not same_origin(request):
            said = "The form came from another site. Open the status page and log in there."
            return self._html(request, "message.html", status=403, title="Not logged in", said=said)
        response = RedirectResponse(target if _NEXT.fullmatch(target) else "/", 303, headers=SECURITY)
        if token and self._access.log_in(request, response, token):
            return response
        return self._login(request, target, said="That token is not known here.", status=401)

    def logout(self, request: Request) -> Response:
        """End the browser's session."""
        if not same_origin(request):
            said = "The request came from another site."
            return self._html(request, "message.html", status=403, title="Not logged out", said=said)
        response = RedirectResponse("/login", 303, headers=SECURITY)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    def _login(self, request: Request, target: str, *, said: str = "", status: int = 200) -> Response:
        target = target if _NEXT.fullmatch(target) else "/"
        return self._html(request, "login.html", status=status, said=said, target=target)

    def _site(self, request: Request, name: str, *, home: bool) -> Response:
        try:
            span = request.query_params.get("span", "")
            view = self._views.site(name, span if span in SPANS else "hour")
            server = self._views.server()
            url = request.query_params.get("url", "").strip()
            looked = self._views.find(name, url) if url else None
        except SitemapdError as error:
            return self.away(request, error)
        path = partial(self._views.file_path, name)
        values: dict[str, Any] = {
            "view": view,
            "server": server,
            "home": home,
            "url": url,
            "looked": looked,
            "path": path,
        }
        return self._html(request, "site.html", spans=SPANS, **values)

    def away(self, request: Request, error: SitemapdError) -> Response:
        """The page while Redis does not answer."""
        title = "Redis does not answer"
        said = f"{str(error).rstrip('.')}. Published files are served all the same; this page tries again."
        return self._html(request, "message.html", status=503, title=title, said=said, again=True)

    def _html(self, request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
        leave = self._access.logged_in(request)
        page = self._jinja.get_template(template).render({"leave": leave, "again": False} | values)
        return HTMLResponse(page, status, headers=SECURITY)


def _link(site: str, part: str, **query: str | int) -> str:
    return f"/sites/{site}/{part}?{urlencode(query)}"


def _place(request: Request, name: str = "after") -> tuple[int, int]:
    """The partition and the shard's id that a query names; (0, 0) for none."""
    return _number(request, "partition", 0), _number(request, name, 0)


def _number(request: Request, name: str, default: int) -> int:
    """A query's whole number of up to 9 digits, `default` at the least; `default` for anything else."""
    text = request.query_params.get(name, "")
    return max(default, int(text)) if re.fullmatch("[0-9]{1,9}", text) else default


class Feed:
    """The streams. They end when `closing` is set, and the browser comes back by itself."""

    def __init__(self, views: Views, calls: Calls, access: Access, closing: threading.Event) -> None:
        self._views = views
        self._calls = calls
        self._access = access
        self._closing = closing
        self._readers = 0

    async def answer(self, request: Request, name: str) -> Response:
        """One browser's stream, from the cursor that it gives on."""
        if name not in self._access.sites(request):
            return PlainTextResponse("Log in first.\n", 403, headers=SECURITY)
        if self._readers >= READERS:
            headers = {**SECURITY, "Retry-After": "30"}
            return PlainTextResponse("Too many live feeds are open.\n", 503, headers=headers)
        cursor = request.headers.get("last-event-id") or request.query_params.get("after", "")
        headers = {**SECURITY, "X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(name, cursor), headers=headers, media_type="text/event-stream")

    async def _events(self, name: str, cursor: str) -> AsyncIterator[str]:
        self._readers += 1
        shown: dict[str, str] = {}
        silent = 0.0
        try:
            yield "retry: 3000\n\n"
            while not self._closing.is_set():
                try:
                    entries, numbers = await self._calls.run(self._look, name, cursor)
                except SitemapdError:
                    entries, numbers = [], {}
                said = ""
                for entry in entries:
                    cursor = entry.cursor
                    said += _event("published", entry._asdict(), cursor)
                if changed := {key: value for key, value in numbers.items() if shown.get(key) != value}:
                    shown |= changed
                    said += _event("numbers", changed)
                silent = 0.0 if said else silent + PAUSE_S
                if silent >= ALIVE_S:
                    said, silent = ": still here\n\n", 0.0
                if said:
                    yield said
                await asyncio.sleep(PAUSE_S)
        finally:
            self._readers -= 1

    def _look(self, name: str, cursor: str) -> tuple[list[Published], dict[str, str]]:
        entries = feed(self._views.store(name), after=cursor, limit=MOST)
        return entries, self._views.site(name).headline()


def _event(kind: str, data: object, cursor: str = "") -> str:
    place = f"id: {cursor}\n" if cursor else ""
    return f"event: {kind}\n{place}data: {json.dumps(data)}\n\n"

"""The push API: which path is answered by what, and what goes wrong as a problem (RFC 9457).

==============================================  ==========================================
`POST /v1/sites/{site}/events`                  events
`PUT /v1/sites/{site}/sources/{source}`         all that a source has
`POST /v1/sites/{site}/webhooks/{webhook}`      another system's JSON
`GET /v1/sites/{site}/urls?loc=…`               what is known of a URL
`GET /v1/status`                                how the sites stand
`GET /v1/openapi.json`                          this, for machines
`GET /v1/event.schema.json`                     JSON Schema of an event
==============================================  ==========================================
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from typing import Any, Final

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from producers.http.auth import Gate, Token
from producers.http.events import post_events
from producers.http.limits import Admission, Body, Caps, Room
from producers.http.problems import Answer, Problem, answer, refusal, unavailable
from producers.http.schema import event_schema
from producers.http.sources import Sources
from producers.http.state import SiteState
from producers.http.webhooks import Webhook, post_webhook
from producers.known import described, find_listed
from producers.sink import EventSink
from sitemap_store.errors import Refused, Unavailable
from sitemap_store.model.wire import check_source
from sitemap_store.redis.once import DEFAULT, Bounds

Work = Callable[[Request, Body], Awaitable[Answer]]
Status = Callable[[str], Mapping[str, Any]]
"""How one site stands (`sitemapd status`)."""


log = logging.getLogger(__name__)

OPENAPI: Final = resources.files(__package__).joinpath("openapi.json").read_bytes()
EVENT_SCHEMA: Final = event_schema(OPENAPI)
UNFOLDED_MAX: Final = 1_000_000
"""Events that may wait to be folded before more are put off (429)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSite:
    """One site, as the API takes its events."""

    sink: EventSink
    tokens: tuple[Token, ...] = ()
    """None at all: requests of this machine alone are taken."""
    webhooks: Mapping[str, Webhook] = field(default_factory=dict)
    max_unfolded: int = UNFOLDED_MAX
    owners: Mapping[str, str] = field(default_factory=dict)
    """Sources that are not for lists, with what keeps them, such as "the watched folder content/"."""
    remembered: Bounds = DEFAULT
    """How much is remembered of idempotency keys."""


class Api:
    """The API as an ASGI application for one event loop, of all paths below `/v1/`.

    `gate` has the tokens, `status` reports a site's state. It is plain ASGI, as what a framework does
    around a handler takes longer than storing an event; whatever goes wrong is answered as a problem.
    """

    def __init__(
        self, sites: Mapping[str, ApiSite], *, gate: Gate, status: Status, caps: Caps | None = None
    ) -> None:
        self._caps = caps or Caps()
        self._room = Room(self._caps.held)
        self._admission = Admission()
        self._gate = gate
        self._report = status
        self._webhooks = {name: site.webhooks for name, site in sites.items()}
        self._sources = {name: Sources(site.owners) for name, site in sites.items()}
        self._states = {
            name: SiteState(
                site.sink,
                max_unfolded=site.max_unfolded,
                patience=self._caps.redis,
                remembered=site.remembered,
            )
            for name, site in sites.items()
        }
        site = r"/v1/sites/(?P<site>[^/]+)"
        self._routes: tuple[tuple[re.Pattern[str], str, Work], ...] = (
            (re.compile(f"{site}/events"), "POST", self._events),
            (re.compile(f"{site}/sources/(?P<source>[^/]+)"), "PUT", self._source),
            (re.compile(f"{site}/webhooks/(?P<webhook>[^/]+)"), "POST", self._webhook),
            (re.compile(f"{site}/urls"), "GET", self._url),
            (re.compile("/v1/status"), "GET", self._status),
            (re.compile("/v1/openapi.json"), "GET", self._openapi),
            (re.compile("/v1/event.schema.json"), "GET", self._event_schema),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        body = Body(request, self._caps, self._room)
        try:
            work = self._find(scope)
            await self._admission.enter()
            done = await work(request, body)
        except Problem as error:
            done = await refusal(request, body, error)
        except Unavailable as error:
            done = await refusal(request, body, unavailable(f"{error}."))
        except Exception:
            # A defect of ours: clients of the API get a problem all the same, and the log the traceback.
            log.exception("A request ended in an error", extra={"action": "http_error"})
            detail = "sitemapd could not handle the request; its log says why."
            done = await refusal(request, body, Problem(500, "internal", detail))
        finally:
            body.release()
        await done.send(send)

    def _find(self, scope: Scope) -> Work:
        """The handler of a path and method. Raises Problem (404, 405)."""
        path, method = scope["path"], scope["method"]
        for pattern, allowed, work in self._routes:
            found = pattern.fullmatch(path)
            if found is None:
                continue
            if method == allowed or (method == "HEAD" and allowed == "GET"):
                scope["path_params"] = found.groupdict()
                return work
            allow = "GET, HEAD" if allowed == "GET" else allowed
            detail = f"{method[:20]} is not possible here: use {allow}."
            raise Problem(405, "method", detail, headers={"Allow": allow})
        detail = f"There is nothing at {path[:80]!r}: /v1/openapi.json lists the paths."
        raise Problem(404, "path", detail)

    async def _events(self, request: Request, body: Body) -> Answer:
        site = request.path_params["site"]
        token = self._gate.admit(request, site)
        return await post_events(request, body, token, self._states[site], self._caps)

    async def _source(self, request: Request, body: Body) -> Answer:
        site, source = request.path_params["site"], request.path_params["source"]
        token = self._gate.admit(request, site)
        try:
            check_source(source)
        except Refused as refused:
            raise Problem(400, "source", refused.detail) from refused
        sync = self._sources[site].put
        return await sync(request, body, token, source, self._states[site], self._caps)

    async def _webhook(self, request: Request, body: Body) -> Answer:
        site = request.path_params["site"]
        if site not in self._webhooks:
            self._gate.admit(request, site)
        hook = self._webhooks[site].get(request.path_params["webhook"])
        return await post_webhook(request, body, self._gate, site, hook, self._states[site], self._caps)

    async def _url(self, request: Request, body: Body) -> Answer:
        """One URL's entry, source and place, events that wait included."""
        site = request.path_params["site"]
        self._gate.admit(request, site)
        asked = request.query_params.get("loc")
        if asked is None:
            raise Problem(400, "query", "Name the URL: …/urls?loc=https://…, %-encoded.")
        state = self._states[site]
        store = state.sink.store
        try:
            loc, found = await state.run(lambda: find_listed(store, asked))
        except Refused as refused:
            detail = refused.detail.encode("utf-8", "backslashreplace").decode()
            raise Problem(422, refused.rule, detail) from refused
        if found is None:
            raise Problem(
                404, "not-listed", f"{loc} is not listed: `sitemapd rejected` shows whether it was refused."
            )
        return answer(described(found, store.site.style(found.section)))

    async def _status(self, request: Request, body: Body) -> Answer:
        """How each site that the token may see stands."""
        sites = {}
        for name in self._gate.visible(request):
            sites[name] = await self._states[name].run(partial(self._report, name))
        return answer({"sites": sites})

    async def _openapi(self, request: Request, body: Body) -> Answer:
        return Answer(OPENAPI)

    async def _event_schema(self, request: Request, body: Body) -> Answer:
        return Answer(EVENT_SCHEMA)

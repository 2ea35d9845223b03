"""The routes of the push API, for one Starlette application.

==============================================  ==========================================
`POST /v1/sites/{site}/events`                  events
`PUT /v1/sites/{site}/sources/{source}`         all that a source has
`POST /v1/sites/{site}/webhooks/{webhook}`      another system's JSON
`GET /v1/sites/{site}/urls?loc=…`               what is known of a URL
`GET /v1/status`                                how the sites stand
`GET /v1/openapi.json`                          this, for machines
==============================================  ==========================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from producers.http.access import Gate, Token
from producers.http.answer import Answer, Endpoint, answer
from producers.http.body import Body, Caps
from producers.http.events import post_events
from producers.http.hooks import Webhook, post_webhook
from producers.http.intake import Intake
from producers.http.lookup import Status, get_status, get_url
from producers.http.openapi import document
from producers.http.problem import Problem
from producers.http.sources import Sources
from producers.sink import EventSink
from sitemap_store.errors import Refused
from sitemap_store.once import DEFAULT, Bounds
from sitemap_store.wire import check_source

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
    remembered: Bounds = DEFAULT
    """How much is remembered of idempotency keys."""


def routes(
    sites: Mapping[str, ApiSite], *, gate: Gate, status: Status, caps: Caps | None = None
) -> list[BaseRoute]:
    """The API's routes, for one event loop; `gate` has the tokens, `status` tells how a site stands."""
    api = _Api(sites, gate, status, caps or Caps())
    site = "/v1/sites/{site}"
    return [
        Route(f"{site}/events", Endpoint(api.events, api.caps), methods=["POST"]),
        Route(f"{site}/sources/{{source}}", Endpoint(api.source, api.caps), methods=["PUT"]),
        Route(f"{site}/webhooks/{{webhook}}", Endpoint(api.webhook, api.caps), methods=["POST"]),
        Route(f"{site}/urls", Endpoint(api.url, api.caps), methods=["GET"]),
        Route("/v1/status", Endpoint(api.status, api.caps), methods=["GET"]),
        Route("/v1/openapi.json", Endpoint(api.openapi, api.caps), methods=["GET"]),
    ]


class _Api:
    def __init__(self, sites: Mapping[str, ApiSite], gate: Gate, status: Status, caps: Caps) -> None:
        self.caps = caps
        self._gate = gate
        self._status = status
        self._webhooks = {name: site.webhooks for name, site in sites.items()}
        self._sources = {name: Sources() for name in sites}
        self._intakes = {
            name: Intake(
                site.sink,
                max_unfolded=site.max_unfolded,
                patience=caps.redis,
                remembered=site.remembered,
            )
            for name, site in sites.items()
        }

    async def events(self, request: Request, body: Body) -> Answer:
        site = request.path_params["site"]
        token = self._gate.admit(request, site)
        return await post_events(request, body, token, self._intakes[site], self.caps)

    async def source(self, request: Request, body: Body) -> Answer:
        site, source = request.path_params["site"], request.path_params["source"]
        token = self._gate.admit(request, site)
        try:
            check_source(source)
        except Refused as refused:
            raise Problem(400, "source", refused.detail) from refused
        sync = self._sources[site].put
        return await sync(request, body, token, source, self._intakes[site], self.caps)

    async def webhook(self, request: Request, body: Body) -> Answer:
        site = request.path_params["site"]
        if site not in self._webhooks:
            self._gate.admit(request, site)
        hook = self._webhooks[site].get(request.path_params["webhook"])
        return await post_webhook(request, body, self._gate, site, hook, self._intakes[site], self.caps)

    async def url(self, request: Request, body: Body) -> Answer:
        site = request.path_params["site"]
        self._gate.admit(request, site)
        return await get_url(request, self._intakes[site])

    async def status(self, request: Request, body: Body) -> Answer:
        return await get_status(request, self._gate, self._intakes, self._status)

    async def openapi(self, request: Request, body: Body) -> Answer:
        return answer(document())

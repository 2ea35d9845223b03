"""What can be asked: one URL, and how the sites stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from starlette.requests import Request

from producers.http.access import Gate
from producers.http.answer import Answer, answer
from producers.http.intake import Intake
from producers.http.problem import Problem
from producers.known import described
from sitemap_store.errors import Refused
from sitemap_store.model.urls import normalise

Status = Callable[[str], Mapping[str, Any]]
"""How one site stands (`sitemapd status`)."""


async def get_url(request: Request, intake: Intake) -> Answer:
    """One URL's entry, source and place, events that wait included. Raises Problem (400, 404, 422)."""
    asked = request.query_params.get("loc")
    if asked is None:
        raise Problem(400, "query", "Name the URL: …/urls?loc=https://…, %-encoded.")
    store = intake.sink.store
    try:
        loc = normalise(asked, store.site.rules).loc
    except Refused as refused:
        raise Problem(
            422, refused.rule, refused.detail.encode("utf-8", "backslashreplace").decode()
        ) from refused
    found = await intake.run(lambda: store.find(loc))
    if found is None:
        raise Problem(404, "not-listed", f"{loc} is not listed.")
    return answer(described(found))


async def get_status(request: Request, gate: Gate, intakes: Mapping[str, Intake], status: Status) -> Answer:
    """How each site that the token may see stands. Raises Problem (401)."""
    sites = {}
    for name in gate.visible(request):
        sites[name] = await intakes[name].run(partial(status, name))
    return answer({"sites": sites})

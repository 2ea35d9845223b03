"""`POST /v1/sites/{site}/webhooks/{name}`: another system's JSON, turned into events by a mapping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from producers.http.access import LOCAL, Gate, Token
from producers.http.answer import Answer
from producers.http.batch import Checked, Speaker, scoped
from producers.http.body import Body, Caps
from producers.http.events import speaks_for
from producers.http.intake import Intake
from producers.http.mapping import EVENTS_MAX, Rule, items
from producers.http.problem import Problem
from producers.http.signature import Signature
from producers.http.splitter import JSON, splitter
from producers.http.taking import Taking
from producers.ndjson import decode_large
from sitemap_store.errors import Refused
from sitemap_store.events import Event
from sitemap_store.wire import check


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One sender: how it signs, for which source it speaks, and what its payloads mean."""

    rules: tuple[Rule, ...]
    source: str | None = None
    signature: Signature | None = None
    """None: it sends a token, as everybody does."""
    max_body: int | None = None
    """The most bytes of a delivery; None: as `Caps` has it for who shows a token and who doesn't."""


async def post_webhook(
    request: Request, body: Body, gate: Gate, site: str, hook: Webhook | None, intake: Intake, caps: Caps
) -> Answer:
    """Take a webhook's events in. Raises Problem."""
    signature = hook.signature if hook is not None else None
    token: Token = LOCAL if signature is not None else gate.admit(request, site)
    if hook is None:
        raise Problem(404, "webhook", "There is no webhook of that name: look under [sites.SITE.webhooks].")
    source = speaks_for(token, hook.source)
    splitter(request.headers.get("content-type"))
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise Problem(415, "content-type", f"A webhook's Content-Type must be {JSON}.")
    checking = None
    if signature is not None:
        checking = signature.begin(request.headers.get(signature.header), time.time())
    cap = hook.max_body or (caps.unknown if token is LOCAL else caps.webhook)
    text = await body.whole(cap, known=token is not LOCAL, each=checking.update if checking else None)
    if checking is not None:
        checking.finish()
    now = await intake.look()
    store = intake.sink.store
    made = await asyncio.to_thread(_made, hook, text, request.headers, store.site.rules.base)
    if len(made) > EVENTS_MAX:
        raise Problem(413, "too-large", f"It makes more than {EVENTS_MAX} events: send a whole list by PUT.")
    events: list[Event] = []
    refused_events: list[tuple[int, Refused]] = []
    said: tuple[str, ...] = ()
    for line, item in enumerate(made, 1):
        try:
            if isinstance(item, Refused):
                raise item
            event, warnings = check(item, store.site, now, source=source)
            scoped(event, token)
        except Refused as refused:
            refused_events.append((line, refused))
            continue
        events.append(event)
        said += warnings
    taking = Taking(intake, Speaker(token, source))
    await taking.take(Checked(events, refused_events, said))
    return taking.outcome.answer()


def _made(
    hook: Webhook, text: bytes, headers: Mapping[str, str], base: str
) -> list[dict[str, Any] | Refused]:
    try:
        payload = decode_large(text)
    except Refused as refused:
        raise Problem(400, "json", refused.detail.replace("The line", "The body", 1)) from refused
    return items(hook.rules, payload, headers, base)

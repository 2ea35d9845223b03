"""`POST /v1/sites/{site}/webhooks/{name}`: another system's JSON, turned into events by a mapping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.requests import Request

from producers.http.access import LOCAL, Gate, Token
from producers.http.answer import Answer
from producers.http.body import Body, Caps
from producers.http.events import speaks_for
from producers.http.intake import Intake
from producers.http.keyed import KEYS_MAX, KeyedUrls
from producers.http.mapping import EVENTS_MAX, Rule, items
from producers.http.problem import Problem
from producers.http.signature import Signature
from producers.http.splitter import JSON, splitter
from producers.http.taking import Checked, Speaker, Taking, scoped
from producers.ndjson import decode_large
from sitemap_store.errors import Refused
from sitemap_store.model.events import Event
from sitemap_store.model.site import Site
from sitemap_store.model.wire import check


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One sender: how it signs, for which source it speaks, and what its payloads mean."""

    rules: tuple[Rule, ...]
    source: str | None = None
    signature: Signature | None = None
    """None: it sends a token, as everybody does."""
    max_body: int | None = None
    """The most bytes of a delivery; None: as `Caps` has it for who shows a token and who doesn't."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock, compare=False)
    """Deliveries with keys go one after the other."""


async def post_webhook(
    request: Request, body: Body, gate: Gate, site: str, hook: Webhook | None, intake: Intake, caps: Caps
) -> Answer:
    """Take a webhook's events in. Raises Problem."""
    signature = hook.signature if hook is not None else None
    token: Token = LOCAL if signature is not None else gate.admit(request, site)
    if hook is None:
        raise Problem(404, "webhook", "There is no webhook of that name: look under [sites.SITE.webhooks].")
    source = speaks_for(token, hook.source)
    splitter(request.headers.get("content-type"), only=JSON)
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
    delivery = _Delivery(store.site, now, token, source)
    taking = Taking(intake, Speaker(token, source))
    keys = {item["key"] for item in made if not isinstance(item, Refused) and "key" in item}
    if not keys:
        await taking.take(delivery.check(made, {}))
        return taking.outcome.answer()
    keyed = KeyedUrls(store, request.path_params["webhook"])
    async with hook.turn:
        before = await intake.run(partial(keyed.read, keys))
        await taking.take(delivery.check(made, before))
        left_out = await intake.run(partial(keyed.write, before, delivery.now))
    if left_out:
        detail = f"{len(left_out)} keys are not remembered: this webhook has {KEYS_MAX} already."
        taking.outcome.warn((detail,))
    return taking.outcome.answer()


class _Delivery:
    """One delivery's items, checked; `now` has the URLs of each key that is settled by it."""

    def __init__(self, site: Site, moment: int, token: Token, source: str | None) -> None:
        self._site = site
        self._moment = moment
        self._token = token
        self._source = source
        self._events: list[Event] = []
        self._refused: list[tuple[int, Refused]] = []
        self._said: tuple[str, ...] = ()
        self.now: dict[str, list[str]] = {}

    def check(self, made: Sequence[dict[str, Any] | Refused], before: Mapping[str, Sequence[str]]) -> Checked:
        """The events of the items, and deletes of what their keys had before and have no more."""
        unsettled = set()
        for line, item in enumerate(made, 1):
            key = None if isinstance(item, Refused) else item.pop("key", None)
            if key is not None:
                self.now.setdefault(key, [])
            if isinstance(item, Refused) or "loc" in item:
                loc = self._check(line, item)
                if key is None:
                    continue
                if loc is None:
                    unsettled.add(key)
                elif self._events[-1].op != "delete":
                    self.now[key].append(loc)
        for key in unsettled:
            del self.now[key]  # what was refused says nothing of what it had
        for key, urls in self.now.items():
            for url in before[key]:
                if url not in urls:
                    self._check(len(made), {"op": "delete", "loc": url})
        return Checked(self._events, self._refused, self._said)

    def _check(self, line: int, item: dict[str, Any] | Refused) -> str | None:
        """Take an event in; its URL, or None for one that is refused."""
        try:
            if isinstance(item, Refused):
                raise item
            event, warnings = check(item, self._site, self._moment, source=self._source)
            scoped(event, self._token)
        except Refused as refused:
            self._refused.append((line, refused))
            return None
        self._events.append(event)
        self._said += warnings
        return event.loc


def _made(
    hook: Webhook, text: bytes, headers: Mapping[str, str], base: str
) -> list[dict[str, Any] | Refused]:
    try:
        payload = decode_large(text)
    except Refused as refused:
        raise Problem(400, "json", refused.detail.replace("The line", "The body", 1)) from refused
    return items(hook.rules, payload, headers, base)

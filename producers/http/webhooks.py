"""`POST /v1/sites/{site}/webhooks/{name}`: another system's JSON, turned into events by a mapping."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from starlette.requests import Request

from producers.http.auth import LOCAL, Gate, Token
from producers.http.events import CheckedBatch, EventWriter, Sender, check_scope, speaks_for
from producers.http.formats import JSON, splitter
from producers.http.limits import Body, Caps
from producers.http.mapping import EVENTS_MAX, Rule, items
from producers.http.problems import Answer, Problem
from producers.http.signatures import Signature
from producers.http.state import SiteState
from producers.ndjson import decode_large
from sitemap_store.errors import Refused
from sitemap_store.model.events import Event
from sitemap_store.model.site import Site
from sitemap_store.model.wire import check
from sitemap_store.redis.connection import translated
from sitemap_store.redis.store import Store

KEYS_MAX: Final = 200_000
URLS_MAX: Final = 100


class KeyedUrls:
    """Which URLs the things of a webhook have, by the sender's own key: an id is enough to take them down.

    1. A delivery that adds URLs for a key deletes those that the key had before and has no more; one that
       deletes a key deletes all that it had.
    2. A URL belongs to the key that named it last. So when two things swap their URLs, the delivery of the
       second does not delete what the first has just been given.
    3. What is remembered is one hash for each webhook, `hook:<webhook>`: `k` and the digest of a key → its
       URLs, and `u` and the digest of a URL → the digest of its key. A key with a URL of 80 characters takes
       about 300 bytes; `KEYS_MAX` keys with `URLS_MAX` URLs each are remembered, and no more.
    4. It is written after the events are stored: a delivery that broke off in between is sent again.

    Its methods raise Unavailable, and run in one delivery at a time.
    """

    def __init__(self, store: Store, webhook: str) -> None:
        self._client = store.client
        self._name = store.partitions[0].keys.webhook(webhook)

    def read(self, keys: Collection[str]) -> dict[str, list[str]]:
        """The URLs that still belong to each key."""
        digests = [_digest(key) for key in keys]
        with translated():
            texts = self._values([b"k" + digest for digest in digests])
            urls = [text.decode().split("\n") if text else [] for text in texts]
            every = [url for some in urls for url in some]
            owners = dict(zip(every, self._values([b"u" + _digest(url) for url in every]), strict=True))
        return {
            key: [url for url in some if owners[url] == digest]
            for key, digest, some in zip(keys, digests, urls, strict=True)
        }

    def write(self, before: Mapping[str, Sequence[str]], now: Mapping[str, Sequence[str]]) -> list[str]:
        """Remember what each key has now; returns the keys for which there is no room."""
        with translated(), self._client.pipeline(transaction=True) as pipe:
            room = 2 * KEYS_MAX - int(self._size())
            left_out = []
            for key, urls in now.items():
                digest, kept = _digest(key), list(dict.fromkeys(urls))[:URLS_MAX]
                gone = [url for url in before[key] if url not in kept]
                if gone:
                    pipe.hdel(self._name, *[b"u" + _digest(url) for url in gone])
                if not kept:
                    pipe.hdel(self._name, b"k" + digest)
                elif before[key] or room > 0:
                    room -= 1 + len(kept)
                    pipe.hset(self._name, b"k" + digest, "\n".join(kept).encode())
                    for url in kept:
                        pipe.hset(self._name, b"u" + _digest(url), digest)
                else:
                    left_out.append(key)
            pipe.execute()
        return left_out

    def _values(self, fields: Sequence[bytes]) -> list[Any]:
        values: Any = self._client.hmget(self._name, fields) if fields else []
        return list(values)

    def _size(self) -> Any:
        return self._client.hlen(self._name)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).digest()


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
    request: Request, body: Body, gate: Gate, site: str, hook: Webhook | None, state: SiteState, caps: Caps
) -> Answer:
    """Take a webhook's events in. Raises Problem."""
    signature = hook.signature if hook is not None else None
    token: Token = LOCAL if signature is not None else gate.admit(request, site)
    if hook is None:
        named = request.path_params["webhook"][:40]
        detail = f"There is no webhook {named!r}: name one of [sites.{site[:40]}.webhooks]."
        raise Problem(404, "webhook", detail)
    source = speaks_for(token, hook.source)
    splitter(request.headers.get("content-type"), only=JSON)
    checking = None
    if signature is not None:
        checking = signature.begin(request.headers.get(signature.header), time.time())
    cap = hook.max_body or (caps.unknown if token is LOCAL else caps.webhook)
    text = await body.whole(cap, known=token is not LOCAL, each=checking.update if checking else None)
    if checking is not None:
        checking.finish()
    now = await state.look()
    store = state.sink.store
    made = await asyncio.to_thread(_made, hook, text, request.headers, store.site.rules.base)
    if len(made) > EVENTS_MAX:
        detail = f"The payload makes {len(made)} events, and may make {EVENTS_MAX}: send a list by PUT."
        raise Problem(413, "too-large", detail)
    delivery = _Delivery(store.site, now, token, source)
    writer = EventWriter(state, Sender(token, source))
    keys = {item["key"] for item in made if not isinstance(item, Refused) and "key" in item}
    if not keys:
        await writer.write(delivery.check(made, {}))
        return writer.result.answer()
    keyed = KeyedUrls(store, request.path_params["webhook"])
    async with hook.turn:
        before = await state.run(partial(keyed.read, keys))
        await writer.write(delivery.check(made, before))
        left_out = await state.run(partial(keyed.write, before, delivery.now))
    if left_out:
        detail = f"{len(left_out)} keys are not remembered: this webhook has {KEYS_MAX} already."
        writer.result.warn((detail,))
    return writer.result.answer()


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

    def check(
        self, made: Sequence[dict[str, Any] | Refused], before: Mapping[str, Sequence[str]]
    ) -> CheckedBatch:
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
        return CheckedBatch(self._events, self._refused, self._said)

    def _check(self, line: int, item: dict[str, Any] | Refused) -> str | None:
        """Take an event in; its URL, or None for one that is refused."""
        try:
            if isinstance(item, Refused):
                raise item
            event, warnings = check(item, self._site, self._moment, source=self._source)
            check_scope(event, self._token)
        except Refused as refused:
            self._refused.append((line, refused.kept()))
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

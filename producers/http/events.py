"""`POST /v1/sites/{site}/events`: events as one JSON object, an array, or NDJSON."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator, Awaitable
from typing import Final, NamedTuple

from starlette.requests import Request

from producers.http.auth import Token
from producers.http.formats import Batch, JsonSplitter, Splitter, splitter
from producers.http.limits import Body, Caps
from producers.http.problems import JSON, PROBLEM, Answer, Problem, Result
from producers.http.state import SiteState
from sitemap_store.errors import Refused
from sitemap_store.model.events import Event
from sitemap_store.model.site import Site
from sitemap_store.model.wire import check, check_source
from sitemap_store.redis.once import Once


class Sender(NamedTuple):
    """On whose behalf events come."""

    token: Token
    source: str | None
    """The source of events that name none."""
    since: int | None = None
    """When events that carry no `at` happened, in epoch milliseconds; None: when they are appended."""


class CheckedBatch(NamedTuple):
    """The events of a batch, and what was refused of it."""

    events: list[Event]
    refused: list[tuple[int, Refused]]
    warnings: tuple[str, ...]


async def batches(pieces: AsyncIterator[bytes], split: Splitter) -> AsyncIterator[Batch]:
    """The raw events of a body, some at a time. Raises Problem as they do."""
    async for piece in pieces:
        for batch in split.feed(piece):
            yield batch
    for batch in split.end():
        yield batch


def check_batch(batch: Batch, site: Site, now: int, who: Sender) -> CheckedBatch:
    """Decode and check a batch. Raises Problem (400) for one that spoils its body."""
    events: list[Event] = []
    refused: list[tuple[int, Refused]] = []
    warnings: tuple[str, ...] = ()
    token, source, since = who
    scope = token.sources
    for line, item in zip(*batch.read(), strict=True):
        try:
            event, said = check(item, site, now, source=source)
            warnings += said
            if scope is not None:
                check_scope(event, token)
        except Refused as error:
            refused.append((line, error.kept()))
            continue
        if since is not None and event.at is None:
            event = event._replace(at=since)
        events.append(event)
    return CheckedBatch(events, refused, warnings)


def check_scope(event: Event, token: Token) -> None:
    """See that a token may speak for an event's source. Raises Refused (rule "scope")."""
    if not token.may(event.source):
        raise Refused(loc=event.loc, rule="scope", detail=f"{_may_not(token, event.source)}.")


def _may_not(token: Token, source: str | None) -> str:
    named = f"the source {source}" if source else "an event without a source"
    return f"The token may not push for {named}. It may push for {', '.join(sorted(token.sources or ()))}"


INLINE: Final = 4096
"""Bytes up to which a batch is checked at once; larger ones are, in a thread."""


class EventWriter:
    """Checks batches and stores their events, in their order.

    A Problem that its methods raise says what was accepted before.
    """

    def __init__(self, state: SiteState, who: Sender) -> None:
        self.who = who
        self.result = Result()
        self._state = state
        self._sent: tuple[CheckedBatch, asyncio.Future[None] | None] | None = None

    async def write_all(self, batches: AsyncIterator[Batch]) -> None:
        """Take batches as they come; all that is accepted is in Redis when it returns. Raises Problem."""
        try:
            try:
                async for batch in batches:
                    await self._write_batch(batch)
            finally:
                await self._settle()
        except Problem as problem:
            problem.more |= self.result.body()
            raise

    async def write_short(self, body: Awaitable[bytes], split: Splitter) -> None:
        """Take a short body's events, all at once. Raises Problem."""
        try:
            text = await body
            for batch in (*split.feed(text), *split.end()):
                await self._write_batch(batch)
            await self._settle()
        except Problem as problem:
            problem.more |= self.result.body()
            raise

    async def write(self, checked: CheckedBatch) -> None:
        """Take events that are checked already. Raises Problem (503)."""
        self._send(checked)
        await self._settle()

    async def _write_batch(self, batch: Batch) -> None:
        now, site = await self._state.look(), self._state.sink.store.site
        if len(batch) <= INLINE:
            checked = check_batch(batch, site, now, self.who)
        else:
            checked = await asyncio.to_thread(check_batch, batch, site, now, self.who)
        await self._settle()
        self._send(checked)

    def _send(self, checked: CheckedBatch) -> None:
        self._sent = checked, self._state.send(checked.events) if checked.events else None

    async def _settle(self) -> None:
        """See that what was sent is in Redis, and count it. Raises Problem (503)."""
        if self._sent is None:
            return
        (events, refused, warnings), stored = self._sent
        self._sent = None
        if stored is not None:
            await stored
            self.result.accepted += len(events)
        self.result.warn(warnings)
        for line, error in refused:
            self.result.refuse(line, error)
        if refused:
            await self._state.reject([error for _, error in refused], self.who.source)


async def post_events(request: Request, body: Body, token: Token, state: SiteState, caps: Caps) -> Answer:
    """Take events in; the answer comes after they are in Redis. Raises Problem."""
    source = request.query_params.get("source") if request.scope["query_string"] else None
    who = Sender(token, speaks_for(token, source))
    split = splitter(request.headers.get("content-type"))
    key = request.headers.get("idempotency-key")
    writer = EventWriter(state, who)
    cap = min(caps.body, caps.array) if isinstance(split, JsonSplitter) else caps.body
    if key is None:
        if body.short:
            await writer.write_short(body.whole(cap), split)
        else:
            await writer.write_all(batches(_pieces(body, cap, split), split))
        return writer.result.answer()

    print_ = hashlib.blake2b(request.url.query.encode(), digest_size=8)
    names = ("events", token.name, _checked_key(key))
    once = Once(*names, bounds=state.remembered)
    taken = await state.keys.ask(once.take())
    if taken.state == "busy":
        detail = "A request with this Idempotency-Key is under way: send it again in a second."
        raise Problem(409, "idempotency-key", detail, headers={"Retry-After": "1"})
    pieces = _printed(_pieces(body, cap, split), print_)
    if taken.state == "done":
        async for _ in pieces:
            pass
        return _again(taken.answer, print_.hexdigest())
    if taken.state == "again":
        writer.who = who._replace(since=taken.first)
    async with state.keys.held(once):
        await writer.write_all(batches(pieces, split))
        done = writer.result.answer()
        kept = b"%d %s " % (done.status, print_.hexdigest().encode()) + zlib.compress(done.text)
        await state.keys.ask(once.done(kept))
    return done


def speaks_for(token: Token, source: str | None) -> str | None:
    """The source of a request's events that name none. Raises Problem (400, 403)."""
    if token.sources is not None and not token.sources:
        detail = f"The token {token.name} is read-only: `sitemapd token NAME` makes one that may push."
        raise Problem(403, "scope", detail)
    if source is None:
        return token.source
    try:
        check_source(source)
    except Refused as refused:
        raise Problem(400, "source", refused.detail) from refused
    if not token.may(source):
        raise Problem(403, "scope", f"{_may_not(token, source)}. Name one of these in ?source=.")
    return source


async def _pieces(body: Body, cap: int, split: Splitter) -> AsyncIterator[bytes]:
    """What a splitter is fed with: of a body in JSON all at once, as the memory for that has a bound."""
    if isinstance(split, JsonSplitter):
        yield await body.whole(cap)
    else:
        async for piece in body.pieces(cap):
            yield piece


async def _printed(pieces: AsyncIterator[bytes], print_: hashlib.blake2b) -> AsyncIterator[bytes]:
    async for piece in pieces:
        print_.update(piece)
        yield piece


def _again(kept: bytes, print_: str) -> Answer:
    status_, known, text = kept.split(b" ", 2)
    if known.decode() != print_:
        raise Problem(
            422, "idempotency-key", "This Idempotency-Key was used for another body: take a new one."
        )
    headers, status = {"Idempotent-Replayed": "true"}, int(status_)
    return Answer(zlib.decompress(text), status, headers, JSON if status < 400 else PROBLEM)


def _checked_key(key: str) -> str:
    if not 1 <= len(key) <= 255 or not key.isascii() or not key.isprintable():
        raise Problem(
            400,
            "idempotency-key",
            f"The Idempotency-Key {key[:20]!r} is no key: send 1 to 255 visible ASCII characters.",
        )
    return key

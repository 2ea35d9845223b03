"""`POST /v1/sites/{site}/events`: events as one JSON object, an array, or NDJSON."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial

from starlette.requests import Request

from producers.http.access import Token
from producers.http.answer import JSON, PROBLEM, Answer
from producers.http.body import Body, Caps
from producers.http.intake import Intake
from producers.http.problem import Problem
from producers.http.splitter import JsonSplitter, Splitter, splitter
from producers.http.taking import Speaker, Taking, batches
from sitemap_store.errors import Refused
from sitemap_store.model.wire import check_source
from sitemap_store.redis.once import RENEW_S, Once


async def post_events(request: Request, body: Body, token: Token, intake: Intake, caps: Caps) -> Answer:
    """Take events in; the answer comes after they are in Redis. Raises Problem."""
    source = request.query_params.get("source") if request.scope["query_string"] else None
    who = Speaker(token, speaks_for(token, source))
    split = splitter(request.headers.get("content-type"))
    key = request.headers.get("idempotency-key")
    taking = Taking(intake, who)
    cap = min(caps.body, caps.array) if isinstance(split, JsonSplitter) else caps.body
    if key is None:
        if body.short:
            await taking.take_short(body.whole(cap), split)
        else:
            await taking.take_all(batches(_pieces(body, cap, split), split))
        return taking.outcome.answer()

    print_ = hashlib.blake2b(request.url.query.encode(), digest_size=8)
    names = ("events", token.name, _checked_key(key))
    once = Once(intake.sink.store, *names, bounds=intake.remembered)
    taken = await intake.run(once.take)
    if taken.state == "busy":
        detail = "A request with this Idempotency-Key is under way."
        raise Problem(409, "idempotency-key", detail, headers={"Retry-After": "1"})
    pieces = _printed(_pieces(body, cap, split), print_)
    if taken.state == "done":
        async for _ in pieces:
            pass
        return _again(taken.answer, print_.hexdigest())
    if taken.state == "again":
        taking.who = who._replace(since=taken.first)
    holding = asyncio.ensure_future(_hold(intake, once, taken.first))
    try:
        await taking.take_all(batches(pieces, split))
    except Problem:
        intake.run_later(partial(once.release, taken.first))
        raise
    finally:
        holding.cancel()
    outcome = taking.outcome
    done = outcome.answer()
    kept = b"%d %s " % (done.status, print_.hexdigest().encode()) + zlib.compress(done.text)
    await intake.run(partial(once.done, kept))
    return done


async def _hold(intake: Intake, once: Once, first: int) -> None:
    """Hold a request's idempotency key for as long as this runs."""
    while True:
        await asyncio.sleep(RENEW_S)
        with suppress(Problem):  # Redis is away: the request itself says so
            await intake.run(partial(once.renew, first))


def speaks_for(token: Token, source: str | None) -> str | None:
    """The source of a request's events that name none. Raises Problem (400, 403)."""
    if token.sources is not None and not token.sources:
        raise Problem(403, "scope", "The token may look and not push.")
    if source is None:
        return token.source
    try:
        check_source(source)
    except Refused as refused:
        raise Problem(400, "source", refused.detail) from refused
    if not token.may(source):
        raise Problem(403, "scope", f"The token may not speak for the source {source}.")
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
        raise Problem(400, "idempotency-key", "An Idempotency-Key is 1 to 255 visible ASCII characters.")
    return key

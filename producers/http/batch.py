"""Batches of raw events: gathered from a body, then decoded and checked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple

from producers.http.access import Token
from producers.http.parse import Raw, Splitter
from producers.http.problem import Problem
from producers.ndjson import decode, too_large
from sitemap_store.errors import Refused
from sitemap_store.events import Event
from sitemap_store.site import Site
from sitemap_store.wire import check

EVENTS: Final = 2000
"""Events per batch, at the most."""
BYTES: Final = 4 * 1024 * 1024
"""Bytes per batch, or a single event more."""


class Speaker(NamedTuple):
    """On whose behalf events come."""

    token: Token
    source: str | None
    """The source of events that name none."""
    since: int | None = None
    """When events that carry no `at` happened, in epoch milliseconds; None: when they are appended."""


class Checked(NamedTuple):
    """A batch that was looked at."""

    events: list[Event]
    refused: list[tuple[int, Refused]]
    warnings: tuple[str, ...]


async def batches(pieces: AsyncIterator[bytes], split: Splitter) -> AsyncIterator[list[Raw]]:
    """The raw events of a body, some at a time. Raises Problem as they do."""
    batch: list[Raw] = []
    size = 0
    async for piece in pieces:
        for raw in split.feed(piece):
            batch.append(raw)
            size += len(raw.text or b"")
            if len(batch) >= EVENTS or size >= BYTES:
                yield batch
                batch, size = [], 0
    batch += split.end()
    if batch:
        yield batch


def look_at(batch: Sequence[Raw], site: Site, now: int, who: Speaker, *, strict: bool) -> Checked:
    """Decode and check a batch. Raises Problem (400) for an event that is no JSON when `strict`."""
    events: list[Event] = []
    refused: list[tuple[int, Refused]] = []
    warnings: tuple[str, ...] = ()
    for line, text in batch:
        try:
            value = read(text, strict=strict)
            event, said = check(value, site, now, source=who.source)
            scoped(event, who.token)
        except Refused as error:
            refused.append((line, error))
            continue
        if who.since is not None and event.at is None:
            event = event._replace(at=who.since)
        events.append(event)
        if said:
            warnings += said
    return Checked(events, refused, warnings)


def read(text: bytes | None, *, strict: bool) -> Any:
    """The value of a raw event. Raises Refused; or Problem (400), when `strict`, for what is no JSON."""
    if text is None:
        raise too_large()
    try:
        return decode(text)
    except Refused as error:
        if not strict:
            raise
        status = 413 if error.rule == "too-large" else 400
        detail = error.detail.replace("The line", "The body" if status == 400 else "An event", 1)
        raise Problem(status, error.rule, detail) from error


def scoped(event: Event, token: Token) -> None:
    """See that a token may speak for an event's source. Raises Refused (rule "scope")."""
    if not token.may(event.source):
        named = f"the source {event.source}" if event.source else "an event without a source"
        allowed = ", ".join(sorted(token.sources or ()))
        detail = f"The token may not speak for {named}: it speaks for {allowed}."
        raise Refused(loc=event.loc, rule="scope", detail=detail)

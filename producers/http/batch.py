"""Batches of raw events: gathered from a body, then decoded and checked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from producers.http.access import Token
from producers.http.splitter import Batch, Splitter
from sitemap_store.errors import Refused
from sitemap_store.events import Event
from sitemap_store.site import Site
from sitemap_store.wire import check, quick


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


async def batches(pieces: AsyncIterator[bytes], split: Splitter) -> AsyncIterator[Batch]:
    """The raw events of a body, some at a time. Raises Problem as they do."""
    async for piece in pieces:
        for batch in split.feed(piece):
            yield batch
    for batch in split.end():
        yield batch


def look_at(batch: Batch, site: Site, now: int, who: Speaker) -> Checked:
    """Decode and check a batch. Raises Problem (400) for one that spoils its body."""
    events: list[Event] = []
    refused: list[tuple[int, Refused]] = []
    warnings: tuple[str, ...] = ()
    token, source, since = who
    plain, scope = quick(site, source), token.sources
    for line, item in zip(*batch.read(), strict=True):
        event = plain(item)
        try:
            if event is None:
                if isinstance(item, Refused):
                    raise item
                event, said = check(item, site, now, source=source)
                warnings += said
            if scope is not None:
                scoped(event, token)
        except Refused as error:
            refused.append((line, error))
            continue
        if since is not None and event.at is None:
            event = event._replace(at=since)
        events.append(event)
    return Checked(events, refused, warnings)


def scoped(event: Event, token: Token) -> None:
    """See that a token may speak for an event's source. Raises Refused (rule "scope")."""
    if not token.may(event.source):
        named = f"the source {event.source}" if event.source else "an event without a source"
        allowed = ", ".join(sorted(token.sources or ()))
        detail = f"The token may not speak for {named}: it speaks for {allowed}."
        raise Refused(loc=event.loc, rule="scope", detail=detail)

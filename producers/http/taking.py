"""The events of one request on their way in: the next batch is checked while Redis takes the last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Final, NamedTuple

from producers.http.access import Token
from producers.http.intake import Intake
from producers.http.outcome import Outcome
from producers.http.problem import Problem
from producers.http.splitter import Batch, Splitter
from sitemap_store.errors import Refused
from sitemap_store.model.events import Event
from sitemap_store.model.site import Site
from sitemap_store.model.wire import check


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
    scope = token.sources
    for line, item in zip(*batch.read(), strict=True):
        try:
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


INLINE: Final = 4096
"""Bytes up to which a batch is checked at once; larger ones are, in a thread."""


class Taking:
    """Takes batches in, in their order. A Problem that its methods raise says what was accepted before."""

    def __init__(self, intake: Intake, who: Speaker) -> None:
        self.who = who
        self.outcome = Outcome()
        self._intake = intake
        self._sent: tuple[Checked, asyncio.Future[None] | None] | None = None

    async def take_all(self, batches: AsyncIterator[Batch]) -> None:
        """Take batches as they come; all that is accepted is in Redis when it returns. Raises Problem."""
        try:
            try:
                async for batch in batches:
                    await self._take(batch)
            finally:
                await self._settle()
        except Problem as problem:
            problem.more |= self.outcome.body()
            raise

    async def take_short(self, body: Awaitable[bytes], split: Splitter) -> None:
        """Take a short body's events, all at once. Raises Problem."""
        try:
            text = await body
            for batch in (*split.feed(text), *split.end()):
                await self._take(batch)
            await self._settle()
        except Problem as problem:
            problem.more |= self.outcome.body()
            raise

    async def take(self, checked: Checked) -> None:
        """Take events that are checked already. Raises Problem (503)."""
        self._send(checked)
        await self._settle()

    async def _take(self, batch: Batch) -> None:
        now, site = await self._intake.look(), self._intake.sink.store.site
        if len(batch) <= INLINE:
            checked = look_at(batch, site, now, self.who)
        else:
            checked = await asyncio.to_thread(look_at, batch, site, now, self.who)
        await self._settle()
        self._send(checked)

    def _send(self, checked: Checked) -> None:
        self._sent = checked, self._intake.send(checked.events) if checked.events else None

    async def _settle(self) -> None:
        """See that what was sent is in Redis, and count it. Raises Problem (503)."""
        if self._sent is None:
            return
        (events, refused, warnings), stored = self._sent
        self._sent = None
        if stored is not None:
            await stored
            self.outcome.accepted += len(events)
        self.outcome.warn(warnings)
        for line, error in refused:
            self.outcome.refuse(line, error)
        if refused:
            await self._intake.reject([error for _, error in refused], self.who.source)

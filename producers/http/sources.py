"""`PUT /v1/sites/{site}/sources/{source}`: all that a source has; the difference becomes events."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from starlette.requests import Request

from producers.http.auth import Token
from producers.http.events import batches, speaks_for
from producers.http.formats import NDJSON, Batch, splitter
from producers.http.limits import Body, Caps
from producers.http.problems import Answer, Problem, Result, answer
from producers.http.state import SiteState
from producers.sync import DesiredList, TooManyDeletes
from sitemap_store.errors import Refused
from sitemap_store.model.events import Event
from sitemap_store.model.site import Site
from sitemap_store.model.wire import check

LONGEST_S: Final = 3600.0
"""Seconds that comparing may take."""


class Sources:
    """The syncs of one site: one at a time for each source."""

    def __init__(self, owners: Mapping[str, str]) -> None:
        self._owners = owners
        self._busy: set[str] = set()

    async def put(
        self, request: Request, body: Body, token: Token, source: str, state: SiteState, caps: Caps
    ) -> Answer:
        """Sync a source with the list in the body. Raises Problem."""
        arrived = time.monotonic()
        speaks_for(token, source)
        if source in self._owners:
            detail = (
                f"The source {source} is that of {self._owners[source]}: send the list under another name."
            )
            raise Problem(409, "owner", detail)
        accept = _flag(request, "accept_deletes")
        split = splitter(request.headers.get("content-type"), only=NDJSON[0])
        if source in self._busy:
            detail = f"Another sync of the source {source} is under way: send it again when that has ended."
            raise Problem(409, "busy", detail, headers={"Retry-After": "5"})
        self._busy.add(source)
        desired: DesiredList | None = None
        try:
            now = await state.look()
            # What others say from now on is newer than the list, and they needn't wait for the look.
            began = await state.run(lambda: state.sink.store.stamp(_ms_since(arrived)))
            desired = await asyncio.to_thread(DesiredList, source)
            site, result = state.sink.store.site, Result()
            async for batch in batches(body.pieces(caps.sync), split):
                refused = await state.run(
                    partial(_take, desired, batch, site, source, now), patience=LONGEST_S
                )
                for line, error in refused:
                    result.refuse(line, error)
                if refused:
                    await state.reject([error for _, error in refused], source)
            await state.run(state.sink.store.now)  # comparing may take long: first see that Redis answers
            apply = partial(desired.apply, state.sink, at=began, accept=accept)
            synced = await state.run(apply, patience=LONGEST_S)
        except TooManyDeletes as error:
            said = str(error).partition(":")[0]
            detail = (
                f"{said}: if they are meant, send it again with ?accept_deletes=true, or after "
                f"`sitemapd accept-deletes {source}`."
            )
            more = {"listed": error.listed, "deletes": error.deletes}
            raise Problem(409, "mass-delete", detail, more=more) from error
        finally:
            self._busy.discard(source)
            if desired is not None:
                desired.close()
        return answer({**synced.summary(), "refused": result.body()["refused"]}, 202)


def _ms_since(moment: float) -> int:
    return math.ceil((time.monotonic() - moment) * 1000)


def _take(desired: DesiredList, batch: Batch, site: Site, source: str, now: int) -> list[tuple[int, Refused]]:
    refusals: list[tuple[int, Refused]] = []
    events: list[Event] = []
    for line, item in zip(*batch.read(), strict=True):
        try:
            events.append(check(_wanted(item, source), site, now, source=source).event)
        except Refused as refused:
            refusals.append((line, refused.kept()))
            desired.keep(refused.loc)
    desired.want(events)
    return refusals


def _wanted(item: Any, source: str) -> Any:
    """A line of the list as an add. Raises Refused for what could not be read, or a list can't say."""
    if isinstance(item, Refused):
        raise item
    if not isinstance(item, dict):
        return item
    loc = item.get("loc")
    loc = loc if isinstance(loc, str) else ""
    if item.get("op", "add") != "add":
        detail = "A list says what there is: leave the op out, and leave out what is deleted."
        raise Refused(loc=loc, rule="op", detail=detail)
    if (item.get("source") or source) != source:
        raise Refused(loc=loc, rule="source", detail=f"The list is the source {source}'s: name no other.")
    return {**item, "op": "add"}


def _flag(request: Request, name: str) -> bool:
    value = request.query_params.get(name, "false").lower()
    if value not in ("true", "false", "1", "0"):
        raise Problem(400, "query", f"{name}={value[:20]}: write true or false.")
    return value in ("true", "1")

"""The client that waits for its answer: it tries again for a while, and says what became of it."""

from __future__ import annotations

import random
import re
import ssl
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from types import TracebackType
from typing import Any, BinaryIO, Final, TypeVar, Union, cast
from urllib.parse import quote

from sitemapd_client.endpoint import Answer, Endpoint
from sitemapd_client.errors import Unavailable
from sitemapd_client.lines import Item, event_line, item_line
from sitemapd_client.results import Sent, Synced, read_sent, read_synced

BATCH: Final = 5000
"""Events of one request …"""
BATCH_BYTES: Final = 1024 * 1024
"""… and about how many bytes."""
BATCH_S: Final = 1.0
"""Seconds after which a request is sent, though an iterable is slow and gave fewer."""
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 30.0
LONGEST_WAIT_S: Final = 300.0
"""How long a Retry-After is believed."""
_SOURCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")

Date = Union[str, date]
Time = Union[str, datetime]
Priority = Union[str, float, Decimal]
_Result = TypeVar("_Result")


class Client:
    """Sends events of one site to sitemapd; safe to share between threads, and usable after a fork.

    `url` is the address of sitemapd, `source` who vouches for events that name no source. `timeout` (seconds)
    bounds each step of a request; what fails for now is tried again for up to `patience` seconds, with the
    same idempotency key. Raises ValueError for what can't be an address, a token or a source.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        site: str = "main",
        *,
        source: str | None = None,
        timeout: float = 10.0,
        patience: float = 30.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._endpoint = Endpoint(url, token, timeout=timeout, context=context)
        self._site = f"/v1/sites/{quote(site, safe='')}"
        self._source = source
        self._patience = patience
        self._events = events_path(site, source)

    def add(
        self,
        loc: str,
        *,
        lastmod: Date | None = None,
        changefreq: str | None = None,
        priority: Priority | None = None,
        at: Time | None = None,
        source: str | None = None,
        ext: Mapping[str, Any] | None = None,
    ) -> Sent:
        """The URL is there, and this is all that is known of it. Raises Problem, Unavailable."""
        fields = {"lastmod": lastmod, "changefreq": changefreq, "priority": priority, "at": at}
        return self._one(event_line("add", loc, **fields, source=source, ext=ext))

    def update(
        self,
        loc: str,
        *,
        lastmod: Date | None = None,
        changefreq: str | None = None,
        priority: Priority | None = None,
        at: Time | None = None,
        source: str | None = None,
        ext: Mapping[str, Any] | None = None,
    ) -> Sent:
        """The given fields of the URL changed. Raises Problem, Unavailable."""
        fields = {"lastmod": lastmod, "changefreq": changefreq, "priority": priority, "at": at}
        return self._one(event_line("update", loc, **fields, source=source, ext=ext))

    def delete(
        self, loc: str, *, at: Time | None = None, source: str | None = None, urgent: bool = False
    ) -> Sent:
        """The URL is gone. Raises Problem, Unavailable."""
        return self._one(event_line("delete", loc, at=at, source=source, urgent=urgent or None))

    def send(self, events: Iterable[Item]) -> Sent:
        """Send events, some thousand in a request, so that memory stays bounded however many there are.

        Refused events are in the result. Raises Problem and Unavailable, whose `accepted` says how many were
        stored before; and TypeError or ValueError for an event that can't be sent, which then is not, and
        neither are up to `BATCH` before it.
        """
        sent, lines = Sent(), 0
        for body, count in _batches(events):
            answer = self._post(body, sent.accepted)
            result = self._result(answer, read_sent, (202, 422), sent.accepted)
            sent, lines = sent.plus(result, lines), lines + count
        return sent

    def sync(
        self,
        source: str,
        urls: Iterable[Item],
        *,
        accept_deletes: bool = False,
        timeout: float = 600.0,
    ) -> Synced:
        """Send the whole list of a source; sitemapd adds, updates and deletes what differs.

        The list is first written into a temporary file, so that memory stays bounded, a slow or failing
        iterable sends nothing, and the request can be tried again. `timeout` is how many seconds sitemapd may
        take to compare. Raises Problem (rule "mass-delete" when the
        list leaves out too much), Unavailable, TypeError, ValueError, OSError (no room for the file).
        """
        path = f"{self._site}/sources/{checked_source(source)}" + (
            "?accept_deletes=true" if accept_deletes else ""
        )
        with tempfile.TemporaryFile() as file:
            for url in urls:
                file.write(item_line(url).encode() + b"\n")
            length = file.tell()
            body = cast(BinaryIO, file)
            answer = self._patiently(
                lambda: self._endpoint.ask("PUT", path, body, length, {}, answer_timeout=timeout), 0
            )
        return self._result(answer, read_synced, (202,), 0)

    def close(self) -> None:
        """Close the connections. A call after that opens new ones."""
        self._endpoint.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _one(self, line: str) -> Sent:
        answer = self._post(line.encode() + b"\n", 0)
        return self._result(answer, read_sent, (202,), 0)

    def _post(self, body: bytes, accepted: int) -> Answer:
        key = uuid.uuid4().hex
        return self._patiently(lambda: self._endpoint.ask_lines(self._events, body, key), accepted)

    def _patiently(self, ask: Callable[[], Answer], accepted: int) -> Answer:
        """The first answer that is not temporary. Raises Unavailable when patience ends."""
        deadline = time.monotonic() + self._patience
        tries = 0
        while True:
            try:
                answer = ask()
                if not answer.is_temporary:
                    return answer
                error = Unavailable(answer.sentence(self._endpoint.host), wait=answer.wait)
            except Unavailable as failed:
                error = failed
            pause = pause_of(tries, error.wait)
            if time.monotonic() + pause > deadline:
                error.accepted = accepted
                raise error
            time.sleep(pause)
            tries += 1

    def _result(
        self,
        answer: Answer,
        read: Callable[[Mapping[str, Any]], _Result],
        statuses: tuple[int, ...],
        accepted: int,
    ) -> _Result:
        if answer.status in statuses:
            try:
                return read(answer.said)
            except (KeyError, TypeError, ValueError):
                pass  # a problem of its own, or no answer of sitemapd
        raise answer.error(self._endpoint.host, accepted)


def events_path(site: str, source: str | None) -> str:
    """The path that takes a site's events. Raises ValueError."""
    path = f"/v1/sites/{quote(site, safe='')}/events"
    return path if source is None else f"{path}?source={checked_source(source)}"


def checked_source(source: str) -> str:
    """A source's name as a part of an address. Raises ValueError."""
    if not _SOURCE.fullmatch(source):
        raise ValueError(f"{source!r:.80} is no source: write 1 to 64 of letters, digits and . _ : -")
    return quote(source, safe="")


def pause_of(tries: int, wait: float | None) -> float:
    """Seconds until the next try: they grow, with jitter, and are no shorter than sitemapd asked for."""
    grown = min(FIRST_PAUSE_S * 2 ** min(tries, 16), LONGEST_PAUSE_S)
    return float(max(grown, min(wait or 0.0, LONGEST_WAIT_S)) * random.uniform(1.0, 1.25))


def _batches(events: Iterable[Item]) -> Iterator[tuple[bytes, int]]:
    """Bodies of requests, each with how many lines it has."""
    lines: list[str] = []
    size, since = 0, 0.0
    for event in events:
        line = item_line(event)
        if not lines:
            since = time.monotonic()
        lines.append(line)
        size += len(line)
        if len(lines) >= BATCH or size >= BATCH_BYTES or time.monotonic() - since > BATCH_S:
            yield "\n".join(lines).encode(), len(lines)
            lines, size = [], 0
    if lines:
        yield "\n".join(lines).encode(), len(lines)

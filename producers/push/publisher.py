"""The client for Python apps: events gather in memory and a thread of its own delivers them in batches.

1. `add`, `update` and `delete` return at once. Only when `queue_max` events wait do they wait too, for
   `timeout` seconds at the most, and then raise Unavailable.
2. A batch is tried until it is delivered, with the same idempotency key each time, and pauses that grow.
   Later events wait behind it: their order stays.
3. `flush` and the end of a `with` block return when everything is stored, or raise Unavailable after
   `timeout`. What was not delivered by then still is, as long as the process lives. After a `with` block
   or `close` no event is taken any more, and the thread ends; a publisher that is forgotten unclosed
   gives a ResourceWarning.
4. Events that wait are lost when the process is killed. A sync of the source finds what is missing.
5. What an event holds is made into JSON at the call: dates, UUIDs, paths and decimals are converted, and for
   anything else that is no JSON the call raises TypeError or ValueError.
6. When the thread ends by an error of ours, every later call raises Unavailable and names it.
7. After a fork the child begins with nothing; what waited stays the parent's.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import random
import threading
import time
import uuid
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import PurePath
from types import TracebackType
from typing import Any, Final, Self

from producers.push.over_http import OverHttp
from producers.push.transport import NotNow, Rejected, Transport
from sitemap_store.errors import Unavailable

log = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 30.0
IDLE_S: Final = 2.0
"""After which a thread that has nothing to deliver ends; the next event starts another."""
_REDIS: Final = ("redis://", "rediss://", "unix://")


class Publisher:
    """Pushes events of one site from an app; safe to share between threads.

    `target` is the address of sitemapd's HTTP server (`https://…`), with a `token` if the site has some, or
    of its Redis (`redis://…`). `source` is who vouches for the entries. `timeout` (seconds) bounds every
    call. Up to `batch` events go in one request, `linger` seconds after the first of them at the latest.
    Refused events are given to `on_rejected`, in the thread that delivers; by default they are logged.
    """

    _taken: int
    """Events that were put in since the start."""
    _delivered: int
    _hurry: int
    """Up to which event nobody should wait for a batch to fill up."""

    def __init__(
        self,
        target: str,
        site: str,
        *,
        token: str | None = None,
        source: str | None = None,
        timeout: float = 2.0,
        batch: int = 500,
        linger: float = 0.05,
        queue_max: int = 10_000,
        queue_url: str | None = None,
        on_rejected: Callable[[Rejected], None] | None = None,
    ) -> None:
        def connected() -> Transport:
            if not target.startswith(_REDIS):
                return OverHttp(target, site, token, source)
            from producers.push.direct import Direct  # an app that pushes over HTTP needs no redis package

            return Direct(target, site, source, queue_url)

        self._connected = connected
        self._transport = connected()
        self._timeout = timeout
        self._batch = min(batch, 1000)
        self._linger = linger
        self._queue_max = queue_max
        self._on_rejected = on_rejected or _log_rejected
        self._begin()
        atexit.register(_at_exit, weakref.ref(self))

    def add(
        self,
        loc: str,
        *,
        lastmod: str | date | None = None,
        changefreq: str | None = None,
        priority: float | Decimal | None = None,
        at: str | datetime | None = None,
        ext: Mapping[str, Any] | None = None,
    ) -> None:
        """The URL is there and this is all that is known of it. Raises Unavailable when the queue is full."""
        self._put("add", loc, lastmod=lastmod, changefreq=changefreq, priority=priority, at=at, ext=ext)

    def update(
        self,
        loc: str,
        *,
        lastmod: str | date | None = None,
        changefreq: str | None = None,
        priority: float | Decimal | None = None,
        at: str | datetime | None = None,
        ext: Mapping[str, Any] | None = None,
    ) -> None:
        """The URL's given fields changed. Raises Unavailable when the queue is full."""
        self._put("update", loc, lastmod=lastmod, changefreq=changefreq, priority=priority, at=at, ext=ext)

    def delete(self, loc: str, *, at: str | datetime | None = None, urgent: bool = False) -> None:
        """The URL is gone. Raises Unavailable when the queue is full."""
        self._put("delete", loc, at=at, urgent=urgent or None)

    def flush(self, timeout: float | None = None) -> None:
        """Return when everything put in before is stored. Raises Unavailable after `timeout` seconds."""
        if self._pid != os.getpid():
            return
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        with self._changed:
            upto = self._taken
            self._hurry = max(self._hurry, upto)
            if self._delivered < upto:
                self._run()
            self._changed.notify_all()
            while self._delivered < upto:
                self._check()
                if not self._changed.wait(deadline - time.monotonic()):
                    left = upto - self._delivered
                    raise Unavailable(what="sitemapd", detail=f"has not taken {left} events yet{self._why()}")

    def close(self, timeout: float | None = None) -> None:
        """Flush, then end the thread. Raises Unavailable as `flush` does; the rest is then lost."""
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        try:
            self.flush(timeout)
        finally:
            with self._changed:
                self._ending = self._closed = True
                self._changed.notify_all()
            self._join(deadline)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        deadline = time.monotonic() + self._timeout
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self.flush()
        self._join(deadline)

    def __del__(self) -> None:
        if not getattr(self, "_ending", True) and self._taken and self._pid == os.getpid():
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=1)

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        """Events as JSON."""
        self._taken = self._delivered = self._hurry = 0
        self._ending = False
        """Whether no further event is taken; the thread ends when all are delivered."""
        self._closed = False
        """Whether the thread ends at once."""
        self._failure: BaseException | None = None
        self._problem: NotNow | None = None
        self._thread: threading.Thread | None = None

    def _put(self, op: str, loc: str, **fields: Any) -> None:
        if not isinstance(loc, str):
            raise TypeError(f"loc is text, not {loc!r}")
        event: dict[str, Any] = {"op": op, "loc": loc}
        event |= {name: value for name, value in fields.items() if value is not None}
        line = _line(event)
        if self._pid != os.getpid():
            self._transport = self._connected()
            self._begin()
        deadline = time.monotonic() + self._timeout
        with self._changed:
            self._check()
            if self._ending:
                raise Unavailable(what="The publisher", detail="is closed")
            while len(self._waiting) >= self._queue_max:
                if not self._changed.wait(deadline - time.monotonic()):
                    detail = f"is full: {len(self._waiting)} events wait{self._why()}"
                    raise Unavailable(what="The publisher's queue", detail=detail)
            self._waiting.append(line)
            self._taken += 1
            self._run()
            if len(self._waiting) in (1, self._batch):
                self._changed.notify_all()

    def _run(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._deliver, name="sitemapd-push", daemon=True)
            self._thread.start()

    def _check(self) -> None:
        """See that the thread has not ended by an error. Raises Unavailable."""
        if self._failure is not None:
            raise Unavailable(what="The publisher", detail=f"has failed: {self._failure!r}")

    def _join(self, deadline: float) -> None:
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, deadline - time.monotonic()))

    def _deliver(self) -> None:
        try:
            while batch := self._next():
                self._try(batch, uuid.uuid4().hex)
        except BaseException as error:
            with self._changed:
                self._failure, self._thread = error, None
                self._changed.notify_all()
            raise

    def _next(self) -> list[str]:
        """The next batch, which stays in the queue until it is delivered; none when the thread is to end."""
        with self._changed:
            idle_until = time.monotonic() + IDLE_S
            while not self._waiting:
                left = idle_until - time.monotonic()
                if self._ending or left <= 0:
                    self._transport.close()
                    self._thread = None
                    return []
                self._changed.wait(left)
            deadline = time.monotonic() + self._linger
            while len(self._waiting) < self._batch and not self._ending and self._hurry <= self._delivered:
                if not self._changed.wait(deadline - time.monotonic()):
                    break
            return [self._waiting[place] for place in range(min(self._batch, len(self._waiting)))]

    def _try(self, batch: list[str], key: str) -> None:
        pause = FIRST_PAUSE_S
        while True:
            try:
                rejected = self._transport.send(batch, key)
            except NotNow as error:
                if not self._pause(error, pause):
                    return
                pause = min(pause * 2, LONGEST_PAUSE_S)
                continue
            with self._changed:
                for _ in batch:
                    self._waiting.popleft()
                self._delivered += len(batch)
                self._problem = None
                self._changed.notify_all()
            for each in rejected:
                self._report(each)
            return

    def _report(self, rejected: Rejected) -> None:
        try:
            self._on_rejected(rejected)
        except Exception:
            # It is the app's error: it stops no delivery.
            log.exception("The app's on_rejected failed", extra={"action": "push_callback"})

    def _pause(self, error: NotNow, pause: float) -> bool:
        """Wait before the next try; False when the publisher was closed meanwhile."""
        wait = max(error.wait or 0.0, pause) * random.uniform(0.75, 1.25)
        log.warning("%s; the events are tried again in %.1f s", error, wait, extra={"action": "push_later"})
        end = time.monotonic() + wait
        with self._changed:
            self._problem = error
            while not self._closed and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
            if self._closed:
                self._waiting.clear()
            return not self._closed

    def _why(self) -> str:
        return f" ({self._problem})" if self._problem is not None else ""


def _line(event: Mapping[str, Any]) -> str:
    """An event as JSON. Raises TypeError, ValueError."""
    try:
        return json.dumps(event, default=_plain, allow_nan=False)
    except RecursionError:
        raise ValueError(f"what is said of {event['loc']!r} nests too deep") from None
    except (TypeError, ValueError) as error:
        raise type(error)(f"what is said of {event['loc']!r} can't be sent: {error}") from error


def _plain(value: object) -> object:
    """What JSON has no form for."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r:.80} is a {type(value).__name__}, which has no form in JSON")


def _log_rejected(rejected: Rejected) -> None:
    log.warning(
        "%s was refused: %s",
        rejected.loc or "An event",
        rejected.detail,
        extra={"action": "push_rejected", "rule": rejected.rule},
    )


def _at_exit(reference: weakref.ref[Publisher]) -> None:
    publisher = reference()
    if publisher is not None:
        publisher.__del__()
        try:
            publisher.close()
        except Unavailable as error:
            log.error("The process ends, and %s", error, extra={"action": "push_lost"})

"""The publisher: events gather while an app goes on, and are delivered in the background.

1. `add`, `update` and `delete` never wait for sitemapd. Without room for an event they drop it, count it and
   log so, or raise Unavailable, as `when_full` says. What an event holds is made into JSON at the call.
2. `flush` returns when everything is stored, or raises Unavailable after `timeout`. `close`, the end of a
   `with` block and the end of the interpreter flush, then end the thread. What is left then is lost, or in
   the spool.
3. A publisher that is forgotten unclosed warns, and still delivers what waits.
"""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, TypeVar

from sitemapd_client.client import Date, Priority, Time
from sitemapd_client.delivery import Counts, Delivery
from sitemapd_client.errors import Unavailable
from sitemapd_client.lines import event_line
from sitemapd_client.pending import MemoryQueue, Queue
from sitemapd_client.results import Refusal
from sitemapd_client.spool import Spool
from sitemapd_client.transport import HttpTransport, Transport

log = logging.getLogger(__name__)

BATCH_MAX: Final = 1000

_Self = TypeVar("_Self", bound="Publisher")


class Publisher:
    """Pushes events of one site in the background; safe to share between threads.

    `target` is the address of sitemapd, or another `Transport` than HTTP, which then knows the site and the
    source. `source` is who vouches for events that name no source. Up to `batch` events (1,000 at most) go in
    one request, `linger` seconds after the first at the latest.

    In memory wait up to `queue_max` events, and 32 MiB of them. With `spool`, a folder, they wait in files of
    up to `spool_max` bytes, and outlive the process; with `fsync`, a power cut. `when_full` is "drop" or
    "error". `timeout` (seconds) bounds `flush`, `close` and the end of the interpreter. Refused events are
    given to `on_refused`, in the thread that delivers; by default they are logged. Raises ValueError, OSError
    (the spool).
    """

    def __init__(
        self,
        target: str | Transport,
        token: str | None = None,
        site: str = "main",
        *,
        source: str | None = None,
        timeout: float = 2.0,
        batch: int = 500,
        linger: float = 0.05,
        queue_max: int = 10_000,
        when_full: str = "drop",
        spool: str | os.PathLike[str] | None = None,
        spool_max: int = 64 * 1024 * 1024,
        fsync: bool = False,
        on_refused: Callable[[Refusal], None] | None = None,
    ) -> None:
        if when_full not in ("drop", "error"):
            raise ValueError(f"when_full is 'drop' or 'error', and not {when_full!r}")
        transport = HttpTransport(target, token, site, source) if isinstance(target, str) else target

        def queue() -> Queue:
            if spool is None:
                return MemoryQueue(queue_max)
            return Spool(spool, transport.target, size_max=spool_max, fsync=fsync)

        self._timeout = timeout
        self._raises = when_full == "error"
        self._delivery = Delivery(
            transport,
            queue,
            batch=max(1, min(batch, BATCH_MAX)),
            linger=linger,
            timeout=timeout,
            on_refused=on_refused or _log_refusal,
        )

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
    ) -> None:
        """The URL is there, and this is all that is known of it. Raises TypeError, ValueError (rule 1)."""
        fields = {"lastmod": lastmod, "changefreq": changefreq, "priority": priority, "at": at}
        self._put(event_line("add", loc, **fields, source=source, ext=ext))

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
    ) -> None:
        """The given fields of the URL changed. Raises TypeError, ValueError (rule 1)."""
        fields = {"lastmod": lastmod, "changefreq": changefreq, "priority": priority, "at": at}
        self._put(event_line("update", loc, **fields, source=source, ext=ext))

    def delete(
        self, loc: str, *, at: Time | None = None, source: str | None = None, urgent: bool = False
    ) -> None:
        """The URL is gone. Raises TypeError, ValueError (rule 1)."""
        self._put(event_line("delete", loc, at=at, source=source, urgent=urgent or None))

    def flush(self, timeout: float | None = None) -> None:
        """Return when everything taken before is stored. Raises Unavailable after `timeout` seconds."""
        self._delivery.flush(time.monotonic() + (self._timeout if timeout is None else timeout))

    def close(self, timeout: float | None = None) -> None:
        """Flush, then end. Raises Unavailable as `flush` does; what is left is lost, or in the spool."""
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        self._delivery.end(deadline)
        try:
            self._delivery.flush(deadline)
        finally:
            self._delivery.stop(deadline)

    def counts(self) -> Counts:
        """What became of the events."""
        return self._delivery.counts()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except Unavailable as failed:
            if error is None:
                raise
            log.error("%s", failed, extra={"action": "push_lost"})  # the block's own error goes on

    def __del__(self) -> None:
        delivery: Delivery | None = getattr(self, "_delivery", None)
        if delivery is not None and not delivery.ending:
            delivery.forget()  # before the warning, which may be an error
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=1)

    def _put(self, line: str) -> None:
        try:
            self._delivery.put(line)
        except Unavailable as error:
            if self._raises:
                raise
            dropped = self.counts().dropped
            if dropped & (dropped - 1) == 0:  # 1, 2, 4, 8, …: an outage does not fill the log
                message, extra = "%s; %d events are dropped so far", {"action": "push_dropped"}
                log.error(message, error, dropped, extra=extra)


def _log_refusal(refusal: Refusal) -> None:
    extra = {"action": "push_refused", "rule": refusal.rule}
    log.warning("%s was refused: %s", refusal.loc or "An event", refusal.detail, extra=extra)

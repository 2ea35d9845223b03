"""Lists: all that a source has, compared with what the site lists of it; only the difference becomes events.

1. The whole of a list is read before the first event is sent: one that breaks off changes nothing.
2. A list that the guard holds back sends nothing at all (`TooManyDeletes`).
3. A line that was refused for something else than its URL keeps what is listed of that URL. One whose URL
   could not be read holds every delete back: it may be any of them.
4. The events carry the time at which the sync began. What happened to a URL after that stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from producers.difference import Compared, Difference, send_difference
from producers.guard import Guard
from producers.sink import EventSink
from sitemap_store.errors import SitemapdError
from sitemap_store.model.events import Event


class TooManyDeletes(SitemapdError):
    """A list would delete too much of its source, so nothing was sent."""

    def __init__(self, *, source: str, listed: int, deletes: int) -> None:
        super().__init__(
            f"The list leaves out {deletes} of the {listed} URLs of the source {source}, so nothing was "
            "changed: accept the deletes if they are meant."
        )
        self.source = source
        self.listed = listed
        self.deletes = deletes


class DesiredList:
    """The list of one source, gathered, then applied. Raises Unavailable when the disk is full."""

    def __init__(self, source: str) -> None:
        self._difference = Difference(source)
        self._unreadable = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the disk back."""
        self._difference.close()

    def want(self, events: Iterable[Event]) -> None:
        """Take in adds; of one URL that comes twice the later counts."""
        self._difference.want(
            (loc, lastmod or "", changefreq or "", priority or "", ext or "", at)
            for _, loc, lastmod, changefreq, priority, at, _, ext, _ in events
        )

    def keep(self, loc: str) -> None:
        """Leave a URL as it is listed, if it is; `loc` is normalised, or "" when it could not be read."""
        if loc:
            self._difference.keep(loc)
        else:
            self._unreadable = True

    def apply(
        self, sink: EventSink, *, at: int | None = None, accept: bool = False, command: str = "sitemapd"
    ) -> Compared:
        """Send the difference; `at` is when the list was true, in epoch milliseconds.

        `accept` lifts the guard; `command` begins a command line about the site. Raises TooManyDeletes, and
        has then sent nothing; Unavailable, and has perhaps sent a part: the same list again sends the rest.
        """
        difference, unreadable = self._difference, self._unreadable
        guard = Guard(sink.store, difference.source, "list", command=command)
        difference.have(sink.store.listing(difference.source))
        result = send_difference(difference, sink, guard, accept=accept, hold_deletes=unreadable, at=at)
        if result.held and not unreadable:
            raise TooManyDeletes(source=difference.source, listed=result.listed, deletes=result.held)
        return result

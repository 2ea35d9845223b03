"""`add`, `update` and `delete`, as all that send events have them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Generic, TypeVar, Union

from sitemapd_client.lines import event_line

Date = Union[str, date]
Time = Union[str, datetime]
Priority = Union[str, float, Decimal]
Answer = TypeVar("Answer", covariant=True)


class EventMethods(ABC, Generic[Answer]):
    """Makes an event's line at the call, which raises TypeError or ValueError for what can't be sent."""

    @abstractmethod
    def _one(self, line: str) -> Answer:
        """Send one event."""

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
        lang: str | None = None,
        strict: bool | None = None,
    ) -> Answer:
        """The URL is there, and this is all that is known of it. Raises as its class says.

        `ext` is images, videos, news and alternates, `lang` the hreflang of the page itself. With `strict`
        sitemapd refuses the event when anything in `ext` is wrong; else it leaves that out, with a warning.
        """
        fields = {"lastmod": lastmod, "changefreq": changefreq, "priority": priority, "at": at}
        more = {"source": source, "ext": ext, "lang": lang, "strict": strict}
        return self._one(event_line("add", loc, **fields, **more))

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
        lang: str | None = None,
        strict: bool | None = None,
    ) -> Answer:
        """The given fields of the URL changed, and of `ext` those named; None in it removes one.

        Raises as its class says.
        """
        fields = {"lastmod": lastmod, "changefreq": changefreq, "priority": priority, "at": at}
        more = {"source": source, "ext": ext, "lang": lang, "strict": strict}
        return self._one(event_line("update", loc, **fields, **more))

    def delete(
        self, loc: str, *, at: Time | None = None, source: str | None = None, urgent: bool = False
    ) -> Answer:
        """The URL is gone. Raises as its class says."""
        return self._one(event_line("delete", loc, at=at, source=source, urgent=urgent or None))

"""What carries batches of events to sitemapd, and how it says that one can't be carried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sitemap_store.errors import SitemapdError


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """One event that sitemapd refused, and why."""

    loc: str
    rule: str
    detail: str


class NotNow(SitemapdError):
    """A batch could not be delivered; it may be later. `wait` is in seconds, when the other side said one."""

    def __init__(self, detail: str, *, wait: float | None = None) -> None:
        super().__init__(detail)
        self.wait = wait


class Transport(Protocol):
    """Carries batches. Used by one thread at a time."""

    def send(self, events: Sequence[str], key: str) -> list[Rejected]:
        """Deliver events in JSON, or raise NotNow; `key` is the same each time that they are tried.

        Every event is stored when it returns, apart from those that it returns.
        """

    def close(self) -> None:
        """Give connections back."""

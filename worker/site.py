"""The site that a worker publishes: its output, and what becomes of a lease whose file can't be published."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from sitemap_store.errors import SitemapdError
from sitemap_store.model.site import Site
from sitemap_store.output.folder import Put
from sitemap_store.redis.state import Partition

log = logging.getLogger(__name__)

RETRY_MS = 3000
"""How long a shard waits after the output could not be written."""


class Output(Protocol):
    """Where files are published. Raises Unavailable when it can't be used now."""

    def put(self, name: str, data: bytes, worker: str) -> Put:
        """Publish a file whole or not at all."""

    def read(self, name: str) -> bytes | None:
        """A published file's bytes; None when there is none."""

    def signatures(self) -> Mapping[str, object] | None:
        """The published files by their names; None when there is no folder."""

    def sync(self) -> None:
        """Have all that was put outlive a loss of power."""

    def remove(self, name: str) -> None:
        """Remove a published file."""

    def marker(self) -> str | None:
        """The id of the state that the published tree belongs to."""


class WrongState(SitemapdError):
    """The state in Redis is not the one that the published tree belongs to."""


def no_fault(point: str) -> None:
    """The fault-injection hook outside tests: does nothing."""


class WorkerSite:
    """One site, on behalf of one worker.

    `fault` is called by name between any two steps of a rewrite, for the tests that crash there.
    """

    def __init__(self, site: Site, output: Output, worker: str, fault: Callable[[str], None]) -> None:
        self.site = site
        self.output = output
        self.worker = worker
        self.fault = fault
        self._marker: str | None = None
        self._said_outdated = False

    def check_config(self, part: Partition) -> None:
        """Log, once, that settings of another process replaced those of this one."""
        if part.outdated and not self._said_outdated:
            log.error(
                "A process with other settings started after this one for site %s; this worker renders "
                "nothing until it is restarted with those settings",
                self.site.name,
                extra={"action": "settings_outdated", "site": self.site.name},
            )
        self._said_outdated = part.outdated

    def check_state(self, state_id: str) -> None:
        """Publish only over the tree that this state remembers (never from an emptied Redis)."""
        if not state_id or state_id != self._marker:
            self._marker = self.output.marker()
            if not state_id or state_id != self._marker:
                raise WrongState(
                    f"Redis does not remember the sitemaps that are published for site "
                    f"{self.site.name}: run `sitemapd restore` to take them back, or "
                    "`sitemapd restore --discard` when they may go"
                )

    def postpone(self, part: Partition, member: str, lease: str, what: str, error: SitemapdError) -> None:
        """Give a lease back and try again later, since the output or Redis can't be used now."""
        part.postpone(member, self.worker, lease, RETRY_MS)
        log.error(
            "%s is not published; the worker retries it after %d s: %s",
            what,
            RETRY_MS // 1000,
            error,
            extra={"action": "publish_postponed", "site": self.site.name, "member": member},
        )

    def fail(
        self, part: Partition, member: str, lease: str, what: str, error: Exception, record: str
    ) -> None:
        """Note that a member can't be rendered, for a reason that nobody foresaw."""
        reason = f"{type(error).__name__}: {error}" + (f", by {record}" if record else "")
        aside = part.postpone(member, self.worker, lease, RETRY_MS, reason=reason)
        log.error(
            "%s is put aside until its next event or `sitemapd rebuild`: %s"
            if aside
            else "%s is tried again: %s",
            what,
            reason,
            extra={"action": "put_aside" if aside else "retried", "site": self.site.name, "member": member},
        )

"""The RQ jobs, and the only functions that a worker runs whatever a job in Redis asks for.

A job carries a dotted name and JSON arguments. JSON alone would not stop a job named `os.system`, so
the name is looked up in `ALLOWED` and never imported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from rq.job import Job

from sitemap_store.errors import SitemapdError, Unavailable
from sitemap_store.model.wire import PUBLISH_INDEX, PUSH_EVENTS, REWRITE_SHARDS
from sitemap_store.redis.wake import MERGE_SHARDS

log = logging.getLogger(__name__)


class Rewriter(Protocol):
    """What the jobs ask of a site (`worker.publish.SitePublisher`)."""

    def rewrite_shards(self, partition: int, shards: Sequence[int]) -> None:
        """Fold, render and publish shards, and the index files that list them."""

    def rewrite_index(self, partition: int, number: int) -> None:
        """Rewrite one index file."""

    def merge_sparse(self, partition: int, section: str, now: int) -> bool:
        """Merge two sparse shards of a section."""

    def push(self, items: Sequence[Any], source: str | None) -> None:
        """Check wire events and append them; what is refused is counted and kept."""


Sites = Mapping[str, Rewriter]


def rewrite_shards(sites: Sites, site: str, partition: int, shards: Sequence[int]) -> None:
    """Rewrite those of the shards that are due. Running it twice or late is harmless."""
    sites[site].rewrite_shards(partition, shards)


def publish_index(sites: Sites, site: str, partition: int, number: int) -> None:
    """Rewrite one index file, if it is due. Running it twice or late is harmless."""
    sites[site].rewrite_index(partition, number)


def merge_shards(sites: Sites, site: str, partition: int, section: str, now: int) -> None:
    """Merge two sparse shards of a section. Running it twice merges two more, and late is harmless."""
    sites[site].merge_sparse(partition, section, now)


def push_events(sites: Sites, site: str, events: Sequence[Any], source: str | None = None) -> None:
    """Take in events that an app enqueued. Running it twice is harmless, as pushing twice is."""
    if not isinstance(events, list):
        raise TypeError("the events are a list of JSON objects")
    sites[site].push(events, source)


ALLOWED: Mapping[str, Callable[..., None]] = MappingProxyType(
    {
        REWRITE_SHARDS: rewrite_shards,
        PUBLISH_INDEX: publish_index,
        MERGE_SHARDS: merge_shards,
        PUSH_EVENTS: push_events,
    }
)


def job_class(sites: Sites, lost: Callable[[], None]) -> type[Job]:
    """The RQ job class of a worker for these sites; `lost` is called when Redis went away in a job.

    A worker that lost Redis in the middle of a job can't give its lease back: it ends, and its
    supervisor frees the lease and starts another.
    """

    class ShardJob(Job):
        """A job whose function is one of `ALLOWED`, and which has no callbacks or webhooks."""

        # RQ would import and call whatever name a job gives for these, and send to any address.
        success_callback = failure_callback = stopped_callback = None

        def send_webhooks(self, status: object, *, exc_string: str | None = None) -> None:
            """Sends nothing."""

        def _execute(self) -> Any:
            name = self.func_name
            allowed = ALLOWED.get(name or "")
            if allowed is None:
                log.error(
                    "Refused to run a job named %r: it is not one of sitemapd's",
                    name,
                    extra={"action": "job_refused", "job": self.id},
                )
                return
            try:
                allowed(sites, *self.args)
            except Unavailable as error:
                log.error(
                    "%s; the worker ends and the supervisor starts another",
                    error,
                    extra={"action": "redis_lost"},
                )
                lost()
                if name == PUSH_EVENTS:
                    raise  # the events are in the job alone: RQ must keep it, or try it again
            except (SitemapdError, KeyError, IndexError, TypeError) as error:
                log.error(
                    "Job %s %s can't be run: %s %s",
                    name,
                    self.args,
                    type(error).__name__,
                    error,
                    extra={"action": "job_failed", "job": self.id},
                )

    return ShardJob

"""The RQ jobs, and the only functions that a worker runs whatever a job in Redis asks for.

A job carries a dotted name and JSON arguments. JSON alone would not stop a job named `os.system`, so
the name is looked up in `ALLOWED` and never imported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from rq.job import Job

from sitemap_store.errors import SitemapdError, Unavailable
from sitemap_store.wire import PUBLISH_INDEX, REWRITE_SHARD

log = logging.getLogger(__name__)


class Rewriter(Protocol):
    """What the jobs ask of a site (`worker.publish.SitePublisher`)."""

    def rewrite_shard(self, partition: int, shard: int) -> bool:
        """Fold, render and publish one shard."""

    def publish_index(self, partition: int, number: int) -> bool:
        """Rewrite one index file."""


Sites = Mapping[str, Rewriter]


def rewrite_shard(sites: Sites, site: str, partition: int, shard: int) -> None:
    """Rewrite one shard, if it is due. Running it twice or late is harmless."""
    sites[site].rewrite_shard(partition, shard)


def publish_index(sites: Sites, site: str, partition: int, number: int) -> None:
    """Rewrite one index file, if it is due. Running it twice or late is harmless."""
    sites[site].publish_index(partition, number)


ALLOWED: Mapping[str, Callable[..., None]] = MappingProxyType(
    {REWRITE_SHARD: rewrite_shard, PUBLISH_INDEX: publish_index}
)


def job_class(sites: Sites, lost: Callable[[], None]) -> type[Job]:
    """The RQ job class of a worker for these sites; `lost` is called when Redis went away in a job.

    A worker that lost Redis in the middle of a job can't give its lease back: it ends, and its
    supervisor frees the lease and starts another.
    """

    class ShardJob(Job):
        """A job whose function is one of `ALLOWED`."""

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
                log.error("%s; the worker ends and starts anew", error, extra={"action": "redis_lost"})
                lost()
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

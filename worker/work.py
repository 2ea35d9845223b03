"""A shard on its way through a rewrite, and what is said of it at the end."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from sitemap_store.redis.claims import Claim, Commit, PublishedFile
from worker.shard import Rendered

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Work:
    """A claimed shard; each step of `worker.publish` adds what the later ones need."""

    claim: Claim
    started: float = field(default_factory=time.monotonic)
    events: int = 0
    rendered: Rendered = field(init=False)
    commit: Commit = field(init=False)
    split: int | None = None
    """The new shard's id, where the commit split it."""
    woken: tuple[str, ...] = ()
    put: bool = False
    """Whether its file was given to the output."""
    file: PublishedFile = field(init=False)


def log_result(work: Work, site: str, *, ok: bool) -> None:
    """Log that a shard is published, or (`ok` False) that its lease was lost before."""
    shard = work.claim.id
    if not ok:
        log.warning(
            "The worker lost the lease of shard %d while it wrote the file; the shard is rendered again",
            shard,
            extra={"action": "shard_superseded", "site": site, "shard": shard},
        )
        return
    log.info(
        "Published shard %d with %d URLs after %d events in %.1f ms",
        shard,
        len(work.rendered.snapshot.entries),
        work.events,
        (time.monotonic() - work.started) * 1000,
        extra={
            "action": "shard_published",
            "site": site,
            "shard": shard,
            "file": work.file.name,
            "generation": work.claim.generation,
        },
    )

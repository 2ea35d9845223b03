"""The use case: sparse shards become one, so that files with three URLs each do not stay for ever.

Order, so that a URL is for a moment listed twice and at no moment nowhere:

1. claim    lease the shards, all or none; only those to which nothing else is to be done
2. union, render: pure
3. commit   one step makes all of it the later shard's state, moves the seats and what came into the logs
            meanwhile, and ends the leases; both files are wanted
4. then `worker.publish`, as after any change: the later shard's file, its index, and only then the other's.
   The shard that gave its entries away gets no lease before (`keep_file_until` in common.lua)

A crash before 3 changes nothing, and one after it leaves shards that are wanted. An emptied shard goes, and
its number is not given again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from sitemap_store.redis.claims import Mergee
from sitemap_store.redis.merge import mergeable, rest_until
from sitemap_store.redis.state import Partition
from sitemap_store.shards.merge import sparse_pair, union
from sitemap_store.shards.snapshot import decode
from worker.shard import render_shard
from worker.site import WorkerSite

log = logging.getLogger(__name__)

PAUSE_MS: Final = 5000
"""Between two merges of a section by the keeper."""
NOTHING_MS: Final = 600_000
"""How long the keeper leaves a section alone in which nothing could be merged."""


def merge_sparse(at: WorkerSite, part: Partition, section: str, now: int) -> bool:
    """Merge the two sparse neighbours whose merge crawlers notice least; whether two were.

    The keeper gives a section its next turn after `NOTHING_MS` (`Partition.merge_turn`). Where there was a
    pair, it comes sooner.
    """
    site = at.site
    pair = sparse_pair(mergeable(part, section), site.shard_size, site.limits, now)
    if pair is None:
        return False
    merged = merge_shards(at, part, section, pair)
    rest_until(part, section, now + PAUSE_MS)
    return merged


def merge_shards(at: WorkerSite, part: Partition, section: str, shards: Sequence[int]) -> bool:
    """Make shards of a section one, the last of them; False, with nothing changed, when one is in use."""
    claims = part.claim_merge(shards, at.worker)
    at.check_config(part)
    if claims is None:
        return False
    try:
        urls = _merge(at, part, section, claims)
    except Exception:
        _give_back(at, part, claims)
        raise
    if urls is None:
        _give_back(at, part, claims)
        return False
    at.fault("merge_committed")
    log.info(
        "Merged shards %s of section %s into shard %d, which has %d URLs now",
        ", ".join(map(str, shards[:-1])),
        section,
        shards[-1],
        urls,
        extra={"action": "shards_merged", "site": at.site.name, "shard": shards[-1]},
    )
    return True


def _merge(at: WorkerSite, part: Partition, section: str, claims: Sequence[Mergee]) -> int | None:
    """How many URLs the merged shard has; None when a lease was lost or a limit would be."""
    at.fault("merge_claimed")
    snapshots = [decode(claim.snapshot or None) for claim in claims]
    whole = union(snapshots)
    rendered = render_shard(at.site, section, whole)
    if rendered.moved is not None:
        return None
    moved = [loc for each in snapshots[:-1] for loc in (*each.entries, *each.tombstones)]
    size, etag = len(rendered.body), rendered.etag
    merged = part.commit_merge(claims, whole, moved=moved, size=size, etag=etag, worker=at.worker)
    return len(whole.entries) if merged else None


def _give_back(at: WorkerSite, part: Partition, claims: Sequence[Mergee]) -> None:
    for claim in claims:
        part.postpone(str(claim.id), at.worker, claim.lease, 0)

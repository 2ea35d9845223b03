"""What merging needs to know of a section's shards. Raises Unavailable when Redis is."""

from __future__ import annotations

from sitemap_store.redis.connection import translated
from sitemap_store.redis.state import Partition
from sitemap_store.shards.merge import Mergeable

_FIELDS = ("section", "urls", "seats", "bytes", "lm", "rest", "wanted", "published", "after")


def mergeable(part: Partition, section: str) -> list[Mergeable]:
    """The shards of a section that may be merged, now or once they are settled."""
    found = []
    name = section.encode()
    with translated():
        opened = part.client.hget(part.keys.open_shards(), section)
    for ids in part.shard_ids():
        with translated(), part.client.pipeline(transaction=False) as pipe:
            for shard in ids:
                pipe.hmget(part.keys.shard(shard), _FIELDS)
            rows = pipe.execute()
        for shard, (of, urls, seats, size, lastmod, rest, wanted, published, after) in zip(
            ids, rows, strict=True
        ):
            if of != name or not int(urls) or shard.encode() == opened:
                continue
            settled = wanted == published and after is None
            changed = max(int(lastmod), int(rest))
            found.append(Mergeable(int(shard), int(urls), int(seats), int(size), changed, settled))
    return found


def rest_until(part: Partition, section: str, moment: int) -> None:
    """Have a section merged by itself no sooner than that (epoch ms)."""
    with translated():
        part.client.hset(part.keys.section(section), "merge", moment)

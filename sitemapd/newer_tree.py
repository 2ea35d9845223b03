"""What of a published tree is newer than a backup: rules 1, 2 and 6 of `sitemapd.recovery`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sitemap_store.errors import SitemapdError
from sitemap_store.output.folder import Folder
from sitemap_store.redis.store import Store
from sitemapd.restore import TreeShard, listed_shards, read_shard

Key = tuple[str, int]
"""A shard's section and number: its name for good."""


class Known(NamedTuple):
    """What the first pass over a backup learns of a shard."""

    partition: int
    id: int
    place: int
    """Of its last record among the shards' records."""
    lastmod: int
    index_number: int
    listed: bool


class NewerTree:
    """What of the published tree is newer than a backup. Raises SitemapdError for a tree of another site."""

    def __init__(self, store: Store, folder: Folder, known: Mapping[Key, Known], taken: int) -> None:
        tree = {(shard.section, shard.number): shard for shard in listed_shards(store, folder)}
        self.latest = max((shard.lastmod for shard in tree.values()), default=0)
        self.listed = tree.keys()
        self.present = set(folder.published())
        self.newer: dict[Key, TreeShard] = {}
        self.seen: set[bytes] = set()
        """The digests of the newer shards' URLs."""
        self.unreadable: list[str] = []
        latest: dict[tuple[int, int], int] = {}
        for key, shard in tree.items():
            latest[shard.place(store.site)] = max(shard.lastmod, latest.get(shard.place(store.site), 0))
            if shard.lastmod <= (known[key].lastmod if key in known else taken - 1):
                continue
            try:
                read_shard(store, folder, shard, self.seen)
            except SitemapdError:
                self.unreadable.append(shard.file)
                continue
            self.newer[key] = shard
        self.gone = {
            key
            for key, shard in known.items()
            if shard.listed
            and key not in tree
            and latest.get((shard.partition, shard.index_number), 0) > max(taken, shard.lastmod)
        }

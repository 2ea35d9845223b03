"""Taking the published tree back into an empty state, or letting it go."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import NamedTuple

from sitemap_store.errors import Refused, SitemapdError
from sitemap_store.model.dates import instant_ms, parse_lastmod
from sitemap_store.model.entries import Entry, digest
from sitemap_store.model.site import INDEX_FILE, SHARD_NAME
from sitemap_store.model.urls import normalise
from sitemap_store.model.values import check_changefreq, check_priority
from sitemap_store.output.folder import Folder
from sitemap_store.reading.reader import ReadUrl, Unreadable, plain, read_index, read_urlset
from sitemap_store.redis.store import Store
from sitemap_store.shards.render import etag_of
from sitemap_store.shards.snapshot import Snapshot


class Restored(NamedTuple):
    """What was taken back."""

    urls: int
    shards: int
    skipped: int


class _Shard(NamedTuple):
    section: str
    number: int
    index_number: int
    file: str
    lastmod: int


def restore_tree(store: Store, folder: Folder, *, alive: Callable[[], None] = lambda: None) -> Restored:
    """Read every listed shard into the empty state of a site, seats and all.

    Events that wait in the state are held back (`Store.replay_held`). May be repeated after a crash.
    `alive` is called before each shard. Raises SitemapdError for a tree that can't be read: nothing is
    published then; and when another restore has begun meanwhile.
    """
    shards, token = list(_listed(store, folder)), secrets.token_hex(8)
    for partition in store.partitions:
        if partition.drain(token) < 0:
            raise SitemapdError("the state has been restored or begun already")
    urls = skipped = 0
    seen: set[bytes] = set()
    for shard in shards:
        alive()
        data = folder.read(shard.file)
        if data is None:
            raise SitemapdError(f"the index lists {shard.file}, which is not in {folder.path}")
        entries, refused = _entries(store, shard, data, seen)
        skipped += refused
        urls += len(entries)
        body = plain(data)
        etag = etag_of(body)
        partition = store.partitions[(shard.number - 1) % store.site.partitions]
        taken = partition.restore(
            token=token,
            section=shard.section,
            number=shard.number,
            index=(shard.index_number - 1) // store.site.partitions + 1,
            file=shard.file,
            lastmod=shard.lastmod,
            etag=etag,
            size=len(body),
            snapshot=Snapshot(entries, {}),
            complete=not refused,
        )
        if not taken:
            raise SitemapdError(f"another restore of site {store.site.name} has taken over")
    return Restored(urls, len(shards), skipped)


def discard_tree(folder: Folder) -> int:
    """Remove the published files, the indexes first; how many."""
    names = folder.published()
    for name in names:
        folder.remove(name)
    return len(names)


def _listed(store: Store, folder: Folder) -> list[_Shard]:
    found = []
    for name in folder.published():
        match = INDEX_FILE.fullmatch(name)
        data = folder.read(name) if match else None
        if match is None or data is None:
            continue
        try:
            listed = read_index(data)
        except Unreadable as error:
            raise SitemapdError(f"{folder.path / name} can't be restored: {error}") from error
        for item in listed:
            file = item.loc.rpartition("/")[2]
            parts = SHARD_NAME.fullmatch(file)
            if parts is None or item.loc != store.site.address(file):
                raise SitemapdError(f"{folder.path / name} lists {item.loc}, which is not ours")
            found.append(
                _Shard(
                    parts[1],
                    int(parts[2]),
                    int(match[1] or 1),
                    file,
                    instant_ms(item.lastmod),
                )
            )
    return sorted(found)


def _entries(store: Store, shard: _Shard, data: bytes, seen: set[bytes]) -> tuple[dict[str, Entry], int]:
    entries: dict[str, Entry] = {}
    refused = 0
    try:
        for url in read_urlset(data):
            try:
                entry = _entry(store, shard, url)
            except Refused:
                refused += 1
                continue
            key = digest(entry.loc)
            if store.site.partition(key) != (shard.number - 1) % store.site.partitions:
                raise SitemapdError(
                    f"{shard.file} was published with another number of partitions than "
                    f"{store.site.partitions}: set sites.{store.site.name}.partitions back"
                )
            if key in seen:
                refused += 1
                continue
            seen.add(key)
            entries[entry.loc] = entry
    except Unreadable as error:
        raise SitemapdError(f"{shard.file} can't be restored: {error}") from error
    return dict(sorted(entries.items())), refused


def _entry(store: Store, shard: _Shard, url: ReadUrl) -> Entry:
    """The entry of a published URL; what the section says by default is not the entry's own."""
    loc = normalise(url.loc, store.site.rules).loc
    style = store.site.style(shard.section)
    lastmod = parse_lastmod(url.lastmod).text or "" if url.lastmod else ""
    changefreq = check_changefreq(url.changefreq) if url.changefreq else ""
    priority = check_priority(url.priority) if url.priority else ""
    return Entry(
        loc,
        lastmod,
        "" if changefreq == style.changefreq else changefreq,
        "" if priority == style.priority else priority,
    )

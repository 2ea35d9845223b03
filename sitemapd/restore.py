"""Taking the published tree back into an empty state, or letting it go."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sitemap_store.errors import Refused, SitemapdError
from sitemap_store.model.dates import instant_ms, parse_lastmod
from sitemap_store.model.entries import Entry, digest
from sitemap_store.model.extensions import canonical, read_extensions
from sitemap_store.model.extensions.page import Page
from sitemap_store.model.site import INDEX_FILE, SHARD_NAME, Site
from sitemap_store.model.urls import normalise
from sitemap_store.model.values import check_changefreq, check_priority
from sitemap_store.output.folder import Folder
from sitemap_store.reading.reader import ReadUrl, Unreadable, plain, read_index, read_urlset
from sitemap_store.redis import claims
from sitemap_store.redis.store import Store
from sitemap_store.shards.render import etag_of
from sitemap_store.shards.snapshot import Snapshot


class Restored(NamedTuple):
    """What was taken back."""

    urls: int
    shards: int
    skipped: int


class TreeShard(NamedTuple):
    """A shard as a published index file lists it."""

    section: str
    number: int
    index_number: int
    file: str
    lastmod: int

    def place(self, site: Site) -> tuple[int, int]:
        """Its partition, and the number of its index file in there."""
        return site.partition_of(self.number), (self.index_number - 1) // site.partitions + 1


def restore_tree(store: Store, folder: Folder, *, alive: Callable[[], None] = lambda: None) -> Restored:
    """Read every listed shard into the empty state of a site, seats and all.

    Events that wait in the state are held back (`Store.replay_held`). May be repeated after a crash.
    `alive` is called before each shard. Raises SitemapdError for a tree that can't be read: nothing is
    published then; and when another restore has begun meanwhile.
    """
    shards, token = listed_shards(store, folder), begin_restore(store)
    urls = skipped = 0
    seen: set[bytes] = set()
    ids: Counter[int] = Counter()
    for shard in shards:
        alive()
        read = read_shard(store, folder, shard, seen)
        skipped += read.refused
        urls += len(read.entries)
        number, _ = shard.place(store.site)
        ids[number] += 1
        restore_shard(
            store, number, tree_fields(store, shard, read), ids[number], Snapshot(read.entries, {}), token
        )
    return Restored(urls, len(shards), skipped)


def begin_restore(store: Store) -> str:
    """Empty a state that never published, and hold its events back; the token of this restore."""
    token = secrets.token_hex(8)
    for partition in store.partitions:
        if partition.drain(token) < 0:
            raise SitemapdError("the state has been restored or begun already")
    return token


def restore_shard(
    store: Store,
    partition: int,
    fields: Mapping[str, str],
    shard: int,
    snapshot: Snapshot,
    token: str,
    log: Sequence[bytes] = (),
) -> None:
    """Take a shard into the state. Raises SitemapdError when another restore has begun."""
    if not store.partitions[partition].restore(claims.Restored(shard, fields, snapshot, log), token):
        raise SitemapdError(f"another restore of site {store.site.name} has taken over")


def tree_fields(store: Store, shard: TreeShard, read: ReadShard) -> dict[str, str]:
    """The fields of a shard that is as the published tree has it."""
    return {
        "section": shard.section,
        "number": str(shard.number),
        "index": str(shard.place(store.site)[1]),
        "v": "1",
        # A file of which something was left out is rendered again.
        "wanted": "2" if read.refused else "1",
        "published": "1",
        "bytes": str(read.size),
        "lm": str(shard.lastmod),
        "etag": read.etag,
        "petag": read.etag,
        "file": shard.file,
    }


def discard_tree(folder: Folder) -> int:
    """Remove the published files, the indexes first; how many."""
    names = folder.published()
    for name in names:
        folder.remove(name)
    return len(names)


def listed_shards(store: Store, folder: Folder) -> list[TreeShard]:
    """The shards that the published index files list, by section and number. Raises SitemapdError."""
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
                TreeShard(
                    parts[1],
                    int(parts[2]),
                    int(match[1] or 1),
                    file,
                    instant_ms(item.lastmod),
                )
            )
    return sorted(found)


class ReadShard(NamedTuple):
    """What a published file holds."""

    entries: dict[str, Entry]
    refused: int
    """Entries that were left out or lost an extension: they break a rule, or are in another file too."""
    etag: str
    size: int
    """Bytes before gzip."""


def read_shard(store: Store, folder: Folder, shard: TreeShard, seen: set[bytes]) -> ReadShard:
    """Read a published file; `seen` holds the digests of the URLs of the files before it.

    Raises SitemapdError for a file that is not there, can't be read, or is of other partitions.
    """
    data = folder.read(shard.file)
    if data is None:
        raise SitemapdError(f"the index lists {shard.file}, which is not in {folder.path}")
    entries: dict[str, Entry] = {}
    refused = 0
    partition, _ = shard.place(store.site)
    try:
        body = plain(data)
        for url in read_urlset(body):
            try:
                entry, warned = _entry(store, shard, url)
            except Refused:
                refused += 1
                continue
            refused += warned
            key = digest(entry.loc)
            if store.site.partition(key) != partition:
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
    return ReadShard(dict(sorted(entries.items())), refused, etag_of(body), len(body))


def _entry(store: Store, shard: TreeShard, url: ReadUrl) -> tuple[Entry, bool]:
    """The entry of a published URL, and whether it lost an extension.

    What the section says by default is not the entry's own.
    """
    loc = normalise(url.loc, store.site.rules).loc
    style = store.site.style(shard.section)
    lastmod = parse_lastmod(url.lastmod).text or "" if url.lastmod else ""
    changefreq = check_changefreq(url.changefreq) if url.changefreq else ""
    priority = check_priority(url.priority) if url.priority else ""
    page = Page(loc=loc, now=0)  # what was published as news is taken back as such
    ext = canonical(read_extensions(url.ext, page)) if url.ext else ""
    entry = Entry(
        loc,
        lastmod,
        "" if changefreq == style.changefreq else changefreq,
        "" if priority == style.priority else priority,
        ext=ext,
    )
    return entry, bool(page.warnings)

"""Restoring a backup, and making it agree with a published tree that is newer.

A backup is seldom the last word: sitemapd published on after it. What the published index shows as newer is
taken from the tree, and what only the backup knows from the backup. Rules:

1. A shard is *newer in the tree* when the index lists it with a later lastmod than the backup has. Its URLs,
   their fields and their seats are the tree's; their sources, `at` and extensions are the backup's, wherever
   it had them. A shard that the backup does not know counts when its lastmod is not before the
   backup's beginning.
2. A shard is *gone from the tree* when its index file does not list it and lists another with a later
   lastmod than the backup's beginning and than this shard's: it was emptied, merged or retired since.
3. Both keep the backup's tombstones, except of URLs that the tree lists.
4. Events in the log of such a shard are in what was published since: a worker takes the whole log. Except
   where the shard was in hand when it was copied, or its log was too long for one rewrite: those are
   appended again, unless they are older than the tree's latest lastmod by `SETTLED_MS`.
5. Every other shard is as in the backup, with its log, but for URLs that a newer one lists: a split or merge
   moved them. The workers put right what its file says otherwise: every file is compared with the state at
   the end.
6. A file of the tree that can't be read is as if it were not newer, and is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from sitemap_store.errors import BadSetting
from sitemap_store.model.entries import digest
from sitemap_store.model.events import count_events
from sitemap_store.model.site import Site
from sitemap_store.output.folder import Folder
from sitemap_store.redis.dump import ShardCopy
from sitemap_store.redis.state import LOG_BYTES
from sitemap_store.redis.store import Store
from sitemap_store.shards.fold import fold_elements
from sitemap_store.shards.snapshot import Snapshot, decode
from sitemapd.backup import Backup
from sitemapd.known_entries import KnownEntries
from sitemapd.moved import LateShards, without_moved
from sitemapd.newer_tree import Key, Known, NewerTree
from sitemapd.restore import begin_restore, read_shard, restore_shard, tree_fields
from worker.publish import TOGETHER

SETTLED_MS: Final = 3_600_000
"""An event that is older than the tree's latest lastmod by that much is in the tree, or was undone since."""
_KEPT: Final[tuple[str, ...]] = (
    "section",
    "number",
    "index",
    "v",
    "lm",
    "file",
    "bytes",
    "etag",
    "petag",
)
"""The fields of a shard that live on; generations and times begin anew."""

RENDERED: Final = 2
"""A generation that every restored shard reaches by being rendered: all are compared with the output."""


class Recovered(NamedTuple):
    """What a backup and the tree came to."""

    urls: int
    shards: int
    events: int
    """That were not folded, and will be."""
    newer: int
    """Shards that were taken from the tree, since it is newer."""
    newer_urls: int
    gone: int
    """Shards that the newer tree has no more."""
    unreadable: tuple[str, ...]
    """Files of the tree that are newer and can't be read."""


def restore_backup(
    store: Store,
    folder: Folder,
    backup: Backup,
    now: int,
    *,
    alive: Callable[[], None] = lambda: None,
) -> Recovered:
    """Take a backup into the empty state of a site, and what the published tree has newer.

    Events that wait in the state are held back (`Store.replay_held`), and some of the backup's with them. May
    be repeated after a crash. `alive` is called before each shard. Raises SitemapdError, before anything is
    written, for a backup of another site or a tree that is not this site's; and when another restore began.
    """
    site = store.site
    _check(site, backup)
    known, late = _first_pass(backup)
    tree = NewerTree(store, folder, known, backup.head["taken"])
    token = begin_restore(store)
    urls = events = 0
    held: dict[int, list[bytes]] = {}
    kept: dict[Key, tuple[ShardCopy, Snapshot]] = {}
    with KnownEntries() as entries:
        for place, copy in enumerate(backup.shards()):
            key = _key(copy)
            if key is None or known[key].place != place:
                continue
            alive()
            as_copied = key not in tree.newer and key not in tree.gone
            moved = late.elsewhere(copy, tree.seen if as_copied else ())
            snapshot, log = without_moved(copy, moved, now)
            if as_copied:
                if moved:
                    entries.add(entry for loc, entry in decode(copy.snapshot).entries.items() if loc in moved)
                fields = {name: copy.meta[name] for name in _KEPT if name in copy.meta}
                after = late.gave(copy) or copy.meta.get("after", "").partition(" ")[0]
                if after and fields.get("file") in tree.present:  # which still lists what moved
                    fields["after"] = f"{after} {RENDERED}"
                if key not in tree.listed:
                    fields["listed"] = "1"  # once its index file was published
                published = min(1, int(copy.meta["published"]))
                generations = {"published": str(published), "wanted": str(published + 1)}
                restore_shard(
                    store,
                    copy.partition,
                    {"file": "", **fields, **generations},
                    copy.id,
                    snapshot,
                    token,
                    log,
                )
                urls, events = urls + len(snapshot.entries), events + count_events(log)
                continue
            if _uncertain(copy, site):
                again = [each for each in log if int(each.split(b"\n", 1)[0]) > tree.latest - SETTLED_MS]
                held.setdefault(copy.partition, []).extend(again)
                events += count_events(again)
            folded = fold_elements(snapshot, log, now).snapshot
            entries.add(folded.entries.values())
            buried = {loc: grave for loc, grave in folded.tombstones.items() if digest(loc) not in tree.seen}
            kept[key] = (copy, Snapshot({}, buried))
        newer_urls = _take_tree(store, folder, tree, kept, entries, token, alive)
    for key in tree.gone:
        copy, graves = kept[key]
        fields = {name: copy.meta[name] for name in ("section", "number", "index", "v", "lm")}
        empty = {"file": "", "bytes": "0", "etag": "", "petag": "", "published": "1", "wanted": "2"}
        restore_shard(store, copy.partition, {**fields, **empty}, copy.id, graves, token)
    _finish(store, backup, held, known, tree)
    return Recovered(
        urls + newer_urls,
        len(known.keys() | tree.newer.keys()),
        events,
        len(tree.newer),
        newer_urls,
        len(tree.gone),
        tuple(tree.unreadable),
    )


def _check(site: Site, backup: Backup) -> None:
    head = backup.head
    if head["site"] != site.name:
        raise BadSetting(
            setting="--site",
            detail=f"{backup.name} is a backup of site {head['site']}, not of {site.name}.",
            hint="Name the site with --site, or give its own backup.",
        )
    if head["partitions"] != site.partitions:
        raise BadSetting(
            setting=f"sites.{site.name}.partitions",
            detail=f"is {site.partitions}, but {backup.name} was made with {head['partitions']}.",
            hint=f"Set it back to {head['partitions']}.",
        )


def _key(copy: ShardCopy) -> Key | None:
    return (copy.meta["section"], int(copy.meta["number"])) if copy.meta else None


def _first_pass(backup: Backup) -> tuple[dict[Key, Known], LateShards]:
    """Where the last record of each shard is, and which URLs moved meanwhile."""
    names: dict[tuple[int, int], Key] = {}
    known: dict[Key, Known] = {}
    late = LateShards()
    for place, copy in enumerate(backup.shards()):
        key = _key(copy)
        if key is None:
            if before := names.pop((copy.partition, copy.id), None):
                known.pop(before, None)
            continue
        names[copy.partition, copy.id] = key
        meta = copy.meta
        listed = bool(meta.get("file"))
        known[key] = Known(copy.partition, copy.id, place, int(meta["lm"]), int(meta["index"]), listed)
        if copy.late:
            late.add(copy)
    return known, late


def _take_tree(
    store: Store,
    folder: Folder,
    tree: NewerTree,
    kept: Mapping[Key, tuple[ShardCopy, Snapshot]],
    entries: KnownEntries,
    token: str,
    alive: Callable[[], None],
) -> int:
    """Restore the shards that are newer in the tree; how many URLs."""
    urls = 0
    seen: set[bytes] = set()
    ids = {partition.number: int(partition.remembered("next") or 0) for partition in store.partitions}
    for copy, _ in kept.values():
        ids[copy.partition] = max(ids[copy.partition], copy.id)
    for key, shard in sorted(tree.newer.items()):
        alive()
        read = read_shard(store, folder, shard, seen)
        number, _ = shard.place(store.site)
        if key in kept:
            copy, graves = kept[key]
            at = copy.id
        else:
            graves = Snapshot({}, {})
            at = ids[number] = ids[number] + 1
        fields = tree_fields(store, shard, read)
        snapshot = Snapshot(entries.complete(read.entries, store.site, shard.section), graves.tombstones)
        restore_shard(store, number, fields, at, snapshot, token)
        urls += len(snapshot.entries)
    return urls


def _uncertain(copy: ShardCopy, site: Site) -> bool:
    """Whether what is published of the shard since may hold a part of its log alone."""
    together = max(1, TOGETHER // site.shard_size)
    return copy.in_hand or sum(map(len, copy.log)) * together > LOG_BYTES


def _finish(
    store: Store,
    backup: Backup,
    held: Mapping[int, Sequence[bytes]],
    known: Mapping[Key, Known],
    tree: NewerTree,
) -> None:
    """Take what a backup holds beside the shards, and have every file compared with the state."""
    ids = {(each.partition, each.id) for each in known.values()}
    added = {section for section, _ in tree.newer.keys() - known.keys()}
    for number, elements in held.items():
        store.partitions[number].restored({}, elements)
    for head, parts in backup.records():
        if head["kind"] == "held":
            store.partitions[head["partition"]].restored({}, parts)
        elif head["kind"] == "webhook":
            part = store.partitions[0]
            remembered = dict(zip(parts[::2], parts[1::2], strict=True))
            part.restored({part.keys.webhook(head["name"]): remembered}, [])
        elif head["kind"] == "partition":
            number, state = head["partition"], head["state"]
            # A section that has newer shards in the tree opens the last of those.
            opened = {
                section: shard
                for section, shard in head["open"].items()
                if (number, int(shard)) in ids and section not in added
            }
            counted = {section: n for section, n in head["numbers"].items() if section not in added}
            settings = {name: state[name] for name in ("looks", "config", "site") if name in state}
            part = store.partitions[number]
            keys = part.keys
            part.restored({keys.open_shards(): opened, keys.numbers(): counted, keys.state(): settings}, [])

"""What the store's scripts hand out and take: claims of shards and index files, and their results. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sitemap_store.model.events import read_log
from sitemap_store.shards.snapshot import Snapshot, decode


class Claim(NamedTuple):
    """A leased shard as it stood when its lease was taken."""

    id: int
    now: int
    state_id: str
    lease: str
    """The lease's number: given once, so that a later lease of the same worker is another."""
    generation: int
    """What was wanted of the shard when it was claimed."""
    section: str
    number: int
    version: int
    """Of the snapshot; a commit raises it."""
    file: str
    unlink: tuple[str, ...]
    """Names whose files may go now."""
    listed: bool
    """Whether an index file may still name this shard's file."""
    snapshot: bytes | None
    log: list[bytes]


class Moved(NamedTuple):
    """What a split puts into a new shard."""

    snapshot: Snapshot
    purge_at: int | None


class Commit(NamedTuple):
    """What a rewrite makes the shard's state."""

    snapshot: Snapshot | None
    """None when the fold changed nothing: then only the lease and the version are checked."""
    size: int
    """Bytes of the rendered file."""
    etag: str
    freed: tuple[str, ...]
    records: int
    purge_at: int | None
    moved: Moved | None = None


class Committed(NamedTuple):
    """What a commit came to."""

    version: int
    split: int | None
    """The new shard's id, where something moved."""


class PublishedFile(NamedTuple):
    """A shard's file as it is at the output."""

    name: str
    """Empty when there is none, since the shard is."""
    etag: str
    put: str
    """What putting it there did (`sitemap_store.output.folder.Put`)."""
    size: int
    """How many bytes were written."""
    folded: int
    """How many events they are the result of."""
    uncovered: Sequence[str]
    """URLs in it that the site no longer covers."""


class IndexedShard(NamedTuple):
    """A shard in an index file, in the order of the file."""

    section: str
    number: int
    lastmod: int
    """When its file changed, in epoch milliseconds."""
    file: str


class IndexClaim(NamedTuple):
    """A leased index file, and what it must list."""

    number: int
    now: int
    state_id: str
    lease: str
    generation: int
    published_etag: str
    listing: Mapping[bytes, bytes]
    """Shard id → its line, in no order; `listed` reads one."""


class Mergee(NamedTuple):
    """A shard that is leased to be merged, as it stood then."""

    id: int
    version: int
    lease: str
    snapshot: bytes


class Member(NamedTuple):
    """What the state knows of a shard or an index file, for comparing it with the output."""

    member: str
    file: str
    """The name that it has, or would have, at the output."""
    present: bool
    """Whether that file has to be there."""
    etag: str
    """Of the file's content; "" where it is not vouched for."""
    generation: int
    """What is published."""
    settled: bool
    """Nothing more is wanted of it."""
    scheduled: bool
    """It is due at some time, leased, or put aside."""
    config: int
    old: tuple[str, ...]
    """Names that it had, and which go when no index names them any more."""


class Restored(NamedTuple):
    """A shard as a restore takes it into an empty partition."""

    id: int
    fields: Mapping[str, str]
    """Of its hash: section, number, index, v, wanted, published, lm, file, bytes, etag, petag; and after."""
    snapshot: Snapshot
    log: Sequence[bytes] = ()

    @property
    def locs(self) -> list[str]:
        """The URLs that have their seat in it: entries, tombstones, and those of its log."""
        seen = dict.fromkeys((*self.snapshot.entries, *self.snapshot.tombstones))
        seen.update((event.loc, None) for event, _ in read_log(self.log))
        return list(seen)


class Wake(NamedTuple):
    """What needs a job now: shard ids, or `i<k>` for an index file."""

    partition: int
    members: tuple[str, ...]


def listed(line: bytes) -> IndexedShard:
    """What a line of an index file's listing says."""
    section, number, lastmod, file = line.decode().split(" ")
    return IndexedShard(section, int(number), int(lastmod), file)


def snapshot_of(claim: Claim) -> Snapshot:
    """The snapshot that a claim read."""
    return decode(claim.snapshot)

"""One partition's state in Redis: the store's writes, each one atomic script.

Keys, all under the prefix ``sm:{site.p}`` (p is the partition), so that a script touches one slot:

===================  ======  =====================================================  ===============  =====================
key                  type    meaning                                                writer           bound
===================  ======  =====================================================  ===============  =====================
``state``            hash    id, buckets, seats, next (last shard id), logged       all              6 fields
                             (unfolded events), index_hint
``d:<bucket>``       hash    directory: 10-byte digest → shard id                   append, commit   256 fields on average
                                                                                    restore          at most (linear hashing)
``shards``           zset    the ids of the shards                                  append, commit   one a shard
``s:<id>``           hash    a shard: section, number, index, v (version), pv       append, commit,  20 fields
                             (published version), etag, petag, urls, dead, bytes,   published
                             seats, lm (lastmod ms), rw (rewritten ms), file, old
                             (names to unlink), sources, check
``snap:<id>``        string  a shard's snapshot (`sitemap_store.snapshot`)          commit           one shard
``log:<id>``         list    a shard's log (`sitemap_store.events`)                 append, commit   unfolded events
``sections``         set     names of the sections that have shards                 append           one a section
``sec:<section>``    hash    urls, shards, bytes, published (ms)                    all              4 fields
``open``             hash    section → its open shard                               append, commit   one a section
``numbers``          hash    section → how many shard numbers were given            append           one a section
``due``              zset    member → not before (ms); a member is a shard id, or   all              shards + index files
                             ``i<k>`` for index file k
``pending``          zset    member → since when (ms) something waits to be         all              shards + index files
                             published
``scheduled``        hash    member → when a job was enqueued (ms)                  append, keeper   members with a job
``leases``           hash    member → "<deadline ms> <worker>"                      claim            one a worker
``stale``            hash    "<member> <worker>" → when that worker lost the lease  claim            leases that ran out
``purge``            zset    shard id → when its next tombstone's time is over      commit           shards with tombstones
``i:<k>``            hash    index file k: v, pv, petag, next (ms), check           published        5 fields
``idx:<k>``          hash    shard id → "section number lm file" as it is listed    published        index_size fields
``index_sizes``      hash    k → how many shards have their place in it             append, commit   one an index file
``leaving:<k>``      zset    shard id → version of the index that drops its file    published        shards just emptied
``stats``            hash    add, update, delete, refused, rewrites, published      all              6 fields + rules
``rejected``         stream  the last refusals                                      reject           1,000 entries
===================  ======  =====================================================  ===============  =====================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import redis

from sitemap_store.connection import translated
from sitemap_store.entries import digest
from sitemap_store.scripts import Scripts
from sitemap_store.site import Site
from sitemap_store.snapshot import Snapshot, decode, encode

LEASE_MS = 60_000
"""How long a worker that was not heard of keeps a shard. A dead child's leases are freed at once."""
LOG_BYTES = 8 * 1024 * 1024
"""The most log that one rewrite folds; the rest comes with the next one."""
REJECTED_MAX = 1000

Clock = Callable[[], int]


def server_clock() -> int:
    """0: the scripts then read Redis' own clock, the one that all hosts share."""
    return 0


class Claim(NamedTuple):
    """A leased shard as it stood when its lease was taken."""

    id: int
    now: int
    state_id: str
    section: str
    number: int
    version: int
    published_version: int
    published_etag: str
    check: bool
    """Compare with the output even when nothing changed."""
    file: str
    unlink: tuple[str, ...]
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


class IndexClaim(NamedTuple):
    """A leased index file: what it must list, as (section, number, lastmod ms, file)."""

    number: int
    now: int
    state_id: str
    version: int
    published_etag: str
    listing: tuple[tuple[str, int, int, str], ...]


class Wake(NamedTuple):
    """What needs a job now: shard ids, or `i<k>` for an index file."""

    partition: int
    members: tuple[str, ...]


class Partition:
    """The writes of one partition of one site. Raises Unavailable when Redis is."""

    def __init__(
        self, client: redis.Redis, site: Site, number: int, *, clock: Clock = server_clock
    ) -> None:
        self.client = client
        self.site = site
        self.number = number
        self.prefix = prefix(site.name, number)
        self._clock = clock
        self._scripts = Scripts(client)
        self._interval = round(site.min_interval * 1000)

    def append(self, sections: Sequence[str], events: Iterable[bytes], *, delay_ms: int = 0) -> Wake:
        """Append packed events (`pack`); when it returns they are as durable as Redis makes them.

        A shard that turns due is not rewritten before `delay_ms` have passed.
        """
        site = self.site
        found = self._run(
            "append",
            self._interval,
            site.shard_size,
            site.index_size,
            site.partitions,
            self.number,
            delay_ms,
            "\n".join(sections),
            *events,
        )
        return self._wake(found)

    def claim(self, shard: int, worker: str) -> Claim | None:
        """Lease a shard and read what a rewrite needs; None when there is nothing to do for now."""
        reply = self._run("claim", worker, LEASE_MS, shard, LOG_BYTES)
        if reply[0] != b"work":
            return None
        _, now, state_id, flat, snapshot, unlink, log = reply
        meta = _pairs(flat)
        return Claim(
            shard,
            now,
            state_id.decode(),
            meta["section"],
            int(meta["number"]),
            int(meta["v"]),
            int(meta["pv"]),
            meta.get("petag", ""),
            "check" in meta,
            meta.get("file", ""),
            tuple(unlink.decode().split()),
            snapshot,
            log,
        )

    def commit(self, claim: Claim, worker: str, commit: Commit) -> tuple[int, int | None] | None:
        """Make a fold's result the state: (version, new shard's id after a split).

        None when the lease or the version is not the caller's any more: then nothing was written.
        """
        args: list[Any] = [worker, claim.id, claim.version, len(claim.log), commit.records]
        if commit.snapshot is None:
            args += ["", 0, 0, 0, "", "", 0]
        else:
            args += [
                encode(commit.snapshot),
                len(commit.snapshot.entries),
                len(commit.snapshot.tombstones),
                commit.size,
                commit.etag,
                _sources(commit.snapshot),
                commit.purge_at or 0,
            ]
        args += [self.site.index_size, self.site.partitions, self.number, len(commit.freed)]
        for loc in commit.freed:
            args += [digest(loc), loc]
        if commit.moved is not None:
            moved = commit.moved.snapshot
            args += [encode(moved), len(moved.entries), len(moved.tombstones), _sources(moved)]
            for loc in (*moved.entries, *moved.tombstones):
                args += [digest(loc), loc]
        reply = self._run("commit", *args)
        if reply[0] != b"ok":
            return None
        return int(reply[1]), int(reply[2]) if reply[2] else None

    def published(
        self, claim: Claim, worker: str, version: int, file: str, etag: str, unlinked: Iterable[str]
    ) -> tuple[bool, Wake]:
        """Note that a version is at the output, and give the lease back.

        False when the lease had been lost: the shard is then rendered once more.
        """
        status, index, again = self._run(
            "published",
            worker,
            claim.id,
            version,
            file,
            etag,
            self._interval,
            claim.now,
            " ".join(unlinked),
        )
        members = [f"i{int(index)}"] if index else []
        members += [str(claim.id)] if again else []
        return status == b"ok", Wake(self.number, tuple(members))

    def claim_index(self, number: int, worker: str) -> IndexClaim | None:
        """Lease an index file and read what it must list; None when there is nothing to do."""
        reply = self._run("index_claim", worker, LEASE_MS, number)
        if reply[0] != b"work":
            return None
        _, now, state_id, version, etag, flat = reply
        listing = []
        for line in flat[1::2]:
            section, shard, lastmod, file = line.decode().split(" ")
            listing.append((section, int(shard), int(lastmod), file))
        return IndexClaim(
            number, now, state_id.decode(), int(version), etag.decode(), tuple(sorted(listing))
        )

    def index_published(
        self, claim: IndexClaim, worker: str, etag: str, pause_ms: int
    ) -> tuple[bool, Wake]:
        """Note that an index file is at the output; it is not rewritten for `pause_ms`."""
        status, *members = self._run(
            "index_published", worker, claim.number, claim.version, etag, claim.now, pause_ms
        )
        return status == b"ok", self._wake(members)

    def keep(self, *, lost_ms: int, limit: int = 1000) -> tuple[int | None, Wake]:
        """What is due and has no job, now marked as having one; and ms until the next comes due."""
        wait, *members = self._run("keeper", lost_ms, limit)
        return (None if wait < 0 else int(wait)), self._wake(members)

    def release(self, workers: Sequence[str]) -> Wake:
        """Take back the leases of workers that are certainly dead."""
        return self._wake(self._run("release", *workers))

    def postpone(self, member: str, worker: str, pause_ms: int) -> None:
        """Give a lease back to try again after `pause_ms`."""
        self._run("postpone", worker, member, pause_ms)

    def recheck(self) -> int:
        """Mark everything to be rendered again and compared with the output; how many shards."""
        step, total = 500, 0
        while marked := self._run("recheck", total, total + step - 1):
            total += marked
        return total

    def restore(
        self,
        *,
        section: str,
        number: int,
        index: int,
        file: str,
        lastmod: int,
        etag: str,
        size: int,
        snapshot: Snapshot,
    ) -> None:
        """Take a published shard into this partition with its name, place and seats."""
        self._run(
            "restore",
            section,
            number,
            index,
            file,
            lastmod,
            etag,
            encode(snapshot),
            len(snapshot.entries),
            size,
            _sources(snapshot),
            self.site.partitions,
            self.site.shard_size,
            *[digest(loc) for loc in snapshot.entries],
        )

    def state_id(self) -> str | None:
        """The random id that this state got when it was made; None when there is none yet."""
        with translated():
            value = self.client.hget(f"{self.prefix}:state", "id")
        return value.decode() if isinstance(value, bytes) else None

    def adopt(self, state_id: str) -> None:
        """Give the state its id, if it has none."""
        with translated():
            self.client.hsetnx(f"{self.prefix}:state", "id", state_id)

    def _run(self, name: str, *args: Any) -> Any:
        with translated():
            return self._scripts.run(name, self.prefix, self._clock(), *args)

    def _wake(self, members: Iterable[bytes]) -> Wake:
        return Wake(self.number, tuple(member.decode() for member in members))


def prefix(site: str, partition: int) -> str:
    """The prefix of a partition's keys, with their common hash tag."""
    return f"sm:{{{site}.{partition}}}"


def snapshot_of(claim: Claim) -> Snapshot:
    """The snapshot that a claim read."""
    return decode(claim.snapshot)


def _sources(snapshot: Snapshot) -> str:
    return "\n".join(sorted({entry.source for entry in snapshot.entries.values()}))


def _pairs(flat: Sequence[bytes]) -> dict[str, str]:
    return {
        name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)
    }

"""One partition's state in Redis: the store's writes, each one atomic script (keys: `sitemap_store.keys`).

Longer than most modules, since it is the list of the scripts with their arguments and answers: one
method a script, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import redis

from sitemap_store.connection import translated
from sitemap_store.described import describe
from sitemap_store.entries import digest
from sitemap_store.keys import prefix
from sitemap_store.prepare import Packed
from sitemap_store.scripts import Scripts
from sitemap_store.site import Site
from sitemap_store.snapshot import Snapshot, decode, encode

LEASE_MS = 60_000
"""How long a worker that was not heard of keeps a shard. A dead child's leases are freed at once."""
STUCK_MS = 40_000
"""How long a worker may hold a lease before its supervisor kills it: less than LEASE_MS."""
LOG_BYTES = 8 * 1024 * 1024
"""The most log that one rewrite folds; the rest comes with the next one."""
PUT_OFF_MS = 60_000
"""More than a rewrite is ever put off for another reason than the site's min_interval."""
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


class Published(NamedTuple):
    """A shard's file as it is at the output."""

    version: int
    name: str
    """Empty when there is none, since the shard is."""
    etag: str
    wrote: bool
    """Whether its bytes were not there before."""
    size: int
    """How many bytes were written."""
    folded: int
    """How many events they are the result of."""


class Listed(NamedTuple):
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
    version: int
    published_etag: str
    lines: tuple[bytes, ...]
    """In no order; `listed` reads one."""


class Wake(NamedTuple):
    """What needs a job now: shard ids, or `i<k>` for an index file."""

    partition: int
    members: tuple[str, ...]


class Partition:
    """The writes of one partition of one site. Raises Unavailable when Redis is."""

    def __init__(self, client: redis.Redis, site: Site, number: int, *, clock: Clock = server_clock) -> None:
        self.client = client
        self.site = site
        self.number = number
        self.prefix = prefix(site.name, number)
        self._clock = clock
        self._scripts = Scripts(client)
        self._interval = round(site.min_interval * 1000)

    def append(self, packed: Packed, *, delay_ms: int = 0, place: str = "") -> Wake:
        """Append events; when it returns they are as durable as Redis makes them.

        A shard that turns due is not rewritten before `delay_ms` have passed. `place` is "id n" for the n-th
        append of a stream: one that is appended already, or was overtaken, does nothing.
        """
        return self._wake(self._run("append", *self._append_args(packed, delay_ms, place)))

    def append_call(self, packed: Packed, delay_ms: int, place: str) -> Sequence[Any]:
        """The command that `append` sends, for one who reads its answer later (`appended`)."""
        args = self._append_args(packed, delay_ms, place)
        return self._scripts.call("append", self.prefix, self._clock(), *args)

    def overtake(self, stream: str) -> None:
        """Have appends of a stream that are still under way do nothing."""
        with translated():
            self.client.set(f"{self.prefix}:stream:{stream}", 2**52, ex=60)

    def appended(self, answer: Iterable[bytes]) -> Wake:
        """What `append` returns, from Redis' answer to `append_call`."""
        return self._wake(answer)

    def _append_args(self, packed: Packed, delay_ms: int, place: str) -> Sequence[Any]:
        site, (sections, kinds, urgent, *events) = self.site, packed
        return (
            self._interval,
            site.shard_size,
            site.index_size,
            site.partitions,
            self.number,
            delay_ms,
            sections,
            kinds,
            urgent,
            place,
            *events,
        )

    def claim(self, shard: int, worker: str) -> Claim | None:
        """`claim_each` of one shard."""
        return self.claim_each([shard], worker)[0]

    def claim_each(self, shards: Sequence[int], worker: str) -> list[Claim | None]:
        """Lease shards and read what their rewrites need; None where there is nothing to do for now."""
        most = LOG_BYTES // len(shards)
        replies = self._run_each("claim", [(worker, LEASE_MS, shard, most) for shard in shards])
        return [_claim(shard, reply) for shard, reply in zip(shards, replies, strict=True)]

    def commit(self, claim: Claim, worker: str, commit: Commit) -> Committed | None:
        """`commit_each` of one shard."""
        return self.commit_each([(claim, commit)], worker)[0]

    def commit_each(self, commits: Iterable[tuple[Claim, Commit]], worker: str) -> list[Committed | None]:
        """Make the results of folds the state.

        None where the lease or the version is not the caller's any more: then nothing was written.
        """
        replies = self._run_each("commit", [self._commit_args(*each, worker) for each in commits])
        return [
            Committed(int(reply[1]), int(reply[2]) if reply[2] else None) if reply[0] == b"ok" else None
            for reply in replies
        ]

    def _commit_args(self, claim: Claim, commit: Commit, worker: str) -> list[Any]:
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
        return args

    def published_each(
        self, files: Sequence[tuple[Claim, Published]], worker: str
    ) -> list[tuple[bool, Wake]]:
        """Note that versions are at the output, and free the leases.

        False where the lease had been lost: the shard is then rendered once more.
        """
        replies = self._run_each("published", [self._published_args(*each, worker) for each in files])
        found = []
        for (claim, _), (status, index, again) in zip(files, replies, strict=True):
            members = [f"i{int(index)}"] if index else []
            members += [str(claim.id)] if again else []
            found.append((status == b"ok", Wake(self.number, tuple(members))))
        return found

    def _published_args(self, claim: Claim, file: Published, worker: str) -> Sequence[Any]:
        return (
            worker,
            claim.id,
            file.version,
            file.name,
            file.etag,
            self._interval,
            claim.now,
            " ".join(claim.unlink),
            "1" if file.wrote else "",
            file.size,
            file.folded,
        )

    def claim_index(self, number: int, worker: str) -> IndexClaim | None:
        """Lease an index file and read what it must list; None when there is nothing to do."""
        reply = self._run("index_claim", worker, LEASE_MS, number)
        if reply[0] != b"work":
            return None
        _, now, state_id, version, etag, flat = reply
        return IndexClaim(number, now, state_id.decode(), int(version), etag.decode(), tuple(flat[1::2]))

    def index_published(
        self, claim: IndexClaim, worker: str, etag: str, pause_ms: int, *, size: int = 0
    ) -> tuple[bool, Wake]:
        """Note that an index file is at the output; it is not rewritten for `pause_ms`.

        `size` is how many bytes were written.
        """
        status, *members = self._run(
            "index_published", worker, claim.number, claim.version, etag, claim.now, pause_ms, size
        )
        return status == b"ok", self._wake(members)

    def keep(self, *, lost_ms: int, limit: int = 1000) -> tuple[int | None, Wake]:
        """What is due and has no job, now marked as having one; and ms until the next comes due."""
        put_off = max(self._interval, PUT_OFF_MS)
        wait, *members = self._run("keeper", lost_ms, limit, put_off, LEASE_MS)
        return (None if wait < 0 else int(wait)), self._wake(members)

    def release(self, workers: Sequence[str]) -> Wake:
        """Take back the leases of workers that are certainly dead."""
        return self._wake(self._run("release", *workers))

    def beat(self, workers: Sequence[str]) -> list[str]:
        """Note that these workers are alive; which of them hold a lease for too long."""
        _, stuck = self._run("beat", LEASE_MS - STUCK_MS, *workers)
        return [name.decode() for name in stuck]

    def holders(self) -> set[str]:
        """The names of the workers that hold a lease, or lost one and were not heard of since."""
        with translated(), self.client.pipeline(transaction=False) as pipe:
            pipe.hvals(f"{self.prefix}:leases")
            pipe.hkeys(f"{self.prefix}:stale")
            leases, stale = pipe.execute()
        return {text.decode().partition(" ")[2] for text in (*leases, *stale)}

    def postpone(self, member: str, worker: str, pause_ms: int) -> None:
        """Give a lease back to try again after `pause_ms`."""
        self._run("postpone", worker, member, pause_ms)

    def count_refused(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Count refusals: how many of which rule and source."""
        lines = [f"{n} {rule} {source[:64]}".replace("\n", " ") for (rule, source), n in counts.items()]
        self._run("refuse", "\n".join(lines))

    def recheck(self, present: Container[str] | None = None) -> int:
        """Mark everything to be rendered again and compared with the output; how many shards.

        `present` holds the names of the files that are at the output, where that is known: shards
        whose files are not stay off the index until they are back.
        """
        step, total = 500, 0
        while ids := self._shard_ids(total, step):
            missing = [] if present is None else self._missing(ids, present)
            self._run("recheck", " ".join(ids), " ".join(missing))
            total += len(ids)
        self._run("recheck", "", "")
        return total

    def _shard_ids(self, start: int, count: int) -> list[str]:
        with translated():
            found: Any = self.client.zrange(f"{self.prefix}:shards", start, start + count - 1)
        return [shard.decode() for shard in found]

    def _missing(self, ids: Sequence[str], present: Container[str]) -> list[str]:
        with translated(), self.client.pipeline(transaction=False) as pipe:
            for shard in ids:
                pipe.hget(f"{self.prefix}:s:{shard}", "file")
            files = pipe.execute()
        pairs = zip(ids, files, strict=True)
        return [shard for shard, file in pairs if file and file.decode() not in present]

    def drain(self, token: str) -> int:
        """Empty a state that never published, its unfolded events held back; -1 if it has an id.

        What is appended from now on is held back too, until the state gets its id (`adopt`). `token` tells
        this restore from another.
        """
        return int(self._run("drain", token))

    def restore(
        self,
        *,
        token: str,
        section: str,
        number: int,
        index: int,
        file: str,
        lastmod: int,
        etag: str,
        size: int,
        snapshot: Snapshot,
        complete: bool,
    ) -> bool:
        """Take a published shard into this partition with its name, place and seats.

        The shards of a section come in the order of their numbers; one that is here already is left alone.
        One that is not `complete` (an entry of the file was left out) is rendered again. False when the
        state was not drained with this `token`, or another restore has begun since.
        """
        answer = self._run(
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
            0 if complete else 1,
            token,
            *[digest(loc) for loc in snapshot.entries],
        )
        return int(answer) >= 0

    def once(self, digest: str, *args: Any) -> tuple[bytes, Any]:
        """Take an idempotency key, or keep its answer (`sitemap_store.once`)."""
        state, found = self._run("once", digest, *args)
        return state, found

    def state_id(self) -> str | None:
        """The random id that this state got when it was made; None when there is none yet."""
        return self.remembered("id")

    def remembered(self, field: str) -> str | None:
        """A field of the state: "id", "partitions" or "looks"; None when it has none."""
        with translated():
            value = self.client.hget(f"{self.prefix}:state", field)
        return value.decode() if isinstance(value, bytes) else None

    def note_looks(self) -> None:
        """Note that all is published, or due, as the site's settings say; and tell producers of them."""
        with translated():
            self.client.hset(
                f"{self.prefix}:state", mapping={"looks": self.site.looks, "site": describe(self.site)}
            )

    def adopt(self, state_id: str) -> None:
        """Give the state its id, if it has none, and note the partitions; a restore is then over."""
        with translated(), self.client.pipeline(transaction=True) as pipe:
            pipe.hsetnx(f"{self.prefix}:state", "id", state_id)
            pipe.hsetnx(f"{self.prefix}:state", "partitions", str(self.site.partitions))
            pipe.hdel(f"{self.prefix}:state", "restoring")
            pipe.execute()

    def _run(self, name: str, *args: Any) -> Any:
        with translated():
            return self._scripts.run(name, self.prefix, self._clock(), *args)

    def _run_each(self, name: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """Run a script several times in one round trip; each call is atomic for itself."""
        if len(calls) == 1:
            return [self._run(name, *calls[0])]
        now = self._clock()
        pipe: Any
        with translated(), self.client.pipeline(transaction=False) as pipe:
            for args in calls:
                pipe.execute_command(*self._scripts.call(name, self.prefix, now, *args))
            replies: list[Any] = pipe.execute(raise_on_error=False)
        for place, reply in enumerate(replies):
            if isinstance(reply, redis.RedisError):
                replies[place] = self._run(name, *calls[place])  # knows a lost script, and each error
        return replies

    def _wake(self, members: Iterable[bytes]) -> Wake:
        return Wake(self.number, tuple(member.decode() for member in members))


def _claim(shard: int, reply: Sequence[Any]) -> Claim | None:
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
        bool(meta.get("file")) or ("old" in meta and not unlink),
        snapshot,
        log,
    )


def listed(line: bytes) -> Listed:
    """What a line of an index file's listing says."""
    section, number, lastmod, file = line.decode().split(" ")
    return Listed(section, int(number), int(lastmod), file)


def snapshot_of(claim: Claim) -> Snapshot:
    """The snapshot that a claim read."""
    return decode(claim.snapshot)


def _sources(snapshot: Snapshot) -> str:
    return "\n".join(sorted({entry.source for entry in snapshot.entries.values()}))


def _pairs(flat: Sequence[bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)}

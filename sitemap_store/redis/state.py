"""One partition's state in Redis: the store's writes, each one atomic script (keys: `keys.py`).

Longer than most modules, since it is the list of the scripts with their arguments and answers: one
method a script, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import redis

from sitemap_store.model.described import describe
from sitemap_store.model.entries import digest
from sitemap_store.model.events import count_events
from sitemap_store.model.site import Site, index_file
from sitemap_store.redis.claims import (
    Claim,
    Commit,
    Committed,
    IndexClaim,
    Member,
    Mergee,
    PublishedFile,
    Restored,
    Wake,
)
from sitemap_store.redis.connection import translated
from sitemap_store.redis.keys import Keys
from sitemap_store.redis.prepare import Packed
from sitemap_store.redis.scripts import Scripts
from sitemap_store.shards.fold import next_purge
from sitemap_store.shards.render import etag_of
from sitemap_store.shards.snapshot import EMPTY, Snapshot, encode

LEASE_MS = 60_000
"""How long a worker that was not heard of keeps a shard. A dead child's leases are freed at once."""
STUCK_MS = 40_000
"""How long a worker may hold a lease before its supervisor kills it: less than LEASE_MS."""
LOG_BYTES = 8 * 1024 * 1024
"""The most log that one rewrite folds; the rest comes with the next one."""
PUT_OFF_MS = 60_000
"""More than a rewrite is ever put off for another reason than the site's min_interval."""
REJECTED_MAX = 1000
PATIENCE_MS = 60_000
"""How long an index file waits for missing files that it lists, before it is written without them."""
EXAMPLES = 5
"""How many URLs of a shard that the site no longer covers are kept by name."""
FAILURES = 3
"""A shard that can't be rendered this often in a row is put aside."""

NOTHING = etag_of(b"")
"""The etag of an index file that lists nothing, and is not at the output."""

Clock = Callable[[], int]


def server_clock() -> int:
    """0: the scripts then read Redis' own clock, the one that all hosts share."""
    return 0


class Partition:
    """The writes of one partition of one site. Raises Unavailable when Redis is."""

    def __init__(self, client: redis.Redis, site: Site, number: int, *, clock: Clock = server_clock) -> None:
        self.client = client
        self.site = site
        self.number = number
        self.keys = Keys(site.name, number)
        self._clock = clock
        self._scripts = Scripts(client)
        self._interval = round(site.min_interval * 1000)
        self.config = 0
        """The number of this process' settings (`configure`); 0 for one that publishes nothing."""
        self.outdated = False
        """Whether a claim was refused since settings with a higher number are in force."""

    def append(self, packed: Packed, *, delay_ms: int = 0) -> Wake:
        """Append events; when it returns they are as durable as Redis makes them.

        A shard that turns due is not rewritten before `delay_ms` have passed.
        """
        return self.begin_append(packed, delay_ms=delay_ms)()

    def begin_append(self, packed: Packed, *, delay_ms: int = 0) -> Callable[[], Wake]:
        """Send an append; what is returned waits until it is stored, as `append` does, and has to be called.

        Nothing else may be appended before: else an append that is sent again could undo a later one.
        """
        site, (sections, kinds, urgent, *events) = self.site, packed
        settings = (self._interval, site.shard_size, site.index_size, site.partitions, self.number, delay_ms)
        args = (self._clock(), *settings, sections, kinds, urgent, *events)
        with translated():
            answer = self._scripts.begin("append", self.keys.prefix, *args)

        def stored() -> Wake:
            with translated():
                return self._wake(answer())

        return stored

    def claim(self, shard: int, worker: str) -> Claim | None:
        """`claim_each` of one shard."""
        return self.claim_each([shard], worker)[0]

    def claim_each(self, shards: Sequence[int], worker: str) -> list[Claim | None]:
        """Lease shards and read what their rewrites need; None where there is nothing to do for now."""
        most = LOG_BYTES // len(shards)
        calls = [(worker, LEASE_MS, shard, most, self.config) for shard in shards]
        replies = self._run_each("claim", calls)
        self.outdated = any(reply[0] == b"outdated" for reply in replies)
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
            args += ["", 0, 0, 0, "", "", commit.purge_at or 0]
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
        args += [claim.lease, self._interval]
        for loc in commit.freed:
            args += [digest(loc), loc]
        if commit.moved is not None:
            moved = commit.moved.snapshot
            args += [encode(moved), len(moved.entries), len(moved.tombstones), _sources(moved)]
            for loc in (*moved.entries, *moved.tombstones):
                args += [digest(loc), loc]
        return args

    def published_each(
        self, files: Sequence[tuple[Claim, PublishedFile]], worker: str
    ) -> list[tuple[bool, Wake]]:
        """Note that generations are at the output, and free the leases.

        False where the lease had been lost: the shard is then wanted again.
        """
        replies = self._run_each("published", [self._published_args(*each, worker) for each in files])
        return [(status == b"ok", self._wake(members)) for status, *members in replies]

    def _published_args(self, claim: Claim, file: PublishedFile, worker: str) -> Sequence[Any]:
        return (
            worker,
            claim.lease,
            claim.id,
            claim.generation,
            self.config,
            file.name,
            file.etag,
            file.put,
            file.size,
            file.folded,
            claim.now,
            " ".join(claim.unlink),
            self._interval,
            self.site.index_size,
            json.dumps([len(file.uncovered), file.uncovered[:EXAMPLES]]) if file.uncovered else "",
        )

    def merge_turn(self, pause_ms: int) -> tuple[int, str | None]:
        """Now, and the sparsest section, if one is sparser than it may be and has waited for its time.

        Its next time comes in `pause_ms`, which is the longest that anybody lets it wait.
        """
        answer = self._run("merge_turn", self.site.shard_size, self.site.compact_below, pause_ms)
        return int(answer[0]), answer[1].decode() if len(answer) > 1 else None

    def claim_merge(self, shards: Sequence[int], worker: str) -> list[Mergee] | None:
        """Lease shards that are to become one; None, with none leased, when one of them is in use."""
        reply = self._run("merge_claim", worker, LEASE_MS, self.config, *shards)
        self.outdated = reply[0] == b"outdated"
        if reply[0] != b"work":
            return None
        each = zip(*(reply[2 + field :: 4] for field in range(4)), strict=True)
        return [
            Mergee(int(shard), int(version), lease.decode(), data) for shard, version, lease, data in each
        ]

    def commit_merge(
        self,
        shards: Sequence[Mergee],
        merged: Snapshot,
        *,
        moved: Iterable[str],
        size: int,
        etag: str,
        worker: str,
    ) -> bool:
        """Make leased shards one, and end the leases; `moved` are the locs that come to the last of them.

        `size` and `etag` are its file's. False, with nothing written, when a lease or a version was lost.
        """
        answer = self._run(
            "merge",
            worker,
            encode(merged),
            len(merged.entries),
            len(merged.tombstones),
            size,
            etag,
            _sources(merged),
            next_purge(merged) or 0,
            b"".join(map(digest, moved)),
            *(value for each in shards for value in (each.id, each.version, each.lease)),
        )
        return bool(answer == b"ok")

    def is_listed(self, shard: int) -> bool:
        """Whether a shard's file is at the output and named by an index file there."""
        return bool(self._run("is_listed", shard))

    def claim_index(self, number: int, worker: str) -> IndexClaim | None:
        """Lease an index file and read what it must list; None when there is nothing to do."""
        reply = self._run("index_claim", worker, LEASE_MS, number, self.config)
        self.outdated = reply[0] == b"outdated"
        if reply[0] != b"work":
            return None
        _, now, state_id, lease, generation, etag, flat = reply
        listing = dict(zip(flat[::2], flat[1::2], strict=True))
        return IndexClaim(
            number, now, state_id.decode(), lease.decode(), int(generation), etag.decode(), listing
        )

    def index_published(
        self, claim: IndexClaim, worker: str, etag: str, pause_ms: int, *, size: int = 0
    ) -> tuple[bool, Wake]:
        """Note that an index file is at the output; it is not rewritten for `pause_ms`.

        `size` is how many bytes were written. False where the lease had been lost.
        """
        status, *members = self._run(
            "index_published",
            worker,
            claim.lease,
            claim.number,
            claim.generation,
            self.config,
            etag,
            claim.now,
            pause_ms,
            size,
        )
        return status == b"ok", self._wake(members)

    def witness(self, number: int, lastmods: Mapping[str, int]) -> None:
        """Take what a published index file shows for what readers saw: shard id → lastmod (epoch ms).

        No lastmod goes back behind it, and shards of which the state knows an older one are wanted.
        """
        self._run("witness", number, *(part for pair in lastmods.items() for part in pair))

    def has_due(self) -> bool:
        """Whether a file waits to be published, now or later: `keep` costs several times as much."""
        with translated():
            return bool(self.client.exists(self.keys.due()))

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
        """The names of the workers that hold a lease."""
        with translated():
            leases: Any = self.client.hvals(self.keys.leases())
        return {text.decode().split(" ", 2)[2] for text in leases}

    def postpone(self, member: str, worker: str, lease: str, pause_ms: int, *, reason: str = "") -> bool:
        """Give a lease back to try again after `pause_ms`; whether the member was put aside instead.

        `reason` says why the member can't be rendered; after `FAILURES` of those in a row it is put aside.
        """
        answer = self._run("postpone", worker, lease, member, pause_ms, reason[:2000], FAILURES)
        return bool(answer == b"aside")

    def aside(self) -> dict[str, str]:
        """The members that are put aside, and why."""
        with translated():
            found: Any = self.client.hgetall(self.keys.aside())
        return {member.decode(): reason.decode() for member, reason in found.items()}

    def count_refused(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Count refusals: how many of which rule and source."""
        lines = [f"{n} {rule} {source[:64]}".replace("\n", " ") for (rule, source), n in counts.items()]
        self._run("refuse", "\n".join(lines))

    def want(self, members: Sequence[str], why: Literal["asked", "gone", "altered"] = "asked") -> None:
        """Have members rendered and compared with the output, though no event came; the keeper enqueues them.

        "gone": the file is not at the output, and an index file that lists it waits until it is back.
        "altered": the file's content is not what was published, so its lastmod in the index will move.
        """
        if members:
            self._run("want", " ".join(members), why, PATIENCE_MS)

    def want_all(self, present: Container[str] | None = None) -> int:
        """Have every shard and index file rendered and compared with the output; how many shards.

        `present` holds the names of the files that are at the output, where that is known: an index
        file that lists others waits until they are back.
        """
        total = 0
        for ids in self.shard_ids():
            total += len(ids)
            gone = set[str]()
            if present is not None:
                gone = {
                    each.member for each in self.members(ids) if each.present and each.file not in present
                }
                self.want(sorted(gone), "gone")
            self.want([shard for shard in ids if shard not in gone])
        self.want(self.index_members())
        return total

    def shard_ids(self, step: int = 500) -> Iterator[list[str]]:
        """The ids of the shards, `step` at a time."""
        last = "-inf"
        while True:
            with translated():
                found: Any = self.client.zrangebyscore(self.keys.shards(), last, "+inf", start=0, num=step)
            if not found:
                return
            ids = [shard.decode() for shard in found]
            last = f"({ids[-1]}"
            yield ids

    def count_shards(self) -> int:
        """How many shards there are."""
        with translated():
            found: Any = self.client.zcard(self.keys.shards())
        return int(found)

    def index_members(self) -> list[str]:
        """The members of the index files that have or had a shard."""
        with translated():
            found: Any = self.client.hkeys(self.keys.index_sizes())
        return [f"i{int(k)}" for k in found]

    def members(self, names: Sequence[str]) -> list[Member]:
        """What the state knows of members, in one view; those that are gone are left out."""
        if not names:
            return []
        fields = ("wanted", "published", "petag", "config", "file", "section", "number", "old")
        with translated(), self.client.pipeline(transaction=True) as pipe:
            for name in names:
                pipe.hmget(self.keys.member(name), fields)
            pipe.zmscore(self.keys.due(), list(names))
            pipe.hmget(self.keys.leases(), names)
            pipe.hmget(self.keys.aside(), names)
            *rows, due, leases, aside = pipe.execute()
        found = []
        for name, row, *scheduled in zip(names, rows, due, leases, aside, strict=True):
            if row[0] is None:
                continue
            wanted, published, etag, config, file, section, number, old = (
                value.decode() if value is not None else "" for value in row
            )
            if name.startswith("i"):
                file = index_file((int(name[1:]) - 1) * self.site.partitions + self.number + 1)
                present = etag != NOTHING
            else:
                present = bool(file)
                file = file or self.site.shard_file(section, int(number))
            found.append(
                Member(
                    name,
                    file,
                    present,
                    etag,
                    int(published or 0),
                    wanted == (published or "0"),
                    any(value is not None for value in scheduled),
                    int(config or 0),
                    tuple(old.split()),
                )
            )
        return found

    def sections(self) -> set[str]:
        """The sections that have or had a shard."""
        with translated():
            found: Any = self.client.smembers(self.keys.sections())
        return {name.decode() for name in found}

    def current_config(self) -> int:
        """The number of the settings that the site's files follow."""
        return int(self.remembered("config") or 0)

    def count_strange(self, files: int) -> None:
        """Count files in our names at the output which the state does not know."""
        with translated():
            self.client.hincrby(self.keys.stats(), "found_strange", files)

    def saw_marker(self, process: str, *, there: bool, within_ms: int) -> set[str]:
        """Note whether a process sees this state's marker in its output; the others that saw it lately."""
        key = self.keys.seen()
        with translated():
            seconds, _ = self.client.time()
            now = int(seconds) * 1000
            with self.client.pipeline(transaction=True) as pipe:
                if there:
                    pipe.zadd(key, {process: now})
                else:
                    pipe.zrem(key, process)
                pipe.zremrangebyscore(key, "-inf", now - within_ms)
                pipe.zrange(key, 0, -1)
                found = pipe.execute()[-1]
        return {name.decode() for name in found} - {process}

    def configure(self) -> bool:
        """Make this process' settings those that the files follow; whether they followed others so far."""
        number, changed = self._run("configure", self.site.looks, describe(self.site))
        self.config = int(number)
        return bool(changed)

    def drain(self, token: str) -> int:
        """Empty a state that never published, its unfolded events held back; -1 if it has an id.

        What is appended from now on is held back too, until the state gets its id (`adopt`). `token` tells
        this restore from another.
        """
        return int(self._run("drain", token))

    def restore(self, shard: Restored, token: str) -> bool:
        """Take a shard into this partition with its name, place and seats; one that is here is left alone.

        False when the state was not drained with this `token`, or another restore has begun since.
        """
        snapshot, log, locs = shard.snapshot, shard.log, shard.locs
        fields = {
            "rest": "0",
            **shard.fields,
            "urls": str(len(snapshot.entries)),
            "dead": str(len(snapshot.tombstones)),
            "sources": _sources(snapshot),
        }
        answer = self._run(
            "restore",
            token,
            shard.id,
            self.site.partitions,
            json.dumps([part for pair in fields.items() for part in pair]),
            encode(snapshot) if snapshot != EMPTY else "",
            next_purge(snapshot) or 0,
            count_events(log),
            b"".join(map(digest, locs)),
            *log,
        )
        return int(answer) >= 0

    def restored(self, known: Mapping[str, Mapping[Any, Any]], held: Sequence[bytes]) -> None:
        """Take what a backup knows beside the shards: fields by key, and log elements to append later."""
        with translated(), self.client.pipeline(transaction=True) as pipe:
            for name, fields in known.items():
                if fields:
                    pipe.hset(name, mapping=dict(fields))
            if held:
                pipe.rpush(self.keys.held(), *held)
            pipe.execute()

    def once(self, calls: Sequence[Sequence[Any]]) -> list[tuple[bytes, Any]]:
        """Take idempotency keys, or keep their answers (`sitemap_store.redis.once`)."""
        return self._run_each("once", calls)

    def state_id(self) -> str | None:
        """The random id that this state got when it was made; None when there is none yet."""
        return self.remembered("id")

    def remembered(self, field: str) -> str | None:
        """A field of the state: "id", "partitions" or "looks"; None when it has none."""
        with translated():
            value = self.client.hget(self.keys.state(), field)
        return value.decode() if isinstance(value, bytes) else None

    def adopt(self, state_id: str) -> None:
        """Give the state its id, if it has none, and note the partitions; a restore is then over."""
        with translated(), self.client.pipeline(transaction=True) as pipe:
            pipe.hsetnx(self.keys.state(), "id", state_id)
            pipe.hsetnx(self.keys.state(), "partitions", str(self.site.partitions))
            pipe.hdel(self.keys.state(), "restoring")
            pipe.execute()

    def _run(self, name: str, *args: Any) -> Any:
        with translated():
            return self._scripts.run(name, self.keys.prefix, self._clock(), *args)

    def _run_each(self, name: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """Run a script several times in one round trip; each call is atomic for itself."""
        if len(calls) == 1:
            return [self._run(name, *calls[0])]
        now = self._clock()
        pipe: Any
        with translated(), self.client.pipeline(transaction=False) as pipe:
            for args in calls:
                pipe.execute_command(*self._scripts.call(name, self.keys.prefix, now, *args))
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
    _, now, state_id, lease, generation, flat, snapshot, unlink, log = reply
    meta = _pairs(flat)
    return Claim(
        shard,
        now,
        state_id.decode(),
        lease.decode(),
        int(generation),
        meta["section"],
        int(meta["number"]),
        int(meta["v"]),
        meta.get("file", ""),
        tuple(unlink.decode().split()),
        bool(meta.get("file")) or ("old" in meta and not unlink),
        snapshot,
        log,
    )


def _sources(snapshot: Snapshot) -> str:
    return "\n".join(sorted({entry.source for entry in snapshot.entries.values()}))


def _pairs(flat: Sequence[bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)}

"""The keys of one partition in Redis: what each holds, who writes it, and what bounds it.

All of a partition's keys begin with `sm:{site.p}` (p is the partition's number), one cluster hash tag, so a
script touches one slot. A key has one name everywhere: the Lua scripts call `keys.log(shard)` as Python does,
and their functions are made from these. docs/redis-keys.md shows this table; a test compares both with a live
server.

A little longer than most modules: it is a table, with a method for each key.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

Id = int | str
"""A shard's id or an index file's number, as a number or as Redis writes it."""

_Method = TypeVar("_Method", bound=Callable[..., str])
_METHODS: Final[list[tuple[Callable[..., str], str, str, str]]] = []


def _key(kind: str, *, writer: str, bound: str) -> Callable[[_Method], _Method]:
    """Give a method of `Keys` its row in the table; its docstring says what the key holds."""

    def put(method: _Method) -> _Method:
        _METHODS.append((method, kind, writer, bound))
        return method

    return put


class Keys:
    """The names of a partition's keys."""

    def __init__(self, site: str, partition: int) -> None:
        self.prefix = f"sm:{{{site}.{partition}}}"

    def member(self, member: str) -> str:
        """The hash of what can be due: of a shard by its id, of index file k by `i<k>`."""
        return self.index(member[1:]) if member.startswith("i") else self.shard(member)

    @_key("hash", writer="every script", bound="13 fields")
    def state(self) -> str:
        """The partition as a whole: id, partitions, looks (digest of the settings that files depend on),
        config (their number), buckets, seats, next (last shard id), leases (last lease number), logged
        (unfolded events), index_hint, restoring, stamp (of the newest append, never less
        than before), site (what producers must know)."""
        return f"{self.prefix}:state"

    @_key("hash", writer="append, commit, restore", bound="24 fields on average, about 70 at most")
    def directory(self, bucket: int) -> str:
        """Directory: 10-byte digest of a URL → shard id."""
        return f"{self.prefix}:d:{bucket}"

    @_key("zset", writer="append, commit, restore", bound="one a shard")
    def shards(self) -> str:
        """The ids of the shards."""
        return f"{self.prefix}:shards"

    @_key("hash", writer="append, commit, published, postpone, want, merge", bound="23 fields")
    def shard(self, shard: Id) -> str:
        """A shard: wanted and published (generations), section, number, index, v (version of the snapshot),
        etag, petag (of what was published), config (number of the settings it was published with), urls,
        dead, bytes, seats, lm (lastmod, ms), rest (when its rewrites so far end, at one an interval, ms),
        file, old (names to unlink), sources, urgent, fails (times that it could not be rendered), after
        (the shard that has entries of this one's file, and its generation with them), listed (generation
        of the index that names it)."""
        return f"{self.prefix}:s:{shard}"

    @_key("string", writer="commit, restore", bound="one shard")
    def snapshot(self, shard: Id) -> str:
        """The shard's snapshot."""
        return f"{self.prefix}:snap:{shard}"

    @_key("list", writer="append, commit", bound="unfolded events")
    def log(self, shard: Id) -> str:
        """The shard's log: an element for each append, or each 256 KiB of one."""
        return f"{self.prefix}:log:{shard}"

    @_key("set", writer="append, restore", bound="one a section")
    def sections(self) -> str:
        """The sections that have shards."""
        return f"{self.prefix}:sections"

    @_key("hash", writer="append, commit, published, merge, merge_turn", bound="5 fields")
    def section(self, section: str) -> str:
        """A section: urls, shards, bytes, published (ms), merge (when the keeper may merge shards of it
        again, ms)."""
        return f"{self.prefix}:sec:{section}"

    @_key("hash", writer="append, commit, restore", bound="one a section")
    def open_shards(self) -> str:
        """Section → its open shard."""
        return f"{self.prefix}:open"

    @_key("hash", writer="append, commit, restore", bound="one a section")
    def numbers(self) -> str:
        """Section → how many shard numbers were given."""
        return f"{self.prefix}:numbers"

    @_key("zset", writer="append, published, keeper", bound="shards and index files")
    def due(self) -> str:
        """Member with wanted > published → not before (ms); a shard's id, or i<k> for index file k."""
        return f"{self.prefix}:due"

    @_key("zset", writer="append, published", bound="shards and index files")
    def pending(self) -> str:
        """Member → since when (ms) something waits to be published."""
        return f"{self.prefix}:pending"

    @_key("hash", writer="append, keeper, claim", bound="members with a job")
    def scheduled(self) -> str:
        """Member → when its job was enqueued (ms)."""
        return f"{self.prefix}:scheduled"

    @_key("hash", writer="claim, published, postpone, release", bound="shards of the jobs in hand")
    def leases(self) -> str:
        """Member → “deadline (ms) number worker”."""
        return f"{self.prefix}:leases"

    @_key("hash", writer="postpone, published", bound="shards and index files")
    def aside(self) -> str:
        """Member → why it can't be rendered; it is tried again with its next event or by rebuild."""
        return f"{self.prefix}:aside"

    @_key("hash", writer="published", bound="shards that have such URLs")
    def uncovered(self) -> str:
        """Shard id → JSON: how many of its URLs the site no longer covers, and up to five of them."""
        return f"{self.prefix}:uncovered"

    @_key("zset", writer="commit, merge, restore", bound="shards with tombstones or news")
    def purge(self) -> str:
        """Shard id → when the time of its next tombstone or article is over (ms)."""
        return f"{self.prefix}:purge"

    @_key("hash", writer="published, index_claim, index_published, want", bound="9 fields")
    def index(self, k: Id) -> str:
        """Index file k: wanted and published (generations), petag, config, rest (ms, as a shard's), next (ms,
        when it may be rewritten), since (the oldest event that came after its claim), hold (until when it
        waits for missing files, ms), fails."""
        return f"{self.prefix}:i:{k}"

    @_key("hash", writer="published, restore", bound="index_size fields")
    def listing(self, k: Id) -> str:
        """Shard id → “section number lastmod file” as index file k lists it."""
        return f"{self.prefix}:idx:{k}"

    @_key("hash", writer="append, commit, restore", bound="one an index file")
    def index_sizes(self) -> str:
        """K → how many shards have their place in index file k."""
        return f"{self.prefix}:index_sizes"

    @_key("zset", writer="published, index_published", bound="shards that were just emptied")
    def leaving(self, k: Id) -> str:
        """Shard id → generation of index file k that no longer names its old file."""
        return f"{self.prefix}:leaving:{k}"

    @_key("set", writer="want, published, index_claim", bound="index_size members")
    def missing(self, k: Id) -> str:
        """Shards that index file k lists and whose files were found missing; it waits for them."""
        return f"{self.prefix}:missing:{k}"

    @_key("zset", writer="saw_marker", bound="processes of the last 20 s")
    def seen(self) -> str:
        """Process → when it last saw this state's marker in its output (ms), in partition 0."""
        return f"{self.prefix}:seen"

    @_key("zset", writer="beat", bound="workers of the last minute")
    def workers(self) -> str:
        """Worker → when it was last seen alive (ms)."""
        return f"{self.prefix}:workers"

    @_key("list", writer="append, drain", bound="unfolded events")
    def held(self) -> str:
        """Log elements that wait for the end of a restore."""
        return f"{self.prefix}:held"

    @_key("string", writer="restore, a start", bound="one")
    def turn(self) -> str:
        """Who restores the site, or appends what is held; 30 s."""
        return f"{self.prefix}:turn"

    @_key(
        "hash",
        writer="append, published, index_published, refuse, release, claim, want, witness",
        bound="14 fields",
    )
    def stats(self) -> str:
        """Counts: add, update, delete, refused, rewrites, index_rewrites, bytes (written), published (ms),
        released and expired (leases taken back), found_gone, found_altered, found_strange and found_newer
        (what was not at the output as published)."""
        return f"{self.prefix}:stats"

    @_key("hash", writer="append, refuse", bound="about 1,000 fields")
    def events(self) -> str:
        """“op source” → accepted events, “refused source” → refused ones; “*” for the sources beyond."""
        return f"{self.prefix}:events"

    @_key("hash", writer="refuse", bound="one a rule")
    def refusals(self) -> str:
        """Rule → events that it refused."""
        return f"{self.prefix}:refusals"

    @_key("hash", writer="published, index_published", bound="50 fields")
    def lag(self) -> str:
        """“shard le” and “index le” → rewrites whose oldest event waited at most le ms and more than the
        bound before; “shard sum” and “index sum” (ms)."""
        return f"{self.prefix}:lag"

    @_key("hash", writer="append, published, refuse", bound="27 fields; expires after 65 minutes")
    def minute(self, minute: int) -> str:
        """Counts of one minute (since 1970): events, refused, rewrites, “lag le” as in lag's shard."""
        return f"{self.prefix}:min:{minute}"

    @_key("hash", writer="append, published, refuse", bound="27 fields; expires after 25 hours")
    def quarter(self, quarter: int) -> str:
        """The same counts of a quarter of an hour (since 1970)."""
        return f"{self.prefix}:quarter:{quarter}"

    @_key("hash", writer="append, published, refuse", bound="27 fields; expires after 32 days")
    def part(self, part: int) -> str:
        """The same counts of six hours, a quarter of a day (since 1970, UTC)."""
        return f"{self.prefix}:part:{part}"

    @_key("stream", writer="published", bound="about 200 entries")
    def feed(self) -> str:
        """The last published shards: file, section, urls, events, bytes, lag (ms), at (ms), gone."""
        return f"{self.prefix}:feed"

    @_key("hash", writer="note_producer", bound="sources of the last week")
    def producers(self) -> str:
        """Source → JSON: how its watcher or relay stands, and when it said so (ms)."""
        return f"{self.prefix}:producers"

    @_key("hash", writer="hold", bound="sources that something is held back of")
    def guard(self) -> str:
        """Source → JSON: what deletes of it the guard holds back (`sitemap_store.redis.held`), in partition
        0."""
        return f"{self.prefix}:guard"

    @_key("string", writer="hold", bound="10 bytes a URL that is held")
    def guarded(self, source: str) -> str:
        """The digests of the URLs that are held back, 10 bytes each, one behind the other."""
        return f"{self.prefix}:guard:{source}"

    @_key("hash", writer="accept", bound="sources that something is held back of")
    def guard_accepted(self) -> str:
        """Source → id of what an operator has accepted of that."""
        return f"{self.prefix}:guard_accepted"

    @_key("hash", writer="note_origin", bound="one a source")
    def guard_addresses(self) -> str:
        """Source → digests of the settings that made its URLs when all were last listed, and of its place."""
        return f"{self.prefix}:guard_addresses"

    @_key("stream", writer="reject", bound="about 1,000 entries")
    def rejected(self) -> str:
        """The last refusals: loc, rule, detail, source."""
        return f"{self.prefix}:rejected"

    @_key("hash", writer="KeyedUrls", bound="200,000 keys of up to 100 URLs, in partition 0")
    def webhook(self, webhook: str) -> str:
        """What a webhook's keys stand for: digest of a key → its URLs, digest of a URL → its key."""
        return f"{self.prefix}:hook:{webhook}"

    @_key("hash", writer="once", bound="idempotency_keys, idempotency_bytes; 24 hours; in partition 0")
    def once(self) -> str:
        """Idempotency key's digest → “p first until” (ms) while under way, then “d” and the answer."""
        return f"{self.prefix}:once"

    @_key("zset", writer="once", bound="as once")
    def once_age(self) -> str:
        """Idempotency key's digest → when it was first seen (ms)."""
        return f"{self.prefix}:once:age"

    @_key("string", writer="once", bound="one")
    def once_bytes(self) -> str:
        """How many bytes they take, roughly."""
        return f"{self.prefix}:once:bytes"


class Key(NamedTuple):
    """One kind of key; `name` follows the prefix and a colon, `<…>` stands for what varies."""

    name: str
    type: str
    meaning: str
    writer: str
    bound: str


def _table() -> dict[str, Key]:
    keys, table = Keys("", 0), {}
    for method, kind, writer, bound in _METHODS:
        varies = [f"<{name}>" for name in list(inspect.signature(method).parameters)[1:]]
        name = method(keys, *varies).removeprefix(f"{keys.prefix}:")
        table[method.__name__] = Key(name, kind, " ".join((method.__doc__ or "").split()), writer, bound)
    return table


KEYS: Final = _table()
"""Each kind of key by its method's name."""


def lua_functions(script: str) -> str:
    """Lua code that defines the table `keys` with those functions of `Keys` that a script calls.

    The code reads the prefix from KEYS[1]. Raises KeyError for a function that `Keys` has not.
    """
    lines = ["local keys = {}"]
    for method in sorted(set(re.findall(r"\bkeys\.(\w+)\(", script))):
        fixed, varies, _ = re.split(r"<(\w+)>|$", KEYS[method].name, maxsplit=1)
        parameter, more = (varies, f" .. {varies}") if varies else ("", "")
        lines.append(f"function keys.{method}({parameter}) return KEYS[1] .. ':{fixed}'{more} end")
    return "\n".join(lines) + "\n"

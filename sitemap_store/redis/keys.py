"""The keys of one partition in Redis: what each holds, who writes it, and what bounds it.

All of a partition's keys begin with `sm:{site.p}` (p is the partition's number), one cluster hash tag, so a
script touches one slot. docs/redis-keys.md shows this table; a test compares both with a live server.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Key(NamedTuple):
    """One kind of key; `name` follows the prefix and a colon, `<…>` stands for what varies."""

    name: str
    type: str
    meaning: str
    writer: str
    bound: str


KEYS: Final = (
    Key(
        "state",
        "hash",
        "id, partitions, looks (digest of the settings that files depend on), config (their number), "
        "buckets, seats, next (last shard id), leases (last lease number), logged (unfolded events), "
        "index_hint, restoring, site (what producers must know)",
        "every script",
        "12 fields",
    ),
    Key(
        "d:<bucket>",
        "hash",
        "directory: 10-byte digest of a URL → shard id",
        "append, commit, restore",
        "24 fields on average, about 70 at most",
    ),
    Key("shards", "zset", "the ids of the shards", "append, commit, restore", "one a shard"),
    Key(
        "s:<id>",
        "hash",
        "a shard: wanted and published (generations), section, number, index, v (version of the snapshot), "
        "etag, petag (of what was published), config (number of the settings it was published with), "
        "urls, dead, bytes, seats, lm (lastmod, ms), rest (when its rewrites so far end, at one an interval, "
        "ms), file, old (names to unlink), sources, urgent, fails (times that it could not be rendered), "
        "after (the shard that has entries of this one's file, and its generation with them), "
        "listed (generation of the index that names it)",
        "append, commit, published, postpone, want, merge",
        "23 fields",
    ),
    Key("snap:<id>", "string", "the shard's snapshot", "commit, restore", "one shard"),
    Key(
        "log:<id>",
        "list",
        "the shard's log: an element for each append, or each 256 KiB of one",
        "append, commit",
        "unfolded events",
    ),
    Key("sections", "set", "the sections that have shards", "append, restore", "one a section"),
    Key(
        "sec:<section>",
        "hash",
        "urls, shards, bytes, published (ms), merge (when the keeper may merge shards of it again, ms)",
        "append, commit, published, merge, merge_turn",
        "5 fields",
    ),
    Key("open", "hash", "section → its open shard", "append, commit, restore", "one a section"),
    Key(
        "numbers",
        "hash",
        "section → how many shard numbers were given",
        "append, commit, restore",
        "one a section",
    ),
    Key(
        "due",
        "zset",
        "member with wanted > published → not before (ms); a member is a shard id, or i<k> for index file k",
        "append, published, keeper",
        "shards and index files",
    ),
    Key(
        "pending",
        "zset",
        "member → since when (ms) something waits to be published",
        "append, published",
        "shards and index files",
    ),
    Key(
        "scheduled",
        "hash",
        "member → when its job was enqueued (ms)",
        "append, keeper, claim",
        "members with a job",
    ),
    Key(
        "leases",
        "hash",
        "member → “deadline (ms) number worker”",
        "claim, published, postpone, release",
        "shards of the jobs in hand",
    ),
    Key(
        "aside",
        "hash",
        "member → why it can't be rendered; it is tried again with its next event or by rebuild",
        "postpone, published",
        "shards and index files",
    ),
    Key(
        "purge",
        "zset",
        "shard id → when its next tombstone's time is over (ms)",
        "commit",
        "shards with tombstones",
    ),
    Key(
        "i:<k>",
        "hash",
        "index file k: wanted and published (generations), petag, config, rest (ms, as a shard's), next (ms, "
        "when it may be rewritten), since (the oldest event that came "
        "after its claim), hold (until when it waits for missing files, ms), fails",
        "published, index_claim, index_published, want",
        "9 fields",
    ),
    Key(
        "idx:<k>",
        "hash",
        "shard id → “section number lastmod file” as index file k lists it",
        "published, restore",
        "index_size fields",
    ),
    Key(
        "index_sizes",
        "hash",
        "k → how many shards have their place in index file k",
        "append, commit, restore",
        "one an index file",
    ),
    Key(
        "leaving:<k>",
        "zset",
        "shard id → generation of index file k that no longer names its old file",
        "published, index_published",
        "shards that were just emptied",
    ),
    Key(
        "missing:<k>",
        "set",
        "shards that index file k lists and whose files were found missing; it waits for them",
        "want, published, index_claim",
        "index_size members",
    ),
    Key(
        "seen",
        "zset",
        "process → when it last saw this state's marker in its output (ms), in partition 0",
        "saw_marker",
        "processes of the last 20 s",
    ),
    Key("workers", "zset", "worker → when it was last seen alive (ms)", "beat", "workers of the last minute"),
    Key(
        "held", "list", "log elements that wait for the end of a restore", "append, drain", "unfolded events"
    ),
    Key("turn", "string", "who restores the site, or appends what is held; 30 s", "restore, a start", "one"),
    Key(
        "stats",
        "hash",
        "add, update, delete, refused, rewrites, index_rewrites, bytes (written), published (ms), "
        "released and expired (leases taken back), found_gone, found_altered, found_strange and found_newer "
        "(what was not at the output as published)",
        "append, published, index_published, refuse, release, claim, want, witness",
        "14 fields",
    ),
    Key(
        "events",
        "hash",
        "“op source” → accepted events, “refused source” → refused ones; “*” for the sources beyond",
        "append, refuse",
        "about 1,000 fields",
    ),
    Key("refusals", "hash", "rule → events that it refused", "refuse", "one a rule"),
    Key(
        "lag",
        "hash",
        "“shard le” and “index le” → rewrites whose oldest event waited at most le ms and more than the "
        "bound before; “shard sum” and “index sum” (ms)",
        "published, index_published",
        "50 fields",
    ),
    Key(
        "min:<minute>",
        "hash",
        "of one minute (since 1970): events, refused, rewrites, “lag le” as in lag's shard",
        "append, published, refuse",
        "27 fields; expires after 65 minutes",
    ),
    Key(
        "feed",
        "stream",
        "the last published shards: file, section, urls, events, bytes, lag (ms), at (ms), gone",
        "published",
        "about 200 entries",
    ),
    Key(
        "producers",
        "hash",
        "source → JSON: how its watcher or relay stands, and when it said so (ms)",
        "note_producer",
        "sources of the last week",
    ),
    Key(
        "guard",
        "hash",
        "source → JSON: what deletes of it the guard holds back (`sitemap_store.redis.held`), in partition 0",
        "hold",
        "sources that something is held back of",
    ),
    Key(
        "guard:<source>",
        "string",
        "the digests of the URLs that are held back, 10 bytes each, one behind the other",
        "hold",
        "10 bytes a URL that is held",
    ),
    Key(
        "guard_accepted",
        "hash",
        "source → id of what an operator has accepted of that",
        "accept",
        "sources that something is held back of",
    ),
    Key(
        "guard_addresses",
        "hash",
        "source → digest of the settings that made its URLs when all of them were last listed",
        "note_addresses",
        "one a source",
    ),
    Key(
        "rejected", "stream", "the last refusals: loc, rule, detail, source", "reject", "about 1,000 entries"
    ),
    Key(
        "hook:<webhook>",
        "hash",
        "what a webhook's keys stand for: digest of a key → its URLs, digest of a URL → its key",
        "KeyedUrls",
        "200,000 keys of up to 100 URLs, in partition 0",
    ),
    Key(
        "once",
        "hash",
        "idempotency key's digest → “p first until” (ms) while under way, then “d” and the answer",
        "once",
        "idempotency_keys, idempotency_bytes; 24 hours; in partition 0",
    ),
    Key("once:age", "zset", "idempotency key's digest → when it was first seen (ms)", "once", "as once"),
    Key("once:bytes", "string", "how many bytes they take, roughly", "once", "one"),
)


def prefix(site: str, partition: int) -> str:
    """The prefix of a partition's keys, with their common hash tag."""
    return f"sm:{{{site}.{partition}}}"

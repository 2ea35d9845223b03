"""What happens at a site: the last rewrites, its producers, and the Redis that it is in.

All raise Unavailable when Redis is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import redis

from sitemap_store.errors import RedisRefuses
from sitemap_store.redis.connection import translated
from sitemap_store.redis.store import Store

FORGET_MS = 7 * 24 * 3600 * 1000
"""How long a producer that says nothing any more is remembered."""


class Published(NamedTuple):
    """One rewrite that changed a file."""

    cursor: str
    """Give it to `feed` to get what came after."""
    file: str
    section: str
    urls: int
    events: int
    bytes: int
    lag_ms: int
    at: int
    gone: bool
    """The shard has become empty, and its file goes."""


def feed(store: Store, *, after: str = "", limit: int = 20) -> list[Published]:
    """The last `limit` rewrites, oldest first; only those after a cursor when one is given."""
    places = dict(zip(store.partitions, after.split(","), strict=False)) if _is_cursor(after) else {}
    with translated(), store.client.pipeline(transaction=False) as pipe:
        for partition in store.partitions:
            low = places.get(partition)
            pipe.xrevrange(partition.keys.feed(), "+", f"({low}" if low else "-", count=limit)
        answers = pipe.execute()
    at = [places.get(partition, "0-0") for partition in store.partitions]
    found = sorted(
        (tuple(map(int, entry.decode().split("-"))), place, entry.decode(), fields)
        for place, rows in enumerate(answers)
        for entry, fields in rows
    )
    entries = []
    for _, place, entry, fields in found:
        at[place] = entry
        row = {name.decode(): value.decode() for name, value in fields.items()}
        entries.append(
            Published(
                ",".join(at),
                row["file"],
                row["section"],
                int(row["urls"]),
                int(row["events"]),
                int(row["bytes"]),
                int(row["lag"]),
                int(row["at"]),
                row["gone"] == "1",
            )
        )
    return entries[-limit:]


def note_producer(store: Store, source: str, how: Mapping[str, object]) -> None:
    """Note how a source's watcher or relay stands; those that have long said nothing are forgotten."""
    key, now = store.partitions[0].keys.producers(), store.now()
    with translated():
        store.client.hset(key, source, json.dumps({**how, "seen": now}, default=str))
    for name, known in producers(store).items():
        if known["seen"] < now - FORGET_MS:
            with translated():
                store.client.hdel(key, name)


def producers(store: Store) -> dict[str, dict[str, Any]]:
    """source → how its watcher or relay stood when it was last heard of (`seen`, epoch ms)."""
    with translated():
        rows: Any = store.client.hgetall(store.partitions[0].keys.producers())
    return {name.decode(): json.loads(value) for name, value in sorted(rows.items())}


class Server(NamedTuple):
    """The state's Redis."""

    version: str
    used_bytes: int
    max_bytes: int
    """0: no bound."""
    policy: str | None
    """maxmemory-policy; None where the server does not tell."""
    append_only: bool | None
    failed: tuple[str, ...]
    """A sentence on each write to its disk that failed when Redis last tried."""

    @property
    def safe(self) -> bool:
        """Whether it keeps what it is told, as far as it tells."""
        return self.policy in (None, "noeviction") and self.append_only is not False and not self.failed


def server(client: redis.Redis) -> Server:
    """How the state's Redis stands; little of it where its user may not run INFO."""
    info: dict[str, Any]
    try:
        with translated():
            info = client.info()
    except RedisRefuses as error:
        if not isinstance(error.__cause__, redis.exceptions.NoPermissionError):
            raise
        info = {}
    append_only = info.get("aof_enabled")
    policy = info.get("maxmemory_policy")
    return Server(
        str(info.get("valkey_version") or info.get("redis_version", "")),
        int(info.get("used_memory", 0)),
        int(info.get("maxmemory", 0)),
        str(policy) if policy is not None else None,
        bool(append_only) if append_only is not None else None,
        failed_writes(info),
    )


def failed_writes(info: Mapping[str, Any]) -> tuple[str, ...]:
    """A sentence on each write to the disk that failed when Redis last tried, by what INFO replies."""
    failed = []
    if info.get("aof_last_write_status", "ok") != "ok":
        failed.append(
            "Redis could not write its append-only file, so it takes no changes: free space on its disk, or "
            "see its log for the reason"
        )
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        failed.append(
            "Redis could not save its last snapshot, and may take no changes until it can: free space on its "
            "disk and memory for its fork, or see its log for the reason"
        )
    return tuple(failed)


def run_id(client: redis.Redis) -> str:
    """What names the running process of the state's Redis: a restart or a fail-over changes it."""
    with translated():
        return str(client.info("server").get("run_id", ""))


def _is_cursor(text: str) -> bool:
    return bool(text) and all(
        part.replace("-", "", 1).isascii() and part.replace("-", "", 1).isdigit() and len(part) < 40
        for part in text.split(",")
    )

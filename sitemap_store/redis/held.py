"""The deletes that a guard holds back, source by source, and which of them an operator has accepted.

The service that holds them writes them; `sitemapd accept-deletes` writes the id of what it accepts. So the
acceptance is of exactly the URLs that were held when it was given: it is void once others are held. All raise
Unavailable when Redis is away.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from sitemap_store.redis.connection import translated
from sitemap_store.redis.store import Store

Kind = Literal["watch", "relay", "list"]
"""What the source is: a watched folder, a relayed table, or lists that are sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What is held back of one source."""

    id: str
    """Names the set of URLs: another set has another id."""
    kind: Kind
    deletes: int
    """URLs that the source does not have any more."""
    moves: int
    """How many of them only change their address: the source's new addresses are held back with them."""
    listed: int
    """URLs of the source in the state."""
    examples: tuple[str, ...]
    """The first five of them in the alphabet."""
    since: int
    """Epoch milliseconds."""
    accepted: bool = False
    """An operator has accepted them, and the source has not been compared since."""


def held_deletes(store: Store) -> dict[str, Held]:
    """Source → what is held back of it, by the sources' names."""
    keys = store.partitions[0].keys
    with translated(), store.client.pipeline(transaction=True) as pipe:
        pipe.hgetall(keys.guard())
        pipe.hgetall(keys.guard_accepted())
        rows, accepted = pipe.execute()
    found = {}
    for name, text in sorted(rows.items()):
        row = json.loads(text)
        row["examples"] = tuple(row["examples"])
        found[name.decode()] = Held(**{**row, "accepted": accepted.get(name) == row["id"].encode()})
    return found


def hold(store: Store, source: str, held: Held, digests: bytes) -> None:
    """Note what is held back in place of what was, and forget what was accepted; `digests`: of the URLs."""
    keys = store.partitions[0].keys
    with translated(), store.client.pipeline(transaction=True) as pipe:
        pipe.hset(
            keys.guard(), source, json.dumps({k: v for k, v in asdict(held).items() if k != "accepted"})
        )
        pipe.set(keys.guarded(source), digests)
        pipe.hdel(keys.guard_accepted(), source)
        pipe.execute()


def release(store: Store, source: str) -> None:
    """Nothing is held back of a source any more."""
    keys = store.partitions[0].keys
    with translated(), store.client.pipeline(transaction=True) as pipe:
        pipe.hdel(keys.guard(), source)
        pipe.delete(keys.guarded(source))
        pipe.hdel(keys.guard_accepted(), source)
        pipe.execute()


def accept(store: Store, source: str, held: Held) -> None:
    """Let exactly what is held pass when the source is next compared."""
    with translated():
        store.client.hset(store.partitions[0].keys.guard_accepted(), source, held.id)


def accepted_digests(store: Store, source: str) -> bytes:
    """The digests of the URLs that an operator has accepted to be deleted, joined; empty for none."""
    held = held_deletes(store).get(source)
    if held is None or not held.accepted:
        return b""
    with translated():
        found: Any = store.client.get(store.partitions[0].keys.guarded(source))
    return bytes(found or b"")


class Origin(NamedTuple):
    """What made a source's URLs when all of them were listed; "" for what is not known."""

    addresses: str = ""
    """A digest of the settings that make addresses."""
    place: str = ""
    """A digest of where the source is."""


def origins(store: Store) -> dict[str, Origin]:
    """Source → its origin, of all sources that were listed as a whole."""
    with translated():
        found: Any = store.client.hgetall(store.partitions[0].keys.guard_addresses())
    return {name.decode(): Origin(*value.decode().split(" ")) for name, value in found.items()}


def note_origin(store: Store, source: str, origin: Origin, former: str) -> None:
    """Note a source's origin; forget that of the source whose name it had before ("" for none)."""
    key = store.partitions[0].keys.guard_addresses()
    with translated(), store.client.pipeline(transaction=True) as pipe:
        pipe.hset(key, source, " ".join(filter(None, origin)))
        if former:
            pipe.hdel(key, former)
        pipe.execute()

"""Idempotency keys: a request that is sent again is answered as the first time, for a day.

1. A key is taken before anything is appended and gets the answer when all of it is. The request that holds
   it renews the hold while it goes on, so what was cut off in between, by a crash or with Redis away, may
   be sent again with the same key soon after.
2. Then its events are appended once more. They count as having happened when the key was first seen, so
   they can't undo what others said of their URLs meanwhile.
3. A request has an id of its own. Redis may hang for longer than a command waits: then the key is taken twice
   for one request, or for one that was told 503 meanwhile, and only who has the id can give it back.
4. A site remembers so many keys, and so many bytes of them (`Bounds`). The oldest are forgotten first: a
   request that comes again after that is taken as a new one.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

from sitemap_store.redis.store import Store

HOLD_MS: Final = 10_000
"""How long a request that was cut off without a word keeps its key."""
RENEW_S: Final = 3.0
"""How often a request that goes on renews its hold."""
KEPT_MS: Final = 24 * 3600 * 1000


class Bounds(NamedTuple):
    """How much a site remembers of idempotency keys."""

    keys: int = 100_000
    bytes: int = 64 * 1024 * 1024


DEFAULT: Final = Bounds()


class KeyState(NamedTuple):
    """What Redis answers about a key."""

    state: Literal["new", "again", "busy", "done", "kept"]
    first: int = 0
    """When it was first seen, in epoch milliseconds ("new", "again")."""
    answer: bytes = b""
    """What `done` was given ("done")."""


class Ask(NamedTuple):
    """One question about a key, for `ask_each`."""

    digest: str
    bounds: Bounds
    action: Literal["take", "renew", "release", "done"]
    request: str
    """The id of the request that asks."""
    answer: bytes = b""

    def release(self) -> Ask:
        """Give the key back, if this request holds it: it may be sent again at once."""
        return self._replace(action="release", answer=b"")


class Once:
    """One request's idempotency key, and what there is to ask about it."""

    def __init__(self, *names: str, bounds: Bounds = DEFAULT) -> None:
        # Lengths, so that no two lists of names look alike.
        text = "".join(f"{len(name)} {name}" for name in names)
        digest = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        self._take = Ask(digest, bounds, "take", secrets.token_hex(4))

    def take(self) -> Ask:
        """Hold the key, unless another request has it or is done with it."""
        return self._take

    def renew(self) -> Ask:
        """Hold the key for longer; nothing once it has its answer."""
        return self._take._replace(action="renew")

    def done(self, answer: bytes) -> Ask:
        """Keep the answer for whoever sends the same again."""
        return self._take._replace(action="done", answer=answer)

    def release(self) -> Ask:
        """Give the key back: the request may be sent again at once."""
        return self._take.release()


def ask_each(store: Store, asks: Sequence[Ask]) -> list[KeyState]:
    """Ask about several keys in one round trip, each for itself. Raises Unavailable when Redis is."""
    # The script knows the stamp of its own partition.
    several = len(store.partitions) > 1 and any(ask.action == "take" for ask in asks)
    first = store.stamp() if several else 0
    calls = [
        (ask.digest, KEPT_MS, *ask.bounds, ask.action, ask.request, ask.answer, HOLD_MS, first)
        for ask in asks
    ]
    return [_state(*reply) for reply in store.partitions[0].once(calls)]


def _state(state: bytes, found: Any) -> KeyState:
    match state:
        case b"done":
            return KeyState("done", answer=found)
        case b"busy":
            return KeyState("busy")
        case b"kept":
            return KeyState("kept")
        case _:
            return KeyState("new" if state == b"new" else "again", first=int(found))

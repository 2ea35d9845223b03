"""Idempotency keys: a request that is sent again is answered as the first time, for a day.

1. A key is taken before anything is appended and gets the answer when all of it is. The request that holds
   it renews the hold while it goes on, so what was cut off in between, by a crash or with Redis away, may
   be sent again with the same key soon after.
2. Then its events are appended once more. They count as having happened when the key was first seen, so
   they can't undo what others said of their URLs meanwhile.
3. A site remembers so many keys, and so many bytes of them (`Bounds`). The oldest are forgotten first: a
   request that comes again after that is taken as a new one.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal, NamedTuple

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
    """What asking for a key came to."""

    state: Literal["new", "again", "busy", "done"]
    first: int = 0
    """When it was first seen, in epoch milliseconds ("new", "again")."""
    answer: bytes = b""
    """What `done` was given ("done")."""


class Once:
    """One request's idempotency key. Raises Unavailable when Redis is."""

    def __init__(self, store: Store, *names: str, bounds: Bounds = DEFAULT) -> None:
        self._bounds = bounds
        self._store = store
        self._partition = store.partitions[0]
        # Lengths, so that no two lists of names look alike.
        text = "".join(f"{len(name)} {name}" for name in names)
        self._digest = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    def take(self) -> KeyState:
        """Hold the key, unless another request has it or is done with it."""
        # The script knows the stamp of its own partition.
        first = self._store.stamp() if len(self._store.partitions) > 1 else 0
        state, found = self._partition.once(self._digest, KEPT_MS, *self._bounds, "", HOLD_MS, first)
        match state:
            case b"done":
                return KeyState("done", answer=found)
            case b"busy":
                return KeyState("busy")
            case _:
                return KeyState("new" if state == b"new" else "again", first=int(found))

    def renew(self, first: int) -> None:
        """Hold the key for longer; nothing once it has its answer."""
        self._partition.once(self._digest, KEPT_MS, *self._bounds, f"+{first}", HOLD_MS)

    def done(self, answer: bytes) -> None:
        """Keep the answer for whoever sends the same again."""
        self._set(b"d" + answer)

    def release(self, first: int) -> None:
        """Give the key back: the request may be sent again at once."""
        self._set(b"p %d 0" % first)

    def _set(self, value: bytes) -> None:
        self._partition.once(self._digest, KEPT_MS, *self._bounds, value)

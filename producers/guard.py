"""Holds back deletes that are rather a fault than meant: an unmounted disk, an empty table, a list cut off.

1. Up to `MANY` deletes pass, and so does a share of the source's URLs, unless nothing at all is left of it:
   a source that is empty and was not is held back however small it was. A share of 1 is no guard.
2. Where the settings that make a source's addresses changed since it was last compared, URLs that go and URLs
   that come are taken as pairs: the same pages under other addresses. They are held, or pass, as one thing.
3. A source that is new, at the place of one that is not configured any more, is that one under another name.
   What the state lists of the former name counts as listed of the source: URLs that stay change their owner,
   and those that go are judged like any.
4. What is held lies in the site's state (`sitemap_store.redis.held`), for `status`, `doctor` and the command
   `accept-deletes`. What that accepts passes with the next comparison, and nothing beside it.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from sitemap_store.model.entries import digest
from sitemap_store.redis.held import (
    Held,
    Kind,
    Origin,
    accepted_digests,
    held_deletes,
    hold,
    note_origin,
    origins,
    release,
)
from sitemap_store.redis.store import Store

if TYPE_CHECKING:
    from producers.difference import Difference

log = logging.getLogger(__name__)

MANY: Final = 100
"""Deletes up to which a comparison is believed whatever share of the URLs they are, if any URL is left."""
SHARE: Final = 0.2
"""The share of its URLs that a list may leave out."""
ASK_S: Final = 1.0
"""Seconds between two looks at whether what is held was accepted."""
EXAMPLES: Final = 5

_GONE: Final[dict[Kind, str]] = {
    "watch": "have no file any more",
    "relay": "have no row any more",
    "list": "are not in the list any more",
}


class Guard:
    """Judges the deletes of one source."""

    def __init__(
        self,
        store: Store,
        source: str,
        kind: Kind,
        *,
        share: float = SHARE,
        addresses: str = "",
        place: str = "",
        configured: Collection[str] | None = None,
        command: str = "sitemapd",
    ) -> None:
        """`share`, 0 to 1, may pass. `addresses` is a digest of the settings that make the URLs; "" for none.

        `place` is a digest of where the source is, and `configured` are all sources of the site: without
        them a renamed source is not recognised. `command` is the beginning of a command line about the site.
        """
        self._store = store
        self._source = source
        self._kind: Kind = kind
        self._share = share
        self._origin = Origin(addresses, place)
        self._configured = configured
        self._command = command
        self._asked = float("-inf")
        self._digests = b""
        self.held: Held | None = None
        """What the last comparison held back."""
        self.former = ""
        """The name that the source had before, as `find_former` found it; "" for none."""

    def find_former(self) -> str:
        """The name that the source had before, whose URLs are to be compared with its own; "" for none."""
        self.former, known = "", origins(self._store)
        if self._configured is not None and self._origin.place and self._source not in known:
            # Where several are gone, one with the same addresses comes before others.
            same = self._origin.addresses
            for name, origin in sorted(known.items(), key=lambda each: (each[1].addresses == same, each[0])):
                if origin.place == self._origin.place and name not in self._configured:
                    self.former = name
        return self.former

    def judge(self, difference: Difference, *, listed: int, wanted: int, accept: bool) -> Held | None:
        """What of a difference is to be held back; None lets it pass. `accept`: an operator has seen it.

        Deletes that were accepted by the command pass in any case, and are taken out of the question.
        """
        difference.accept(accepted_digests(self._store, self._source))
        if accept or not self.too_many(difference.gone(), listed, empty=not wanted):
            return None
        before = origins(self._store).get(self.former or self._source, Origin()).addresses
        moving = before not in ("", self._origin.addresses)
        if moving or self._kind == "list":
            difference.accept_none()  # all of it is held as one thing
        gone = difference.gone()
        digests, mixed, examples = bytearray(), 0, list[str]()
        for loc in difference.gone_locs():
            key = digest(loc)
            digests += key
            mixed ^= int.from_bytes(key, "big")
            if len(examples) < EXAMPLES:
                examples.append(loc)
        held = Held(
            id=f"{mixed:020x}",
            kind=self._kind,
            deletes=gone,
            moves=min(gone, difference.new()) if moving else 0,
            listed=listed,
            examples=tuple(examples),
            since=self._store.now(),
        )
        self._digests = bytes(digests)
        return held

    def settle(self, held: Held | None) -> None:
        """Note what a comparison held back, once all else of it was sent."""
        known = held_deletes(self._store).get(self._source)
        if held is None:
            self.passed()
            if known is not None:
                release(self._store, self._source)
                log.info(
                    "%s: no deletes are held back any more.",
                    self._source,
                    extra=self._extra("deletes_released"),
                )
        elif known is None or known.id != held.id or known.accepted or known.deletes != held.deletes:
            hold(self._store, self._source, held, self._digests)
            log.error(
                "%s If that is meant, run `%s accept-deletes %s`",
                sentence(self._source, held),
                self._command,
                self._source,
                extra=self._extra("deletes_held"),
            )
        self.held = held

    def passed(self) -> None:
        """Everything that the source has is listed: its addresses are those of its settings."""
        if not self._origin.addresses:
            return
        note_origin(self._store, self._source, self._origin, self.former)
        if self.former:
            release(self._store, self.former)
            log.info(
                "%s was %s before: its URLs belong to %s now.",
                self._source,
                self.former,
                self._source,
                extra=self._extra("source_renamed"),
            )
            self.former = ""

    def is_accepted(self) -> bool:
        """Whether an operator has accepted what is held; asks at most every `ASK_S` seconds."""
        if self.held is None or time.monotonic() - self._asked < ASK_S:
            return False
        self._asked = time.monotonic()
        return bool(accepted_digests(self._store, self._source))

    def too_many(self, gone: int, listed: int, *, empty: bool) -> bool:
        """Whether so many deletes are rather a fault of the source; `empty`: nothing is left of it."""
        if not gone or self._share >= 1:
            return False
        return empty or (gone > MANY and gone > self._share * listed)

    def _extra(self, action: str) -> dict[str, str]:
        return {"action": action, "site": self._store.site.name, "source": self._source}


def digest_of(*settings: object) -> str:
    """A digest of settings, for `addresses`."""
    return hashlib.blake2b(repr(settings).encode(), digest_size=8).hexdigest()


def sentence(source: str, held: Held) -> str:
    """What is held back, with examples."""
    others = held.deletes - held.moves
    parts = []
    if held.moves:
        parts.append(f"{held.moves:,} URLs of this source change their address: neither old nor new pass")
    if others:
        share = f"{others:,} of its {held.listed:,} URLs"
        parts.append(f"{share} {_GONE[held.kind]}: their deletes are held back, so they stay listed")
    return (
        f"{source}: {'; '.join(parts)} ({', '.join(held.examples)}"
        f"{', …' if held.deletes > len(held.examples) else ''})."
    )

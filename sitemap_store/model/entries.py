"""What a sitemap says of one URL, and what is left of it after a delete.

Both are tuples and not dataclasses: a fold builds one per URL of a shard, up to 50,000 at a time,
and tuples come out of the snapshot's columns at C speed.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class Entry(NamedTuple):
    """One URL as it stands in a shard. Every field is already checked and normalised."""

    loc: str
    lastmod: str = ""
    """W3C date or date-time as written in the file; empty when it is unknown."""
    changefreq: str = ""
    priority: str = ""
    at: int = 0
    """When the last applied event happened, in epoch milliseconds."""
    source: str = ""
    """The producer that vouches for the entry; empty for a person or an app that named none."""
    ext: str = ""
    """Extensions as one canonical JSON object, keyed by extension name; empty for none."""


class Tombstone(NamedTuple):
    """A deleted URL that keeps its seat, so that an older event that comes late can't revive it."""

    loc: str
    at: int
    """When the delete happened, in epoch milliseconds."""
    until: int
    """When the seat is given up, in epoch milliseconds."""
    source: str = ""
    """The source that the delete spoke for; empty when it spoke for all of them."""


DIGEST_BYTES = 10
"""80 bits: among a hundred million URLs the chance of any collision is below 1 in 10^8."""


def digest(loc: str) -> bytes:
    """The directory's key of a URL: 10 bytes of BLAKE2b over the normalised loc."""
    return hashlib.blake2b(loc.encode(), digest_size=DIGEST_BYTES).digest()

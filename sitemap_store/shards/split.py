"""Where a shard that outgrew a limit is cut in two.

The cut is local: the entries keep their order by loc, the first part stays in the shard and the rest
moves to a new one. The first part always fits; the rest may have to be cut again by its own rewrite.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from sitemap_store.model.protocol import Limits
from sitemap_store.shards.render import Sized


def outgrown(urls: int, size: int, limits: Limits) -> bool:
    """Whether a sitemap file of that many URLs and bytes (uncompressed) breaks a limit."""
    return urls > limits.urls_per_file or size > limits.bytes_per_file


def cut(pieces: Sequence[Sized], frame: int, limits: Limits) -> int:
    """How many of the entries (sorted by loc, two at the least) stay: about half, and what fits.

    `frame` is the bytes of a file around its url elements. At least one stays and one goes.
    """
    room = limits.bytes_per_file - frame
    total = sum(len(piece.xml) for piece in pieces)
    half = min(room, (total + 1) // 2)
    stay = 0
    for size in accumulate(len(piece.xml) for piece in pieces):
        if size > half:
            break
        stay += 1
    return max(1, min(stay, limits.urls_per_file, len(pieces) - 1))

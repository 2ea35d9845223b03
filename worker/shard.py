"""A folded shard → the bytes of its file, and what moves to another shard when a limit is outgrown. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from sitemap_store.model.site import Site
from sitemap_store.redis.claims import Claim, Moved, snapshot_of
from sitemap_store.shards.fold import fold_elements
from sitemap_store.shards.render import etag_of, sized, urlset
from sitemap_store.shards.snapshot import EMPTY, Snapshot
from sitemap_store.shards.split import cut, outgrown


class Rendered(NamedTuple):
    """What a rewrite makes of a shard."""

    body: bytes
    """The file before compression; empty for a shard without entries."""
    etag: str
    """Of `body`, 32 hexadecimal digits; empty with it."""
    moved: Moved | None
    """What goes into a new shard."""
    snapshot: Snapshot
    """What stays."""


def render_shard(site: Site, section: str, snapshot: Snapshot) -> Rendered:
    """The file of a section's shard. One that is over a limit of the protocol is cut in two."""
    entries, style = list(snapshot.entries.values()), site.style(section)
    body = urlset(entries, style)
    moved: Moved | None = None
    if len(entries) > 1 and outgrown(len(entries), len(body), site.limits):
        pieces = sized(entries, style)
        stay = cut(pieces, len(body) - sum(len(piece.xml) for piece in pieces), site.limits)
        # Tombstones stay with the first part: their URLs are in neither file.
        moved = Moved(Snapshot({entry.loc: entry for entry in entries[stay:]}, {}), None)
        entries = entries[:stay]
        snapshot = Snapshot({entry.loc: entry for entry in entries}, snapshot.tombstones)
        body = urlset(entries, style)
    etag = etag_of(body) if body else ""
    return Rendered(body, etag, moved, snapshot)


def blame(site: Site, claim: Claim) -> str:
    """Name the entry or the log's record by which a shard can't be rendered; "" where none is bad alone."""
    if _fails(lambda: snapshot_of(claim)):
        return "its snapshot, which can't be read"
    for loc, entry in snapshot_of(claim).entries.items():
        if _fails(partial(render_shard, site, claim.section, Snapshot({loc: entry}, {}))):
            return f"the entry of {loc}"

    def alone(stamp: bytes, record: bytes) -> None:
        folded = fold_elements(EMPTY, [stamp + b"\n" + record], claim.now)
        render_shard(site, claim.section, folded.snapshot)

    for element in claim.log:
        stamp, *records = element.split(b"\n")
        for record in records:
            if _fails(partial(alone, stamp, record)):
                return f"the record {record[:200]!r}"
    return ""


def _fails(step: Callable[[], object]) -> bool:
    try:
        step()
    except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
        return True
    return False

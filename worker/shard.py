"""A folded shard → the bytes of its file, and what moves to another shard when a limit is outgrown. Pure."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from sitemap_store.render import frame_bytes, sized, urlset
from sitemap_store.site import Site
from sitemap_store.snapshot import Snapshot
from sitemap_store.split import cut, outgrown
from sitemap_store.state import Moved


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
        stay = cut(sized(entries, style), frame_bytes(entries, style), site.limits)
        # Tombstones stay with the first part: their URLs are in neither file.
        moved = Moved(Snapshot({entry.loc: entry for entry in entries[stay:]}, {}), None)
        entries = entries[:stay]
        snapshot = Snapshot({entry.loc: entry for entry in entries}, snapshot.tombstones)
        body = urlset(entries, style)
    etag = hashlib.blake2b(body, digest_size=16).hexdigest() if body else ""
    return Rendered(body, etag, moved, snapshot)

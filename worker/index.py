"""The index files: which shards they list, and how one is rendered and put.

The element of a shard is made once: a rewrite changes one or a few of a thousand.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from sitemap_store.errors import Refused, SitemapdError, Unavailable
from sitemap_store.model.dates import format_instant, instant_ms
from sitemap_store.model.site import Site, index_file
from sitemap_store.output.folder import Put
from sitemap_store.reading.reader import Unreadable, read_index
from sitemap_store.redis.claims import IndexClaim, Wake, listed
from sitemap_store.redis.state import Partition
from sitemap_store.shards.render import etag_of, index, sitemap_xml
from worker.site import WorkerSite

log = logging.getLogger(__name__)

INDEX_SHARE = 4
"""An index file rests four times as long as its last rewrite took: at most a fifth of a worker."""
INDEX_PAUSE_MAX_MS = 1000
CLOCKS_APART_MS = 5 * 60_000
"""A published lastmod that lies further ahead of Redis' clock, and of what is listed, was never ours."""
KEPT: Final = 16
"""Index files whose elements are kept: about half a megabyte each."""


class Elements:
    """Remembers the elements of the last `KEPT` index files that were written."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._known: dict[tuple[int, int], dict[bytes, tuple[str, int, str]]] = {}

    def of(self, file: tuple[int, int], lines: Iterable[bytes]) -> list[str]:
        """The elements of an index file (its partition and number) in their order."""
        known = self._known.pop(file, {})
        found = {line: known.get(line) or self._made(line) for line in lines}
        self._known[file] = found
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return [xml for _section, _number, xml in sorted(found.values())]

    def _made(self, line: bytes) -> tuple[str, int, str]:
        section, number, lastmod, file = listed(line)
        when = format_instant(lastmod, always_milliseconds=True)
        return section, number, sitemap_xml(self._site.address(file), when)


class IndexPublisher:
    """Renders and publishes the index files of one site."""

    def __init__(self, at: WorkerSite) -> None:
        self._at = at
        self._elements = Elements(at.site)

    def publish(self, part: Partition, number: int) -> Wake | None:
        """Render and publish one index file.

        Returns what must be looked at next, or None when there was nothing to do for now.
        """
        at = self._at
        claim = part.claim_index(number, at.worker)
        at.check_config(part)
        if claim is None:
            return None
        started = time.monotonic()
        at.fault("index_claimed")
        name = index_file((number - 1) * at.site.partitions + part.number + 1)
        try:
            at.check_state(claim.state_id)
            if self._catch_up(part, claim, name):
                return None
            body = index(self._elements.of((part.number, number), claim.listing.values()))
            put = Put.SAME
            if body:
                put = at.output.put(name, body, at.worker)
                at.output.sync()
            else:
                at.output.remove(name)
        except SitemapdError as error:
            at.postpone(part, f"i{number}", claim.lease, f"Index file {name}", error)
            return None
        except Exception as error:
            log.exception("Index file %s can't be rendered", name, extra={"action": "render_failed"})
            at.fail(part, f"i{number}", claim.lease, f"Index file {name}", error, "")
            return None
        at.fault("index_renamed")
        took = (time.monotonic() - started) * 1000
        pause = min(INDEX_PAUSE_MAX_MS, round(INDEX_SHARE * took))
        size = 0 if put is Put.SAME else len(body)
        ok, wake = part.index_published(claim, at.worker, etag_of(body), pause, size=size)
        at.fault("index_published")
        log.info(
            "Published %s with %d shards in %.1f ms"
            if ok
            else "The worker lost the lease of %s while it wrote the file; it is rendered again",
            *((name, len(claim.listing), took) if ok else (name,)),
            extra={"action": "index_published", "site": at.site.name, "file": name},
        )
        return wake

    def _catch_up(self, part: Partition, claim: IndexClaim, name: str) -> bool:
        """Where the published index is not the one that the state remembers, learn from it first.

        Either somebody altered or wiped it, or Redis came back younger than the output (a restart or a
        fail-over that lost its last second). Lastmods that readers have seen are taken over, so that none
        goes back, and files that the new index would name in vain are put back before it. Whether there was
        something to learn: the lease is then given back.
        """
        at = self._at
        published = at.output.read(name)
        if published is not None and etag_of(published) == claim.published_etag:
            return False
        seen: dict[str, str] = {}
        with suppress(Unreadable):  # torn, or not ours at all
            seen = {item.loc.rpartition("/")[2]: item.lastmod for item in read_index(published or b"")}
        files = at.output.signatures()
        if files is None:  # nothing is known of the files then, and nothing is wanted because of it
            raise Unavailable(what=f"the output of site {at.site.name}", detail="the folder is missing")
        later: dict[str, int] = {}
        gone: list[str] = []
        rows = {shard: listed(line) for shard, line in claim.listing.items()}
        # What the state remembers counts beside the clock, which may have been set back.
        newest = max([claim.now, *(row.lastmod for row in rows.values())]) + CLOCKS_APART_MS
        for shard, row in rows.items():
            if row.file not in files:
                gone.append(shard.decode())
            with suppress(Refused):  # not listed there, or no date of ours
                lastmod = instant_ms(seen.get(row.file, ""))
                if row.lastmod < lastmod <= newest:
                    later[shard.decode()] = lastmod
        if not later and not gone:
            return False
        log.warning(
            "%s is not as Redis remembers it: %d shards are newer there and %d have no file. They are "
            "rendered again before the index, and no lastmod goes back",
            name,
            len(later),
            len(gone),
            extra={"action": "index_differs", "site": at.site.name, "file": name},
        )
        part.witness(claim.number, later)
        part.want(gone, "gone")
        part.postpone(f"i{claim.number}", at.worker, claim.lease, 0)
        return True

"""The use case: one shard from its log to the output, and the index file that lists it.

Order, so that a crash between any two steps loses nothing and a reader sees whole files only:

1. claim    lease the shard; read version, snapshot and log in one view
2. fold, render: pure
3. commit   the new snapshot, if lease and version still hold; the events are now in the snapshot
4. put      the file: whole or not at all, and only when its bytes differ; then the folder is synced
5. publish  the mark in Redis; the index's listing changes with it
6. index    claimed, rendered and put once for all the shards of a job
7. unlink   files that no index names any more, under the shard's lease again

A crash after 3 leaves the version ahead of the published one, and the shard due: it is rendered again
from the snapshot. One that loses its lease between 3 and 5 is told so at 5, and the shard is rendered
once more (`check`), so late bytes never stay.

A little longer than most modules: the steps stand or fall by their order, so they stand together.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from sitemap_store.compression import gzip_bytes
from sitemap_store.errors import SitemapdError
from sitemap_store.events import count_events
from sitemap_store.fold import fold_elements
from sitemap_store.render import index
from sitemap_store.site import Site, index_file
from sitemap_store.state import Commit, Partition, Published, Wake, snapshot_of
from worker.elements import Elements
from worker.shard import render_shard
from worker.work import Work, tell

log = logging.getLogger(__name__)

TOGETHER = 8000
"""URLs that are rewritten together: what a worker holds in memory, and how long the first shard waits."""
RETRY_MS = 3000
"""How long a shard waits after the output could not be written."""
INDEX_SHARE = 4
"""An index file rests four times as long as its last rewrite took: at most a fifth of a worker."""
INDEX_PAUSE_MAX_MS = 1000


class Output(Protocol):
    """Where files are published. Raises Unavailable when it can't be used now."""

    def put(self, name: str, data: bytes, worker: str) -> bool:
        """Publish a file whole or not at all; False when these bytes were there already."""

    def sync(self) -> None:
        """Have all that was put outlive a loss of power."""

    def remove(self, name: str) -> None:
        """Remove a published file."""

    def marker(self) -> str | None:
        """The id of the state that the published tree belongs to."""


class WrongState(SitemapdError):
    """The state in Redis is not the one that the published tree belongs to."""


def no_fault(point: str) -> None:
    """The fault-injection hook outside tests: does nothing."""


class SitePublisher:
    """Rewrites the shards and index files of one site, on behalf of one worker.

    `wake` enqueues jobs; `fault` is called by name between any two steps, for the tests that crash
    there.
    """

    def __init__(
        self,
        site: Site,
        partitions: Iterable[Partition],
        output: Output,
        worker: str,
        *,
        wake: Callable[[Wake], None],
        fault: Callable[[str], None] = no_fault,
    ) -> None:
        self.site = site
        self.partitions = tuple(partitions)
        self.output = output
        self.worker = worker
        self._wake = wake
        self._fault = fault
        self._marker: str | None = None
        self._elements = Elements(site)
        self._together = max(1, TOGETHER // site.shard_size)

    def rewrite_shards(self, partition: int, shards: Sequence[int]) -> None:
        """Rewrite shards, some of them together, then the index files that list them.

        The index is published here and not by a job of its own: that spares a single change the way
        through RQ, and many shards share one rewrite all the same.
        """
        woken: dict[str, None] = {}
        each = list(dict.fromkeys(shards))
        for start in range(0, len(each), self._together):
            for wake in self._rewrite(partition, each[start : start + self._together]):
                woken.update(dict.fromkeys(wake.members))
        later: list[str] = []
        for member in woken:
            if not member.startswith("i"):
                later.append(member)
            elif again := self.publish_index(partition, int(member[1:])):
                later.extend(again.members)
        if later:
            self._wake(Wake(partition, tuple(dict.fromkeys(later))))

    def rewrite_index(self, partition: int, number: int) -> None:
        """Rewrite one index file, and wake the shards whose files may be removed now."""
        wake = self.publish_index(partition, number)
        if wake and wake.members:
            self._wake(wake)

    def rewrite_shard(self, partition: int, shard: int) -> Wake | None:
        """Fold, render and publish one shard.

        Returns what must be looked at next, or None when there was nothing to do for now.
        """
        return next(iter(self._rewrite(partition, [shard])), None)

    def _rewrite(self, partition: int, shards: Sequence[int]) -> list[Wake]:
        """Take shards through the steps together: each asks Redis, or the disk, once for all of them."""
        part = self.partitions[partition]
        works: list[Work] = []
        for claim in part.claim_each(shards, self.worker):
            if claim is not None:
                self._fault("claimed")
                works.append(Work(claim))
        works = self._commit(part, self._each(part, works, self._fold))
        works = self._each(part, works, partial(self._put, part))
        if any(work.put for work in works):
            try:
                self.output.sync()
            except SitemapdError as error:
                for work in works:
                    self._put_off(part, work, error)
                return []
        return self._publish(part, works)

    def _each(self, part: Partition, works: Iterable[Work], step: Callable[[Work], None]) -> list[Work]:
        """Do a step of each; those that failed are put off, and the others go on."""
        passed = []
        for work in works:
            try:
                step(work)
            except SitemapdError as error:
                self._put_off(part, work, error)
            else:
                passed.append(work)
        return passed

    def _fold(self, work: Work) -> None:
        claim = work.claim
        self._check_state(claim.state_id)
        before = snapshot_of(claim)
        folded = fold_elements(before, claim.log, claim.now)
        rendered = render_shard(self.site, claim.section, folded.snapshot)
        work.events, work.rendered = count_events(claim.log), rendered
        unchanged = not work.events and folded.snapshot == before and rendered.moved is None
        work.commit = Commit(
            snapshot=None if unchanged else rendered.snapshot,
            size=len(rendered.body),
            etag=rendered.etag,
            freed=folded.freed,
            records=work.events,
            purge_at=folded.purge_at,
            moved=rendered.moved,
        )

    def _commit(self, part: Partition, works: Sequence[Work]) -> list[Work]:
        if not works:
            return []
        passed = []
        found = part.commit_each([(work.claim, work.commit) for work in works], self.worker)
        for work, committed in zip(works, found, strict=True):
            if committed is None:
                # Someone else has the shard, or our own commit was repeated after a time-out.
                part.postpone(str(work.claim.id), self.worker, 0)
                log.warning(
                    "Shard %d changed hands before it was committed; nothing was written",
                    work.claim.id,
                    extra={"action": "commit_lost", "site": self.site.name, "shard": work.claim.id},
                )
                continue
            work.version = work.claim.version if work.commit.snapshot is None else committed.version
            work.split = committed.split
            self._fault("committed")
            passed.append(work)
        return passed

    def _put(self, part: Partition, work: Work) -> None:
        """Put the file there, or see that there is none."""
        claim, rendered = work.claim, work.rendered
        if work.split is not None:
            self._put_split(part, work, work.split)
        file = self.site.shard_file(claim.section, claim.number) if rendered.body else ""
        for name in claim.unlink:
            if name != file:
                self.output.remove(name)
        size, wrote = 0, False
        if not file:
            if not claim.listed:
                # A worker that died or came late may have left it there, and nobody else knows of it.
                self.output.remove(self.site.shard_file(claim.section, claim.number))
        elif (
            rendered.etag != claim.published_etag
            or file != claim.file
            or claim.version != claim.published_version
            or claim.check
        ):
            data = gzip_bytes(rendered.body) if self.site.gzip else rendered.body
            work.put = True
            wrote = self.output.put(file, data, self.worker)
            size = len(data) if wrote else 0
        work.file = Published(work.version, file, rendered.etag, wrote, size, work.events)
        self._fault("renamed")

    def _put_split(self, part: Partition, work: Work, shard: int) -> None:
        # The new shard's file first: a URL may be listed twice for a moment, and never nowhere.
        log.info(
            "Shard %d outgrew a limit and split: part of it is shard %d now",
            work.claim.id,
            shard,
            extra={"action": "shard_split", "site": self.site.name, "shard": work.claim.id},
        )
        wake = self.rewrite_shard(part.number, shard)
        work.woken = wake.members if wake else ()
        for member in work.woken:
            if member.startswith("i"):
                self.publish_index(part.number, int(member[1:]))

    def _publish(self, part: Partition, works: Sequence[Work]) -> list[Wake]:
        if not works:
            return []
        wakes = []
        found = part.published_each([(work.claim, work.file) for work in works], self.worker)
        for work, (ok, wake) in zip(works, found, strict=True):
            self._fault("published")
            tell(work, self.site.name, ok=ok)
            wakes.append(Wake(part.number, (*work.woken, *wake.members)))
        return wakes

    def publish_index(self, partition: int, number: int) -> Wake | None:
        """Render and publish one index file; as `rewrite_shard`, for an index file."""
        part = self.partitions[partition]
        claim = part.claim_index(number, self.worker)
        if claim is None:
            return None
        started = time.monotonic()
        self._fault("index_claimed")
        name = index_file((number - 1) * self.site.partitions + partition + 1)
        body = index(self._elements.of((partition, number), claim.lines))
        wrote = False
        try:
            self._check_state(claim.state_id)
            if body:
                wrote = self.output.put(name, body, self.worker)
                self.output.sync()
            else:
                self.output.remove(name)
        except SitemapdError as error:
            self._postpone(part, f"i{number}", f"Index file {name}", error)
            return None
        self._fault("index_renamed")
        took = (time.monotonic() - started) * 1000
        etag = hashlib.blake2b(body, digest_size=16).hexdigest()
        pause = min(INDEX_PAUSE_MAX_MS, round(INDEX_SHARE * took))
        size = len(body) if wrote else 0
        ok, wake = part.index_published(claim, self.worker, etag, pause, size=size)
        self._fault("index_published")
        log.info(
            "Published %s with %d shards in %.1f ms" if ok else "%s is written once more",
            *((name, len(claim.lines), took) if ok else (name,)),
            extra={"action": "index_published", "site": self.site.name, "file": name},
        )
        return wake

    def _check_state(self, state_id: str) -> None:
        """Publish only over the tree that this state remembers (never from an emptied Redis)."""
        if not state_id or state_id != self._marker:
            self._marker = self.output.marker()
            if not state_id or state_id != self._marker:
                raise WrongState(
                    f"Redis does not remember the sitemaps that are published for site "
                    f"{self.site.name}: run `sitemapd restore` to take them back, or "
                    "`sitemapd restore --discard` when they may go"
                )

    def _put_off(self, part: Partition, work: Work, error: SitemapdError) -> None:
        self._postpone(part, str(work.claim.id), f"Shard {work.claim.id}", error)

    def _postpone(self, part: Partition, member: str, what: str, error: SitemapdError) -> None:
        part.postpone(member, self.worker, RETRY_MS)
        log.error(
            "%s is not published and waits for %d s: %s",
            what,
            RETRY_MS // 1000,
            error,
            extra={"action": "publish_postponed", "site": self.site.name, "member": member},
        )

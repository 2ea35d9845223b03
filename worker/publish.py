"""The use case: one shard from its log to the output, and the index file that lists it.

Order, so that a crash between any two steps loses nothing and a reader sees whole files only:

1. claim    lease the shard; read generation, snapshot and log in one view
2. fold, render: pure
3. commit   the new snapshot, if the lease still holds; the events are now in the snapshot
4. put      the file: whole or not at all, and only when its bytes differ; then the folder is synced
5. publish  note that this generation is published; the index's listing changes with it
6. index    claimed, rendered and put once for all the shards of a job
7. unlink   files that no index names any more, under the shard's lease again

A shard is due while its `wanted` is higher than its `published` (docs/adr/0012-one-generation-number.md). A
crash after 3 leaves it so, and the shard is rendered again from the snapshot. A worker that lost its lease
learns it at 5, which raises `wanted`: what it wrote late does not stay.

One shard that can't be rendered stops no other: it is tried three times, then put aside and named.

A little longer than most modules: the steps stand or fall by their order, so they stand together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from sitemap_store.errors import SitemapdError
from sitemap_store.model.events import count_events
from sitemap_store.model.scope import uncovered
from sitemap_store.model.site import Site
from sitemap_store.output.folder import Put
from sitemap_store.redis.claims import Commit, PublishedFile, Wake, snapshot_of
from sitemap_store.redis.state import Partition
from sitemap_store.shards.compression import gzip_bytes
from sitemap_store.shards.fold import fold_elements
from worker.index import IndexPublisher
from worker.merge import merge_sparse
from worker.shard import blame, render_shard
from worker.site import Output, WorkerSite, no_fault
from worker.work import Work, log_result

log = logging.getLogger(__name__)

TOGETHER = 8000
"""URLs that are rewritten together: what a worker holds in memory, and how long the first shard waits."""
NOT_LISTED_MS = 100
"""How long a split shard waits for the index to name its other part; the index rests a second at most."""


class NotListedYet(SitemapdError):
    """A split shard keeps its old file until an index names the file of the part that moved."""


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
        self._at = WorkerSite(site, output, worker, fault)
        self._indexes = IndexPublisher(self._at)
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

    def publish_index(self, partition: int, number: int) -> Wake | None:
        """Render and publish one index file; as `rewrite_shard`, for an index file."""
        return self._indexes.publish(self.partitions[partition], number)

    def rewrite_index(self, partition: int, number: int) -> None:
        """Rewrite one index file, and wake the shards whose files may be removed now."""
        wake = self.publish_index(partition, number)
        if wake and wake.members:
            self._wake(wake)

    def merge_sparse(self, partition: int, section: str, now: int) -> bool:
        """Merge two sparse shards of a section, if two go together (`worker.merge`)."""
        return merge_sparse(self._at, self.partitions[partition], section, now)

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
                self._at.fault("claimed")
                works.append(Work(claim))
        self._at.check_config(part)
        try:
            return self._steps(part, works)
        except SitemapdError:
            raise
        except Exception as error:
            names = ", ".join(str(work.claim.id) for work in works)
            log.exception("Shards %s can't be rewritten", names, extra={"action": "render_failed"})
            if len(works) == 1:
                self._fail(part, works[0], error)
                return []
            for work in works:
                part.postpone(str(work.claim.id), self.worker, work.claim.lease, 0)
        # One of them is at fault: each for itself, so that the others go on.
        return [wake for work in works for wake in self._rewrite(partition, [work.claim.id])]

    def _steps(self, part: Partition, works: Sequence[Work]) -> list[Wake]:
        works = self._commit(part, self._each(part, works, self._fold))
        works = self._each(part, works, partial(self._put, part))
        if any(work.put for work in works):
            try:
                self.output.sync()
            except SitemapdError as error:
                for work in works:
                    self._postpone(part, work, error)
                return []
        return self._publish(part, works)

    def _each(self, part: Partition, works: Iterable[Work], step: Callable[[Work], None]) -> list[Work]:
        """Do a step of each; those that failed are tried again later, and the others go on."""
        passed = []
        for work in works:
            try:
                step(work)
            except NotListedYet:
                part.postpone(str(work.claim.id), self.worker, work.claim.lease, NOT_LISTED_MS)
            except SitemapdError as error:
                self._postpone(part, work, error)
            except Exception as error:
                log.exception("Shard %d can't be rendered", work.claim.id, extra={"action": "render_failed"})
                self._fail(part, work, error)
            else:
                passed.append(work)
        return passed

    def _fold(self, work: Work) -> None:
        claim = work.claim
        self._at.check_state(claim.state_id)
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
                # Another worker has the shard, or our own commit was repeated after a time-out.
                part.postpone(str(work.claim.id), self.worker, work.claim.lease, 0)
                log.warning(
                    "The worker lost the lease of shard %d before it committed; nothing was written",
                    work.claim.id,
                    extra={"action": "commit_lost", "site": self.site.name, "shard": work.claim.id},
                )
                continue
            work.split = committed.split
            self._at.fault("committed")
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
        size, put = 0, Put.SAME
        if file:
            data = gzip_bytes(rendered.body) if self.site.gzip else rendered.body
            work.put = True
            put = self.output.put(file, data, self.worker)
            size = 0 if put is Put.SAME else len(data)
        elif not claim.listed:
            # A worker that died or came late may have left it there, and nobody else knows of it.
            self.output.remove(self.site.shard_file(claim.section, claim.number))
        left = uncovered(list(rendered.snapshot.entries), self.site.rules)
        work.file = PublishedFile(file, rendered.etag, put, size, work.events, left)
        self._at.fault("renamed")

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
        if not part.is_listed(shard):
            raise NotListedYet

    def _publish(self, part: Partition, works: Sequence[Work]) -> list[Wake]:
        if not works:
            return []
        wakes = []
        found = part.published_each([(work.claim, work.file) for work in works], self.worker)
        for work, (ok, wake) in zip(works, found, strict=True):
            self._at.fault("published")
            log_result(work, self.site.name, ok=ok)
            wakes.append(Wake(part.number, (*work.woken, *wake.members)))
        return wakes

    def _postpone(self, part: Partition, work: Work, error: SitemapdError) -> None:
        shard = work.claim.id
        self._at.postpone(part, str(shard), work.claim.lease, f"Shard {shard}", error)

    def _fail(self, part: Partition, work: Work, error: Exception) -> None:
        claim = work.claim
        record = blame(self.site, claim)
        self._at.fail(part, str(claim.id), claim.lease, f"Shard {claim.id}", error, record)

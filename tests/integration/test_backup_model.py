"""Random events, a backup at a random moment, an empty Redis, a restore: the same as a plain dict."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sitemap_store.model.events import Event
from sitemap_store.redis import dump
from sitemapd.backup import Backup, back_up
from sitemapd.recovery import restore_backup
from tests.examples import examples
from tests.integration.store_world import consistent, push, work
from tests.integration.test_model import Model
from tests.published import listed, published
from tests.redis_server import RedisServer
from tests.world import BASE, World, make_site

PATHS = [f"blog/{n}" for n in range(4)] + [f"p{n}" for n in range(6)]

events = st.lists(
    st.builds(
        lambda op, path, priority, late, source: (op, path, priority, late, source),
        st.sampled_from(["add", "add", "update", "delete"]),
        st.sampled_from(PATHS),
        st.sampled_from([None, "0.3", "0.8"]),
        st.sampled_from([None, None, 0, 700, 9000]),
        st.sampled_from([None, "cms", "files"]),
    ),
    max_size=12,
)
"""Some events: op, path, priority, how late they are, source."""
settles = st.booleans()


class _Case:
    def __init__(self, server: RedisServer, folder: Path, partitions: int) -> None:
        self.client = server.client()
        self.client.flushall()
        site = make_site(sections={"blog": "/blog/**"}, partitions=partitions, index_size=2)
        self.world = World(self.client, site, folder)
        self.model = Model()

    def push(self, rows: list[tuple[Any, ...]]) -> None:
        """Append each event, a moment apart, to the site and to the dict."""
        world = self.world
        for op, path, priority, late, source in rows:
            world.now += 300
            at = None if late is None else world.now - late
            event = Event(op, BASE + path, "", None, priority, at, source)
            if op == "delete":
                event = Event(op, BASE + path, at=at, source=source)
            elif op == "update":
                event = event._replace(lastmod=None)
            self.model.apply(event, world.now)
            push(world, event)

    def restore(self, data: bytes) -> None:
        """Redis comes up empty, and the backup is restored."""
        world = self.world
        self.client.flushall()
        world.jobs.clear()
        restore_backup(world.store, world.output, Backup(io.BytesIO(data), "it"), world.now)
        for partition in world.store.partitions:
            partition.want_all(set(world.output.published()))
        world.adopt("state-2")
        for wake in world.store.replay_held():
            world.enqueue(wake)

    def check(self) -> None:
        """URLs, fields and sources are the dict's, in the files and in the state."""
        self.world.settle()
        consistent(self.world)
        assert published(self.world.folder) == self.model.alive()
        rows = {loc: row.source for loc, row in self.model.rows.items() if row.alive}
        assert {entry.loc: entry.source for entry in self.world.store.listing()} == rows


def _run(server: RedisServer, partitions: int, test: Callable[[_Case], None]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="backup-"))
    try:
        case = _Case(server, folder, partitions)
        try:
            test(case)
        finally:
            case.client.close()
    finally:
        shutil.rmtree(folder)


_MANY = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))


def test_a_restored_backup_equals_the_dict(any_redis: RedisServer) -> None:
    """Folded or not at the backup; later events meet the tombstones, times and sources that were restored."""

    @_MANY
    @given(events, events, events, settles, st.sampled_from([1, 3]), st.booleans())
    def run(
        first: list[Any], waiting: list[Any], later: list[Any], settle: bool, partitions: int, tree: bool
    ) -> None:
        def test(case: _Case) -> None:
            case.push(first)
            if settle:
                case.world.settle()
            case.push(waiting)
            file = io.BytesIO()
            back_up(case.world.store, file, case.world.now)
            if not tree:
                for path in case.world.folder.iterdir():
                    path.unlink()
            before = listed(case.world.folder)
            case.restore(file.getvalue())
            case.check()
            after = listed(case.world.folder)
            assert all(after[name] >= before[name] for name in after.keys() & before.keys())
            case.push(later)
            case.check()

        _run(any_redis, partitions, test)

    run()


def test_a_backup_that_is_older_than_the_tree_agrees_with_it(any_redis: RedisServer) -> None:
    """Events and workers go on while it is made and after it: all that was published since is kept."""

    @_MANY
    @given(events, events, events, settles, st.integers(0, 6), st.sampled_from([1, 3]))
    def run(
        first: list[Any], during: list[Any], after: list[Any], settle: bool, moment: int, partitions: int
    ) -> None:
        def test(case: _Case) -> None:
            case.push(first)
            if settle:
                case.world.settle()
            copy, copies = dump._copy, 0

            def busy(*args: Any, **more: Any) -> dump.ShardCopy:
                nonlocal copies
                copies += 1
                if copies == moment:
                    case.push(during)
                    work(case.world)
                return copy(*args, **more)

            dump._copy = busy
            try:
                file = io.BytesIO()
                back_up(case.world.store, file, case.world.now)
            finally:
                dump._copy = copy
            case.world.settle()
            case.world.now += 1000
            case.push(after)
            # The tree is newer as a whole: each shard of each index file was published since.
            every = [("add", path, "0.5", None, "last") for path in (*PATHS, "z0", "z1")]
            case.push(every)
            case.world.settle()
            case.restore(file.getvalue())
            case.world.settle()
            consistent(case.world)
            assert published(case.world.folder) == case.model.alive()

        _run(any_redis, partitions, test)

    run()

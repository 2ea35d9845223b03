"""Random transactions beside a relay that is killed: in the end the sitemap is what SELECT says."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.integration.database_servers import Server
from tests.integration.database_world import World, until
from tests.published import published
from tests.redis_server import RedisServer
from tests.world import World as Publishing

ROOT: Final = Path(__file__).parents[3]
SLUGS: Final = ("tea", "cup", "pot", "kettle", "a/b", "x y")
LOCKED: Final = {
    "postgresql": "SET lock_timeout = '150ms'",
    "mysql": "SET innodb_lock_wait_timeout = 1, lock_wait_timeout = 1",
    "sqlite": "PRAGMA busy_timeout = 150",
}

ids = st.integers(1, 8)
slugs = st.sampled_from(SLUGS)
writers = st.integers(0, 1)
steps = st.one_of(
    st.tuples(st.just("insert"), writers, ids, slugs),
    st.tuples(st.just("upsert"), writers, ids, slugs),
    st.tuples(st.just("slug"), writers, ids, slugs),
    st.tuples(st.just("empty"), writers, ids, slugs),
    st.tuples(st.just("swap"), writers, ids, slugs),
    st.tuples(st.just("publish"), writers, ids, slugs),
    st.tuples(st.just("bulk"), writers, ids, slugs),
    st.tuples(st.just("delete"), writers, ids, slugs),
    st.tuples(st.just("replace"), writers, ids, slugs),
    st.tuples(st.sampled_from(["commit", "commit", "rollback"]), writers, ids, slugs),
    st.tuples(st.sampled_from(["truncate", "kill", "breathe", "breathe"]), writers, ids, slugs),
)


class Shop:
    """Two writers of one table, and a relay as a process."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.kind = world.kind
        self.unseen = False
        """Something happened that no trigger sees."""
        self.writers = [world.server.connect(world.database) for _ in range(2)]
        for writer in self.writers:
            writer.cursor().execute(LOCKED[self.kind])
            writer.commit()
        self.config = folder / "sitemapd.toml"
        redis_url = world.client.connection_pool.connection_kwargs["path"]
        self.config.write_text(
            f'redis_url = "unix://{redis_url}"\n'
            f'[sites.main]\nbase_url = "https://example.com/"\noutput = "public"\n'
            "[sites.main.database.catalogue]\n"
            f'dsn = "{world.server.dsn(world.database)}"\n'
            'table = "products"\nurl = "/p/{slug}"\nwhere = "published"\ntriggers = "auto"\n'
            "poll_interval = 0.02\n"
        )
        self.log = folder / "relay.log"
        self.relay: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the relay."""
        with self.log.open("ab") as log:
            self.relay = subprocess.Popen(self._command("relay"), stderr=log, env=_env())

    def kill(self) -> None:
        """Kill the relay without a warning."""
        if self.relay is not None:
            self.relay.kill()
            self.relay.wait(30)

    def compare(self) -> None:
        """Have the table compared; however much it deletes."""
        command = self._command("sync", "--source", "catalogue", "--accept-deletes")
        subprocess.run(command, check=True, capture_output=True, timeout=60, env=_env())

    def step(self, what: str, who: int, key: int, slug: str) -> None:
        """One step of a writer; one that has to wait for the other is rolled back."""
        writer = self.writers[who]
        if what == "kill":
            self.kill()
            self.start()
            return
        if what == "breathe":  # while the writers' transactions stay open, where there can be several
            if self.kind == "sqlite":
                writer.commit()
                self.writers[1 - who].rollback()
            until(self._caught_up, self.log.read_text)
            return
        try:
            if what == "commit":
                writer.commit()
            elif what == "rollback":
                writer.rollback()
            else:
                self._write(writer.cursor(), what, key, slug)
        except Exception:  # noqa: BLE001 - each driver has its own for locks, duplicates and deadlocks
            writer.rollback()

    def _write(self, cursor: Any, what: str, key: int, slug: str) -> None:
        if what == "insert":
            cursor.execute(f"INSERT INTO products (id, slug) VALUES ({key}, '{slug}')")
        elif what == "upsert":
            conflict = (
                "ON DUPLICATE KEY UPDATE slug = VALUES(slug), published = true"
                if self.kind == "mysql"
                else "ON CONFLICT (id) DO UPDATE SET slug = excluded.slug, published = true"
            )
            cursor.execute(f"INSERT INTO products (id, slug) VALUES ({key}, '{slug}') {conflict}")
        elif what == "slug":
            cursor.execute(f"UPDATE products SET slug = '{slug}' WHERE id = {key}")
        elif what == "empty":
            cursor.execute(f"UPDATE products SET slug = NULL WHERE id = {key}")
        elif what == "swap":
            cursor.execute(f"SELECT id, slug FROM products WHERE id IN ({key}, {key % 8 + 1})")
            rows = dict(cursor.fetchall())
            if len(rows) == 2 and None not in rows.values():
                (one, this), (two, that) = rows.items()
                cursor.execute(
                    f"UPDATE products SET slug = CASE id WHEN {one} THEN '{that}' ELSE '{this}' END "
                    f"WHERE id IN ({one}, {two})"
                )
        elif what == "publish":
            cursor.execute(f"UPDATE products SET published = NOT published WHERE id = {key}")
        elif what == "bulk":
            cursor.execute(f"UPDATE products SET slug = '{slug}', views = views + 1 WHERE id > {key}")
        elif what == "delete":
            cursor.execute(f"DELETE FROM products WHERE id = {key} OR slug = '{slug}'")
        elif what == "replace" and self.kind != "postgresql":
            cursor.execute(f"REPLACE INTO products (id, slug) VALUES ({key}, '{slug}')")
            self.unseen = self.unseen or self.kind == "sqlite"
        elif what == "truncate" and self.kind == "postgresql":
            cursor.execute("TRUNCATE products")
        elif what == "truncate" and self.kind == "mysql":
            cursor.execute("TRUNCATE products")
            self.unseen = True

    def settle(self) -> set[str]:
        """Let all writers commit and the relay catch up; what SELECT then says."""
        for writer in self.writers:
            with suppress(Exception):
                writer.commit()
            writer.close()
        until(self._caught_up, self.log.read_text)
        if self.unseen:
            self.compare()
        rows = self.world.select("SELECT slug FROM products WHERE published AND slug IS NOT NULL")
        quoted = {slug: f"p/{slug.replace('/', '%2F').replace(' ', '%20')}" for (slug,) in rows}
        return set(quoted.values())

    def _caught_up(self) -> bool:
        # The first comparison is over, and so is one that a drained record asked for.
        told = self.world.select("SELECT told FROM sitemapd_sources WHERE told IS NOT NULL")
        asked = any(word in text for (text,) in told for word in ('"wanted"', '"doing"'))
        return bool(told) and not asked and self.world.waiting() == 0

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "sitemapd", "--config", str(self.config), *arguments]


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@settings(
    max_examples=examples(2),
    suppress_health_check=list(HealthCheck),
    # Not shrunk: that would take hours, and every example is short enough to read.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(plan=st.lists(steps, min_size=15, max_size=50))
def test_the_published_urls_are_what_select_says(
    server: Server, any_redis: RedisServer, plan: list[tuple[str, int, int, str]]
) -> None:
    """Inserts, bulk updates, swaps, deletes, upserts, rollbacks, late commits, TRUNCATE, kill -9."""
    any_redis.flush()
    with tempfile.TemporaryDirectory() as folder:
        world = World(server, any_redis.url)
        shop = None
        try:
            world.make_products()
            publishing = Publishing(world.client, world.site, Path(folder) / "public")
            world.install(world.source())
            shop = Shop(world, Path(folder))
            shop.start()
            for step in plan:
                shop.step(*step)
            wanted = shop.settle()
            assert world.urls() == wanted, shop.log.read_text()
            publishing.now = world.store.now() + 2000
            publishing.settle()
            assert set(published(publishing.folder)) == {f"https://example.com/{path}" for path in wanted}
        finally:
            if shop is not None:
                shop.kill()
            world.close()

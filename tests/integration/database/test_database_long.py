"""Minutes of random statements on a large table of PostgreSQL: at the end the state says what a model says.

In the environment TABLE_ROWS (20,000) and TABLE_MINUTES (2) set size and length, TABLE_SEED what is done. The
whole is a million rows and ten minutes.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pytest

from tests.integration.database_servers import running
from tests.integration.database_world import World, until

ROWS: Final = int(os.environ.get("TABLE_ROWS", "20000"))
MINUTES: Final = float(os.environ.get("TABLE_MINUTES", "2"))
SEED: Final = int(os.environ.get("TABLE_SEED", time.time_ns() % 1_000_000))
RARELY_S: Final = 15.0
"""Seconds between two statements that concern the whole table."""
PATIENCE_S: Final = 300.0


class Shop:
    """An application, and what its table must hold: id → what the slug ends in, and whether it is published.

    A slug is the id and that ending, so that a statement on many rows is one line of SQL and one of Python.
    """

    def __init__(self, world: World, dice: random.Random) -> None:
        self.world, self.dice = world, dice
        self.model: dict[int, tuple[str | None, bool]] = {}
        self.next = 1
        self.stamp = 0
        self.swaps = 0
        self.often: list[Callable[[], None]] = [
            *[self.insert, self.update, self.update, self.publish, self.upsert, self.delete, self.views],
            *[self.bulk, self.empty, self.swap_slugs, self.roll_back, self.move_key, self.savepoints],
        ]
        self.rarely: list[Callable[[], None]] = [
            *[self.truncate, self.swap_tables, self.other_column, self.retype, self.rename, self.disable],
            *[self.drop_triggers, self.drop_outbox, self.analyse],
        ]

    def work(self, seconds: float) -> int:
        """Random statements for that long; returns how many there were."""
        done, end, rare = 0, time.monotonic() + seconds, time.monotonic() + RARELY_S
        while time.monotonic() < end:
            if time.monotonic() > rare:
                self.dice.choice(self.rarely)()
                rare = time.monotonic() + RARELY_S
            self.dice.choice(self.often)()
            done += 1
            time.sleep(self.dice.choice((0, 0, 0.002, 0.02)))
        return done

    def urls(self) -> set[str]:
        """The paths that must be listed."""
        return {f"p/{key}-{end}" for key, (end, live) in self.model.items() if end is not None and live}

    def fill(self, rows: int) -> str:
        """The statement that makes so many new rows."""
        first, self.next, end = self.next, self.next + rows, self._end()
        self.model.update((key, (end, True)) for key in range(first, self.next))
        return (
            "INSERT INTO products (id, slug) "
            f"SELECT n, n || '-{end}' FROM generate_series({first}, {self.next - 1}) n"
        )

    def _end(self) -> str:
        self.stamp += 1
        return f"t{self.stamp}"

    def _keys(self, count: int) -> list[int]:
        return [key for _ in range(count) if (key := self.dice.randrange(1, self.next + 1)) in self.model]

    def _one(self) -> Iterator[int]:
        yield from self._keys(1)

    def insert(self) -> None:
        """One to three rows."""
        self.world.run(self.fill(self.dice.randrange(1, 4)))

    def update(self) -> None:
        """Another slug for one row."""
        for key in self._one():
            end = self._end()
            self.model[key] = end, self.model[key][1]
            self.world.run(f"UPDATE products SET slug = '{key}-{end}' WHERE id = {key}")

    def publish(self) -> None:
        """Show or hide one row."""
        for key in self._one():
            end, live = self.model[key]
            self.model[key] = end, not live
            self.world.run(f"UPDATE products SET published = NOT published WHERE id = {key}")

    def upsert(self) -> None:
        """Of a row that may be there."""
        key, end = self.dice.randrange(1, self.next), self._end()
        self.model[key] = end, True
        self.world.run(
            f"INSERT INTO products (id, slug) VALUES ({key}, '{key}-{end}') "
            "ON CONFLICT (id) DO UPDATE SET slug = excluded.slug, published = true"
        )

    def delete(self) -> None:
        """One row."""
        for key in self._one():
            del self.model[key]
            self.world.run(f"DELETE FROM products WHERE id = {key}")

    def views(self) -> None:
        """A column that no setting names."""
        self.world.run(f"UPDATE products SET views = views + 1 WHERE id % 1000 = {self.dice.randrange(1000)}")

    def bulk(self) -> None:
        """A range of rows: renamed or deleted."""
        first = self.dice.randrange(1, self.next)
        last = first + self.dice.randrange(1, max(2, ROWS // 100))
        where = f"WHERE id BETWEEN {first} AND {last}"
        keys = [key for key in range(first, last + 1) if key in self.model]
        if self.dice.random() < 0.2:
            for key in keys:
                del self.model[key]
            self.world.run(f"DELETE FROM products {where}", self.fill(len(keys) + 1))
        else:
            end = self._end()
            self.model.update((key, (end, self.model[key][1])) for key in keys)
            self.world.run(f"UPDATE products SET slug = id || '-{end}' {where}")

    def empty(self) -> None:
        """A row without a slug."""
        for key in self._one():
            self.model[key] = None, self.model[key][1]
            self.world.run(f"UPDATE products SET slug = NULL WHERE id = {key}")

    def swap_slugs(self) -> None:
        """Two rows change endings in one statement."""
        keys = self._keys(2)
        if len(set(keys)) == 2:
            one, two = keys
            ends = {one: self.model[two][0], two: self.model[one][0]}
            self.model.update({key: (ends[key], self.model[key][1]) for key in keys})
            case = " ".join(f"WHEN {key} THEN {_slug(key, ends[key])}" for key in keys)
            self.world.run(f"UPDATE products SET slug = CASE id {case} END WHERE id IN ({one}, {two})")

    def roll_back(self) -> None:
        """What never happened."""
        cursor = self.world.application.cursor()
        cursor.execute(f"UPDATE products SET slug = 'ghost' || id WHERE id < {self.dice.randrange(1, 200)}")
        cursor.execute("DELETE FROM products WHERE id % 97 = 0")
        self.world.application.rollback()

    def move_key(self) -> None:
        """A row gets another key, and with it another slug."""
        for key in self._one():
            end, live = self.model.pop(key)
            new, self.next = self.next, self.next + 1
            self.model[new] = end, live
            self.world.run(f"UPDATE products SET id = {new}, slug = {_slug(new, end)} WHERE id = {key}")

    def savepoints(self) -> None:
        """Statements of one transaction, half of them rolled back."""
        statements = ["SELECT 1"]
        for key in dict.fromkeys(self._keys(6)):
            end = self._end()
            self.model[key] = end, self.model[key][1]
            update = "UPDATE products SET slug = '{}' WHERE id = {}"
            statements += ["SAVEPOINT a", update.format("ghost", key), "ROLLBACK TO a"]
            statements += ["SAVEPOINT b", update.format(f"{key}-{end}", key), "RELEASE b"]
        self.world.run(*statements)

    def truncate(self) -> None:
        """Everything goes, and as much comes, in one transaction."""
        self.model.clear()
        self.world.run("TRUNCATE products", self.fill(ROWS))

    def swap_tables(self) -> None:
        """A copy with some changes takes the table's name."""
        self.swaps += 1
        self.world.run(
            "DROP TABLE IF EXISTS stale",
            "CREATE TABLE fresh (LIKE products INCLUDING ALL)",
            "INSERT INTO fresh SELECT * FROM products WHERE id % 50 <> 0",
            "ALTER TABLE products RENAME TO stale",
            "ALTER TABLE fresh RENAME TO products",
        )
        self.model = {key: row for key, row in self.model.items() if key % 50}
        self.update()

    def other_column(self) -> None:
        """A column comes, or goes."""
        self.world.run("ALTER TABLE products ADD COLUMN IF NOT EXISTS colour text DEFAULT 'blue'")
        self.update()
        self.world.run("ALTER TABLE products DROP COLUMN colour")

    def retype(self) -> None:
        """The slug's type changes, which writes the table anew."""
        kind = self.dice.choice(("text", "varchar(300)", 'text COLLATE "C"'))
        self.world.run(f"ALTER TABLE products ALTER COLUMN slug TYPE {kind}")

    def rename(self) -> None:
        """For a moment the slug has another name: statements go on."""
        self.world.run("ALTER TABLE products RENAME COLUMN slug TO path")
        for key in self._one():
            end = self._end()
            self.model[key] = end, self.model[key][1]
            self.world.run(f"UPDATE products SET path = '{key}-{end}' WHERE id = {key}")
        self.world.run("ALTER TABLE products RENAME COLUMN path TO slug")

    def disable(self) -> None:
        """Triggers sleep during a change."""
        self.world.run("ALTER TABLE products DISABLE TRIGGER ALL")
        self.bulk()
        self.world.run("ALTER TABLE products ENABLE TRIGGER ALL")

    def drop_triggers(self) -> None:
        """A clean-up drops the function, with its triggers."""
        names = self.world.select("SELECT proname FROM pg_proc WHERE proname LIKE 'sitemapd\\_%'")
        self.world.run(*(f"DROP FUNCTION {name} CASCADE" for (name,) in names), "SELECT 1")
        self.bulk()

    def drop_outbox(self) -> None:
        """A clean-up drops the outbox, with what waits in it."""
        self.world.run("DROP TABLE IF EXISTS sitemapd_outbox")
        self.bulk()

    def analyse(self) -> None:
        """What autovacuum does."""
        self.world.application.autocommit = True
        self.world.application.execute("VACUUM ANALYZE products")
        self.world.application.autocommit = False


def _slug(key: int, end: str | None) -> str:
    return "NULL" if end is None else f"'{key}-{end}'"


@pytest.mark.long
def test_minutes_of_random_statements_end_in_the_truth(
    redis_url: str, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """Whatever came in between, the listed URLs are those of the model, and so is what SELECT says."""
    with running("postgresql") as server:
        world = World(server, redis_url)
        try:
            world.make_products()
            shop = Shop(world, random.Random(SEED))
            world.run(shop.fill(ROWS))
            relay = world.relay(triggers="auto", check_interval=0.5, max_delete=1.0, ready=False)
            record_testsuite_property("statements", shop.work(MINUTES * 60))
            wanted = shop.urls()
            rows = world.select("SELECT slug FROM products WHERE published AND slug IS NOT NULL")
            assert {f"p/{slug}" for (slug,) in rows} == wanted
            until(lambda: _is_quiet(world), relay.health, within=PATIENCE_S)
            until(
                lambda: _differences(wanted, world.urls()) == 0,
                lambda: (_example(wanted, world.urls()), relay.health(), f"TABLE_SEED={SEED}"),
                within=PATIENCE_S,
            )
        finally:
            world.close()


def _is_quiet(world: World) -> bool:
    there = world.select("SELECT to_regclass('sitemapd_outbox') IS NOT NULL")[0][0]
    return bool(there) and world.waiting() == 0


def _differences(wanted: set[str], found: set[str]) -> int:
    return len(wanted ^ found)


def _example(wanted: set[str], found: set[str]) -> str:
    def some(paths: Iterable[str]) -> list[str]:
        return sorted(paths)[:5]

    return f"missing {some(wanted - found)}, too many {some(found - wanted)}, in all {len(wanted ^ found)}"

"""What happens below a relay's feet: tables swapped, triggers dropped, files replaced, columns altered."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from producers.database import Relay
from producers.database.check import connect, shape_of
from producers.database.triggers import plan_of
from tests.integration.database_world import SERIAL, TEXT, World, until


def _auto(world: World, **options: Any) -> Relay:
    return world.relay(triggers="auto", check_interval=0.05, **options)


def _copy_of_products(world: World, name: str) -> str:
    """Another table like the products, with other rows."""
    if world.kind == "postgresql":
        return f"CREATE TABLE {name} (LIKE products INCLUDING ALL)"
    if world.kind == "mysql":
        return f"CREATE TABLE {name} LIKE products"
    return (
        f"CREATE TABLE {name} (id {SERIAL['sqlite']}, slug, category, published DEFAULT 1, updated_at, views)"
    )


def _follows(world: World, relay: Relay, *others: str) -> None:
    """A change shows after the ground has changed, by a trigger and not by a comparison."""
    until(lambda: relay.health()["state"] == "relaying", relay.health)
    world.insert("later")
    world.becomes("p/later", *others)
    world.run("DELETE FROM products WHERE slug = 'later'")
    world.becomes(*others)


def test_a_table_that_is_swapped_under_its_name(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The new table's rows are listed, the old ones go, and the new table has triggers."""
    world.insert("tea", "cup")
    relay = _auto(world)
    world.becomes("p/tea", "p/cup")
    world.run(_copy_of_products(world, "fresh"))
    world.run("INSERT INTO fresh (id, slug) VALUES (101, 'tea'), (102, 'pot')")
    with caplog.at_level(logging.WARNING):
        world.run("ALTER TABLE products RENAME TO stale", "ALTER TABLE fresh RENAME TO products")
        world.becomes("p/tea", "p/pot")
    assert any("not those that were there before" in record.getMessage() for record in caplog.records)
    _follows(world, relay, "p/tea", "p/pot")
    world.run("INSERT INTO stale (slug) VALUES ('ghost')")
    world.settled()
    world.becomes("p/tea", "p/pot")


def test_a_table_that_is_dropped_and_made_anew(world: World) -> None:
    """As a restore does it: the rows that are there afterwards are listed, and followed."""
    world.insert("tea", "cup")
    relay = _auto(world)
    world.becomes("p/tea", "p/cup")
    copy = _copy_of_products(world, "fresh")
    world.run(copy, "INSERT INTO fresh (id, slug) VALUES (7, 'pot')", "DROP TABLE products")
    world.run("ALTER TABLE fresh RENAME TO products")
    world.becomes("p/pot")
    _follows(world, relay, "p/pot")


def test_triggers_that_were_dropped_are_made_anew(world: World) -> None:
    """What changed without them is found, and they are there again."""
    world.insert("tea")
    relay = _auto(world)
    world.becomes("p/tea")
    dialect = connect(relay.source)
    plan = plan_of(dialect, shape_of(dialect, relay.source, world.site))
    dialect.close()
    world.run(*plan.drop, "INSERT INTO products (slug) VALUES ('cup')")
    world.becomes("p/tea", "p/cup")
    _follows(world, relay, "p/tea", "p/cup")


def test_triggers_that_were_put_to_sleep(world: World) -> None:
    """PostgreSQL can disable them; also when they are enabled again before anybody looks."""
    if world.kind != "postgresql":
        pytest.skip("only PostgreSQL disables triggers")
    world.insert("tea")
    relay = _auto(world)
    world.becomes("p/tea")
    world.run(
        "ALTER TABLE products DISABLE TRIGGER ALL",
        "INSERT INTO products (slug) VALUES ('cup')",
        "ALTER TABLE products ENABLE TRIGGER ALL",
    )
    world.becomes("p/tea", "p/cup")
    world.run("ALTER TABLE products DISABLE TRIGGER ALL", "INSERT INTO products (slug) VALUES ('pot')")
    world.becomes("p/tea", "p/cup", "p/pot")
    _follows(world, relay, "p/tea", "p/cup", "p/pot")


def test_an_outbox_that_a_clean_up_dropped_is_made_anew(world: World) -> None:
    """The application goes on meanwhile (but on SQLite); afterwards nothing is missing."""
    world.insert("tea")
    relay = _auto(world)
    world.becomes("p/tea")
    world.run("DROP TABLE sitemapd_outbox")
    if world.kind != "sqlite":
        world.insert("cup")
    else:
        until(lambda: world.select("SELECT 1 FROM sqlite_master WHERE name = 'sitemapd_outbox'"))
        world.insert("cup")
    until(lambda: world.urls() == {"p/tea", "p/cup"}, relay.health)
    world.run("DROP TABLE sitemapd_outbox", "DROP TABLE sitemapd_sources")
    until(lambda: _has_outbox(world), relay.health)
    _follows(world, relay, "p/tea", "p/cup")


@pytest.mark.parametrize("table", ["sitemapd_sources", "sitemapd_urls"])
def test_another_table_of_ours_that_a_clean_up_dropped_is_made_anew(world: World, table: str) -> None:
    """What is noted of a source, and what is remembered of a query's rows: the table is compared."""
    world.insert("tea")
    feeds = {"products": {"column": "id", "matches": "id", "watch": ["slug"]}}
    relay = _auto(world, query="SELECT id, slug FROM products", key="id", feeds=feeds)
    world.becomes("p/tea")
    world.run(f"DROP TABLE {table}")
    world.insert("cup")
    world.becomes("p/tea", "p/cup")
    world.run("UPDATE products SET slug = 'pot' WHERE slug = 'tea'")
    world.becomes("p/pot", "p/cup")
    assert relay.health()["problem"] is None


def _has_outbox(world: World) -> bool:
    table = "sqlite_master" if world.kind == "sqlite" else "information_schema.tables"
    name = "name" if world.kind == "sqlite" else "table_name"
    schema = f"AND table_schema = '{world.database}'" if world.kind == "mysql" else ""
    return len(world.select(f"SELECT 1 FROM {table} WHERE {name} LIKE 'sitemapd_outbox' {schema}")) == 1


def test_what_happened_while_no_relay_ran_is_found_too(world: World) -> None:
    """Triggers dropped and made anew between two relays: the second one compares."""
    world.insert("tea")
    relay = _auto(world)
    world.becomes("p/tea")
    assert relay.stop()
    dialect = connect(relay.source)
    plan = plan_of(dialect, shape_of(dialect, relay.source, world.site))
    dialect.close()
    world.run(*plan.drop, "INSERT INTO products (slug) VALUES ('cup')")
    _auto(world)
    world.becomes("p/tea", "p/cup")


def test_without_leave_to_install_the_loss_is_compared_and_said(world: World) -> None:
    """With `triggers = "manual"` the relay compares once, names the command, and goes on when it was run."""
    world.insert("tea")
    relay = world.relay(check_interval=0.05)
    world.becomes("p/tea")
    dialect = connect(relay.source)
    plan = plan_of(dialect, shape_of(dialect, relay.source, world.site))
    dialect.close()
    world.run(*plan.drop, "INSERT INTO products (slug) VALUES ('cup')")
    world.becomes("p/tea", "p/cup")
    until(lambda: "triggers install catalogue" in str(relay.health()["problem"]), relay.health)
    world.run("INSERT INTO products (slug) VALUES ('pot')")
    world.install(relay.source)
    world.becomes("p/tea", "p/cup", "p/pot")
    _follows(world, relay, "p/tea", "p/cup", "p/pot")


def test_a_sqlite_file_that_is_replaced(world: World) -> None:
    """Another file under the path: it is opened, and its rows are what counts; so also by a copy in place."""
    if world.kind != "sqlite":
        pytest.skip("a file")
    world.insert("tea", "cup")
    relay = _auto(world)
    world.becomes("p/tea", "p/cup")
    file = relay.source.file
    fresh = file.with_suffix(".fresh")
    _make(world, fresh, "tea", "pot")
    world.application.close()
    log = file.with_name(f"{file.name}-wal")
    # The relay alone has the file open now, and leaves nothing in its write-ahead log.
    until(lambda: not log.exists() or log.stat().st_size == 0, "the log is empty")
    os.replace(fresh, file)
    world.application = world.server.connect(world.database)
    until(lambda: world.urls() == {"p/tea", "p/pot"}, relay.health)
    _follows(world, relay, "p/tea", "p/pot")
    _make(world, fresh, "kettle")
    source, target = sqlite3.connect(fresh), sqlite3.connect(file)
    source.backup(target)
    source.close()
    target.close()
    until(lambda: world.urls() == {"p/kettle"}, relay.health)


def test_a_sqlite_file_that_is_gone_for_a_while_takes_no_page(world: World) -> None:
    """The path is empty: the relay waits and says so; nothing is deleted."""
    if world.kind != "sqlite":
        pytest.skip("a file")
    world.insert("tea")
    relay = _auto(world)
    world.becomes("p/tea")
    file = relay.source.file
    away = file.with_suffix(".away")
    shutil.move(file, away)
    until(lambda: "there is no file" in str(relay.health()["problem"]), relay.health)
    assert world.urls() == {"p/tea"}
    shutil.move(away, file)
    until(lambda: relay.health()["state"] == "relaying", relay.health)
    assert world.urls() == {"p/tea"}


def _make(world: World, file: Path, *slugs: str) -> None:
    connection = sqlite3.connect(file)
    statement = _copy_of_products(world, "products")
    connection.execute(statement)
    connection.executemany("INSERT INTO products (slug) VALUES (?)", [(slug,) for slug in slugs])
    connection.commit()
    connection.close()


def test_a_column_that_is_added_while_the_relay_runs(world: World) -> None:
    """The triggers stay what they are, and a relay that starts afterwards starts."""
    world.insert("tea")
    relay = world.relay(where="published AND id > 0")
    world.becomes("p/tea")
    world.run(f"ALTER TABLE products ADD COLUMN colour {TEXT[world.kind]}")
    world.insert("cup")
    world.becomes("p/tea", "p/cup")
    assert relay.stop()
    second = Relay(relay.source, world.sink)
    second.check()
    world.relays.append(second)
    second.start()
    world.insert("pot")
    world.becomes("p/tea", "p/cup", "p/pot")


@pytest.mark.parametrize("change", ["DROP COLUMN slug", "RENAME COLUMN slug TO name"])
def test_a_column_that_goes_never_fails_the_application(world: World, change: str) -> None:
    """Its statements go through; the relay says what is missing, and goes on when the column is back."""
    if world.kind == "sqlite":
        pytest.skip("SQLite refuses to drop a column that a trigger names, and renames it in the trigger")
    world.insert("tea")
    relay = world.relay(check_interval=0.05, max_delete=1.0)
    world.becomes("p/tea")
    if world.kind == "mysql":
        world.run("DROP INDEX by_slug ON products")
    world.run(f"ALTER TABLE products {change}")
    world.run("INSERT INTO products (category) VALUES ('x')")
    world.run("UPDATE products SET category = 'y', published = NOT published")
    world.run("DELETE FROM products WHERE category = 'nothing'", "DELETE FROM products WHERE id > 1")
    world.run("UPDATE products SET published = true")
    assert world.select("SELECT count(*) FROM products") == [(1,)]
    if change.startswith("DROP"):
        world.run(f"ALTER TABLE products ADD COLUMN slug {TEXT[world.kind]}")
    else:
        world.run("ALTER TABLE products RENAME COLUMN name TO slug")
    world.run("UPDATE products SET slug = 'pot'")
    until(lambda: world.urls() == {"p/pot"}, relay.health)


@pytest.mark.parametrize(
    "where",
    [
        "{fine} -- as the shop has it",
        "{fine} /* 100 % of them */ AND slug LIKE '%%%' -- it's \"so",
        "{fine} AND (slug <> '--' OR slug IS NULL)\n-- the end",
    ],
)
def test_a_condition_never_fails_the_application(world: World, where: str) -> None:
    """Comments, signs and a function that only some search path finds are the relay's to judge."""
    if world.kind == "postgresql":
        world.run(
            "CREATE SCHEMA shop",
            "CREATE FUNCTION shop.fine(boolean) RETURNS boolean LANGUAGE sql AS 'SELECT $1'",
            f"ALTER DATABASE {world.database} SET search_path = public, shop",
        )
    fine = "fine(published)" if world.kind == "postgresql" else "published"
    world.insert("tea")
    world.relay(where=where.replace("{fine}", fine))
    world.becomes("p/tea")
    world.insert("cup")
    world.run("UPDATE products SET published = false WHERE slug = 'tea'")
    world.becomes("p/cup")


def test_a_transaction_of_many_statements_leaves_no_subtransactions(world: World) -> None:
    """Each statement's own number would be one that all others have to look through."""
    if world.kind != "postgresql":
        pytest.skip("subtransactions are PostgreSQL's")
    world.insert("tea")
    world.install(world.source())
    cursor = world.application.cursor()
    for turn in range(100):
        cursor.execute(f"UPDATE products SET slug = 'tea{turn}'")
    cursor.execute("SELECT count(DISTINCT xmin::text) FROM sitemapd_outbox WHERE old IS NOT NULL")
    assert cursor.fetchone() == (1,)
    world.application.commit()


def test_a_change_that_can_no_longer_be_looked_up_spoils_only_itself(world: World) -> None:
    """A column of texts became one of numbers: the old values are put aside, the table is compared."""
    if world.kind != "postgresql":
        pytest.skip("elsewhere any text compares with any column")
    world.insert("1", "2")
    relay = world.relay()
    world.becomes("p/1", "p/2")
    assert relay.stop()
    world.run("UPDATE products SET slug = 'tea' WHERE slug = '1'", "UPDATE products SET slug = '3'")
    world.run("ALTER TABLE products ALTER COLUMN slug TYPE int USING slug::int")
    world.relay(triggers="auto")
    world.becomes("p/3")
    assert "database" in {row["rule"] for row in world.store.rejected()}


def test_a_transaction_that_stays_open_holds_nobody_up(world: World) -> None:
    """Rows that it wrote into the outbox are its own; those of others are taken and deleted beside them."""
    if world.kind == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    world.relay()
    late = world.server.connect(world.database)
    try:
        cursor = late.cursor()
        cursor.execute("INSERT INTO products (slug) VALUES " + ", ".join(f"('late{n}')" for n in range(50)))
        slugs = [f"p{n}" for n in range(300)]
        for start in range(0, 300, 50):
            world.insert(*slugs[start : start + 50])
        world.becomes(*(f"p/{slug}" for slug in slugs))
        late.commit()
        until(lambda: len(world.urls()) == 350)
    finally:
        late.close()


def test_triggers_wait_for_a_transaction_and_the_application_does_not(world: World) -> None:
    """While a transaction on the table stays open no trigger can be made: the relay asks for moments only."""
    if world.kind == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    world.insert("tea")
    late = world.server.connect(world.database)
    try:
        late.cursor().execute("INSERT INTO products (slug) VALUES ('late')")
        relay = world.relay(triggers="auto", ready=False)
        until(lambda: relay.health()["state"] == "waiting", relay.health)
        assert "timeout" in relay.health()["problem"].lower()
        world.insert("cup")
        late.commit()
    finally:
        late.close()
    world.becomes("p/tea", "p/cup", "p/late")

"""What a relay may do, what a trigger may not break, and what no message shows."""

from __future__ import annotations

import logging
from typing import Final

import pytest

from producers.database import DatabaseSource, Relay
from producers.database.check import connect, shape_of
from producers.database.dialect import Broken
from producers.database.install import script
from producers.database.outbox import read_definition
from producers.database.triggers import plan_of
from sitemap_store.errors import BadSetting, SitemapdError, Unavailable
from tests.integration.database_world import World, until

SECRET = "s3cr3t/p@ss"


def _grants(world: World, source: DatabaseSource) -> tuple[str, ...]:
    dialect = connect(source)
    try:
        return plan_of(dialect, shape_of(dialect, source, world.site)).grants
    finally:
        dialect.close()


def test_the_relay_works_with_exactly_the_printed_rights(world: World) -> None:
    """A role that has these rights and no other relays; without any one of them it can't."""
    if world.kind == "sqlite":
        assert _grants(world, world.source()) == ()
        return
    owner = world.source()
    world.install(owner)
    grants = _grants(world, owner)
    if world.kind == "mysql":
        world.run(f"CREATE USER 'sitemapd'@'%' IDENTIFIED BY '{SECRET}'")
    else:
        world.run(f"CREATE ROLE sitemapd LOGIN PASSWORD '{SECRET}'")
    dsn = world.server.dsn(world.database, user="sitemapd", password=SECRET)
    least = owner.replace(dsn=dsn)
    try:
        world.run(*grants)
        world.insert("tea")
        relay = Relay(least, world.sink)
        world.relays.append(relay)
        relay.start()
        world.becomes("p/tea")
        world.insert("cup")
        world.becomes("p/tea", "p/cup")
        assert relay.health()["problem"] is None
        assert relay.stop()
        table = "products" if world.kind == "mysql" else "public.products"
        world.run(
            f"REVOKE SELECT ON {table} FROM {'sitemapd' if world.kind == 'postgresql' else '`sitemapd`'}"
        )
        with pytest.raises(SitemapdError) as refused:
            Relay(least, world.sink).check()
        assert SECRET not in str(refused.value)
    finally:
        world.run("DROP OWNED BY sitemapd" if world.kind == "postgresql" else "SELECT 1")
        world.run("DROP ROLE sitemapd" if world.kind == "postgresql" else "DROP USER 'sitemapd'@'%'")


def test_the_application_goes_on_when_the_outbox_is_gone(world: World) -> None:
    """A trigger that can't write lets the statement through; SQLite looks its names up before it runs."""
    world.install(world.source())
    world.run("DROP TABLE sitemapd_outbox")
    if world.kind == "sqlite":
        there = "SELECT 1 FROM sqlite_master WHERE name = 'sitemapd_outbox'"
        with pytest.raises(Exception, match="sitemapd_outbox"):
            world.insert("tea")
        world.application.rollback()
        # So the relay makes it anew, also without leave to install triggers.
        relay = Relay(world.source(check_interval=0.05), world.sink)
        world.relays.append(relay)
        relay.start()
        # A connection that saw the outbox missing looks again when it reads something.
        until(lambda: world.select(there), relay.health)
        world.insert("cup")
        world.becomes("p/cup")
        world.run("DROP TABLE sitemapd_outbox")
        until(
            lambda: world.select("SELECT 1 FROM sqlite_master WHERE name = 'sitemapd_outbox'"), relay.health
        )
        world.insert("pot")
        world.becomes("p/cup", "p/pot")
        return
    world.insert("tea")
    world.run("UPDATE products SET slug = 'cup'", "DELETE FROM products")
    assert world.select("SELECT count(*) FROM products") == [(0,)]


def test_triggers_whose_definer_was_dropped_are_made_anew(world: World) -> None:
    """MariaDB refuses the application's statements then, until the relay has seen it."""
    if world.kind != "mysql":
        pytest.skip("a DEFINER is MariaDB's")
    relay = world.relay(triggers="auto", check_interval=0.05)
    world.run(
        "CREATE USER passing@localhost",
        "GRANT ALL ON *.* TO passing@localhost",
    )
    for statement in _as_user(world, relay.source, "passing"):
        world.run(statement)
    world.run("DROP USER passing@localhost")

    def goes_through() -> bool:
        try:
            world.insert("tea")
        except Exception as error:  # noqa: BLE001 - the driver's own
            assert "definer" in str(error)
            world.application.rollback()
            return False
        return True

    until(goes_through, relay.health)
    world.becomes("p/tea")
    assert relay.stop()
    manual = Relay(world.source(), world.sink)
    for statement in _as_user(world, manual.source, "nobody"):
        world.run(statement)
    with pytest.raises(
        BadSetting, match=r"with whose rights they run was dropped.*triggers install catalogue"
    ):
        manual.check()


def _as_user(world: World, source: DatabaseSource, user: str) -> list[str]:
    """What makes the triggers anew, as if that user did it."""
    dialect = connect(source)
    try:
        plan = plan_of(dialect, shape_of(dialect, source, world.site))
    finally:
        dialect.close()
    made = f"CREATE DEFINER = `{user}`@localhost TRIGGER"
    return [statement.replace("CREATE TRIGGER", made) for statement in plan.create]


FAILS: Final = {
    "postgresql": "published AND 1 / views >= 0",
    # Division by zero and casts only warn there.
    "mysql": "published AND CASE views WHEN 0 THEN 9223372036854775807 + 1 ELSE 1 END > 0",
    "sqlite": "published AND abs(CASE views WHEN 0 THEN -9223372036854775807 - 1 ELSE 1 END) > 0",
}
"""Conditions that no database can evaluate where `views` is 0."""


def test_a_row_for_which_the_condition_fails_spoils_only_itself(world: World) -> None:
    """It is refused and named, by the first comparison and by changes; others come, also of the same URL."""
    slugs = ", ".join(f"('p{n}', 1)" for n in range(1200))
    world.run(f"INSERT INTO products (slug, views) VALUES {slugs}")
    world.run("INSERT INTO products (slug, views) VALUES ('bad', 0), ('p7', 0)")
    relay = world.relay(where=FAILS[world.kind])
    listed = {f"p/p{n}" for n in range(1200)}
    until(lambda: world.urls() == listed, relay.health)
    until(lambda: {row["rule"] for row in world.store.rejected()} == {"database"})
    refused = {row["loc"] for row in world.store.rejected()}
    assert refused == {"id = 1201", "id = 1202"}
    assert relay.health()["problem"] is None
    world.run("INSERT INTO products (slug, views) VALUES ('cup', 0), ('pot', 1), ('p8', 0)")
    until(lambda: world.urls() == {*listed, "p/pot"} and not world.waiting(), relay.health)
    until(lambda: {"id = 1203", "id = 1205"} <= {row["loc"] for row in world.store.rejected()})
    world.run("UPDATE products SET views = 1 WHERE id > 1200")
    until(lambda: world.urls() == {*listed, "p/pot", "p/cup", "p/bad"} and not world.waiting(), relay.health)
    world.run("UPDATE products SET views = 0 WHERE slug = 'pot'")
    until(lambda: world.urls() == {*listed, "p/cup", "p/bad"} and not world.waiting(), relay.health)


def test_what_the_application_reads_of_its_own_statement_stays(world: World) -> None:
    """Row counts and the last inserted id are the application's, not the outbox's."""
    world.install(world.source())
    cursor = world.application.cursor()
    for slug in ("a", "b", "c"):
        cursor.execute(f"INSERT INTO products (slug) VALUES ('{slug}')")
    if world.kind == "postgresql":
        cursor.execute("SELECT lastval()")
        assert cursor.fetchone()[0] == 3
    else:
        assert cursor.lastrowid == 3
    cursor.execute("UPDATE products SET slug = 'x'")
    assert cursor.rowcount == 3
    world.application.commit()


@pytest.mark.parametrize(
    ("options", "setting", "said"),
    [
        ({"table": "product"}, "table", "products"),
        ({"url": "/p/{slugg}"}, "url", "Did you mean slug?"),
        ({"lastmod": "updated"}, "lastmod", "Did you mean updated_at?"),
        ({"where": "publishd"}, "where", "publishd"),
        ({"key": "uid"}, "key", "uid"),
    ],
)
def test_what_is_missing_is_named_with_its_nearest_match(
    world: World, options: dict[str, str], setting: str, said: str
) -> None:
    """Table, columns and condition are checked against the live schema."""
    if world.kind == "sqlite" and setting == "where":
        pytest.skip("covered by the others")
    with pytest.raises(BadSetting) as error:
        Relay(world.source(**options), world.sink).check()
    assert error.value.setting == f"database.catalogue.{setting}"
    assert said in str(error.value)


def test_a_column_without_a_zone_needs_one(world: World) -> None:
    """The setting `timezone` is asked for at the start."""
    kind = {"postgresql": "timestamp", "mysql": "datetime", "sqlite": "TEXT"}[world.kind]
    world.run(f"ALTER TABLE products ADD changed {kind}")
    world.run("INSERT INTO products (slug, changed) VALUES ('tea', '2026-07-01 12:00:00')")
    with pytest.raises(BadSetting, match="timezone"):
        Relay(world.source(lastmod="changed"), world.sink).check()
    world.relay(lastmod="changed", timezone="Europe/Berlin")
    world.becomes("p/tea")
    assert world.entries()["p/tea"].lastmod == "2026-07-01T12:00:00+02:00"


def test_dates_that_are_none_are_left_out_with_one_warning(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """NULL, zero dates and infinity give no lastmod; the epoch is a date."""
    odd = {"postgresql": "infinity", "mysql": "0000-00-00 00:00:00", "sqlite": "0000-00-00 00:00:00"}[
        world.kind
    ]
    if world.kind == "mysql":
        world.run("SET SESSION sql_mode = '', time_zone = '+00:00'")
    epoch = {"postgresql": "1970-01-01 00:00:00+00", "mysql": "1970-01-01 00:00:01", "sqlite": "1970-01-01"}
    world.run(
        "INSERT INTO products (slug, updated_at) "
        f"VALUES ('a', NULL), ('b', '{odd}'), ('c', '{epoch[world.kind]}')"
    )
    with caplog.at_level(logging.WARNING):
        world.relay(lastmod="updated_at", timezone="UTC")
        world.becomes("p/a", "p/b", "p/c")
        world.run("UPDATE products SET slug = 'd' WHERE slug = 'b'")
        world.becomes("p/a", "p/d", "p/c")
    found = {path: entry.lastmod for path, entry in world.entries().items()}
    assert (found["p/a"], found["p/d"]) == ("", "")
    assert found["p/c"].startswith("1970-01-01")
    assert sum("without lastmod" in record.getMessage() for record in caplog.records) == 1


def test_no_message_shows_the_password(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Wrong logins, unreadable addresses and reprs keep it to themselves."""
    dsn = world.server.dsn(world.database, user="nobody-here", password=SECRET)
    source = world.source(dsn=dsn)
    assert SECRET not in repr(source)
    if world.kind == "sqlite":
        return
    with caplog.at_level(logging.DEBUG):
        with pytest.raises((Unavailable, Broken, BadSetting)) as error:
            Relay(source, world.sink).check()
        relay = Relay(source, world.sink)
        relay.start()
        until(lambda: relay.health()["state"] == "waiting", relay.health)
        assert relay.stop()
    told = str(error.value) + str(relay.health()) + caplog.text
    assert SECRET not in told
    assert "s3cr3t" not in told


def test_the_printed_sql_installs_what_install_does(world: World) -> None:
    """Run by the database's own client, or here statement by statement, it makes the same triggers."""
    source = world.source()
    dialect = connect(source)
    try:
        shape = shape_of(dialect, source, world.site)
        text = script(dialect, shape)
        assert "sitemapd_outbox" in text
        if world.kind == "mysql":
            statements = [each.strip() for each in text.partition("DELIMITER //\n")[2].split(" //\n")]
            world.run(*(each for each in statements if each and not each.startswith("DELIMITER")))
        elif world.kind == "sqlite":
            world.application.executescript(text)
        else:
            world.application.autocommit = True
            world.application.execute(text)
            world.application.autocommit = False
        assert dialect.installed(plan_of(dialect, shape)) == "installed"
        assert read_definition(dialect, shape.label) == plan_of(dialect, shape).definition
    finally:
        dialect.close()

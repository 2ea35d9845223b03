"""Rows of a real database against the site's state, on PostgreSQL, MariaDB and SQLite."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from producers.database import DatabaseSource
from producers.database.check import connect, shape_of
from producers.database.install import uninstall
from producers.database.memory import LOOK
from producers.database.table import BATCH, OpenTable
from sitemap_store.errors import Unavailable
from sitemap_store.model.entries import Entry
from sitemap_store.model.events import Event
from sitemap_store.model.urls import quote_segment
from tests.integration.database_world import BASE, SERIAL, TEXT, World, until
from tests.redis_server import RedisServer


def _uninstall(world: World, source: DatabaseSource) -> None:
    dialect = connect(source)
    uninstall(dialect, shape_of(dialect, source, world.site))
    dialect.close()


def test_rows_that_are_there_come_first_and_then_every_change(world: World) -> None:
    """The first comparison lists the rows; inserts, slug changes and deletes follow."""
    world.insert("tea", "pot")
    world.relay()
    world.becomes("p/tea", "p/pot")
    world.insert("cup")
    world.becomes("p/tea", "p/pot", "p/cup")
    world.run("UPDATE products SET slug = 'kettle' WHERE slug = 'pot'")
    world.becomes("p/tea", "p/kettle", "p/cup")
    world.run("DELETE FROM products WHERE slug = 'tea'")
    world.becomes("p/kettle", "p/cup")


def test_unpublishing_and_publishing_a_row(world: World) -> None:
    """A row that leaves `where` is deleted, one that enters it is added."""
    world.insert("tea")
    world.insert("draft", published=False)
    world.relay()
    world.becomes("p/tea")
    world.run("UPDATE products SET published = NOT published")
    world.becomes("p/draft")


def test_swapping_two_slugs_in_one_statement_keeps_both(world: World) -> None:
    """A swap leaves both URLs live."""
    world.insert("tea", "cup")
    world.relay()
    world.becomes("p/tea", "p/cup")
    world.run("UPDATE products SET slug = CASE slug WHEN 'tea' THEN 'cup' ELSE 'tea' END")
    world.settled()
    world.becomes("p/tea", "p/cup")


def test_a_url_goes_with_the_last_row_that_makes_it(world: World) -> None:
    """Two rows with one slug: the URL stays when one of them goes."""
    world.insert("tea", "tea")
    world.relay()
    world.becomes("p/tea")
    world.run("DELETE FROM products WHERE id = (SELECT m FROM (SELECT min(id) AS m FROM products) AS first)")
    world.settled()
    world.becomes("p/tea")
    world.run("DELETE FROM products")
    world.becomes()


def test_a_row_without_a_slug_has_no_url_until_it_is_filled(world: World) -> None:
    """NULL fails no statement and is counted; the URL comes with the slug."""
    relay = world.relay()
    world.insert(None, "tea")
    world.becomes("p/tea")
    until(lambda: relay.health()["without_url"] == 1, relay.health)
    world.run("UPDATE products SET slug = 'cup' WHERE slug IS NULL")
    world.becomes("p/tea", "p/cup")


def test_a_row_that_is_rolled_back_never_shows(world: World) -> None:
    """What the application rolls back leaves no event."""
    world.relay()
    cursor = world.application.cursor()
    cursor.execute("INSERT INTO products (slug) VALUES ('ghost')")
    world.application.rollback()
    world.insert("tea")
    world.becomes("p/tea")


def test_a_transaction_that_commits_late_is_not_skipped(world: World) -> None:
    """A takes its place in the outbox first and commits after B: both show."""
    if world.kind == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    world.relay()
    late = world.server.connect(world.database)
    try:
        cursor = late.cursor()
        cursor.execute("INSERT INTO products (slug) VALUES ('a')")
        world.insert("b")
        world.becomes("p/b")
        late.commit()
        world.becomes("p/a", "p/b")
    finally:
        late.close()


def test_truncate_takes_the_urls_away(world: World) -> None:
    """By trigger on PostgreSQL, by comparison elsewhere; SQLite's DELETE without WHERE fires triggers."""
    world.insert(*(f"p{n}" for n in range(150)))
    relay = world.relay(max_delete=0.0)
    until(lambda: len(world.urls()) == 150)
    world.run("DELETE FROM products" if world.kind == "sqlite" else "TRUNCATE products")
    if world.kind == "mysql":
        world.insert("other")
        world.settled()
        assert len(world.urls()) == 151
        relay.stop()
        world.relay(accept_deletes=True)
        world.becomes("p/other")
    else:
        world.becomes()


def test_a_cascade_is_seen_by_triggers_or_by_comparison(world: World) -> None:
    """Rows that a foreign key deletes go too: by trigger where the database fires one."""
    serial, text = SERIAL[world.kind], TEXT[world.kind]
    world.run(
        f"CREATE TABLE makers (id {serial}, name {text})",
        f"CREATE TABLE things (id {serial}, slug {text}, maker int, "
        "FOREIGN KEY (maker) REFERENCES makers (id) ON DELETE CASCADE)",
        "INSERT INTO makers (id, name) VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO things (slug, maker) VALUES ('a', 1), ('b', 2)",
    )
    relay = world.relay(table="things", where="")
    world.becomes("p/a", "p/b")
    world.run("DELETE FROM makers WHERE id = 1")
    if world.kind == "mysql":
        relay.rescan()
    world.becomes("p/b")


def test_replace_is_found_by_comparison(world: World) -> None:
    """REPLACE puts another slug on a key: the new URL comes at once, the old one goes."""
    if world.kind == "postgresql":
        pytest.skip("PostgreSQL has no REPLACE")
    world.insert("tea")
    relay = world.relay()
    world.becomes("p/tea")
    world.run("REPLACE INTO products (id, slug) VALUES (1, 'cup')")
    until(lambda: "p/cup" in world.urls())
    if world.kind == "sqlite":
        relay.rescan()
    world.becomes("p/cup")


def test_rows_of_replication_are_found_by_comparison(world: World) -> None:
    """With `session_replication_role = replica` no trigger runs: nothing shows until a comparison."""
    if world.kind != "postgresql":
        pytest.skip("a setting of PostgreSQL")
    world.insert("tea", "cup")
    relay = world.relay()
    world.becomes("p/tea", "p/cup")
    world.run(
        "SET LOCAL session_replication_role = replica",
        "INSERT INTO products (id, slug) VALUES (9, 'pot')",
        "DELETE FROM products WHERE slug = 'cup'",
    )
    world.insert("bowl")
    world.becomes("p/tea", "p/cup", "p/bowl")
    relay.rescan()
    world.becomes("p/tea", "p/pot", "p/bowl")


def test_an_upsert_shows_as_what_it_came_to(world: World) -> None:
    """INSERT … ON CONFLICT (or ON DUPLICATE KEY) UPDATE of a row that is there."""
    world.insert("tea")
    world.relay()
    conflict = (
        "ON DUPLICATE KEY UPDATE slug = VALUES(slug)"
        if world.kind == "mysql"
        else "ON CONFLICT (id) DO UPDATE SET slug = excluded.slug"
    )
    world.run(f"INSERT INTO products (id, slug) VALUES (1, 'cup'), (77, 'pot') {conflict}")
    world.becomes("p/cup", "p/pot")


def test_changes_that_do_not_matter_write_nothing(world: World) -> None:
    """Counting views, and writing what is there already, leaves the outbox empty."""
    world.insert("tea")
    world.install(world.source())
    world.run("UPDATE products SET views = views + 1", "UPDATE products SET slug = slug")
    assert world.waiting() == 0
    world.run("UPDATE products SET slug = 'TEA' WHERE slug = 'tea'")
    world.run("UPDATE products SET published = NOT published")
    assert world.select("SELECT kind FROM sitemapd_outbox") == [("row",), ("row",)]


def test_a_key_that_changes_is_no_loss(world: World) -> None:
    """The row's key changes together with its slug."""
    world.insert("tea", "cup")
    world.relay()
    world.becomes("p/tea", "p/cup")
    world.run("UPDATE products SET id = id + 100, slug = 'pot' WHERE slug = 'tea'")
    world.becomes("p/pot", "p/cup")


def test_values_become_one_path_segment(world: World) -> None:
    """Slashes, percent signs and other scripts are encoded; raw values keep their slashes."""
    world.insert("a/b", "50%", "错", "x y?#")
    world.relay()
    world.becomes("p/a%2Fb", "p/50%25", "p/%E9%94%99", "p/x%20y%3F%23")
    world.run("DELETE FROM products WHERE slug = 'a/b' OR slug = 'x y?#'")
    world.becomes("p/50%25", "p/%E9%94%99")


def test_values_that_mean_something_in_sql_are_only_values(world: World) -> None:
    """Quotes, backslashes, braces and line ends are looked up as they are."""
    slugs = ('say "tea"', '"', "back\\slash", "\\", "it's", "{a,b}", "NULL", "two\nlines")
    world.relay()
    cursor = world.application.cursor()
    mark = "?" if world.kind == "sqlite" else "%s"
    cursor.executemany(f"INSERT INTO products (slug) VALUES ({mark})", [(slug,) for slug in slugs])
    world.application.commit()
    world.becomes(*(f"p/{quote_segment(slug)}" for slug in slugs))


def test_a_change_of_many_rows_is_sent_in_parts(world: World) -> None:
    """More rows than one look-up takes, and more than one transaction: none is missing, old ones go."""
    count = BATCH + 3 * LOOK + 1
    world.relay()
    world.insert(*(f"old{n}" for n in range(count)))
    until(lambda: len(world.urls()) == count)
    renamed = "concat('new', id)" if world.kind == "mysql" else "'new' || id"
    world.run(f"UPDATE products SET slug = {renamed}")
    until(lambda: not any(path.startswith("p/old") for path in world.urls()))
    world.becomes(*(f"p/new{key}" for (key,) in world.select("SELECT id FROM products")))


def test_two_spellings_of_one_value_share_a_url(world: World) -> None:
    """A raw value with and without its slash: the URL stays until both rows are gone."""
    world.run("INSERT INTO products (slug) VALUES ('/guides/tea'), ('guides/tea'), ('cup')")
    world.relay(url="/{slug:raw}")
    world.becomes("guides/tea", "cup")
    world.run("DELETE FROM products WHERE slug = '/guides/tea'")
    world.settled()
    world.becomes("guides/tea", "cup")
    world.run("DELETE FROM products WHERE slug = 'guides/tea'")
    world.becomes("cup")


def test_slugs_that_are_stored_percent_encoded(world: World) -> None:
    """`{slug:encoded}` takes them as they are, with their hex in capitals; a stray % is refused."""
    world.run("INSERT INTO products (slug) VALUES ('%e3%81%82-1'), ('tea')")
    world.relay(url="/p/{slug:encoded}")
    world.becomes("p/%E3%81%82-1", "p/tea")
    world.insert("50%")
    world.run("UPDATE products SET slug = '%e3%81%84' WHERE slug = '%e3%81%82-1'")
    world.becomes("p/%E3%81%84", "p/tea")
    until(lambda: "encoding" in {row["rule"] for row in world.store.rejected()})
    world.run("DELETE FROM products WHERE slug = '%e3%81%84'")
    world.becomes("p/tea")


def test_a_comparison_points_at_values_that_are_encoded_twice(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten rows with %xx in a column that is not :encoded; a hundred per cent is no such thing."""
    world.insert(*(f"100% {n}" for n in range(20)))
    with caplog.at_level(logging.WARNING):
        relay = world.relay()
        assert "encoded twice" not in caplog.text
        world.insert(*(f"%e3%81%{n}" for n in range(80, 90)))
        relay.rescan()
        until(lambda: "{column:encoded}" in caplog.text, relay.health)


def test_raw_paths_and_numbers(world: World) -> None:
    """`{slug:raw}` keeps slashes, and an integer key is looked up as one."""
    world.run("INSERT INTO products (id, slug) VALUES (7, '/guides/tea'), (8, 'about')")
    world.relay(url="/{id}-x/{slug:raw}")
    world.becomes("7-x/guides/tea", "8-x/about")
    world.run("DELETE FROM products WHERE id = 7")
    world.becomes("8-x/about")


def test_the_newest_row_speaks_for_a_shared_url(world: World) -> None:
    """Of two rows with one URL the one changed last gives the lastmod."""
    zone = "" if world.kind == "mysql" else "+00:00"
    world.run(
        "INSERT INTO products (slug, updated_at) VALUES "
        f"('tea', '2026-01-02 03:04:05{zone}'), ('tea', '2026-01-01 00:00:00{zone}')"
    )
    world.relay(lastmod="updated_at")
    world.becomes("p/tea")
    assert world.entries()["p/tea"].lastmod == "2026-01-02T03:04:05Z"
    world.run("DELETE FROM products WHERE id = 1")
    until(lambda: world.entries()["p/tea"].lastmod == "2026-01-01T00:00:00Z")


def test_constants_and_columns_of_an_entry(world: World) -> None:
    """changefreq may be a word or a column; a value that no sitemap may hold is left out."""
    text = TEXT[world.kind]
    world.run(f"ALTER TABLE products ADD weight {text}")
    world.run("INSERT INTO products (slug, weight) VALUES ('tea', '0.50'), ('cup', 'much')")
    world.relay(changefreq="weekly", priority="weight")
    world.becomes("p/tea", "p/cup")
    found = {path: (entry.changefreq, entry.priority) for path, entry in world.entries().items()}
    assert found == {"p/tea": ("weekly", "0.5"), "p/cup": ("weekly", "")}


def test_a_row_whose_url_is_refused_is_reported(world: World) -> None:
    """A URL that is too long is refused with a reason, and the other rows go on."""
    if world.kind == "mysql":
        world.run("ALTER TABLE products MODIFY slug varchar(3000)", "DROP INDEX by_slug ON products")
    world.relay()
    world.insert("x" * 2100, "..", "tea")
    world.becomes("p/tea")
    until(lambda: {row["rule"] for row in world.store.rejected()} == {"too-long", "dot-segment"})
    assert world.store.rejected()[0]["source"] == "catalogue"


def test_notify_wakes_the_relay_that_listens(world: World) -> None:
    """Between two looks that are an hour apart a row shows where the relay listens, and waits where not."""
    if world.kind != "postgresql":
        pytest.skip("NOTIFY is PostgreSQL's")
    world.relay(name="listening", url="/listening/{slug}", notify=True, poll_interval=3600.0)
    deaf = world.relay(name="deaf", url="/deaf/{slug}", poll_interval=3600.0)
    for slug in ("tea", "cup"):
        world.insert(slug)
        until(partial(world.lists, f"listening/{slug}", "listening"))
    assert not world.entries("deaf")
    assert world.select("SELECT count(*) FROM sitemapd_outbox WHERE source = 'main/deaf'") == [(2,)]
    deaf.rescan()
    until(lambda: set(world.entries("deaf")) == {"deaf/tea", "deaf/cup"}, deaf.health)


def test_the_outbox_holds_everything_while_redis_is_away(world: World, any_redis: RedisServer) -> None:
    """Redis stops: the application goes on; when it is back, nothing is missing."""
    relay = world.relay()
    world.insert("tea")
    world.becomes("p/tea")
    any_redis.stop(kill=True)
    world.insert("cup")
    world.run("UPDATE products SET slug = 'pot' WHERE slug = 'tea'")
    until(lambda: relay.health()["state"] == "waiting", relay.health)
    assert world.waiting() > 0
    any_redis.start()
    world.becomes("p/cup", "p/pot")


def test_a_database_that_restarts_is_reconnected_to(world: World) -> None:
    """The server is killed and started: the relay goes on by itself."""
    if world.kind == "sqlite":
        pytest.skip("SQLite has no server")
    world.relay()
    world.insert("tea")
    world.becomes("p/tea")
    world.application.close()
    world.server.stop(kill=True)
    world.server.start()
    world.application = world.server.connect(world.database)
    world.insert("cup")
    world.becomes("p/tea", "p/cup")


def test_one_of_two_relays_leads_and_the_other_takes_over(world: World) -> None:
    """The second waits until the first ends."""
    first = world.relay()
    second = world.relay(world.source())
    until(lambda: second.health()["state"] == "standby", second.health)
    world.insert("tea")
    world.becomes("p/tea")
    assert first.stop()
    world.insert("cup")
    world.becomes("p/tea", "p/cup")
    until(lambda: second.health()["state"] == "relaying", second.health)


def test_a_comparison_that_would_delete_too_much_deletes_nothing(world: World) -> None:
    """Rows vanish unseen: over a fifth, and over a hundred, are held until they are accepted."""
    world.insert(*(f"p{n}" for n in range(200)))
    relay = world.relay()
    until(lambda: len(world.urls()) == 200)
    relay.stop()
    source = world.source()
    _uninstall(world, source)
    world.run("DELETE FROM products WHERE id > 50", "UPDATE products SET slug = 'new' WHERE id = 1")
    held = world.relay(source)
    until(lambda: held.health()["held_deletes"] == 151, held.health)
    assert len(world.urls()) == 201
    held.stop()
    world.relay(source, accept_deletes=True)
    until(lambda: len(world.urls()) == 50)


@pytest.mark.parametrize("fails", [False, True])
def test_a_comparison_that_is_asked_for_is_made(
    world: World, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Also when one is under way that may have read the rows already, and when one fails in its middle."""
    relay = world.relay()
    listing, looks = world.store.listing, 0

    def asked_again(source: str | None = None) -> Iterator[Entry]:
        nonlocal looks
        if threading.current_thread().name.startswith("relay"):
            looks += 1
            if looks == 1 and fails:
                raise Unavailable(what="Redis", detail="is away")
            if looks == 1:
                relay.rescan()
        return listing(source)

    monkeypatch.setattr(world.store, "listing", asked_again)
    relay.rescan()
    until(lambda: looks == 2 and relay.health()["state"] == "relaying", relay.health)


@pytest.mark.parametrize("step", ["list_all", "changes"])
def test_a_fault_of_ours_is_told_and_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    """Whatever is raised, status says `failed`, the log has its traceback, and the source goes on."""
    broken = threading.Event()
    broken.set()
    through = getattr(OpenTable, step)

    def fails(table: OpenTable) -> object:
        if broken.is_set():
            raise ZeroDivisionError("a fault")
        return through(table)

    monkeypatch.setattr(OpenTable, step, fails)
    world.insert("tea")
    relay = world.relay(ready=False)
    until(lambda: relay.health()["state"] == "failed", relay.health)
    assert "ZeroDivisionError: a fault" in caplog.text
    broken.clear()
    world.becomes("p/tea")
    until(lambda: relay.health()["problem"] is None, relay.health)


def test_a_source_keeps_its_hands_off_the_others(world: World) -> None:
    """Entries of a person or of another source stay whatever the rows say."""
    world.sink.send([Event("add", BASE + "by-hand"), Event("add", BASE + "p/tea", source="cms")])
    world.insert("cup")
    world.relay()
    world.becomes("p/cup")
    world.insert("tea")
    world.becomes("p/cup", "p/tea")
    assert {e.loc for e in world.store.listing(None)} == {BASE + p for p in ("by-hand", "p/tea", "p/cup")}


def test_redis_that_comes_up_empty_is_filled_again(world: World) -> None:
    """The state is another one than before: the table is compared again."""
    for partition in world.store.partitions:
        partition.adopt("first")
    world.insert("tea")
    world.relay()
    world.becomes("p/tea")
    world.client.flushall()
    for partition in world.store.partitions:
        partition.adopt("second")
    world.becomes("p/tea")


def test_what_is_set_differently_is_compared_at_the_next_start(world: World) -> None:
    """Another template: all URLs change, deletes of the old ones included."""
    world.insert("tea", "cup")
    world.relay().stop()
    world.becomes("p/tea", "p/cup")
    world.relay(url="/products/{slug}/")
    world.becomes("products/tea/", "products/cup/")

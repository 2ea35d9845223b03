"""Sources with a `query`: rows joined from several tables, on PostgreSQL, MariaDB and SQLite."""

from __future__ import annotations

import pytest

from producers.database import DatabaseSource
from tests.integration.database_world import SERIAL, TEXT, World, until

QUERY = (
    "SELECT p.id, p.slug, p.category_id, c.slug AS category FROM products p "
    "JOIN categories c ON c.id = p.category_id WHERE p.published"
)
FEEDS = {
    "products": {"column": "id", "matches": "id", "watch": ["slug", "category_id", "published"]},
    "categories": {"column": "id", "matches": "category_id", "watch": ["slug"]},
}


@pytest.fixture
def world(world: World) -> World:
    """Give two categories with products."""
    world.run(
        "ALTER TABLE products ADD category_id int",
        f"CREATE TABLE categories (id {SERIAL[world.kind]}, slug {TEXT[world.kind]})",
        "INSERT INTO categories (id, slug) VALUES (1, 'tea'), (2, 'pots')",
        "INSERT INTO products (slug, category_id) VALUES ('assam', 1), ('sencha', 1), ('kyusu', 2)",
    )
    return world


def _source(world: World) -> DatabaseSource:
    return world.source(query=QUERY, key="id", feeds=FEEDS, url="/{category}/{slug}")


def test_a_renamed_category_moves_its_products(world: World) -> None:
    """The old URLs go, the new ones come, others stay."""
    world.relay(_source(world))
    world.becomes("tea/assam", "tea/sencha", "pots/kyusu")
    world.run("UPDATE categories SET slug = 'teas' WHERE id = 1")
    world.becomes("teas/assam", "teas/sencha", "pots/kyusu")


def test_products_move_come_and_go(world: World) -> None:
    """Another category, a new product, an unpublished and a deleted one."""
    world.relay(_source(world))
    world.becomes("tea/assam", "tea/sencha", "pots/kyusu")
    world.run("UPDATE products SET category_id = 2 WHERE slug = 'assam'")
    world.becomes("pots/assam", "tea/sencha", "pots/kyusu")
    world.run("INSERT INTO products (slug, category_id) VALUES ('oolong', 1), ('lost', 9)")
    world.becomes("pots/assam", "tea/sencha", "pots/kyusu", "tea/oolong")
    world.run(
        "UPDATE products SET published = false WHERE slug = 'sencha'",
        "DELETE FROM products WHERE slug = 'kyusu'",
    )
    world.becomes("pots/assam", "tea/oolong")
    world.run("DELETE FROM categories WHERE id = 2")
    world.becomes("tea/oolong")


def test_a_rename_and_a_move_in_one_transaction(world: World) -> None:
    """What changed together ends as the query says."""
    world.relay(_source(world))
    world.becomes("tea/assam", "tea/sencha", "pots/kyusu")
    world.run(
        "UPDATE categories SET slug = 'teas' WHERE id = 1",
        "UPDATE products SET category_id = 2 WHERE slug = 'assam'",
        "UPDATE categories SET slug = 'tea' WHERE id = 2",
    )
    world.becomes("tea/assam", "teas/sencha", "tea/kyusu")


def test_what_the_relay_missed_is_found_by_comparison(world: World) -> None:
    """Without triggers nothing is noted; the comparison puts URLs and what is remembered right."""
    relay = world.relay(_source(world))
    world.becomes("tea/assam", "tea/sencha", "pots/kyusu")
    assert relay.stop()
    world.run("DELETE FROM sitemapd_outbox")
    world.run("UPDATE categories SET slug = 'kettles' WHERE id = 2")
    world.run("DELETE FROM sitemapd_outbox")
    second = world.relay(_source(world))
    second.rescan()
    world.becomes("tea/assam", "tea/sencha", "kettles/kyusu")
    world.run("UPDATE categories SET slug = 'pots' WHERE id = 2")
    world.becomes("tea/assam", "tea/sencha", "pots/kyusu")
    until(lambda: world.select("SELECT count(*) FROM sitemapd_urls") == [(6,)])

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


TREE = (
    "WITH RECURSIVE tree AS ("
    "SELECT id, parent_id, {path} AS path FROM pages WHERE parent_id IS NULL AND live "
    "UNION ALL SELECT p.id, p.parent_id, {below} FROM pages p JOIN tree t ON p.parent_id = t.id WHERE p.live"
    ") SELECT id, parent_id, path FROM tree"
)
LINKS = [
    {"column": "id", "matches": "id", "watch": ["slug", "parent_id", "live"]},
    {"column": "id", "matches": "parent_id", "watch": ["slug", "parent_id", "live"]},
]


def test_the_pages_of_a_tree_move_with_their_ancestors(world: World) -> None:
    """A parent that is renamed, moved, hidden, shown or deleted takes its descendants along, to any depth."""
    if world.kind == "mysql":
        path, below = "cast(slug AS char(500))", "concat(t.path, '/', p.slug)"
    else:
        path, below = "slug", "t.path || '/' || p.slug"
    live = "INTEGER DEFAULT 1" if world.kind == "sqlite" else "boolean DEFAULT true"
    text = TEXT[world.kind]
    world.run(
        f"CREATE TABLE pages (id {SERIAL[world.kind]}, parent_id int, slug {text}, live {live})",
        "INSERT INTO pages (id, parent_id, slug) VALUES "
        "(1, NULL, 'a'), (2, 1, 'b'), (3, 2, 'c'), (4, 3, 'd'), (5, NULL, 'x'), (6, 4, 'e')",
    )
    query = TREE.format(path=path, below=below)
    world.relay(world.source(query=query, key="id", feeds={"pages": LINKS}, url="/{path:raw}"))
    world.becomes("a", "a/b", "a/b/c", "a/b/c/d", "a/b/c/d/e", "x")
    world.run("UPDATE pages SET slug = 'A' WHERE id = 1")
    world.becomes("A", "A/b", "A/b/c", "A/b/c/d", "A/b/c/d/e", "x")
    world.run("UPDATE pages SET parent_id = 5 WHERE id = 3")
    world.becomes("A", "A/b", "x/c", "x/c/d", "x/c/d/e", "x")
    world.run("UPDATE pages SET live = false WHERE id = 5")
    world.becomes("A", "A/b")
    world.run("UPDATE pages SET live = true WHERE id = 5")
    world.becomes("A", "A/b", "x/c", "x/c/d", "x/c/d/e", "x")
    world.run("DELETE FROM pages WHERE id = 3")
    world.becomes("A", "A/b", "x")
    world.run("INSERT INTO pages (id, parent_id, slug) VALUES (3, 1, 'z')")
    world.becomes("A", "A/b", "A/z", "A/z/d", "A/z/d/e", "x")


def test_keys_and_links_of_any_length(world: World) -> None:
    """Rows whose keys are longer than an index of MariaDB takes are remembered, renamed and deleted."""
    text = "varchar(700)" if world.kind == "mysql" else "text"
    world.run(
        f"CREATE TABLE groups_ (name {text}, slug {text})",
        f"CREATE TABLE things (name {text}, grp {text}, slug {text})",
    )
    long, other, group = "k" * 600, "k" * 599 + "j", "g" * 650
    world.run(
        f"INSERT INTO groups_ VALUES ('{group}', 'one')",
        f"INSERT INTO things VALUES ('{long}', '{group}', 'tea'), ('{other}', '{group}', 'cup')",
    )
    feeds = {
        "things": {"column": "name", "matches": "name", "watch": ["slug", "grp"]},
        "groups_": {"column": "name", "matches": "grp", "watch": ["slug"]},
    }
    query = "SELECT t.name, t.grp, t.slug, g.slug AS one FROM things t JOIN groups_ g ON g.name = t.grp"
    world.relay(world.source(query=query, key="name", feeds=feeds, url="/{one}/{slug}"))
    world.becomes("one/tea", "one/cup")
    world.run("UPDATE groups_ SET slug = 'two'")
    world.becomes("two/tea", "two/cup")
    world.run(f"DELETE FROM things WHERE name = '{long}'")
    world.becomes("two/cup")

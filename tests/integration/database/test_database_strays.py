"""What is left in a database of sources that are configured no more."""

from __future__ import annotations

import pytest

from producers.database import install as installing
from producers.database.check import connect, shape_of
from producers.database.dialect import Dialect
from producers.database.install import Stray, remove_stray, strays, trim
from tests.integration.database_world import SERIAL, TEXT, World, until


def _strays(world: World, dialect: Dialect, **options: str) -> list[Stray]:
    return strays(dialect, [shape_of(dialect, world.source(**options), world.site)])


def test_a_renamed_source_is_shown_and_removed(world: World) -> None:
    """Its triggers and rows go, and those of the source with the new name stay."""
    world.install(world.source(name="before"))
    world.insert("tea")
    world.install(world.source(name="after"))
    dialect = connect(world.source())
    try:
        (found,) = _strays(world, dialect, name="after")
        assert (found.label, found.waiting, bool(found.drop)) == ("main/before", 1, True)
        remove_stray(dialect, found, keep=False)
        assert _strays(world, dialect, name="after") == []
    finally:
        dialect.close()
    world.insert("cup")
    assert world.select("SELECT source FROM sitemapd_outbox") == [("main/after",)]


@pytest.mark.parametrize("triggers", ["auto", "manual"])
def test_the_urls_of_a_renamed_source_change_their_owner(world: World, triggers: str) -> None:
    """None is deleted and none is held; its former triggers go, or are left to the command where they are."""
    world.insert(*(f"p{n}" for n in range(150)))
    former = world.relay(name="before", triggers=triggers, configured=["before"])
    assert former.stop()
    world.run("DELETE FROM products WHERE id = 1")
    world.insert("cup")
    relay = world.relay(triggers=triggers, configured=["catalogue"], max_delete=0.0)
    assert world.urls() == {f"p/p{n}" for n in range(1, 150)} | {"p/cup"}
    assert not world.entries("before")
    assert relay.health()["held_deletes"] == 0
    world.insert("pot")
    until(lambda: "p/pot" in world.urls(), relay.health)
    dialect = connect(world.source())
    try:
        left = [each.label for each in _strays(world, dialect)]
        assert left == ([] if triggers == "auto" else ["main/before"])
    finally:
        dialect.close()


def test_a_renamed_source_that_lost_its_rows_is_held_as_one_thing(world: World) -> None:
    """The guard judges the URLs of the former name: they stay listed until the deletes are accepted."""
    world.insert(*(f"p{n}" for n in range(150)))
    assert world.relay(name="before", configured=["before"]).stop()
    world.run("DELETE FROM products WHERE id > 10")
    relay = world.relay(configured=["catalogue"])
    assert relay.health()["held_deletes"] == 140
    assert (len(world.urls()), len(world.entries("before"))) == (10, 140)
    assert relay.stop()
    again = world.relay(configured=["catalogue"], accept_deletes=True)
    until(lambda: not world.entries("before"), again.health)
    assert world.urls() == {f"p/p{n}" for n in range(10)}


def test_another_source_on_the_same_table_is_no_renamed_one(world: World) -> None:
    """While both names are configured each keeps its URLs."""
    world.insert("tea")
    names = ["catalogue", "english"]
    world.relay(name="english", url="/en/{slug}", configured=names)
    world.relay(configured=names)
    world.insert("cup")
    world.becomes("p/tea", "p/cup")
    until(lambda: set(world.entries("english")) == {"en/tea", "en/cup"})


def test_a_source_on_another_table_leaves_triggers_on_the_first(world: World) -> None:
    """They are shown and removed, and what is kept of the source stays."""
    text, serial = TEXT[world.kind], SERIAL[world.kind]
    world.run(f"CREATE TABLE items (id {serial}, slug {text}, published int DEFAULT 1)")
    where = "published > 0"
    if world.kind == "postgresql":
        world.run("ALTER TABLE products ADD n int DEFAULT 1")
        where = ""
    world.install(world.source(where=where))
    world.install(world.source(table="items", where=where))
    dialect = connect(world.source())
    try:
        (found,) = _strays(world, dialect, table="items", where=where)
        assert (found.label, found.waiting) == ("main/catalogue", 0)
        remove_stray(dialect, found, keep=True)
        assert _strays(world, dialect, table="items", where=where) == []
    finally:
        dialect.close()
    world.insert("tea")
    assert world.waiting() == 0
    world.run("INSERT INTO items (slug) VALUES ('pot')")
    assert world.waiting() == 1


def test_an_outbox_that_nobody_empties_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too much is dropped for a request to compare, which then finds the same."""
    monkeypatch.setattr(installing, "MOST_WAITING", 5)
    source = world.source()
    world.install(source)
    world.insert(*(f"p{n}" for n in range(6)))
    dialect = connect(source)
    try:
        assert trim(dialect) == ["main/catalogue"]
        assert world.select("SELECT kind FROM sitemapd_outbox") == [("failed",)]
        assert trim(dialect) == []
    finally:
        dialect.close()
    world.relay(source)
    until(lambda: len(world.urls()) == 6)

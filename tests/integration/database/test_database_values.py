"""Rows are looked up by the values that the database wrote, whatever their type."""

from __future__ import annotations

import pytest

from producers.database import Relay
from sitemap_store.errors import BadSetting
from tests.integration.database_world import World, until

# kind of database → name → (type of the column, two values as SQL, and their addresses)
VALUES = {
    "postgresql": {
        "bigint": ("bigint", ("1234567890123456789", "-9223372036854775808"), None),
        "numeric": ("numeric(30, 2)", ("12345678901234567890.50", "1.00"), None),
        "double": ("double precision", ("0.1", "1e300"), ("0.1", "1e+300")),
        "uuid": ("uuid", ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'00000000-0000-0000-0000-000000000001'"), None),
        "enum": ("colour", ("'dark red'", "'blue'"), ("dark%20red", "blue")),
        "date": ("date", ("'2026-03-01'", "'1999-12-31'"), None),
        "timestamptz": ("timestamptz", ("'2026-03-01 10:00+02'", "'1999-12-31 00:00Z'"), ("2026-03-01%2008:00:00+00", "1999-12-31%2000:00:00+00")),
        "bytea": ("bytea", ("'tea'", "'caf\u00e9'::text::bytea"), ("tea", "caf%C3%A9")),
        "char": ("char(8)", ("'tea'", "'cup of'"), ("tea", "cup%20of")),
        "array": ("text[]", ("'{a,b}'", "'{\"x y\",c}'"), ("%7Ba,b%7D", "%7B%22x%20y%22,c%7D")),
        "json": ("json", ("'{\"a\": 1}'", "'[2]'"), ("%7B%22a%22:%201%7D", "%5B2%5D")),
        "inet": ("inet", ("'10.0.0.1'", "'::1'"), ("10.0.0.1%2F32", "::1%2F128")),
        "boolean": ("boolean", ("true", "false"), None),
    },
    "mysql": {
        "bigint": ("bigint unsigned", ("12345678901234567890", "1234567890123456789"), None),
        "decimal": ("decimal(30, 2)", ("12345678901234567890.50", "1.00"), None),
        "float": ("float", ("0.1", "2.5"), None),
        "enum": ("enum('dark red', 'blue')", ("'dark red'", "'blue'"), ("dark%20red", "blue")),
        "set": ("set('a', 'b')", ("'a,b'", "'b'"), ("a,b", "b")),
        "date": ("date", ("'2026-03-01'", "'1999-12-31'"), None),
        "varbinary": ("varbinary(20)", ("'tea'", "_utf8mb4'caf\u00e9'"), ("tea", "caf%C3%A9")),
        "blob": ("blob", ("'tea'", "'a''b\\\\c'"), ("tea", "a'b%5Cc")),
        "char": ("char(8)", ("'tea'", "'cup of'"), ("tea", "cup%20of")),
        "uuid": ("uuid", ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'00000000-0000-0000-0000-000000000001'"), None),
        "inet6": ("inet6", ("'::1'", "'2001:db8::2'"), None),
        "datetime": ("datetime(3)", ("'2026-03-01 10:00:00.250'", "'1999-12-31 00:00:00.000'"), ("2026-03-01%2010:00:00.250", "1999-12-31%2000:00:00.000")),
        "latin1": ("varchar(20) character set latin1", ("'tea'", "_utf8mb4'caf\u00e9'"), ("tea", "caf%C3%A9")),
        "json": ("json", ("'{\"a\": 1}'", "'[2]'"), ("%7B%22a%22:%201%7D", "%5B2%5D")),
    },
    "sqlite": {
        "integer": ("INTEGER", ("1234567890123456789", "-9223372036854775808"), None),
        "real": ("REAL", ("0.30000000000000004", "1e300"), ("0.30000000000000004", "1e+300")),
        "blob": ("BLOB", ("x'746561'", "cast('caf\u00e9' as blob)"), ("tea", "caf%C3%A9")),
        "numeric text": ("TEXT", ("'010'", "'1234567890123456789012'"), ("010", "1234567890123456789012")),
        "untyped": ("", ("7", "'8'"), ("7", "8")),
    },
}  # fmt: skip


def _kinds(world: World) -> dict[str, tuple[str, tuple[str, str], tuple[str, str] | None]]:
    return VALUES[world.kind]


def test_values_of_every_type_are_listed_updated_and_deleted(world: World) -> None:
    """Each type of column in a template: its rows come, one turns into the other, and they go."""
    if world.kind == "postgresql":
        world.run("CREATE TYPE colour AS ENUM ('dark red', 'blue')")
    for number, (name, (kind, values, addresses)) in enumerate(_kinds(world).items()):
        table, source = f"things{number}", f"s{number}"
        one, other = addresses or tuple(value.strip("'") for value in values)
        world.run(
            f"CREATE TABLE {table} (id int PRIMARY KEY, v {kind}, w {kind}, n int DEFAULT 0)",
            f"INSERT INTO {table} (id, v, w) VALUES (1, {values[0]}, {values[1]})",
        )
        relay = world.relay(name=source, table=table, where="", url=f"/{source}/{{v}}/{{w}}")

        def lists(*paths: str, source: str = source) -> bool:
            return (
                set(world.entries(source)) == {f"{source}/{path}" for path in paths} and not world.waiting()
            )

        def told(name: str = name, source: str = source, relay: Relay = relay) -> str:
            return f"{name}: {set(world.entries(source))}, {relay.health()}, {world.store.rejected()}"

        until(lambda: lists(f"{one}/{other}"), told)
        world.run(f"INSERT INTO {table} (id, v, w) VALUES (2, {values[1]}, {values[1]}), (3, NULL, NULL)")
        until(lambda: lists(f"{one}/{other}", f"{other}/{other}"), told)
        world.run(f"UPDATE {table} SET v = {values[1]} WHERE id = 1")
        until(lambda: lists(f"{other}/{other}"), told)
        world.run(f"UPDATE {table} SET w = {values[0]} WHERE id = 2")
        until(lambda: lists(f"{other}/{other}", f"{other}/{one}"), told)
        world.run(f"DELETE FROM {table} WHERE id = 2")
        until(lambda: lists(f"{other}/{other}"), told)
        world.run(f"DELETE FROM {table}")
        until(lists, told)
        assert relay.stop()


def test_one_column_of_every_type(world: World) -> None:
    """The lookup by a single column, which an index serves, finds each type too."""
    if world.kind == "postgresql":
        world.run("CREATE TYPE colour AS ENUM ('dark red', 'blue')")
    for number, (name, (kind, values, addresses)) in enumerate(_kinds(world).items()):
        table, source = f"ones{number}", f"o{number}"
        one, other = addresses or tuple(value.strip("'") for value in values)
        world.run(f"CREATE TABLE {table} (id int PRIMARY KEY, v {kind})")
        relay = world.relay(name=source, table=table, where="", url=f"/{source}/{{v}}")

        def becomes(*paths: str, source: str = source, name: str = name) -> None:
            wanted = {f"{source}/{path}" for path in paths}
            until(
                lambda: set(world.entries(source)) == wanted and not world.waiting(),
                lambda: f"{name}: {set(world.entries(source))} {world.store.rejected()}",
            )

        world.run(f"INSERT INTO {table} VALUES (1, {values[0]})")
        becomes(one)
        world.run(f"UPDATE {table} SET v = {values[1]}")
        becomes(other)
        world.run(f"DELETE FROM {table}")
        becomes()
        assert relay.stop()


def test_a_type_that_has_no_text_is_named_at_the_start(world: World) -> None:
    """MariaDB's geometries and bits make no address."""
    if world.kind != "mysql":
        pytest.skip("every type of PostgreSQL has a text, and SQLite has five")
    for kind in ("point", "bit(8)"):
        world.run("CREATE OR REPLACE TABLE places (id int PRIMARY KEY, spot " + kind + ")")
        with pytest.raises(BadSetting, match="spot is of a type that has no text"):
            Relay(world.source(table="places", url="/{spot}", where=""), world.sink).check()


def test_a_row_that_is_no_utf8_spoils_only_itself(world: World) -> None:
    """It is refused with its bytes named; the rows beside it come, change and go."""
    if world.kind == "sqlite":
        world.run("INSERT INTO products (slug) VALUES (cast(x'636166e9' as text)), ('tea'), (x'ff')")
    else:
        kind = "bytea" if world.kind == "postgresql" else "varbinary(40)"
        using = " USING slug::bytea" if world.kind == "postgresql" else ""
        alter = (
            f"ALTER COLUMN slug TYPE {kind}{using}" if world.kind == "postgresql" else f"MODIFY slug {kind}"
        )
        world.run(f"ALTER TABLE products {alter}")
        bad = "'\\x636166e9'" if world.kind == "postgresql" else "x'636166e9'"
        world.run(f"INSERT INTO products (slug) VALUES ({bad}), ('tea')")
    relay = world.relay()
    world.becomes("p/tea")
    until(lambda: "not-utf-8" in {row["rule"] for row in world.store.rejected()}, relay.health)
    assert any(row["loc"] == r"slug = caf\xe9" for row in world.store.rejected())
    blob = (
        "cast(x'fffe' as text)"
        if world.kind == "sqlite"
        else "'\\xfffe'"
        if world.kind == "postgresql"
        else "x'fffe'"
    )
    world.run(f"INSERT INTO products (slug) VALUES ({blob})", "INSERT INTO products (slug) VALUES ('cup')")
    world.becomes("p/tea", "p/cup")
    until(lambda: any(row["loc"] == r"slug = \xff\xfe" for row in world.store.rejected()), relay.health)
    world.run(
        "UPDATE products SET slug = 'pot' WHERE id = (SELECT m FROM (SELECT min(id) AS m FROM products) AS x)"
    )
    world.becomes("p/tea", "p/cup", "p/pot")


@pytest.mark.parametrize("url", ["/{category}{slug}", "/{category}-{slug}", "/{category:raw}/{slug:raw}"])
def test_a_template_that_lets_two_rows_share_an_address_is_refused(world: World, url: str) -> None:
    """At the start, with the two columns and the way out."""
    with pytest.raises(BadSetting, match=r"where \{category\} ends and \{slug\} begins.*slash"):
        Relay(world.source(url=url), world.sink).check()


@pytest.mark.parametrize(
    "url", ["/{id}-{slug}", "/{slug}-{id}", "/{category}/{slug}", "/{category:raw}/{slug}"]
)
def test_numbers_and_slashes_tell_values_apart(world: World, url: str) -> None:
    """A whole number beside a hyphen, and a slash between texts, can't be read in two ways."""
    world.run("INSERT INTO products (id, category, slug) VALUES (5, 'x-y', 'z-1'), (51, 'x', 'y-z')")
    world.relay(url=url)
    until(lambda: len(world.urls()) == 2)
    world.run("DELETE FROM products WHERE id = 5")
    until(lambda: len(world.urls()) == 1 and not world.waiting())

"""Rows are looked up by the values that the database wrote, whatever their type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from producers.database import Relay
from sitemap_store.errors import BadSetting
from tests.integration.database_world import World, until

UUIDS: Final = ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000001")
# kind of database → name → (type of the column, two values as SQL, and their addresses)
VALUES: Final[dict[str, dict[str, tuple[str, tuple[str, str], tuple[str, str] | None]]]] = {
    "postgresql": {
        "bigint": ("bigint", ("1234567890123456789", "-9223372036854775808"), None),
        "numeric": ("numeric(30, 2)", ("12345678901234567890.50", "1.00"), None),
        "double": ("double precision", ("0.1", "1e300"), ("0.1", "1e+300")),
        "uuid": ("uuid", (f"'{UUIDS[0]}'", f"'{UUIDS[1]}'"), None),
        "enum": ("colour", ("'dark red'", "'blue'"), ("dark%20red", "blue")),
        "date": ("date", ("'2026-03-01'", "'1999-12-31'"), None),
        "timestamptz": (
            "timestamptz",
            ("'2026-03-01 10:00+02'", "'1999-12-31 00:00Z'"),
            ("2026-03-01%2008:00:00+00", "1999-12-31%2000:00:00+00"),
        ),
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
        "uuid": ("uuid", (f"'{UUIDS[0]}'", f"'{UUIDS[1]}'"), None),
        "inet6": ("inet6", ("'::1'", "'2001:db8::2'"), None),
        "datetime": (
            "datetime(3)",
            ("'2026-03-01 10:00:00.250'", "'1999-12-31 00:00:00.000'"),
            ("2026-03-01%2010:00:00.250", "1999-12-31%2000:00:00.000"),
        ),
        "latin1": (
            "varchar(20) character set latin1",
            ("'tea'", "_utf8mb4'caf\u00e9'"),
            ("tea", "caf%C3%A9"),
        ),
        "json": ("json", ("'{\"a\": 1}'", "'[2]'"), ("%7B%22a%22:%201%7D", "%5B2%5D")),
    },
    "sqlite": {
        "integer": ("INTEGER", ("1234567890123456789", "-9223372036854775808"), None),
        "real": ("REAL", ("0.30000000000000004", "1e300"), ("0.30000000000000004", "1e+300")),
        "blob": ("BLOB", ("x'746561'", "cast('caf\u00e9' as blob)"), ("tea", "caf%C3%A9")),
        "digits": ("TEXT", ("'010'", "'1234567890123456789012'"), ("010", "1234567890123456789012")),
        "untyped": ("", ("7", "'8'"), ("7", "8")),
    },
}  # fmt: skip


def _types(world: World) -> Iterator[tuple[str, str, str, str, str, str]]:
    """Each type: its name, its SQL, two values, and what these are in an address."""
    if world.kind == "postgresql":
        world.run("CREATE TYPE colour AS ENUM ('dark red', 'blue')")
    for name, (kind, (first, second), addresses) in VALUES[world.kind].items():
        one, other = addresses or (first.strip("'"), second.strip("'"))
        yield name, kind, first, second, one, other


def _becomes(world: World, source: str, *paths: str) -> None:
    wanted = {f"{source}/{path}" for path in paths}
    until(
        lambda: set(world.entries(source)) == wanted and not world.waiting(),
        lambda: f"{set(world.entries(source))} instead of {wanted}; {world.store.rejected()}",
    )


def test_values_of_every_type_are_listed_updated_and_deleted(world: World) -> None:
    """Each type of column in a template: its rows come, one turns into the other, and they go."""
    for name, kind, first, second, one, other in _types(world):
        table = source = f"two_{name}"
        world.run(
            f"CREATE TABLE {table} (id int PRIMARY KEY, v {kind}, w {kind}, n int DEFAULT 0)",
            f"INSERT INTO {table} (id, v, w) VALUES (1, {first}, {second})",
        )
        relay = world.relay(name=source, table=table, where="", url=f"/{source}/{{v}}/{{w}}")
        _becomes(world, source, f"{one}/{other}")
        world.run(f"INSERT INTO {table} (id, v, w) VALUES (2, {second}, {second}), (3, NULL, NULL)")
        _becomes(world, source, f"{one}/{other}", f"{other}/{other}")
        world.run(f"UPDATE {table} SET v = {second} WHERE id = 1")
        _becomes(world, source, f"{other}/{other}")
        world.run(f"UPDATE {table} SET w = {first} WHERE id = 2")
        _becomes(world, source, f"{other}/{other}", f"{other}/{one}")
        world.run(f"DELETE FROM {table} WHERE id = 2")
        _becomes(world, source, f"{other}/{other}")
        world.run(f"DELETE FROM {table}")
        _becomes(world, source)
        assert relay.stop()


def test_one_column_of_every_type(world: World) -> None:
    """The lookup by a single column, which an index serves, finds each type too."""
    for name, kind, first, second, one, other in _types(world):
        table = source = f"one_{name}"
        world.run(f"CREATE TABLE {table} (id int PRIMARY KEY, v {kind})")
        relay = world.relay(name=source, table=table, where="", url=f"/{source}/{{v}}")
        world.run(f"INSERT INTO {table} VALUES (1, {first})")
        _becomes(world, source, one)
        world.run(f"UPDATE {table} SET v = {second}")
        _becomes(world, source, other)
        world.run(f"DELETE FROM {table}")
        _becomes(world, source)
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


def test_a_database_without_an_encoding(world: World) -> None:
    """PostgreSQL's SQL_ASCII keeps any bytes as text: those that are no UTF-8 are refused, row by row."""
    if world.kind != "postgresql":
        pytest.skip("SQL_ASCII is PostgreSQL's")
    with world.server.connect("postgres") as connection:
        connection.autocommit = True
        connection.execute(
            "CREATE DATABASE bytes TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    world.application.close()
    world.database = "bytes"
    world.application = world.server.connect("bytes")
    world.make_products()
    bad = "convert_from('\\x636166e9', 'SQL_ASCII')"
    world.run(f"INSERT INTO products (slug) VALUES ({bad}), ('tea')")
    relay = world.relay()
    world.becomes("p/tea")
    values = ", ".join(f"(convert_from('\\x{octets}', 'SQL_ASCII'))" for octets in ("ff", "636166c3a9"))
    world.run(f"INSERT INTO products (slug) VALUES {values}")
    world.becomes("p/tea", "p/caf%C3%A9")
    wanted = {r"slug = caf\xe9", r"slug = \xff"}
    until(lambda: wanted <= {row["loc"] for row in world.store.rejected()}, relay.health)


def test_numbers_that_are_dates(world: World) -> None:
    """Digits, a Julian day, milliseconds and seconds: each is the date that it can only be."""
    real = "double" if world.kind == "mysql" else "double precision"
    columns = {"digits": "int", "ms": "bigint", "julian": real}
    world.run(*(f"ALTER TABLE products ADD {name} {kind}" for name, kind in columns.items()))
    world.run(
        "INSERT INTO products (slug, digits, ms, julian) VALUES ('tea', 20260321, 1774092153000, 2461120.974)"
    )
    found = {}
    for column in columns:
        relay = world.relay(name=f"by_{column}", url=f"/{column}/{{slug}}", lastmod=column, timezone="UTC")
        (entry,) = world.entries(f"by_{column}").values()
        found[column] = entry.lastmod
        assert relay.stop()
    assert found["digits"] == "2026-03-21"
    assert found["ms"] == "2026-03-21T11:22:33Z"
    assert found["julian"].startswith("2026-03-21T11:22:3")

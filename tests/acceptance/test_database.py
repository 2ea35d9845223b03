"""Databases by the command: the example shop, triggers, relay and sync."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.acceptance.place import BASE, ROOT, Place, ndjson, settings
from tests.acceptance.until import until
from tests.published import published

CATALOGUE = """
[sites.main.database.catalogue]
dsn = "sqlite:///shop.db"
table = "products"
url = "/p/{slug}"
where = "published"
"""


def _execute(file: Path, *statements: str) -> None:
    connection = sqlite3.connect(file, timeout=20)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def _shop(place: Place, redis_url: str, more: str = CATALOGUE) -> Path:
    file = place.folder / "shop.db"
    _execute(
        file,
        "CREATE TABLE products (id INTEGER PRIMARY KEY, slug TEXT UNIQUE, published INTEGER)",
        "INSERT INTO products VALUES (1, 'tea', 1), (2, 'cup', 1), (3, 'draft', 0)",
    )
    place.configure(settings(redis_url) + more)
    return file


def _paths(place: Place) -> set[str]:
    return {loc.removeprefix(BASE) for loc in published(place.output)}


def test_the_example_shop_comes_up_from_nothing_in_one_command(place: Place) -> None:
    """`sitemapd run` makes the file, the triggers and the sitemap; a change shows; a second start too."""
    for name in ("schema.sql", "sitemapd.toml"):
        shutil.copy(ROOT / "examples" / "shop" / name, place.folder / name)
    database, output = place.folder / ".data" / "shop.db", place.folder / ".data" / "public"

    def has(path: str) -> bool:
        return f"http://127.0.0.1:8321/products/{path}" in published(output)

    service = place.service("run", "--port", "0")
    service.says("Serving at")
    until(lambda: len(published(output)) == 5, what="all five products are listed")
    assert has("cups/sch%C3%A4lchen")
    _execute(database, "UPDATE products SET published = 1 WHERE slug = 'winter-blend'")
    until(lambda: has("tea/winter-blend"), what="the published product is listed")
    assert service.stop() == 0
    _execute(database, "DELETE FROM products WHERE slug = 'kyusu'")
    again = place.service("run", "--port", "0")
    until(lambda: not has("pots/kyusu"), what="what changed meanwhile is gone")
    row = place.ok("status", "--json").json["sites"]["shop"]["producers"]["catalogue"]
    assert (row["kind"], row["triggers"], row["lag_rows"]) == ("relay", "installed", 0)
    assert again.stop() == 0


def test_triggers_relay_and_sync(place: Place, redis_url: str) -> None:
    """Without triggers the relay refuses to start; then rows, changes and a sync show."""
    file = _shop(place, redis_url)
    assert "triggers install catalogue" in place.command("relay").refusal()
    assert place.command("triggers", "status", "catalogue").code == 1
    wrong = "WRONG triggers of catalogue of main: they are not installed: run `sitemapd triggers install"
    assert wrong in place.command("doctor").out
    printed = place.ok("triggers", "print", "catalogue").out
    assert "CREATE TRIGGER" in printed
    place.ok("triggers", "install", "catalogue")
    assert place.ok("triggers", "status", "catalogue", "--json").json["triggers"] == "installed"
    _execute(file, "INSERT INTO products VALUES (4, 'waits', 1)")
    waiting = place.ok("status", "--json").json["sites"]["main"]["producers"]["catalogue"]
    assert (waiting["state"], waiting["lag_rows"]) == ("not running", 1)
    assert "ok   triggers of catalogue of main: are installed, 1 changes wait" in place.command("doctor").out
    assert waiting["lag_seconds"] >= 0
    place.worker()
    relay = place.service("relay", "catalogue")
    relay.says("[relay_ready")
    until(lambda: _paths(place) == {"p/tea", "p/cup", "p/waits"}, what="the rows are listed")
    _execute(file, "UPDATE products SET slug = 'mug' WHERE slug = 'cup'")
    until(lambda: _paths(place) == {"p/tea", "p/mug", "p/waits"}, what="the new slug is listed")
    assert place.ok("sync", "--source", "catalogue", "--json").json == {"asked": True, "held": 0}
    assert relay.stop() == 0
    done = place.ok("sync", "--source", "catalogue", "--json").json
    assert (done["wanted"], done["added"], done["updated"], done["deleted"]) == (3, 0, 0, 0)
    place.ok("triggers", "uninstall", "catalogue")
    assert place.command("triggers", "status", "catalogue").code == 1


def test_what_a_renamed_source_leaves_is_listed_and_removed(place: Place, redis_url: str) -> None:
    """`triggers list` and `doctor` name it with the command, and a wrong name is refused."""
    _shop(place, redis_url)
    place.ok("triggers", "install", "catalogue")
    assert "Every trigger belongs" in place.ok("triggers", "list").out
    place.configure(settings(redis_url) + CATALOGUE.replace("catalogue", "shop"))
    place.ok("triggers", "install", "shop")
    listed = place.command("triggers", "list")
    assert listed.code == 1
    assert "triggers uninstall --stray main/catalogue" in listed.out
    assert "main/catalogue" in place.command("doctor").out
    assert place.command("triggers", "uninstall", "--stray", "main/other").code == 2
    place.ok("triggers", "uninstall", "--stray", "main/catalogue")
    place.ok("triggers", "list", "--json")
    assert place.ok("triggers", "status", "shop", "--json").json["triggers"] == "installed"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('table = "products"', 'table = "produkts"'), "products"),
        (("{slug}", "{slugg}"), "slug"),
        (('where = "published"', 'wher = "published"'), "where"),
        (('dsn = "sqlite:///shop.db"', 'dsn = "shop.db"'), "sqlite:///"),
        (('dsn = "sqlite:///shop.db"', ""), "dsn"),
    ],
)
def test_what_is_set_wrong_is_one_sentence(
    place: Place, redis_url: str, change: tuple[str, str], said: str
) -> None:
    """`relay` and `run` name the setting, and what would be right, and start nothing."""
    _shop(place, redis_url, CATALOGUE.replace(*change))
    for command in (("relay",), ("run", "--port", "0")):
        sentence = place.command(*command).refusal()
        assert sentence.startswith("sites.main.database.catalogue.")
        assert said in sentence


def test_sync_of_a_file(place: Place, redis_url: str) -> None:
    """Only the difference becomes events; refused lines keep what they are about."""
    place.configure(settings(redis_url))
    first = [{"loc": f"{BASE}{name}"} for name in ("a", "b", "c")]
    (place.folder / "list").write_bytes(ndjson(first))
    assert place.ok("sync", "list", "--source", "cms").out == (
        "3 added, 0 updated, 0 deleted, 0 unchanged, 0 refused\n"
    )
    second = [{"loc": f"{BASE}a"}, {"loc": f"{BASE}b", "lastmod": "2026-01-01"}]
    done = place.ok("sync", "-", "--source", "cms", "--json", stdin=ndjson(second)).json
    assert {name: done[name] for name in ("added", "updated", "deleted", "unchanged")} == {
        "added": 0,
        "updated": 1,
        "deleted": 1,
        "unchanged": 1,
    }
    bad = place.command(
        "sync", "-", "--source", "cms", stdin=ndjson([{"loc": f"{BASE}a", "lastmod": "soon"}])
    )
    assert bad.code == 1
    assert "line 1" in bad.err
    assert json.loads(place.ok("show", f"{BASE}a", "--json").out)["source"] == "cms"
    empty = place.command("sync", "-", "--source", "cms", stdin=b"")
    assert empty.code == 1
    assert "--accept-deletes" in empty.err


def test_doctor_points_at_values_that_are_encoded_twice(place: Place, redis_url: str) -> None:
    """Ten slugs with %xx: doctor names the column and the way out; with `:encoded` it has nothing to say."""
    file = _shop(place, redis_url)
    rows = ", ".join(f"({n}, '%e3%81%82{n}', 1)" for n in range(10, 20))
    _execute(file, f"INSERT INTO products VALUES {rows}")
    assert "write {slug:encoded} in its url" in place.command("doctor").out
    place.configure(settings(redis_url) + CATALOGUE.replace("{slug}", "{slug:encoded}"))
    assert "ok   database values: none" in place.command("doctor").out

"""Settings of a database source, checked without the database."""

import re
from pathlib import Path
from typing import Any

import pytest

from producers.database.source import DatabaseSource
from sitemap_store.errors import BadSetting

GOOD: dict[str, Any] = {
    "name": "shop",
    "dsn": "postgresql://u:s3cr3t@h/db",
    "table": "products",
    "url": "/{slug}",
}

WRONG: tuple[Any, ...] = (
    *(5, -1.5, True, None, "", "text"),
    *([], [1], ["a"], [["a"]], {}, {"a": 1}, {"a": ["b"]}, {"a": {}}),
    *(float("nan"), float("inf"), {"a": [{"column": 5}]}),
)


def test_the_least_that_is_needed() -> None:
    """A dsn, a table and a template; the password is in no repr."""
    source = DatabaseSource(**GOOD)
    assert source.kind == "postgresql"
    assert "s3cr3t" not in repr(source)


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"dsn": "s3cr3t"}, "dsn"),
        ({"dsn": 5}, "dsn"),
        ({"dsn": "oracle://u:s3cr3t@h/x"}, "dsn"),
        ({"dsn": "sqlite:///"}, "dsn"),
        ({"table": ""}, "table"),
        ({"table": "a.b.c"}, "table"),
        ({"table": 'p"; DROP TABLE x; --'}, "table"),
        ({"query": "SELECT 1"}, "table"),
        ({"table": "", "query": "SELECT 1"}, "key"),
        ({"table": "", "query": "SELECT 1", "key": "id"}, "feeds"),
        ({"feeds": {"a": {"column": "id", "matches": "id", "watch": "x"}}}, "feeds"),
        ({"where": "true; DROP TABLE x"}, "where"),
        ({"url": "{slug}"}, "url"),
        ({"timezone": "Nowhere"}, "timezone"),
        ({"priority": 1.5}, "priority"),
        ({"priority": "0.55"}, "priority"),
        ({"priority": True}, "priority"),
        ({"lastmod": "2026-13-01"}, "lastmod"),
        ({"triggers": "always"}, "triggers"),
        ({"poll_interval": 0}, "poll_interval"),
        ({"max_delete": 2}, "max_delete"),
        ({"reconcile_interval": -1}, "reconcile_interval"),
        ({"notify": "yes"}, "notify"),
        ({"setup": "x.sql"}, "setup"),
        ({"dsn": "mysql://h/db", "notify": True}, "notify"),
        ({"key": [1]}, "key"),
    ],
)
def test_what_cannot_work_is_named(changes: dict[str, Any], option: str) -> None:
    """One sentence with the option's name, and never the dsn."""
    with pytest.raises(BadSetting) as error:
        DatabaseSource(**{**GOOD, **changes})
    assert error.value.setting == f"database.shop.{option}"
    assert "s3cr3t" not in str(error.value)


@pytest.mark.parametrize("option", ["column", "matches", "watch"])
def test_a_feed_needs_all_it_has(option: str) -> None:
    """What is missing of a feed is named; so is what is not known."""
    feed = {"column": "id", "matches": "id", "watch": ["slug"]}
    query: dict[str, Any] = {**GOOD, "table": "", "query": "SELECT 1", "key": "id"}
    with pytest.raises(BadSetting) as error:
        DatabaseSource(**query | {"feeds": {"a": {k: v for k, v in feed.items() if k != option}}})
    assert error.value.setting == f"database.shop.feeds.a.{option}"
    with pytest.raises(BadSetting, match="colum"):
        DatabaseSource(**query | {"feeds": {"a": {**feed, "colum": "x"}}})


def test_constants_and_columns() -> None:
    """A word of the protocol, a number and a date are constants, other texts are columns."""
    source = DatabaseSource(**GOOD, changefreq="weekly", priority=0.5, lastmod="2026-01-01")
    assert source.constants == {"changefreq": "weekly", "priority": "0.5", "lastmod": "2026-01-01"}
    assert source.columns == {}
    source = DatabaseSource(**GOOD, changefreq="freq", priority="weight", lastmod="changed")
    assert source.constants == {}
    assert source.columns == {"changefreq": "freq", "priority": "weight", "lastmod": "changed"}


def test_the_file_of_a_sqlite_database() -> None:
    """Three slashes and a relative path, or four."""
    assert DatabaseSource(**{**GOOD, "dsn": "sqlite:///shop.db"}).file == Path("shop.db")
    assert DatabaseSource(**{**GOOD, "dsn": "sqlite:////srv/shop.db"}).file == Path("/srv/shop.db")


@pytest.mark.parametrize("option", list(DatabaseSource.model_fields))
def test_a_value_of_any_wrong_type_is_one_sentence(option: str) -> None:
    """Whatever a configuration can hold in a setting's place is taken, or named; nothing else is raised."""
    query = {**GOOD, "table": "", "query": "SELECT 1", "key": "id"}
    for value in WRONG:
        for given in (GOOD, query):
            try:
                DatabaseSource(**{**given, option: value})
            except BadSetting as error:
                assert error.setting.startswith("database.")
                assert re.fullmatch(r"[^\n]+ (is|has|goes|must) [^\n]+\.( [^\n]+[.}\]])?", str(error)), error


@pytest.mark.parametrize(
    ("feed", "at"),
    [
        ({"column": ["id"], "matches": "id", "watch": "x"}, "feeds.a.column"),
        ({"column": "id", "matches": 5, "watch": "x"}, "feeds.a.matches"),
        ({"column": "id", "matches": "id", "watch": 5}, "feeds.a.watch"),
        ({"column": "id", "matches": "id", "watch": ["x", 5]}, "feeds.a.watch"),
        (5, "feeds.a"),
        ([5], "feeds.a"),
        ("id", "feeds.a"),
    ],
)
def test_a_feed_of_wrong_types_is_named(feed: object, at: str) -> None:
    """A list where a text is wanted, and a number where a list is."""
    query: dict[str, Any] = {**GOOD, "table": "", "query": "SELECT 1", "key": "id"}
    with pytest.raises(BadSetting) as error:
        DatabaseSource(**query | {"feeds": {"a": feed}})
    assert error.value.setting == f"database.shop.{at}"


def test_a_table_may_feed_a_query_by_several_links() -> None:
    """As a list of them."""
    links = [{"column": "id", "matches": matches, "watch": "slug"} for matches in ("id", "parent_id")]
    source = DatabaseSource(
        **{**GOOD, "table": "", "query": "SELECT 1", "key": "id", "feeds": {"pages": links}}
    )
    assert [(feed.table, feed.matches, feed.watch) for feed in source.feeds] == [
        ("pages", "id", ("slug",)),
        ("pages", "parent_id", ("slug",)),
    ]

"""What is set of one database source, checked as far as that goes without the database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, Field, field_validator, model_validator

from producers.database.template import Template
from producers.dates import Numbers
from producers.settings import STRICT, SourceSettings, Text, Texts, within
from sitemap_store.errors import BadSetting, Refused
from sitemap_store.model.dates import parse_lastmod, zone_at
from sitemap_store.model.protocol import CHANGEFREQS
from sitemap_store.model.values import check_changefreq, check_priority

KINDS: Final[Mapping[str, str]] = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
    "sqlite": "sqlite",
}
"""Scheme of a dsn → kind of database."""
_NUMBER: Final = re.compile(r"[0-9.]+")
_NAME: Final = re.compile(r"[^\s\"'`;.\x00]+(\.[^\s\"'`;.\x00]+)?")


class Feed(BaseModel):
    """One table whose rows feed a source's `query`."""

    model_config = STRICT

    table: str = Field(exclude=True)
    column: Text
    """The column of the table that says which rows of the query a change concerns …"""
    matches: Text
    """… and the column of the query that it is compared with."""
    watch: Texts
    """The columns of the table whose change matters."""

    @property
    def noted(self) -> str:
        """What the outbox calls the value of the table's column."""
        return f"{self.table}.{self.column}"


def _feeds(given: object) -> object:
    """Table → its options, or a list of such: as one list, each with its table."""
    if not isinstance(given, dict):
        if isinstance(given, tuple) and all(isinstance(each, Feed) for each in given):
            return given
        raise ValueError(f"{given!r} is no table. Write [….feeds.TABLE] for each table that is read.")
    return tuple(
        {**each, "table": str(table)} if isinstance(each, dict) else each for table, each in _pairs(given)
    )


def _pairs(given: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    several = ((table, each if isinstance(each, list) else [each]) for table, each in given.items())
    return [(table, each) for table, links in several for each in links]


class DatabaseSource(SourceSettings):
    """One database source. Raises BadSetting, named `database.NAME.OPTION`."""

    group: ClassVar[str] = "database"
    secret: ClassVar[str] = "dsn"

    dsn: str = Field(repr=False)
    """postgresql://…, mysql://…, mariadb://… or sqlite:///FILE."""
    url: str
    """Template of a row's address below the site's base, over columns."""
    table: str = ""
    """The table, with its schema where that is needed. Not beside `query`."""
    key: Texts = ()
    """The columns that tell its rows apart; left out: the table's primary key."""
    where: str = ""
    """An SQL condition over a row's columns: which rows are published. Left out: all."""
    query: str = ""
    """In place of `table`: a SELECT that joins several tables, one row a URL."""
    feeds: Annotated[tuple[Feed, ...], BeforeValidator(_feeds)] = ()
    """The tables that `query` reads; written as name → options of a `Feed`, or a list of such."""
    lastmod: str = ""
    """The column, or a date for all rows, of when the page last changed."""
    lastmod_numbers: Numbers = "auto"
    """What numbers in that column count, where they don't tell it themselves."""
    changefreq: str = ""
    """A column, or one of the protocol's words."""
    priority: str | float = ""
    """A column, or a number."""
    timezone: str = ""
    """The zone of times that are stored without one, such as Europe/Berlin or +01:00."""
    triggers: Literal["manual", "auto"] = "manual"
    """manual (`sitemapd triggers install`), or auto: the relay installs them when it starts."""
    setup: Annotated[Path | None, Field(strict=False)] = None
    """SQLite only: a file of SQL that is run when the database has no tables yet."""
    outbox_schema: str = ""
    """PostgreSQL only: the schema of the outbox; left out: public."""
    notify: bool = False
    """PostgreSQL only: triggers wake the relay at commit by NOTIFY."""
    check_interval: Annotated[float, within(0.02, 3600)] = 5.0
    """Seconds between two looks at whether the triggers, their table and the outbox are still the same."""
    poll_interval: Annotated[float, within(0.02, 3600)] = 0.25
    """Seconds between two looks at the outbox."""
    reconcile_interval: Annotated[float, within(1, 31 * 86_400, zero=True)] = 3600.0
    """Seconds between two comparisons of the whole table with the state; 0 for none."""

    @property
    def kind(self) -> str:
        """postgresql, mysql or sqlite."""
        return KINDS[urlsplit(self.dsn).scheme]

    @property
    def file(self) -> Path:
        """The file of a SQLite database."""
        return Path(urlsplit(self.dsn).path[1:])

    @cached_property
    def template(self) -> Template:
        """The template, parsed."""
        return Template(self.url)

    @cached_property
    def constants(self) -> Mapping[str, str]:
        """What lastmod, changefreq and priority are where they are no columns."""
        found = {}
        if not isinstance(self.priority, str) or _NUMBER.fullmatch(self.priority):
            found["priority"] = check_priority(self.priority)
        if self.changefreq in CHANGEFREQS:
            found["changefreq"] = check_changefreq(self.changefreq)
        if self.lastmod[:4].isdigit():
            found["lastmod"] = parse_lastmod(self.lastmod).text or ""
        return found

    @property
    def columns(self) -> Mapping[str, str]:
        """Field of an entry → the column that it is read from."""
        given = {"lastmod": self.lastmod, "changefreq": self.changefreq, "priority": self.priority}
        return {
            name: str(value) for name, value in given.items() if value != "" and name not in self.constants
        }

    @classmethod
    def place(cls, loc: tuple[int | str, ...], options: Mapping[str, Any]) -> tuple[str, type[BaseModel]]:
        """Of a feed: by its table, and not by its number."""
        if loc[0] == "feeds" and len(loc) > 1:
            table, _ = _pairs(options["feeds"])[int(loc[1])]
            return ".".join(["feeds", str(table), *map(str, loc[2:3])]), Feed
        return super().place(loc, options)

    @field_validator("key")
    @classmethod
    def _names_columns(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if not all(names):
            raise ValueError(f"{list(names)!r} has an empty name.")
        return names

    @field_validator("priority", mode="before")
    @classmethod
    def _is_column_or_number(cls, value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"{value!r} is neither a column nor a number.")
        return value

    @field_validator("where", "query")
    @classmethod
    def _is_one_statement(cls, sql: str) -> str:
        if ";" in sql:
            raise ValueError("has a semicolon.")
        return sql

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_dsn()
        try:
            _ = self.template, self.constants
            if self.timezone:
                zone_at("2026-01-01", "00:00:00", self.timezone)
        except ValueError as error:
            self.bad("url", str(error))
        except Refused as refused:
            self.bad(refused.rule, refused.detail)
        except BadSetting as error:
            self.bad("timezone", error.detail, error.hint)
        self._check_relation()
        for option, kind in (("notify", "postgresql"), ("outbox_schema", "postgresql"), ("setup", "sqlite")):
            if getattr(self, option) and self.kind != kind:
                self.bad(option, f"is for {kind} databases only.")
        return self

    def _check_dsn(self) -> None:
        # Its value is never shown: it may hold a password.
        try:
            scheme, _, path, _, _ = urlsplit(self.dsn)
        except ValueError:
            scheme = path = ""
        if scheme not in KINDS:
            hint = "Write postgresql://, mysql:// or sqlite:///FILE."
            self.bad("dsn", "is no address of a database.", hint)
        if self.kind == "sqlite" and not path[1:]:
            self.bad("dsn", "names no file.", "Write sqlite:///shop.db, or sqlite:////srv/shop.db.")

    def _check_relation(self) -> None:
        if bool(self.table) == bool(self.query):
            self.bad("table", "is missing." if not self.table else "goes without query: set one of them.")
        if self.table and not _NAME.fullmatch(self.table):
            self.bad("table", f"{self.table!r} is no name of a table.")
        if self.feeds and not self.query:
            self.bad("feeds", "goes with query only.")
        if self.query:
            if self.where:
                self.bad("where", "goes without query.", "Write the condition into the query.")
            if not self.key:
                self.bad("key", "is missing: it names the column that tells the query's rows apart.")
            if not self.feeds:
                self.bad("feeds", "is missing: it names the tables that the query reads.")

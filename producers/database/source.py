"""What is set of one database source, checked as far as that goes without the database."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn, get_args
from urllib.parse import urlsplit

from producers.database.template import Template
from producers.dates import Numbers
from sitemap_store.errors import BadSetting, Refused
from sitemap_store.model.dates import parse_lastmod, zone_at
from sitemap_store.model.protocol import CHANGEFREQS
from sitemap_store.model.values import check_changefreq, check_priority
from sitemap_store.model.wire import check_source

KINDS: Final[Mapping[str, str]] = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
    "sqlite": "sqlite",
}
"""Scheme of a dsn → kind of database."""
INSTALLS: Final = ("manual", "auto")
_NUMBER: Final = re.compile(r"[0-9.]+")
_NAME: Final = re.compile(r"[^\s\"'`;.\x00]+(\.[^\s\"'`;.\x00]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """One table whose rows feed a source's `query`."""

    table: str
    column: str
    """The column of the table that says which rows of the query a change concerns …"""
    matches: str
    """… and the column of the query that it is compared with."""
    watch: tuple[str, ...]
    """The columns of the table whose change matters."""

    @property
    def noted(self) -> str:
        """What the outbox calls the value of the table's column."""
        return f"{self.table}.{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSource:
    """One database source. Raises BadSetting, named `database.NAME.OPTION`."""

    name: str
    """What its entries name as their source."""
    dsn: str = field(repr=False)
    """postgresql://…, mysql://…, mariadb://… or sqlite:///FILE."""
    url: str
    """Template of a row's address below the site's base, over columns."""
    table: str = ""
    """The table, with its schema where that is needed. Not beside `query`."""
    key: tuple[str, ...] = ()
    """The columns that tell its rows apart; left out: the table's primary key."""
    where: str = ""
    """An SQL condition over a row's columns: which rows are published. Left out: all."""
    query: str = ""
    """In place of `table`: a SELECT that joins several tables, one row a URL."""
    feeds: Any = ()
    """The tables that `query` reads: name → options of a `Feed`, or a list of such; then the feeds."""
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
    triggers: str = "manual"
    """manual (`sitemapd triggers install`), or auto: the relay installs them when it starts."""
    setup: Path | None = None
    """SQLite only: a file of SQL that is run when the database has no tables yet."""
    outbox_schema: str = ""
    """PostgreSQL only: the schema of the outbox; left out: public."""
    notify: bool = False
    """PostgreSQL only: triggers wake the relay at commit by NOTIFY."""
    check_interval: float = 5.0
    """Seconds between two looks at whether the triggers, their table and the outbox are still the same."""
    poll_interval: float = 0.25
    """Seconds between two looks at the outbox."""
    reconcile_interval: float = 3600.0
    """Seconds between two comparisons of the whole table with the state; 0 for none."""
    max_delete: float = 0.2
    """The share of the source's URLs, 0 to 1, that a comparison may delete if it is over 100 of them."""

    def __post_init__(self) -> None:
        try:
            check_source(self.name)
        except Refused as refused:
            raise BadSetting(setting=f"database.{self.name}", detail=refused.detail) from refused
        self._check_types()
        self._check_dsn()
        try:
            Template(self.url)
        except ValueError as error:
            self.bad("url", str(error))
        if self.timezone:
            try:
                zone_at("2026-01-01", "00:00:00", self.timezone)
            except BadSetting as error:
                self.bad("timezone", error.detail, error.hint)
        self._check_relation()
        for option, choices in (("triggers", INSTALLS), ("lastmod_numbers", get_args(Numbers))):
            if getattr(self, option) not in choices:
                self.bad(option, f"{getattr(self, option)!r} is none of {', '.join(choices)}.")
        self._check_priority()
        self._within("check_interval", 0.02, 3600)
        self._within("poll_interval", 0.02, 3600)
        self._within("max_delete", 0, 1)
        if self.reconcile_interval != 0:
            self._within("reconcile_interval", 1, 31 * 86_400)
        for option, kind in (("notify", "postgresql"), ("outbox_schema", "postgresql"), ("setup", "sqlite")):
            if getattr(self, option) and self.kind != kind:
                self.bad(option, f"is for {kind} databases only.")

    @property
    def kind(self) -> str:
        """postgresql, mysql or sqlite."""
        return KINDS[urlsplit(self.dsn).scheme]

    @property
    def file(self) -> Path:
        """The file of a SQLite database."""
        return Path(urlsplit(self.dsn).path[1:])

    @property
    def template(self) -> Template:
        """The template, parsed. Raises ValueError."""
        return Template(self.url)

    @property
    def constants(self) -> Mapping[str, str]:
        """What lastmod, changefreq and priority are where they are no columns, checked."""
        found = {}
        if isinstance(self.priority, float | int) or _NUMBER.fullmatch(self.priority):
            found["priority"] = check_priority(self.priority)
        if self.changefreq in CHANGEFREQS:
            found["changefreq"] = check_changefreq(self.changefreq)
        if self.lastmod[:4].isdigit():
            found["lastmod"] = parse_lastmod(self.lastmod).text or ""
        return found

    @property
    def columns(self) -> Mapping[str, str]:
        """Field of an entry → the column that it is read from."""
        constants = self.constants
        given = {"lastmod": self.lastmod, "changefreq": self.changefreq, "priority": self.priority}
        return {name: str(value) for name, value in given.items() if value != "" and name not in constants}

    def bad(self, option: str, detail: str, hint: str = "") -> NoReturn:
        """Raise BadSetting for one option."""
        raise BadSetting(setting=f"database.{self.name}.{option}", detail=detail, hint=hint)

    def _check_types(self) -> None:
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if each.name == "key":
                object.__setattr__(self, "key", self._names("key", value))
            elif each.name == "setup":
                if value is not None and not isinstance(value, str | Path):
                    self.bad("setup", f"{value!r} is no name of a file.")
                object.__setattr__(self, "setup", None if value is None else Path(value))
            elif each.name == "feeds":
                object.__setattr__(self, "feeds", tuple(self._feeds(value)))
            elif each.name == "priority":
                if isinstance(value, bool) or not isinstance(value, str | int | float):
                    self.bad("priority", f"{value!r} is neither a column nor a number.")
            elif each.name == "notify":
                if not isinstance(value, bool):
                    self.bad("notify", f"{value!r} is neither true nor false.")
            elif each.type == "float":
                if isinstance(value, bool) or not isinstance(value, int | float):
                    self.bad(each.name, f"{value!r} is no number.")
            elif not isinstance(value, str):
                # A value that is meant for the dsn is not shown.
                shown = "" if each.name == "dsn" else f"{value!r} "
                self.bad(each.name, f"{shown}is no text.")

    def _names(self, option: str, value: object) -> tuple[str, ...]:
        several = (value,) if isinstance(value, str) else value
        if not isinstance(several, list | tuple) or not all(
            isinstance(name, str) and name for name in several
        ):
            self.bad(option, f"{value!r} is no list of columns.", 'Write ["one", "other"].')
        return tuple(several)

    def _feeds(self, given: object) -> Iterator[Feed]:
        if isinstance(given, Mapping):
            for name, several in given.items():
                for each in several if isinstance(several, list | tuple) else (several,):
                    yield self._feed(str(name), each)
        elif isinstance(given, tuple) and all(isinstance(each, Feed) for each in given):
            yield from given
        else:
            self.bad("feeds", f"{given!r} is no table.", "Write [….feeds.TABLE] for each table that is read.")

    def _feed(self, name: str, given: object) -> Feed:
        at = f"feeds.{name}"
        if not isinstance(given, Mapping):
            self.bad(at, "is no table.", 'Write column = "…", matches = "…" and watch = ["…"].')
        known = [each.name for each in dataclasses.fields(Feed) if each.name != "table"]
        for option in given:
            if option not in known:
                self.bad(f"{at}.{option}", "is no setting of sitemapd.", f"Known: {', '.join(known)}.")
        values: dict[str, Any] = dict(given)
        for option in known:
            if option not in values:
                self.bad(f"{at}.{option}", "is missing.")
        for option in ("column", "matches"):
            if not isinstance(values[option], str) or not values[option]:
                self.bad(f"{at}.{option}", f"{values[option]!r} is no name of a column.")
        values["watch"] = self._names(f"{at}.watch", values["watch"])
        return Feed(table=name, **values)

    def _check_dsn(self) -> None:
        try:
            scheme = urlsplit(self.dsn).scheme
        except ValueError:
            scheme = ""
        if scheme not in KINDS:
            # Not the dsn itself: it may hold a password.
            self.bad(
                "dsn", "is no address of a database.", "Write postgresql://, mysql:// or sqlite:///FILE."
            )
        if self.kind == "sqlite" and not urlsplit(self.dsn).path[1:]:
            self.bad("dsn", "names no file.", "Write sqlite:///shop.db, or sqlite:////srv/shop.db.")

    def _check_relation(self) -> None:
        if bool(self.table) == bool(self.query):
            self.bad("table", "is missing." if not self.table else "goes without query: set one of them.")
        if self.table and not _NAME.fullmatch(self.table):
            self.bad("table", f"{self.table!r} is no name of a table.")
        if self.query:
            if self.where:
                self.bad("where", "goes without query.", "Write the condition into the query.")
            if not self.key:
                self.bad("key", "is missing: it names the column that tells the query's rows apart.")
            if not self.feeds:
                self.bad("feeds", "is missing: it names the tables that the query reads.")
        elif self.feeds:
            self.bad("feeds", "goes with query only.")
        for option in ("where", "query"):
            if ";" in getattr(self, option):
                self.bad(option, "has a semicolon.")

    def _check_priority(self) -> None:
        for option in ("priority", "lastmod"):
            try:
                _ = self.constants
            except Refused as refused:
                if refused.rule == option:
                    self.bad(option, refused.detail)

    def _within(self, option: str, low: float, high: float) -> None:
        value = getattr(self, option)
        if not low <= value <= high:
            self.bad(option, f"{value} is not within {low:g} to {high:g}.")

"""Settings → the parts, checked: the composition that every command shares."""

from __future__ import annotations

import difflib
import re
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import redis

from producers.sink import EventSink
from sitemap_store.errors import BadSetting, Refused
from sitemap_store.model.dates import parse_lastmod
from sitemap_store.model.protocol import CURRENT, STRICT
from sitemap_store.model.sections import SectionRule, Sections
from sitemap_store.model.site import Site
from sitemap_store.model.style import Style
from sitemap_store.model.urls import UrlRules, normalise_base
from sitemap_store.model.values import check_changefreq, check_priority
from sitemap_store.output.folder import Folder
from sitemap_store.redis.connection import TIMEOUT_S, connect, shown
from sitemap_store.redis.store import Store
from sitemap_store.redis.wake import Waker
from sitemapd.embedded import socket_of
from sitemapd.settings import SectionSettings, Settings, SiteSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from producers.database.source import DatabaseSource
    from producers.filesystem.source import FilesystemSource

_INDEXNOW_KEY = re.compile(r"[A-Za-z0-9-]{8,128}")
_SITE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of one process. Connections open on first use."""

    settings: Settings
    sites: MappingProxyType[str, Site]
    redis_timeout: float = TIMEOUT_S
    """Seconds that one command may take."""
    command: str = "sitemapd"
    """What finds this configuration on the command line, for messages that name a command."""

    @cached_property
    def sources(self) -> Mapping[str, tuple[FilesystemSource, ...]]:
        """Each site's watched directories. Raises BadSetting. (Most commands never load that code.)"""
        from sitemapd.sources import filesystem_sources

        return filesystem_sources(self.settings)

    @cached_property
    def databases(self) -> Mapping[str, tuple[DatabaseSource, ...]]:
        """Each site's database sources. Raises BadSetting."""
        from sitemapd.sources import database_sources

        return database_sources(self.settings)

    @cached_property
    def client(self) -> redis.Redis:
        """The state's Redis."""
        return _connect(self.redis_url, "redis_url", self.redis_timeout)

    @cached_property
    def queue_client(self) -> redis.Redis:
        """The queue's Redis: a client of its own, since RQ changes time-outs."""
        return _connect(self.settings.queue_url or self.redis_url, "queue_url", self.redis_timeout)

    @property
    def redis_url(self) -> str:
        """The state's address. Raises BadSetting when there is none."""
        if self.settings.redis_url is not None:
            return self.settings.redis_url
        socket = socket_of(self.settings.data_dir)
        if not socket.exists():
            raise BadSetting(
                setting="redis_url",
                detail=f"is not set, and no `sitemapd run` keeps a Redis under {self.settings.data_dir}.",
                hint="Set redis_url, or start `sitemapd run`.",
            )
        return f"unix://{socket}"

    @property
    def has_redis(self) -> bool:
        """Whether there is an address of the state's Redis: one is set, or `sitemapd run` keeps one."""
        return self.settings.redis_url is not None or socket_of(self.settings.data_dir).exists()

    @cached_property
    def waker(self) -> Waker:
        """What wakes the workers."""
        return Waker(self.queue_client)

    def store(self, site: str) -> Store:
        """A site's state."""
        return Store(self.client, self.sites[site])

    def publisher(self, site: str) -> EventSink:
        """What takes a site's events."""
        return EventSink(self.store(site), self.waker)

    def folder(self, site: str) -> Folder:
        """A site's output."""
        settings = self.settings.sites[site]
        return Folder(settings.output, sync=settings.fsync, file_mode=int(settings.file_mode, 8))

    def command_for(self, site: str) -> str:
        """The beginning of a command line about a site."""
        return self.command if len(self.sites) == 1 else f"{self.command} --site {site}"

    def site_named(self, name: str | None) -> str:
        """The site that a command is about: the one named, or the only one. Raises BadSetting."""
        if name is None:
            if len(self.sites) == 1:
                return next(iter(self.sites))
            known = ", ".join(self.sites)
            raise BadSetting(
                setting="--site",
                detail=f"there are several sites: {known}." if known else "no site is configured.",
                hint="Name one with --site." if known else "Add one under [sites.NAME].",
            )
        if name not in self.sites:
            raise BadSetting(
                setting="--site", detail=f"there is no site {name!r}.", hint=near(name, self.sites)
            )
        return name


def build(settings: Settings, *, file: Path | None = None) -> Parts:
    """Check the settings as a whole and put the parts together. Raises BadSetting.

    `file` is where they stand, when that is not the file that commands read by themselves.
    """
    sites: dict[str, Site] = {}
    outputs: dict[Path, str] = {}
    for name, site in settings.sites.items():
        if not _SITE_NAME.fullmatch(name):
            raise BadSetting(
                setting=f"sites.{name}", detail="a site's name is a-z, 0-9, _ and - (40 at most)."
            )
        if (other := outputs.get(site.output)) is not None:
            raise BadSetting(
                setting=f"sites.{name}.output",
                detail=f"{site.output} is the output of site {other} already.",
                hint="Give each site a folder of its own.",
            )
        outputs[site.output] = name
        with_prefix = f"sites.{name}."
        try:
            sites[name] = build_site(name, site)
        except BadSetting as error:
            raise BadSetting(
                setting=with_prefix + error.setting, detail=error.detail, hint=error.hint
            ) from error
    command = "sitemapd" if file is None else f"sitemapd --config {shlex.quote(str(file))}"
    return Parts(settings=settings, sites=MappingProxyType(sites), command=command)


def build_site(name: str, settings: SiteSettings) -> Site:
    """One site of its settings. Raises BadSetting named within the site."""
    limits = STRICT if settings.limits == "strict" else CURRENT
    base = normalise_base(settings.base_url)
    if settings.index_size > limits.sitemaps_per_index:
        raise BadSetting(
            setting="index_size",
            detail=f"{settings.index_size} is over the {limits.sitemaps_per_index} sitemaps that "
            f'an index may list under limits = "{settings.limits}".',
            hint="Set a lower index_size.",
        )
    if settings.index_size * (len(base) + 200) > limits.bytes_per_index:
        raise BadSetting(
            setting="index_size",
            detail=f"{settings.index_size} shards under {base[:60]} may not fit into the "
            f"{limits.bytes_per_index} bytes of an index file.",
            hint="Set a lower index_size.",
        )
    if settings.indexnow_key is not None and not _INDEXNOW_KEY.fullmatch(settings.indexnow_key):
        raise BadSetting(
            setting="indexnow_key", detail="is 8 to 128 letters, digits and -, as indexnow.org has it."
        )
    if settings.assume_timezone is not None:
        try:
            parse_lastmod("2026-01-01T00:00:00", assume_zone=settings.assume_timezone)
        except Refused as refused:
            raise BadSetting(setting="assume_timezone", detail=refused.detail) from refused
    rules = [
        SectionRule(name=section, patterns=options.match)
        for section, options in settings.sections.items()
        if options.match or section != settings.default_section
    ]
    for rule in rules:
        if not rule.patterns:
            raise BadSetting(
                setting=f"sections.{rule.name}.match",
                detail="is missing.",
                hint='Say which URLs the section holds, such as match = "/blog/**".',
            )
    if len(rules) > 200:
        raise BadSetting(
            setting="sections",
            detail=f"{len(rules)} are too many: 200 at most.",
            hint="Let a pattern cover several.",
        )
    return Site(
        name=name,
        rules=UrlRules(
            base=base,
            cross_submission=settings.cross_submission,
            strip_query=settings.strip_query,
            limits=limits,
        ),
        sections=Sections(rules, settings.default_section),
        styles={section: _style(section, options) for section, options in settings.sections.items()},
        limits=limits,
        shard_size=settings.shard_size,
        index_size=settings.index_size,
        gzip=settings.gzip,
        min_interval=settings.min_interval,
        partitions=settings.partitions,
        compact_below=settings.compact_below,
        assume_timezone=settings.assume_timezone,
    )


def _style(section: str, options: SectionSettings) -> Style:
    field = "changefreq"
    try:
        changefreq = check_changefreq(options.changefreq) if options.changefreq is not None else ""
        field = "priority"
        priority = check_priority(options.priority) if options.priority is not None else ""
    except Refused as refused:
        raise BadSetting(setting=f"sections.{section}.{field}", detail=refused.detail) from refused
    return Style(changefreq=changefreq, priority=priority)


def near(name: str, known: Any) -> str:
    """A hint that names the known name nearest to a wrong one, or all of them."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"Did you mean {near[0]}?" if near else f"Known: {', '.join(known)}."


def _connect(url: str, setting: str, timeout: float) -> redis.Redis:
    try:
        return connect(url, timeout=timeout)
    except (ValueError, redis.RedisError):
        raise BadSetting(
            setting=setting,
            # Not the reason: it may quote a part of a password that holds a slash.
            detail=f"{_unreadable(url)!r} is no address of a Redis.",
            hint="Write redis://HOST:PORT/DB, rediss://…, unix:///PATH or "
            "redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/DB, and %-encode a password.",
        ) from None


def masked(url: str) -> str:
    """A Redis address for messages, without its password wherever redis-py may take that from."""
    try:
        return re.sub(r"(?<=password=)[^&]*", "***", shown(url))
    except ValueError:
        return f"{url.partition('://')[0]}://***"


def _unreadable(url: str) -> str:
    """An address that redis-py can't read, without whatever may have been meant as a password."""
    return re.sub(r"(?<=://).*@", "***@", masked(url))

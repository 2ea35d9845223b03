"""The configuration: a TOML file, then `SITEMAPD_…` variables, then flags; the later wins.

`SITEMAPD_REDIS_URL` sets `redis_url`, `SITEMAPD_SITES__SHOP__BASE_URL` a site's base_url. With
`SITEMAPD_SECRETS_DIR` naming a folder, a file `sitemapd_redis_url` in it does the same, for secrets that
must not be in the environment. Unknown keys are errors that name the nearest known one. Relative paths
are relative to the configuration file's folder.

A little longer than most modules: it is the list of all settings, each with its bounds, and their reading.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from sitemap_store.errors import BadSetting
from sitemapd.paths import located

DEFAULT_FILE = "sitemapd.toml"
_STRICT = ConfigDict(extra="forbid", frozen=True)


class SectionSettings(BaseModel):
    """One section: which URLs it holds and what its entries say by default."""

    model_config = _STRICT

    match: tuple[str, ...] = ()
    """URL patterns; the most specific section wins."""
    changefreq: str | None = None
    priority: float | None = None

    @field_validator("match", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value


class TokenSettings(BaseModel):
    """One token of the push API, under the name that the log calls it by."""

    model_config = _STRICT

    hash: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    """What `sitemapd token` printed beside the token."""
    sources: frozenset[str] | None = None
    """The sources that it may speak for; left out: any; an empty list: it may look and not push."""


class SignatureSettings(BaseModel):
    """How the sender of a webhook signs."""

    model_config = _STRICT

    header: str
    """The header that the signature is in."""
    secret: str
    """What both sides know."""
    previous_secret: str | None = None
    """Taken too, while the secret is being replaced."""
    pattern: str | None = None
    """Regular expression with a group `signature`, and `time` where a time is signed too."""
    signed: str = "{body}"
    """What is signed: a text with {body} and {time}."""
    algorithm: Literal["sha256", "sha512", "sha1"] = "sha256"
    encoding: Literal["hex", "base64"] = "hex"
    tolerance: float = Field(300.0, ge=1, le=86400)
    """Seconds that a signed time may be off."""


class WebhookRuleSettings(BaseModel):
    """What a part of a webhook's JSON means."""

    model_config = _STRICT

    op: Literal["add", "update", "delete"]
    loc: str | None = None
    """Template of the URL; may be left out of a delete that has a key."""
    key: str | None = None
    """Template of what the sender calls the thing, such as its id: its URLs are remembered by it."""
    when: dict[str, Any] = {}
    """JSON Pointer, or name of a header: the value that it must have, or a list of such values."""
    each: str = ""
    """JSON Pointer, with * for every element of an array, to what the rule is applied to."""
    match: str | None = None
    """Regular expression that the whole of what `each` picks must match."""
    lastmod: str | None = None
    changefreq: str | None = None
    priority: str | None = None
    at: str | None = None


class WebhookSettings(BaseModel):
    """One webhook of another system."""

    model_config = _STRICT

    source: str | None = None
    """The source of its events."""
    signature: SignatureSettings | None = None
    """Left out: the sender sends a token, as everybody does."""
    max_body: int | None = Field(None, ge=1024, le=64 * 1024 * 1024)
    """The most bytes of one delivery, after decompression; left out: 1 MiB, and 8 MiB with a token."""
    rules: tuple[WebhookRuleSettings, ...] = Field(min_length=1)


class SiteSettings(BaseModel):
    """One site."""

    model_config = _STRICT

    base_url: str
    """The address of the folder that the sitemaps are published at."""
    output: Path
    """The folder that they are written to."""
    gzip: bool = False
    """Publish shards as .xml.gz."""
    limits: Literal["strict", "current"] = "strict"
    """strict: valid under the 2008 text and today's; current: 50 MiB a file, 50,000 an index."""
    shard_size: int = Field(1000, ge=1, le=50_000)
    """URLs per shard."""
    index_size: int = Field(1000, ge=1, le=50_000)
    """Shards per index file."""
    min_interval: float = Field(1.0, ge=0, le=3600)
    """Seconds between two rewrites of one shard, at the least."""
    compact_below: float = Field(0.25, ge=0, le=1)
    """Where entries take less than this share of a section's shards, sparse ones are merged; 0: nowhere."""
    partitions: int = Field(1, ge=1, le=256)
    """Spreads one huge site over a Redis cluster. Fixed once the site has state."""
    fsync: bool = True
    """Wait for the disk at each published file."""
    file_mode: str = Field("0644", pattern=r"^0?6[046][046]$")
    """The mode of published files, in octal, whatever the umask."""
    assume_timezone: str | None = None
    """Zone of date-times that come without one, such as +01:00; without it they are refused."""
    cross_submission: bool = False
    """Take URLs outside base_url: their host's robots.txt must name our index."""
    strip_query: frozenset[str] = frozenset()
    """Query parameters to take out of URLs."""
    default_section: str = "pages"
    """The section of URLs that match no other."""
    sections: dict[str, SectionSettings] = {}
    watch: dict[str, dict[str, Any]] = {}
    """Content directories by the name of their source; see docs/filesystem.md."""
    database: dict[str, dict[str, Any]] = {}
    """Database tables by the name of their source; see docs/databases.md."""
    tokens: dict[str, TokenSettings] = {}
    """Who may push over HTTP, by name; without any, this machine alone."""
    webhooks: dict[str, WebhookSettings] = {}
    """Other systems' JSON, by name; see docs/push.md."""
    indexnow_key: str | None = None
    """Served as /KEY.txt, for search engines to see that IndexNow requests are the site's own."""
    max_unfolded: int = Field(1_000_000, ge=1_000, le=1_000_000_000)
    """Events that may wait to be folded before the push API puts more off."""
    idempotency_keys: int = Field(100_000, ge=100, le=100_000_000)
    """How many idempotency keys are remembered; the oldest are forgotten first."""
    idempotency_bytes: int = Field(64 * 1024 * 1024, ge=1024 * 1024, le=64 * 1024**3)
    """How many bytes of Redis they may take, roughly."""


class Settings(BaseModel):
    """Everything that is set, checked."""

    model_config = _STRICT

    redis_url: str | None = None
    """Where the state is; left out: the server that `sitemapd run` keeps under data_dir."""
    queue_url: str | None = None
    """Where RQ's queue is; the same Redis by default."""
    data_dir: Path = Path(".sitemapd")
    """Where the embedded server and the watchers keep their files."""
    workers: int = Field(2, ge=1, le=64)
    """Worker processes."""
    allow_volatile_redis: bool = False
    """Start although Redis may evict keys or keeps no append-only file: changes can then be lost."""
    push_max_body: int = Field(64 * 1024 * 1024, ge=1024, le=16 * 1024**3)
    """The most bytes of one request with events, after decompression."""
    push_max_array: int = Field(8 * 1024 * 1024, ge=1024, le=64 * 1024 * 1024)
    """The most bytes of one request with events in JSON, which is held whole; NDJSON is not."""
    push_max_sync: int = Field(1024 * 1024 * 1024, ge=1024, le=64 * 1024**3)
    """The most bytes of one list of a whole source."""
    trusted_proxies: frozenset[str] = frozenset()
    """Addresses or networks of proxies in front: their X-Forwarded-For and -Proto are believed."""
    connections: int = Field(4000, ge=16, le=100_000)
    """HTTP connections at a time; idle and slow ones are closed for new ones."""
    connections_per_peer: int = Field(256, ge=4, le=100_000)
    """HTTP connections of one address; this machine and `trusted_proxies` have no bound of their own."""
    access_log: bool = True
    """Log a line for each HTTP request."""
    sites: dict[str, SiteSettings] = {}


class _Loaded(BaseSettings, Settings):
    model_config = SettingsConfigDict(
        env_prefix="SITEMAPD_", env_nested_delimiter="__", extra="forbid", frozen=True
    )


_SECRET: Final = frozenset({"redis_url", "queue_url", "hash", "secret", "previous_secret", "database"})
"""Settings whose value no message shows."""
_WITHIN_SITE: Final[Mapping[str, type[BaseModel]]] = MappingProxyType(
    {"sections": SectionSettings, "tokens": TokenSettings, "webhooks": WebhookSettings}
)


def load(file: Path | None, flags: Mapping[str, Any] | None = None) -> Settings:
    """Read the settings of a file (None: of no file), the environment and flags.

    Raises BadSetting with one sentence for the first thing that is wrong.
    """
    data = _read(file) if file is not None else {}
    secrets = os.environ.get("SITEMAPD_SECRETS_DIR")

    class Here(_Loaded):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            """Flags, then the environment, then secret files, then the file."""
            of_file = InitSettingsSource(settings_cls, init_kwargs=data)
            return init_settings, env_settings, file_secret_settings, of_file

    try:
        loaded = Here(**{"_secrets_dir": secrets, **(flags or {})})
    except ValidationError as error:
        raise _bad(error) from error
    settings = Settings.model_validate(loaded.model_dump())
    return _located(settings, file.parent if file is not None else Path())


def from_json(text: str | bytes) -> Settings:
    """The settings that `Settings.model_dump_json` wrote: how a worker process gets them."""
    return Settings.model_validate_json(text)


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise BadSetting(
            setting="--config",
            detail=f"there is no file {file}.",
            hint="Write one with `sitemapd init`, or name another with --config.",
        ) from error
    except OSError as error:
        raise BadSetting(
            setting="--config",
            detail=f"{file} can't be read ({error.strerror}).",
            hint="Give this user the right to.",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(setting=str(file), detail=f"is not valid TOML: {error}.") from error


def _located(settings: Settings, folder: Path) -> Settings:
    """With paths relative to the configuration file's folder made absolute."""
    sites = {}
    for name, site in settings.sites.items():
        watch = {
            source: {**options, "directory": folder.absolute() / options["directory"]}
            if isinstance(options.get("directory"), (str, Path))
            else options
            for source, options in site.watch.items()
        }
        database = {source: located(options, folder) for source, options in site.database.items()}
        sites[name] = site.model_copy(
            update={"output": folder.absolute() / site.output, "watch": watch, "database": database}
        )
    return settings.model_copy(update={"data_dir": folder.absolute() / settings.data_dir, "sites": sites})


def _bad(error: ValidationError) -> BadSetting:
    # A misspelt key before what is missing for it.
    first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    place = [str(part) for part in first["loc"]]
    name = ".".join(place)
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(place[-1], _known(place[:-1]), n=1, cutoff=0.5)
        known = ", ".join(_known(place[:-1]))
        hint = f"Did you mean {near[0]}?" if near else f"Known here: {known}."
        return BadSetting(setting=name, detail="is no setting of sitemapd.", hint=hint)
    if first["type"] == "missing":
        return BadSetting(
            setting=name,
            detail="is missing.",
            hint="`sitemapd init` writes a file that has all that is needed.",
        )
    shown = "the value" if _SECRET.intersection(place) else repr(first["input"])
    message = first["msg"][:1].lower() + first["msg"][1:]
    return BadSetting(setting=name, detail=f"{shown[:80]} is wrong: {message}.")


def _known(place: list[str]) -> list[str]:
    model: type[BaseModel] = Settings
    if place[:1] == ["sites"]:
        model = _WITHIN_SITE.get(place[2] if len(place) > 2 else "", SiteSettings)
    if model is WebhookSettings and len(place) > 4:
        model = SignatureSettings if place[4] == "signature" else WebhookRuleSettings
    return list(model.model_fields)

"""Databases: `relay` and `triggers`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from sitemap_store.errors import BadSetting
from sitemapd.cli import Context
from sitemapd.memory import ease_collector

if TYPE_CHECKING:
    from producers.database.dialect import Dialect
    from producers.database.shape import Shape
    from producers.database.source import DatabaseSource


@click.command()
@click.argument("source", required=False)
@click.option("--accept-deletes", is_flag=True, help="Accept all deletes of the first comparison.")
@click.pass_obj
def relay(context: Context, source: str | None, accept_deletes: bool) -> None:
    """Relay the changes of one database source or of all. On SIGHUP, compare the tables again."""
    context.configure_logging()
    parts = context.parts
    from sitemapd.begin import begin_producers
    from sitemapd.reporting import Reporter
    from sitemapd.services import check_relays, relays, rescan_on_hangup, stop_on_signals

    if source is not None:
        source_named(context, source)
    relaying = [
        relay
        for relay in relays(parts, only=source, accept_deletes=accept_deletes)
        if context.site in (None, relay.site)
    ]
    if not relaying:
        raise BadSetting(
            setting="database",
            detail="no database source is configured.",
            hint="Add one under [sites.NAME.database.SOURCE].",
        )
    check_relays(relaying)
    ease_collector()
    begin_producers(parts)
    stop = stop_on_signals()
    rescan_on_hangup(relaying)
    for each in relaying:
        each.start()
    reporter = Reporter(parts, relaying, kind="relay")
    reporter.start()
    stop.wait()
    for each in relaying:
        each.stop()
    reporter.stop()


@click.group()
def triggers() -> None:
    """Print, install, remove or check the triggers of a database source."""


@triggers.command("print")
@click.argument("source")
@click.option("--remove", is_flag=True, help="Print the SQL that removes them.")
@click.pass_obj
def print_triggers(context: Context, source: str, remove: bool) -> None:
    """Print the SQL that `install` runs, and the rights that the relay needs."""
    from producers.database.install import script

    with Opened(context, source) as (dialect, shape):
        click.echo(script(dialect, shape, remove=remove), nl=False)


@triggers.command("install")
@click.argument("source")
@click.pass_obj
def install_triggers(context: Context, source: str) -> None:
    """Install or update the triggers. A second run changes nothing."""
    from producers.database.install import install

    with Opened(context, source) as (dialect, shape):
        install(dialect, shape)
    click.echo(f"The triggers of {source} are installed.")


@triggers.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@click.pass_obj
def list_triggers(context: Context, as_json: bool) -> None:
    """List triggers and outboxes of sources that are not configured; exit 1 if there are any."""
    from sitemapd.lag import stray_sources

    found = stray_sources(context.parts)
    if as_json:
        click.echo(json.dumps([{"source": each.label, "waiting": each.waiting} for each, _ in found]))
    elif not found:
        click.echo("Every trigger belongs to a configured source.")
    for each, _ in () if as_json else found:
        click.echo(
            f"{each.label}: {len(each.drop)} triggers or functions, {each.waiting:,} changes wait. "
            f"Remove them with `sitemapd triggers uninstall --stray {each.label}`."
        )
    if found:
        sys.exit(1)


@triggers.command("uninstall")
@click.argument("source")
@click.option("--stray", is_flag=True, help="SOURCE is a SITE/SOURCE that `list` printed.")
@click.pass_obj
def uninstall_triggers(context: Context, source: str, stray: bool) -> None:
    """Remove the triggers and what waits in the outbox. The URLs stay in the sitemap."""
    from producers.database.install import uninstall

    if stray:
        from sitemapd.lag import remove_stray_source

        remove_stray_source(context.parts, source)
        click.echo(f"What was left of {source} is removed.")
        return
    with Opened(context, source) as (dialect, shape):
        uninstall(dialect, shape)
    click.echo(f"The triggers of {source} are removed.")


@triggers.command("status")
@click.argument("source")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def triggers_status(context: Context, source: str, as_json: bool) -> None:
    """Print whether the triggers are installed and how many rows wait; exit 1 when they are not."""
    from sitemapd.lag import standing

    name, given = source_named(context, source)
    row = standing(given, context.parts.sites[name])
    if as_json:
        click.echo(json.dumps(row))
    elif row["problem"]:
        click.echo(f"{source}: {row['problem']}")
    elif row["lag_rows"] is None:
        click.echo(f"{source}: triggers {row['triggers']}")
    else:
        click.echo(
            f"{source}: triggers {row['triggers']}, {row['lag_rows']:,} changes wait, the oldest for "
            f"{row['lag_seconds']:.1f} s"
        )
    if row["problem"] or row["triggers"] not in ("installed", "unknown"):
        sys.exit(1)


def source_named(context: Context, name: str) -> tuple[str, DatabaseSource]:
    """The site and the database source of that name. Raises BadSetting."""
    from sitemapd.build import near

    sites = [context.site_name] if context.site else list(context.parts.sites)
    found = {source.name: (site, source) for site in sites for source in context.parts.databases[site]}
    if name not in found:
        known = list(found)
        raise BadSetting(
            setting="SOURCE",
            detail=f"there is no database source {name!r}.",
            hint=near(name, known) if known else "Add one under [sites.NAME.database.SOURCE].",
        )
    several = [site for site in sites for source in context.parts.databases[site] if source.name == name]
    if len(several) > 1:
        raise BadSetting(
            setting="--site",
            detail=f"sites {' and '.join(several)} have a source {name!r}.",
            hint="Name one with --site.",
        )
    return found[name]


class Opened:
    """A connection to a source's database and the source's shape, while it is entered."""

    def __init__(self, context: Context, source: str) -> None:
        self._name, self._source = source_named(context, source)
        self._site = context.parts.sites[self._name]
        self._dialect: Dialect | None = None

    def __enter__(self) -> tuple[Dialect, Shape]:
        from producers.database.check import connect, shape_of

        try:
            self._dialect = connect(self._source)
            return self._dialect, shape_of(self._dialect, self._source, self._site)
        except BadSetting as error:
            self.__exit__()
            raise BadSetting(
                setting=f"sites.{self._name}.{error.setting}", detail=error.detail, hint=error.hint
            ) from error

    def __exit__(self, *error: object) -> None:
        if self._dialect is not None:
            self._dialect.close()

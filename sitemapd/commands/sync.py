"""`sync`: all that a source has against what is listed of it; of a database source, or of a file."""

from __future__ import annotations

import json
import secrets
import sys
import time
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from sitemap_store.errors import BadSetting, Refused, SitemapdError
from sitemapd.cli import Context
from sitemapd.commands.database import Opened, source_named
from sitemapd.memory import ease_collector

if TYPE_CHECKING:
    from producers.database.source import DatabaseSource
    from producers.sync import DesiredList
    from sitemap_store.model.site import Site

POLL_S: Final = 0.1
SHOWN: Final = 100
"""How many refusals are printed one by one; `sitemapd rejected` has more."""
_TOTALS: Final = "{added} added, {updated} updated, {deleted} deleted, {unchanged} unchanged"


@click.command()
@click.argument("file", required=False, type=click.File("rb"))
@click.option("--source", metavar="NAME", help="The source whose URLs are compared.")
@click.option(
    "--leave-scope",
    is_flag=True,
    help="Delete the URLs of all sources that base_url and strip_query no longer cover.",
)
@click.option("--accept-deletes", is_flag=True, help="Accept all deletes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def sync(
    context: Context,
    file: BinaryIO | None,
    source: str | None,
    leave_scope: bool,
    accept_deletes: bool,
    as_json: bool,
) -> None:
    """Compare a whole source with its listed URLs, and push the difference.

    Of a database source the table is compared. Of any other FILE (or - for standard input) lists its URLs,
    as NDJSON such as {"loc":"https://…","lastmod":"2026-03-21"}; what it leaves out is deleted.
    """
    ease_collector()
    if leave_scope:
        if source is not None or file is not None:
            raise click.UsageError(
                "--leave-scope is about the URLs of all sources: leave out --source and FILE."
            )
        _leave_scope(context, as_json=as_json)
    elif source is None:
        raise click.UsageError(
            "There is no --source NAME: name the source to compare, or give --leave-scope."
        )
    elif file is None:
        name, given = source_named(context, source)
        _sync_table(context, name, given, accept=accept_deletes, as_json=as_json)
    else:
        _sync_file(context, file, source, accept=accept_deletes, as_json=as_json)


def _leave_scope(context: Context, *, as_json: bool) -> None:
    from sitemap_store.model.events import Event
    from sitemap_store.model.scope import covers

    sink = context.parts.publisher(context.site_name)
    rules, at = sink.store.site.rules, sink.store.stamp()
    deleted = sink.send(
        (Event("delete", entry.loc, at=at) for entry in sink.store.listing() if not covers(entry.loc, rules)),
        bulk=True,
    )
    click.echo(json.dumps({"deleted": deleted}) if as_json else f"{deleted} deleted")


def _sync_table(context: Context, name: str, source: DatabaseSource, *, accept: bool, as_json: bool) -> None:
    from producers.database.relay import Busy, Relay

    relay = Relay(source, context.parts.publisher(name))
    try:
        try:
            result: dict[str, Any] = relay.sync(accept=accept)._asdict()
        except Busy:
            result = _ask_leader(context, source, name, accept=accept)
    except BadSetting as error:
        raise BadSetting(
            setting=f"sites.{name}.{error.setting}", detail=error.detail, hint=error.hint
        ) from error
    if as_json:
        click.echo(json.dumps(result))
    elif "asked" in result:
        click.echo(f"The relay that runs has compared {source.name}; {result['held']} deletes are held back.")
    else:
        click.echo(f"{_TOTALS.format(**result)}, {result['held']} deletes held back")
    if result["held"]:
        click.echo(
            f"sitemapd: {result['held']:,} deletes of {source.name} are held back, as they are too many at "
            "once: if they are meant, give --accept-deletes",
            err=True,
        )
        sys.exit(1)


def _ask_leader(context: Context, source: DatabaseSource, name: str, *, accept: bool) -> dict[str, Any]:
    """Another relay leads: it compares, and we wait until it has."""
    from producers.database.outbox import is_requested, read_checkpoint, request_comparison

    token = f'{{"asked": "{secrets.token_hex(8)}"}}'
    with Opened(context, source.name) as (dialect, shape):
        before = read_checkpoint(dialect, shape.label).get("compared", 0)
        dialect.rollback()
        request_comparison(dialect, shape.label, "accept" if accept else "sync", token)
        while True:
            waiting = is_requested(dialect, shape.label, token)
            checkpoint = read_checkpoint(dialect, shape.label)
            dialect.rollback()
            if not waiting and "wanted" not in checkpoint and checkpoint.get("compared", 0) > before:
                return {"asked": True, "held": checkpoint.get("held_deletes", 0)}
            time.sleep(POLL_S)


def _sync_file(context: Context, file: BinaryIO, source: str, *, accept: bool, as_json: bool) -> None:
    from producers.ndjson import read_lines
    from producers.sync import DesiredList, TooManyDeletes
    from sitemap_store.model.wire import check_source

    try:
        check_source(source)
    except Refused as refused:
        raise click.UsageError(refused.detail) from refused
    name = context.site_name
    parts = context.parts
    settings = parts.settings.sites[name]
    if source in settings.watch or source in settings.database:
        raise BadSetting(
            setting="--source",
            detail=f"{source!r} is a source of the configuration.",
            hint="It is compared by itself, not with a file.",
        )
    sink, site = parts.publisher(name), parts.sites[name]
    began, now, refusals = sink.store.stamp(), sink.store.now(), 0
    with DesiredList(source) as desired:
        for batch in read_lines(file):
            refusals_here = _take(desired, batch.items, site, source, now)
            for place, each in refusals_here:
                refusals += 1
                if refusals <= SHOWN and not as_json:
                    number = batch.numbers[place]
                    click.echo(f"line {number}: {each.loc}: {each.detail} [{each.rule}]", err=True)
            if refusals_here:
                sink.store.reject([(each, source) for _, each in refusals_here])
        try:
            result = desired.apply(sink, at=began, accept=accept, command=parts.command_for(name))
        except TooManyDeletes as error:
            detail = str(error).partition(":")[0]
            raise SitemapdError(f"{detail}: if they are meant, give --accept-deletes") from error
    if as_json:
        click.echo(json.dumps({**result.summary(), "refused": refusals}))
    else:
        click.echo(f"{_TOTALS.format(**result.summary())}, {refusals} refused")
        if result.held:
            click.echo(
                f"{result.held:,} deletes are held back, since the URL of a line could not be read: correct "
                "the lines named above, and sync again",
                err=True,
            )
    if refusals:
        sys.exit(1)


def _take(
    desired: DesiredList, items: list[Any], site: Site, source: str, now: int
) -> list[tuple[int, Refused]]:
    """Take lines in; what is refused keeps what is listed of its URL."""
    from sitemap_store.model.wire import check

    events, refusals = [], []
    for place, given in enumerate(items):
        item = {"op": "add", **given} if isinstance(given, dict) else given
        try:
            event = check(item, site, now, source=source).event
            if event.op != "add":
                detail = "A list says what there is: leave the op out."
                raise Refused(loc=event.loc, rule="op", detail=detail)
            events.append(event if event.source == source else event._replace(source=source))
        except Refused as refused:
            refusals.append((place, refused.kept()))
            desired.keep(refused.loc)
    desired.want(events)
    return refusals

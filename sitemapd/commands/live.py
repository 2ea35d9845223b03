"""Commands that follow a running service until Ctrl-C: `tail`, `top`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from sitemap_store.errors import Unavailable
from sitemapd.cli import Context

if TYPE_CHECKING:
    from rich.console import Group

    from sitemap_store.redis.store import Store

LOOK_S: Final = 0.5
"""Seconds between two looks of `tail`."""
WIDTH: Final = 120
"""Columns of `top` where there is no terminal."""
MOST: Final = 200
"""Rows of one kind that one look of `tail` prints: of a bulk load's thousands nobody could read more."""


class _Seen(NamedTuple):
    """How far one site was followed."""

    published: str
    refused: str
    accepted: Mapping[tuple[str, str], int]


@click.command()
@click.option(
    "--lines", type=click.IntRange(0, MOST), default=10, show_default=True, help="Past lines to print first."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.pass_obj
def tail(context: Context, lines: int, as_json: bool) -> None:
    """Print each accepted, refused and published event until Ctrl-C."""
    names = [context.site_name] if context.site else list(context.parts.sites)
    stores = {name: context.parts.store(name) for name in names}
    seen: dict[str, _Seen] = {}
    away = False
    with suppress(KeyboardInterrupt):
        while True:
            try:
                for name, store in stores.items():
                    seen[name], rows = _look(store, seen.get(name), lines)
                    for row in rows:
                        place = name if len(stores) > 1 else ""
                        click.echo(json.dumps({"site": name, **row}) if as_json else _line(row, place))
                away = False
            except Unavailable as error:
                if not away:
                    click.echo(f"sitemapd: {error}; trying again", err=True)
                away = True
            sys.stdout.flush()
            time.sleep(LOOK_S)


def _look(store: Store, seen: _Seen | None, lines: int) -> tuple[_Seen, list[dict[str, Any]]]:
    """What came since the last look, oldest first."""
    from sitemap_store.redis.counts import totals
    from sitemap_store.redis.observed import feed

    first = seen is None
    seen = seen or _Seen("", "", {})
    now, rows = store.now(), []
    for published in feed(store, after=seen.published, limit=(lines or 1) if first else MOST):
        what = "gone" if published.gone else "published"
        facts = published._asdict()
        seen = seen._replace(published=facts.pop("cursor"))
        facts.pop("gone")
        rows.append({"time": facts.pop("at"), "what": what, **facts})
    for refused in reversed(store.rejected((lines or 1) if first else MOST, after=seen.refused)):
        seen = seen._replace(refused=refused.pop("id"))
        rows.append({"what": "refused", **refused, "time": int(refused["time"])})
    rows.sort(key=lambda row: row["time"])
    accepted = totals(store).accepted
    if not first:
        for (op, source), count in sorted(accepted.items()):
            if more := count - seen.accepted.get((op, source), 0):
                rows.append({"time": now, "what": "accepted", "op": op, "source": source, "events": more})
    return seen._replace(accepted=accepted), rows[-lines:] if first and lines else [] if first else rows


def _line(row: Mapping[str, Any], site: str) -> str:
    moment = datetime.fromtimestamp(row["time"] / 1000, UTC).strftime("%H:%M:%S")
    start = " ".join(filter(None, (moment, site, row["what"])))
    if row["what"] == "accepted":
        by = f" from {row['source']}" if row["source"] else ""
        return f"{start} {row['events']:,} {row['op']}{by}"
    if row["what"] == "refused":
        return f"{start} {row['loc'] or '-'}: {row['detail']} [{row['rule']}]"
    return (
        f"{start} {row['file']} with {row['urls']:,} URLs after {row['events']:,} events, "
        f"{row['lag_ms']:,} ms after the first of them"
    )


@click.command()
@click.option("--interval", type=click.FloatRange(0.2, 60), default=1.0, show_default=True, metavar="SECONDS")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and end.")
@click.pass_obj
def top(context: Context, interval: float, as_json: bool) -> None:
    """Show the state of the sites every second until Ctrl-C; without a terminal, print it once."""
    from rich.console import Console
    from rich.live import Live

    names = [context.site_name] if context.site else list(context.parts.sites)
    stores = {name: context.parts.store(name) for name in names}
    if as_json:
        rows = {name: _row(store, context.parts.command_for(name)) for name, store in stores.items()}
        click.echo(json.dumps({"sites": rows}))
        return
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
        console.print(_screen(stores))
        return
    with suppress(KeyboardInterrupt), Live(_screen(stores), console=console, screen=True) as live:
        while True:
            time.sleep(interval)
            try:
                live.update(_screen(stores), refresh=True)
            except Unavailable as error:
                live.update(f"{error}; trying again", refresh=True)


def _row(store: Store, command: str = "sitemapd") -> dict[str, Any]:
    """A site as `status` reports it, and what happened in its last whole minute."""
    from sitemapd.status import read_counts, report

    counts = read_counts(store, store.now())
    minute = counts.hour[-2]
    shown = {"events": minute.events, "files": minute.rewrites, "refused": minute.refused}
    return {**report(store, command, counts), "minute": shown}


def _screen(stores: Mapping[str, Store]) -> Group:
    """A line for each site and section, and below it what each source and each file put aside says."""
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"sitemapd at {datetime.now(UTC):%H:%M:%S} UTC")
    table.add_column("site")
    for column in ("URLs", "shards", "due", "waits", "events", "files", "refused", "p50", "p99", "workers"):
        table.add_column(column, justify="right")
    lines = [
        "waits: the oldest unpublished change; events, files, refused: last minute; p50, p99: lag, last hour"
    ]
    for name, store in stores.items():
        site = _row(store)
        table.add_row(
            name,
            *(f"{site[count]:,}" for count in ("urls", "shards", "due_shards")),
            f"{site['waiting_ms'] / 1000:,.1f} s",
            *(f"{count:,}" for count in site["minute"].values()),
            *("-" if each is None else f"{each:,} ms" for each in site["lag_ms"].values()),
            str(site["workers"]),
            style="bold",
        )
        for section, row in site["sections"].items():
            table.add_row(f"  {section}", f"{row['urls']:,}", f"{row['shards']:,}")
        for source, how in site["producers"].items():
            problem = f": {how['problem']}" if how.get("problem") else ""
            lines.append(escape(f"{name}: {how['kind']} {source} is {how['state']}{problem}"))
        lines += [escape(f"{name}: {file} is put aside: {why}") for file, why in site["aside"].items()]
    return Group(table, *lines)

"""Commands that read and change nothing: `wait`, `status`, `show`, `rejected`, `robots`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from sitemapd.cli import Context

POLL_S = 0.02


@click.command()
@click.option("--timeout", type=float, default=60.0, show_default=True, metavar="SECONDS")
@click.pass_obj
def wait(context: Context, timeout: float) -> None:
    """Return when everything appended before this call is published; exit 1 on time-out."""
    await_published(context, timeout)


def await_published(context: Context, timeout: float) -> None:
    """Return when everything appended before this call is published; exit 1 after `timeout` seconds."""
    names = [context.site_name] if context.site else list(context.parts.sites)
    stores = [context.parts.store(name) for name in names]
    deadline = time.monotonic() + timeout
    untils = [store.now() for store in stores]
    while True:
        left = sum(store.unsettled(until) for store, until in zip(stores, untils, strict=True))
        if left == 0:
            return
        if time.monotonic() >= deadline:
            click.echo(
                f"sitemapd: after {timeout:g} s {left} files still wait to be published; "
                "see `sitemapd status`",
                err=True,
            )
            sys.exit(1)
        time.sleep(POLL_S)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def status(context: Context, as_json: bool) -> None:
    """Print the state of each site and section."""
    from sitemapd.held import held_report
    from sitemapd.status import problems, report

    names = [context.site_name] if context.site else list(context.parts.sites)
    sites = {
        name: {
            **report(context.parts.store(name), context.parts.command_for(name)),
            "held": held_report(context.parts, name),
        }
        for name in names
    }
    if any(context.parts.settings.sites[name].database for name in names):
        from sitemapd.lag import ask_databases

        ask_databases(context.parts, sites)
    if as_json:
        click.echo(json.dumps({"sites": sites}, indent=2))
        return
    for name, site in sites.items():
        click.echo(
            f"{name}: {site['urls']:,} URLs in {site['shards']:,} shards, "
            f"{site['due_shards']:,} due, {site['unfolded_events']:,} unfolded events, "
            f"{site['refused']:,} refused, {site['workers']} workers, "
            f"{site['redis_bytes_per_url'] or '-'} Redis bytes per URL"
        )
        for wrong in problems(site, site["held"], context.parts.command_for(name)):
            click.echo(f"  PROBLEM {wrong.sentence}")
        differed = ", ".join(f"{count:,} {kind}" for kind, count in site["differed"].items() if count)
        if differed:
            click.echo(f"  files at the output that differed and were replaced: {differed}")
        lag = site["lag_ms"]
        if lag["p50"] is not None:
            click.echo(f"  from event to file in the last hour: p50 {lag['p50']} ms, p99 {lag['p99']} ms")
        for section, row in site["sections"].items():
            click.echo(
                f"  {section}: {row['urls']:,} URLs, {row['shards']:,} shards, "
                f"last published {row['last_published'] or 'never'}"
            )
        for source, how in site["producers"].items():
            problem = f", {how['problem']}" if how.get("problem") else ""
            if how.get("lag_rows"):
                problem += f", {how['lag_rows']:,} changes wait, the oldest for {how['lag_seconds']:.1f} s"
            seen = how["seen"] or "never"
            click.echo(f"  {how['kind']} {source}: {how['state']}{problem}, last report {seen}")


@click.command()
@click.argument("url")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def show(context: Context, url: str, as_json: bool) -> None:
    """Show what the sitemaps list of one URL; exit 1 when they do not list it."""
    from producers.known import described, find_listed
    from sitemap_store.errors import Refused

    try:
        store = context.parts.store(context.site_name)
        loc, found = find_listed(store, url)
    except Refused as refused:
        click.echo(f"sitemapd: {refused.detail}", err=True)
        sys.exit(1)
    if found is None:
        click.echo(f"sitemapd: {loc} is not listed; `sitemapd rejected` shows what was refused", err=True)
        sys.exit(1)
    row: dict[str, Any] = described(found, store.site.style(found.section))
    if as_json:
        click.echo(json.dumps(row))
        return
    for name, value in row.items():
        if name == "ext":
            for line in ext_lines(row["ext"]):
                click.echo(line)
        elif value is not None and value != {}:
            click.echo(f"{name}: {value}")


def ext_lines(ext: Mapping[str, Any]) -> Iterator[str]:
    """Extensions for people: a line for each image, video, article and language."""
    for name, value in ext.items():
        for item in value if isinstance(value, list) else [value]:
            match name:
                case "alternates":
                    text = f"{item['hreflang']} {item['href']}"
                case "videos" | "news":
                    text = json.dumps(item, ensure_ascii=False)
                case _:
                    text = item
            yield f"{name}: {text}"


@click.command()
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@click.pass_obj
def rejected(context: Context, limit: int, as_json: bool) -> None:
    """List the last refused events and why, newest first."""
    rows = context.parts.store(context.site_name).rejected(limit)
    for row in rows:
        del row["id"]
        moment = datetime.fromtimestamp(int(row["time"]) / 1000, UTC)
        row["time"] = moment.isoformat(timespec="seconds").replace("+00:00", "Z")
    if as_json:
        click.echo(json.dumps(rows))
        return
    for row in rows:
        click.echo(f"{row['time']} {row['loc'] or '-'}: {row['detail']} [{row['rule']}]")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def robots(context: Context, as_json: bool) -> None:
    """Print the `Sitemap:` lines for robots.txt: one for each index file."""
    from sitemap_store.model.site import index_file

    name = context.site_name
    numbers = context.parts.store(name).index_files() or [1]
    addresses = [context.parts.sites[name].address(index_file(number)) for number in numbers]
    if as_json:
        click.echo(json.dumps({"sitemaps": addresses}))
        return
    for address in addresses:
        click.echo(f"Sitemap: {address}")

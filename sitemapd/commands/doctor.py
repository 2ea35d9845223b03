"""`sitemapd doctor`: checks everything that can be wrong, and prints a sentence for each."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import click

from sitemapd.cli import Context

if TYPE_CHECKING:
    from sitemapd.build import Parts
    from sitemapd.doctor.finding import Finding


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@click.option(
    "--web-user", metavar="USER", help="Check that the web server's user can read the published files."
)
@click.option(
    "--robots",
    is_flag=True,
    help="Fetch robots.txt from the host of base_url; check that it lists the index.",
)
@click.pass_obj
def doctor(context: Context, as_json: bool, web_user: str | None, robots: bool) -> None:
    """Check machine, configuration, Redis, outputs and workers; exit 1 if something is wrong."""
    findings = list(_findings(context.parts, web_user, robots=robots))
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in findings]))
    else:
        for what, fine, detail in findings:
            click.echo(f"{'ok  ' if fine else 'WRONG'} {what}: {detail}")
    if not all(finding.fine for finding in findings):
        sys.exit(1)


def _findings(parts: Parts, web_user: str | None, *, robots: bool) -> Iterator[Finding]:
    import time

    from sitemapd.doctor import access, machine, server, sites
    from sitemapd.doctor.databases import check_databases
    from sitemapd.doctor.finding import attempt
    from sitemapd.redis_settings import may_lose

    yield attempt("packages", machine.packages)
    yield attempt("versions", machine.versions)
    sources = [source for each in parts.sources.values() for source in each]
    if sources:
        from sitemapd.doctor.directories import inotify

        yield attempt("watch", lambda: f"{len(sources)} directories are set")
        yield attempt("inotify", lambda: inotify(sources))
    yield from check_databases(parts)
    yield attempt("tokens", lambda: access.tokens(parts))
    yield attempt("proxy", lambda: access.proxy(parts))
    yield attempt("disk of data_dir", lambda: machine.disk(parts.settings.data_dir))
    redis = attempt("redis", lambda: server.settings(parts))
    yield redis
    if redis.fine:
        yield attempt("redis may lose", lambda: may_lose(parts.client))
        yield attempt("redis memory", lambda: server.memory(parts.client))
        yield attempt("redis disk", lambda: server.disk(parts.client))
        yield attempt("clock", lambda: server.clock(parts.client, time.time))
    for name in parts.sites:
        folder = parts.folder(name)
        yield attempt(f"output of {name}", partial(sites.output, folder, web_user))
        yield attempt(f"disk of the output of {name}", partial(machine.disk, folder.path))
        if redis.fine:
            yield from sites.check_site(parts, name)
            if robots:
                yield attempt(f"robots.txt of {name}", partial(access.robots, parts, name))

"""`sitemapd token`: a token for the push API, and what the settings keep of it."""

from __future__ import annotations

import json
import sys

import click

from sitemap_store.errors import BadSetting, Refused
from sitemapd.cli import Context


@click.command()
@click.argument("name")
@click.option(
    "--source", "sources", multiple=True, metavar="NAME", help="The token may push for this source only."
)
@click.option("--read-only", is_flag=True, help="The token may read and not push.")
@click.option("--stdin", is_flag=True, help="Take the token from standard input instead of making one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def token(
    context: Context, name: str, sources: tuple[str, ...], read_only: bool, stdin: bool, as_json: bool
) -> None:
    """Make a token for the push API and print the lines that the configuration file needs.

    The token is shown this once: the settings keep its hash alone.
    """
    from producers.http.auth import hash_of, new_token
    from sitemap_store.model.wire import check_source

    if read_only and sources:
        raise click.UsageError("A read-only token may push for no source: leave out --read-only or --source.")
    for source in (name, *sources):
        try:
            check_source(source)
        except Refused as refused:
            raise click.UsageError(refused.detail.replace("The source", "The name", 1)) from refused
    secret = sys.stdin.readline().strip() if stdin else new_token()
    if len(secret) < 32:
        raise click.UsageError(
            f"The token on standard input has {len(secret)} characters, and fewer than 32 can be guessed: "
            "give a longer one, or leave out --stdin."
        )
    site = _site(context)
    allowed = [] if read_only else sorted(sources) or None
    digest = hash_of(secret)
    if as_json:
        row = {"site": site, "name": name, "hash": digest, "sources": allowed}
        click.echo(json.dumps(row if stdin else {"token": secret, **row}))
        return
    if not stdin:
        click.echo(f"The token, shown this once: {secret}")
        click.echo("\nInto the configuration file, then restart what serves HTTP:\n")
    key = name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else json.dumps(name)
    click.echo(f"[sites.{site}.tokens.{key}]")
    click.echo(f'hash = "{digest}"')
    if allowed is not None:
        click.echo(f"sources = {json.dumps(allowed)}")


def _site(context: Context) -> str:
    """The site that is meant; "SITE" where that can't be told without a configuration file."""
    if context.site:
        return context.site
    try:
        return next(iter(context.settings.sites)) if len(context.settings.sites) == 1 else "SITE"
    except BadSetting:
        return "SITE"

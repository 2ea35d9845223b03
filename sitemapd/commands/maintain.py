"""The command that renders everything again: `rebuild`."""

from __future__ import annotations

import click

from sitemapd.cli import Context


@click.command()
@click.pass_obj
def rebuild(context: Context) -> None:
    """Render everything again from the state, replacing only what differs. The workers do it."""
    names = [context.site_name] if context.site else list(context.parts.sites)
    for name in names:
        present = set(context.parts.folder(name).published())
        shards = sum(partition.want_all(present) for partition in context.parts.store(name).partitions)
        click.echo(f"{name}: {shards} shards are compared with the output; `sitemapd wait` waits")

"""Commands that compare the output with the state and repair it: `check`, `rebuild`."""

from __future__ import annotations

import json
import sys

import click

from sitemapd.cli import Context


@click.command()
@click.option("--state", is_flag=True, required=True, help="Compare the output with the state in Redis.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def check(context: Context, state: bool, as_json: bool) -> None:
    """Compare every published file with the state, and change nothing; exit 1 when one differs.

    The workers do the same all the time, slowly, and put right what differs; `rebuild` does it at once.
    """
    from worker.processes import process_name
    from worker.scrub import Scrubber

    names = [context.site_name] if context.site else list(context.parts.sites)
    rows: dict[str, tuple[int, dict[str, list[str]]]] = {}
    for name in names:
        found = Scrubber(context.parts.store(name), context.parts.folder(name), process_name()).check()
        rows[name] = found.same, {kind: getattr(found, kind) for kind in _DIFFERENCES}
    if as_json:
        sites = {name: {"same": same, **different} for name, (same, different) in rows.items()}
        click.echo(json.dumps({"sites": sites}, indent=2))
    else:
        for name, (same, different) in rows.items():
            click.echo(f"{name}: {same} files hold what was published")
            for kind, files in different.items():
                for file in files:
                    click.echo(f"{name}: {file} {_DIFFERENCES[kind]}")
    if any(files for _, different in rows.values() for files in different.values()):
        sys.exit(1)


_DIFFERENCES = {
    "gone": "is not at the output",
    "altered": "does not hold what was published",
    "strange": "is in sitemapd's names, and no shard has it",
}


@click.command()
@click.pass_obj
def rebuild(context: Context) -> None:
    """Render everything again from the state, replacing only what differs. The workers do it."""
    names = [context.site_name] if context.site else list(context.parts.sites)
    for name in names:
        present = set(context.parts.folder(name).published())
        shards = sum(partition.want_all(present) for partition in context.parts.store(name).partitions)
        click.echo(f"{name}: {shards} shards are compared with the output; `sitemapd wait` waits")

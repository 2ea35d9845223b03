"""Commands that compare the output with the state and put things right: `check`, `rebuild`, `restore`."""

from __future__ import annotations

import json
import secrets
import sys
from typing import TYPE_CHECKING

import click

from sitemap_store.errors import SitemapdError
from sitemapd.cli import Context

if TYPE_CHECKING:
    from collections.abc import Callable

    from sitemapd.build import Parts


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


@click.command()
@click.option("--discard", is_flag=True, help="Let the published tree go and begin with what Redis holds.")
@click.pass_obj
def restore(context: Context, discard: bool) -> None:
    """Take the published tree back into an empty Redis, with every URL in the shard it was in.

    Events that were pushed meanwhile are kept and applied after it. Workers that run go on by themselves.
    """
    from sitemapd.embedded import redis_running
    from sitemapd.turn import turn

    name = context.site_name

    def say() -> None:
        click.echo(f"sitemapd: another process restores site {name}; waiting for it", err=True)

    with redis_running(context.parts), turn(context.parts.store(name), say) as alive:
        _restore(context.parts, name, discard, alive)


def _restore(parts: Parts, name: str, discard: bool, alive: Callable[[], None]) -> None:
    from sitemapd.begin import adopt
    from sitemapd.restore import discard_tree, restore_tree

    store, folder = parts.store(name), parts.folder(name)
    remembered = {partition.state_id() for partition in store.partitions} - {None}
    if remembered and folder.marker() in remembered and not discard:
        click.echo(f"sitemapd: Redis remembers site {name}; there is nothing to restore", err=True)
        sys.exit(1)
    if remembered and not discard:
        raise SitemapdError(
            f"Redis holds another state of site {name} than the one that published {folder.path}: "
            "point redis_url at the right Redis, or give --discard to let the old tree go"
        )
    if discard:
        files = discard_tree(folder)
        for partition in store.partitions:
            partition.want_all(present=())
        adopt(parts, name, secrets.token_hex(8))
        parts.waker.wake(name, store.replay_held(alive))
        click.echo(f"Removed {files} old files; what Redis holds is published in their place.")
        return
    restored = restore_tree(store, folder, alive=alive)
    state_id = secrets.token_hex(8)
    alive()
    # The marker first: cut short here, the state still has no id, and the restore is simply run again.
    folder.mark(name, state_id)
    adopt(parts, name, state_id)
    wakes = store.replay_held(alive)
    parts.waker.wake(name, wakes)
    click.echo(
        f"Restored {restored.urls} URLs in {restored.shards} shards from {folder.path}."
        + (f" {restored.skipped} entries broke a rule and were left out." if restored.skipped else "")
    )

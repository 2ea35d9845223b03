"""Commands that copy a site's state, and take it back: `backup`, `restore`."""

from __future__ import annotations

import json
import secrets
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sitemap_store.errors import SitemapdError
from sitemapd.cli import Context

if TYPE_CHECKING:
    from collections.abc import Callable

    from sitemapd.backup import Backup
    from sitemapd.build import Parts


@click.command()
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def backup(context: Context, file: str, as_json: bool) -> None:
    """Write a site's whole state to FILE, or to standard output for -, while the services run.

    What was accepted before the call is in it. A file is there whole or not at all, and
    nobody else may read it.
    """
    from sitemapd.backup import back_up, written
    from sitemapd.embedded import redis_running

    parts, name, path = context.parts, context.site_name, _path(file)
    if path is None and sys.stdout.isatty():
        raise click.UsageError("Standard output is a terminal: name a file, or give it a pipe.")
    with ExitStack() as stack:
        stack.enter_context(redis_running(parts))
        bar = stack.enter_context(
            click.progressbar(
                length=0, label="Backing up", file=sys.stderr, hidden=as_json or not sys.stderr.isatty()
            )
        )

        def alive(done: int, of: int) -> None:
            bar.length = max(1, done, of)
            bar.update(done - bar.pos)

        target = sys.stdout.buffer if path is None else stack.enter_context(written(path))
        store = parts.store(name)
        found = back_up(store, target, store.now(), alive)
    line = json.dumps(found._asdict())
    if not as_json:
        line = (
            f"Backed up {found.urls:,} URLs in {found.shards:,} shards and {found.events:,} events that "
            f"are not folded yet: {found.bytes:,} bytes."
        )
    click.echo(line, err=path is None)


@click.command()
@click.argument("file", required=False, metavar="[FILE]")
@click.option("--discard", is_flag=True, help="Remove the published files, and publish what Redis holds.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def restore(context: Context, file: str | None, discard: bool, as_json: bool) -> None:
    """Restore a backup, or the published files, into an empty Redis, with every URL in its old shard.

    FILE is what `sitemapd backup` wrote, or - for standard input; what the published tree has newer is
    taken from the tree. Events that were pushed meanwhile are kept and applied after it. Workers that run
    go on by themselves.
    """
    from sitemapd.backup import opened
    from sitemapd.embedded import redis_running
    from sitemapd.turn import turn

    name = context.site_name

    def say() -> None:
        click.echo(f"sitemapd: another process restores site {name}; waiting for it", err=True)

    if file is not None and discard:
        raise click.UsageError(
            f"--discard removes the published files and restores no backup: leave out --discard or {file!r}."
        )
    with ExitStack() as stack:
        given = stack.enter_context(opened(_path(file), sys.stdin.buffer)) if file is not None else None
        stack.enter_context(redis_running(context.parts))
        alive = stack.enter_context(turn(context.parts.store(name), say))
        if given is not None:
            result = _restore_backup(context.parts, name, given, alive)
        elif discard:
            result = _discard(context.parts, name, alive)
        else:
            result = _restore_tree(context.parts, name, alive)
    text, figures = result
    click.echo(json.dumps(figures) if as_json else text)


Result = tuple[str, dict[str, object]]
"""What a restore came to, for people and as JSON."""


def _restore_backup(parts: Parts, name: str, backup: Backup, alive: Callable[[], None]) -> Result:
    from sitemapd.recovery import restore_backup

    store, folder = parts.store(name), parts.folder(name)
    if any(partition.state_id() is not None for partition in store.partitions):
        raise SitemapdError(
            f"Redis holds a state of site {name}, and a backup is restored into an empty one: point "
            "redis_url at another Redis, or remove that state (docs/redis-keys.md says how)"
        )
    folder.prepare()
    found = restore_backup(store, folder, backup, store.now(), alive=alive)
    present = set(folder.published())
    for partition in store.partitions:
        partition.want_all(present)
    _adopt(parts, name, alive)
    text = f"Restored {found.urls:,} URLs in {found.shards:,} shards from {backup.name}."
    if found.newer or found.gone:
        text += (
            f" {folder.path} is newer: {found.newer:,} shards with {found.newer_urls:,} URLs were "
            "taken from there" + (f", and {found.gone:,} are gone." if found.gone else ".")
        )
    if found.events:
        text += f" {found.events:,} events that were not folded yet are applied."
    if found.unreadable:
        text += f" The workers render these unreadable files again: {', '.join(found.unreadable)}."
    return text, found._asdict()


def _restore_tree(parts: Parts, name: str, alive: Callable[[], None]) -> Result:
    from sitemapd.restore import restore_tree

    store, folder = parts.store(name), parts.folder(name)
    remembered = {partition.state_id() for partition in store.partitions} - {None}
    if remembered and folder.marker() in remembered:
        raise SitemapdError(
            f"Redis holds the state of site {name}, so there is nothing to restore: see `sitemapd status`. "
            "For the state of a backup, point redis_url at an empty Redis"
        )
    if remembered:
        raise SitemapdError(
            f"Redis holds another state of site {name} than the one that published {folder.path}: "
            "point redis_url at the right Redis, or give --discard to let the old tree go"
        )
    restored = restore_tree(store, folder, alive=alive)
    _adopt(parts, name, alive)
    text = f"Restored {restored.urls} URLs in {restored.shards} shards from {folder.path}."
    if restored.skipped:
        text += f" {restored.skipped} entries broke a rule and were left out."
    return text, restored._asdict()


def _discard(parts: Parts, name: str, alive: Callable[[], None]) -> Result:
    from sitemapd.begin import adopt
    from sitemapd.restore import discard_tree

    store = parts.store(name)
    files = discard_tree(parts.folder(name))
    for partition in store.partitions:
        partition.want_all(present=())
    adopt(parts, name, secrets.token_hex(8))
    parts.waker.wake(name, store.replay_held(alive))
    text = f"Removed {files} old files; what Redis holds is published in their place."
    return text, {"removed": files}


def _adopt(parts: Parts, name: str, alive: Callable[[], None]) -> None:
    """Give a restored state its id, and append what was held back."""
    from sitemapd.begin import adopt

    state_id = secrets.token_hex(8)
    alive()
    # The marker first: cut short here, the state still has no id, and the restore is simply run again.
    parts.folder(name).mark(name, state_id)
    adopt(parts, name, state_id)
    parts.waker.wake(name, parts.store(name).replay_held(alive))


def _path(file: str) -> Path | None:
    return None if file == "-" else Path(file)

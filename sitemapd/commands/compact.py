"""`sitemapd compact`: fills shard after shard now, where the keeper would merge two at a time."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from sitemap_store.errors import BadSetting
from sitemapd.cli import Context

if TYPE_CHECKING:
    from sitemap_store.redis.state import Partition
    from sitemap_store.shards.merge import Mergeable
    from sitemapd.build import Parts

PATIENCE_S = 10.0
"""How long shards that are in use are tried again without one that is free."""
PAUSE_S = 0.1


class _Group(NamedTuple):
    """Shards that become one."""

    site: str
    section: str
    part: Partition
    shards: Sequence[Mergeable]


@click.command()
@click.argument("section", required=False)
@click.option("--dry-run", is_flag=True, help="Print what would be merged, and merge nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def compact(context: Context, section: str | None, dry_run: bool, as_json: bool) -> None:
    """Merge the sparse shards of one section or of all now; exit 1 when some were in use.

    It says first how many files and bytes crawlers will fetch again. The workers publish what was merged.
    """
    parts = context.parts
    names = [context.site_name] if context.site else list(parts.sites)
    if section is not None:
        _check_section(parts, names, section)
    groups = [group for name in names for group in _groups(parts, name, section)]
    busy: list[_Group] = []
    if not as_json:
        for line in _cost(groups) or ["There is nothing to merge."]:
            click.echo(line)
    if groups and not dry_run:
        busy = _merge(parts, groups, quiet=as_json)
    if as_json:
        sites = {name: _report([group for group in groups if group.site == name], busy) for name in names}
        click.echo(json.dumps({"dry_run": dry_run, "sites": sites}, indent=2))
    elif groups and not dry_run:
        count = sum(len(group.shards) for group in groups if group not in busy)
        click.echo(
            f"Merged {count:,} shards into {len(groups) - len(busy):,}; `sitemapd wait` waits for them."
        )
    if busy:
        count = sum(len(group.shards) for group in busy)
        click.echo(
            f"sitemapd: {count:,} shards were in use and stay as they are: run `sitemapd compact` again",
            err=True,
        )
        sys.exit(1)


def _check_section(parts: Parts, names: Sequence[str], section: str) -> None:
    from sitemapd.build import near

    known = {each for name in names for part in parts.store(name).partitions for each in part.sections()}
    for name in names:
        known.update(rule.name for rule in parts.sites[name].sections.rules)
        known.add(parts.sites[name].sections.default)
    if section not in known:
        raise BadSetting(
            setting="SECTION", detail=f"there is no section {section!r}.", hint=near(section, sorted(known))
        )


def _groups(parts: Parts, name: str, section: str | None) -> Iterator[_Group]:
    from sitemap_store.redis.merge import mergeable
    from sitemap_store.shards.merge import full_groups

    site = parts.sites[name]
    for part in parts.store(name).partitions:
        for each in sorted(part.sections()):
            if section in (None, each):
                for shards in full_groups(mergeable(part, each), site.shard_size, site.limits):
                    yield _Group(name, each, part, shards)


def _cost(groups: Sequence[_Group]) -> list[str]:
    return [
        f"{site}: {section}: {row['shards']:,} shards become {row['files']:,}; "
        f"crawlers fetch {row['files']:,} files with {row['bytes']:,} bytes (before gzip) again"
        for site in dict.fromkeys(group.site for group in groups)
        for section, row in _report([group for group in groups if group.site == site], []).items()
    ]


def _report(groups: Sequence[_Group], busy: Sequence[_Group]) -> dict[str, dict[str, int]]:
    """For each section how many shards become how many files of how many bytes, and how many were in use."""
    sections: dict[str, dict[str, int]] = {}
    for group in groups:
        row = sections.setdefault(group.section, dict.fromkeys(("shards", "files", "bytes", "in_use"), 0))
        row["shards"] += len(group.shards)
        row["files"] += 1
        row["bytes"] += sum(each.size for each in group.shards)
        row["in_use"] += len(group.shards) if group in busy else 0
    return sections


def _merge(parts: Parts, groups: Sequence[_Group], *, quiet: bool) -> list[_Group]:
    """Merge groups, those in use again and again for a while; returns those that stayed in use."""
    from sitemapd.faults import from_environment
    from worker.merge import merge_shards
    from worker.processes import process_name
    from worker.site import WorkerSite

    fault = from_environment(os.environ)
    sites = {
        name: WorkerSite(parts.sites[name], parts.folder(name), process_name(), fault)
        for name in dict.fromkeys(group.site for group in groups)
    }
    waiting, deadline = list(groups), time.monotonic() + PATIENCE_S
    hidden = quiet or not sys.stderr.isatty()
    with click.progressbar(length=len(groups), file=sys.stderr, label="Merging", hidden=hidden) as bar:
        while waiting and time.monotonic() < deadline:
            busy = []
            for group in waiting:
                ids = [each.id for each in group.shards]
                if merge_shards(sites[group.site], group.part, group.section, ids):
                    bar.update(1)
                    deadline = time.monotonic() + PATIENCE_S
                else:
                    busy.append(group)
            waiting = busy
            if waiting:
                time.sleep(PAUSE_S)
    return waiting

"""`sitemapd import`: what another tool published, into a site."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sitemap_store.errors import Refused, SitemapdError
from sitemapd.cli import Context
from sitemapd.commands.check import many, progress_bar
from sitemapd.memory import ease_collector

if TYPE_CHECKING:
    from rich.progress import Progress

    from sitemap_store.model.events import Event
    from sitemapd.build import Parts
    from sitemapd.importing.collected import Collected
    from sitemapd.importing.importer import Importer
    from sitemapd.importing.report import Report


@click.command("import")
@click.argument("target")
@click.option("--source", metavar="NAME", default="", help="The source that the URLs belong to.")
@click.option(
    "--sections",
    is_flag=True,
    help="Make a section of each file whose URLs no section of the settings holds.",
)
@click.option(
    "--same-site",
    is_flag=True,
    help="Take http and https, and the host with and without www, for the site's address.",
)
@click.option("--allow-private", is_flag=True, help="Fetch from private addresses too.")
@click.option("--dry-run", is_flag=True, help="Report, and import nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def import_(
    context: Context,
    target: str,
    source: str,
    sections: bool,
    same_site: bool,
    allow_private: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Import the sitemaps of another tool: TARGET is a file, a folder or a URL.

    URLs that the site lists already stay as they are. Exit code 1 when a URL was left out, or a file could
    not be read to its end; the others are imported all the same.
    """
    from sitemap_store.model.wire import check_source
    from sitemapd.importing.collected import Collected
    from sitemapd.importing.importer import Importer
    from sitemapd.importing.report import Report

    if source:
        try:
            check_source(source)
        except Refused as refused:
            raise click.UsageError(refused.detail) from refused
    is_url = target.lower().startswith(("http://", "https://"))
    if not is_url and not Path(target).exists():
        raise click.UsageError(f"{target!r} is no file, no folder and no URL: name one of these.")
    ease_collector()
    parts, name = context.parts, context.site_name
    store, report = parts.store(name), Report()
    with Collected(source) as collected, progress_bar(hidden=as_json) as progress:
        importer = Importer(store.site, store.now(), collected, report, same_site=same_site, by_file=sections)
        if is_url:
            _read_url(importer, target, progress, allow_private=allow_private, same_site=same_site)
        else:
            _read_path(importer, Path(target), progress)
        if report.files == 0 and not report.count("lost"):
            raise SitemapdError(f"{target} has no sitemap: name the folder that has one, or its file.")
        collected.compare(store.listing())
        if not dry_run:
            _send(parts, name, collected, progress)
        totals = _totals(report, collected)
        grouped = collected.sections() if sections else {}
    if as_json:
        click.echo(json.dumps(_report(report, totals, grouped, dry_run=dry_run), indent=2))
    else:
        _print(report, totals, grouped, dry_run=dry_run)
    if report.count("skipped", "lost"):
        sys.exit(1)


def _read_path(importer: Importer, path: Path, progress: Progress) -> None:
    from sitemapd.importing.walk import import_folder

    task = progress.add_task(str(path), total=None)
    folder, file = (path, None) if path.is_dir() else (path.parent, path)
    try:
        import_folder(
            importer, folder, file, lambda each: progress.update(task, description=str(each), advance=1)
        )
    except OSError as error:
        raise SitemapdError(
            f"{error.filename or path} can't be read ({error.strerror or error}): let the user that "
            "runs this read it"
        ) from error


def _read_url(
    importer: Importer, url: str, progress: Progress, *, allow_private: bool, same_site: bool
) -> None:
    from sitemapd.fetch import Fetcher
    from sitemapd.importing.walk import import_url

    task = progress.add_task(url, total=None)
    with tempfile.TemporaryDirectory(prefix="sitemapd-import-") as folder:
        try:
            import_url(
                importer,
                url,
                Fetcher(Path(folder), allow_private=allow_private),
                same_site=same_site,
                done=lambda address: progress.update(task, description=address, advance=1),
            )
        except Refused as refused:
            raise click.UsageError(refused.detail) from refused


def _send(parts: Parts, name: str, collected: Collected, progress: Progress) -> None:
    from producers.sink import EventSink
    from sitemap_store.model.sections import Sections
    from sitemap_store.redis.store import Store

    states, site = collected.states(), parts.sites[name]
    task = progress.add_task("Importing", total=states["new"] + states["updated"])

    def counted(events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            progress.advance(task)
            yield event

    for section in collected.sections():
        # A URL keeps the seat that it gets now, whatever section the settings give to new ones.
        grouped = replace(site, sections=Sections((), section)) if section else site
        sink = EventSink(Store(parts.client, grouped), parts.waker)
        sink.send(counted(collected.events(section)), bulk=True)


def _totals(report: Report, collected: Collected) -> dict[str, int]:
    states, skipped = collected.states(), report.count("skipped")
    return {
        "files": report.files,
        "urls": report.urls,
        **states,
        "repeated": report.urls - skipped - sum(states.values()),
        "skipped": skipped,
    }


def _report(
    report: Report, totals: dict[str, int], grouped: dict[str, int], *, dry_run: bool
) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        **totals,
        "sections": grouped,
        "reasons": {
            code: {
                "kind": reason.kind,
                "what": reason.what,
                "count": count,
                "examples": report.examples(code),
            }
            for code, reason, count in report.found()
        },
    }


def _print(report: Report, totals: dict[str, int], grouped: dict[str, int], *, dry_run: bool) -> None:
    from sitemapd.importing.report import KINDS

    for kind, title in KINDS.items():
        if report.count(kind):
            click.echo(f"{title}:")
        for code, reason, count in report.found():
            if reason.kind == kind:
                click.echo(f"  {count:,} {reason.what} [{code}]")
                for example in report.examples(code):
                    click.echo(f"    {example}")
    if grouped:
        click.echo("Sections:")
        for section, urls in grouped.items():
            click.echo(f"  {section}: {many(urls, 'URL')}")
    read = many(totals["files"], "file"), many(totals["urls"], "URL")
    new, changed = many(totals["new"], "new URL"), many(totals["updated"], "changed one")
    done = "Would import" if dry_run else "Imported"
    click.echo("Read {} with {}; {repeated:,} came again, {skipped:,} left out.".format(*read, **totals))
    click.echo(
        "{} {} and {}; {unchanged:,} were listed already, and {kept:,} stay as the site has them.".format(
            done, new, changed, **totals
        )
    )

"""`sitemapd check`: sitemaps of any origin against the rules, or our output against the state."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from sitemap_store.errors import BadSetting, Refused
from sitemapd.cli import Context
from sitemapd.printable import printable

if TYPE_CHECKING:
    from rich.progress import Progress

    from sitemap_store.check.findings import Findings
    from sitemap_store.check.tree import Tree


@click.command()
@click.argument("target", required=False)
@click.option("--base-url", metavar="URL", help="The address that a folder is published at.")
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=20,
    show_default=True,
    help="Findings of each code that are printed; all are counted.",
)
@click.option("--allow-private", is_flag=True, help="Fetch from private addresses too.")
@click.option("--state", is_flag=True, help="Compare the output with the state in Redis instead.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def check(
    context: Context,
    target: str | None,
    base_url: str | None,
    strict: bool,
    limit: int,
    allow_private: bool,
    state: bool,
    as_json: bool,
) -> None:
    """Check the sitemaps of TARGET, a site, folder, file or URL, and change nothing; exit 1 on errors.

    Without TARGET: the outputs of the configured sites.
    """
    if state:
        if target is not None:
            raise click.UsageError("--state compares the configured sites: leave TARGET out.")
        compare_with_state(context, as_json)
        return
    from sitemap_store.check.address import UNKNOWN
    from sitemap_store.check.findings import Findings
    from sitemap_store.check.tree import Tree

    findings = Findings(limit)
    files = urls = 0
    assumed: list[str] = []
    with progress_bar(hidden=as_json) as progress:
        for each in _targets(context, target, base_url):
            tree = Tree(findings, time.time_ns() // 1_000_000)
            try:
                if each.url is not None:
                    _check_url(tree, each.url, progress, allow_private=allow_private)
                else:
                    base = _check_folder(tree, each, progress)
                    told = each.base is None and tree.files and base != UNKNOWN
                    assumed += [base] if told else []
                files += len(tree.files)
                urls += tree.urls
            finally:
                tree.close()
    if as_json:
        click.echo(json.dumps(_report(findings, files, urls), indent=2))
    else:
        _print(findings, files, urls, assumed)
    if findings.count("error") or (strict and findings.count("warning")):
        sys.exit(1)


class _Target(NamedTuple):
    """What to check: a URL, or a folder with the files in it that count (None: all sitemaps)."""

    url: str | None = None
    folder: Path = Path()
    file: Path | None = None
    base: str | None = None
    robots: Path | None = None


def _targets(context: Context, target: str | None, base_url: str | None) -> list[_Target]:
    """Raises BadSetting, and UsageError for what is neither a URL nor a site nor a path."""
    from sitemap_store.model.urls import normalise_base

    if target is not None and target.lower().startswith(("http://", "https://")):
        if base_url is not None:
            raise click.UsageError(
                f"--base-url {base_url} goes with a folder or a file, and {target} is a URL: leave it out."
            )
        return [_Target(url=target)]
    path = Path(target) if target is not None else None
    if path is not None and path.exists():
        base = normalise_base(base_url, "--base-url") if base_url is not None else None
        folder = path if path.is_dir() else path.parent
        return [
            _Target(folder=folder, file=None if path.is_dir() else path, base=base, robots=_robots(folder))
        ]
    if base_url is not None:
        raise click.UsageError(
            f"--base-url {base_url} goes with a folder or a file that exists: name one before it."
        )
    try:
        sites = context.settings.sites
    except BadSetting as error:
        if target is None and context.config is not None:
            raise
        if target is None:
            raise click.UsageError("name a folder, a file or a URL: no site is configured here.") from error
        sites = {}
    if target is not None and target not in sites:
        raise click.UsageError(
            f"{target!r} is no file, no folder, no URL, and no configured site: name one of these."
        )
    found = []
    for name in [target] if target is not None else [context.site] if context.site else sites:
        site = sites[name]
        folders = [site.output, *(Path(str(watch["directory"])) for watch in site.watch.values())]
        robots = next(filter(None, map(_robots, folders)), None)
        base = normalise_base(site.base_url, f"sites.{name}.base_url")
        found.append(_Target(folder=site.output, base=base, robots=robots))
    return found


def _robots(folder: Path) -> Path | None:
    path = folder / "robots.txt"
    return path if path.is_file() else None


def _check_folder(tree: Tree, target: _Target, progress: Progress) -> str:
    from sitemap_store.check.folder import check_folder, find_sitemaps
    from sitemap_store.errors import SitemapdError

    try:
        files = [target.file] if target.file is not None else find_sitemaps(target.folder)
        if not files:
            raise SitemapdError(f"{target.folder} has no sitemap: name the folder that has one, or its file.")
        task = progress.add_task(str(target.file or target.folder), total=sum(map(_size, files)))
        return check_folder(
            tree,
            target.folder,
            files,
            base=target.base,
            robots=target.robots,
            whole=target.file is None,
            done=lambda path: progress.advance(task, _size(path)),
        )
    except OSError as error:
        raise SitemapdError(
            f"{error.filename or target.folder} can't be read ({error.strerror or error}): let the user that "
            "runs this read it"
        ) from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _check_url(tree: Tree, url: str, progress: Progress, *, allow_private: bool) -> None:
    import tempfile

    from sitemapd.crawl import crawl
    from sitemapd.fetch import Fetcher

    task = progress.add_task(url, total=None)
    with tempfile.TemporaryDirectory(prefix="sitemapd-check-") as folder:
        fetcher = Fetcher(Path(folder), allow_private=allow_private)
        try:
            crawl(tree, url, fetcher, lambda address: progress.update(task, description=address, advance=1))
        except Refused as refused:
            raise click.UsageError(refused.detail) from refused


@contextmanager
def progress_bar(*, hidden: bool) -> Iterator[Progress]:
    """A bar on standard error where that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, disable=hidden or not console.is_terminal
    ) as progress:
        yield progress


def _report(findings: Findings, files: int, urls: int) -> dict[str, object]:
    return {
        "files": files,
        "urls": urls,
        "errors": findings.count("error"),
        "warnings": findings.count("warning"),
        "notes": findings.count("note"),
        "counts": dict(sorted(findings.counts.items())),
        "findings": [
            {
                "code": finding.code,
                "severity": finding.rule.severity,
                "file": finding.file,
                "line": finding.line,
                "value": finding.value,
                "detail": finding.detail,
                "what": finding.rule.what,
                "source": finding.rule.source,
                "remedy": finding.rule.remedy,
            }
            for finding in findings
        ],
    }


def _print(findings: Findings, files: int, urls: int, assumed: list[str]) -> None:
    printed: dict[str, int] = {}
    for finding in findings:
        printed[finding.code] = printed.get(finding.code, 0) + 1
        rule = finding.rule
        place = f"{finding.file}:{finding.line}" if finding.line else finding.file
        value = f": {finding.value}" if finding.value else ""
        detail = f" ({finding.detail})" if finding.detail else ""
        line = f"{place}: {rule.severity}: {rule.what}{value}{detail}. {rule.remedy} [{finding.code}]"
        click.echo(printable(line))
    for code, count in sorted(findings.counts.items()):
        if more := count - printed.get(code, 0):
            click.echo(f"{more:,} more of {code}; --limit prints more")
    for base in assumed:
        click.echo(f"The folder is taken for {base}; --base-url sets another address.")
    counts = ", ".join(many(findings.count(severity), severity) for severity in ("error", "warning", "note"))
    click.echo(f"{many(files, 'file')}, {many(urls, 'URL')}: {counts}")


def many(count: int, noun: str) -> str:
    """A count with its noun: "1 file", "1,000 files"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def compare_with_state(context: Context, as_json: bool) -> None:
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

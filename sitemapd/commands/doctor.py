"""`sitemapd doctor`: checks everything that can be wrong and prints one sentence for each fault."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from sitemap_store.errors import SitemapdError
from sitemapd.cli import Context

if TYPE_CHECKING:
    from sitemap_store.output.folder import Folder
    from sitemapd.build import Parts


class Finding(NamedTuple):
    """The result of one check."""

    what: str
    fine: bool
    detail: str


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@click.option(
    "--web-user", metavar="USER", help="Check that the web server's user can read the published files."
)
@click.pass_obj
def doctor(context: Context, as_json: bool, web_user: str | None) -> None:
    """Check the configuration, Redis, the outputs and the workers; exit 1 if something is wrong."""
    parts = context.parts
    findings = list(_look(parts, web_user))
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in findings]))
    else:
        for what, fine, detail in findings:
            click.echo(f"{'ok  ' if fine else 'WRONG'} {what}: {detail}")
    if not all(finding.fine for finding in findings):
        sys.exit(1)


def _look(parts: Parts, web_user: str | None) -> Iterator[Finding]:
    from sitemapd.redis_settings import check_redis, may_lose

    yield _packages()
    yield _try("watch", lambda: f"{sum(map(len, parts.sources.values()))} directories are set")
    if any(parts.databases.values()):
        yield _try("databases", lambda: _databases(parts))
        yield _try("database values", lambda: _values(parts))
    yield _access(parts)
    redis = _try("redis", lambda: "; ".join(check_redis(parts)) or "stores data safely")
    yield redis
    if redis.fine:
        yield _try("redis may lose", lambda: may_lose(parts.client))
    for name in parts.sites:
        folder = parts.folder(name)
        yield _try(f"output of {name}", partial(_output, folder, web_user))
        if redis.fine:
            yield _try(f"state of {name}", partial(_state, parts, name))
            yield _workers(parts, name)
            yield from _aside(parts, name)
            yield from _held(parts, name)


def _access(parts: Parts) -> Finding:
    """Whether whoever comes through a proxy needs a token."""
    without = [name for name, site in parts.settings.sites.items() if not site.tokens]
    if not without:
        return Finding("tokens", True, "every site has one")
    sites = ", ".join(without)
    if parts.settings.trusted_proxies:
        detail = f"{sites}: no token is set, so nobody can push or open the page through a proxy"
        return Finding("tokens", False, f"{detail}: make one with `sitemapd token`")
    detail = (
        f"{sites}: none, so this machine alone may push; behind a proxy make one, and set trusted_proxies"
    )
    return Finding("tokens", True, detail)


def _try(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except SitemapdError as error:
        return Finding(what, False, str(error))


def _databases(parts: Parts) -> str:
    from sitemapd.lag import stray_sources

    found = [stray.label for stray, _ in stray_sources(parts)]
    if found:
        raise SitemapdError(
            f"triggers or changes of {', '.join(found)} are left, which no source is configured for: see "
            "`sitemapd triggers list`"
        )
    return "hold nothing of sources that are configured no more"


def _values(parts: Parts) -> str:
    from sitemapd.lag import encoded_twice

    if found := encoded_twice(parts):
        raise SitemapdError("; ".join(found))
    return "none seems to be percent-encoded twice"


def _output(folder: Folder, web_user: str | None) -> str:
    from sitemapd.readable import check_readable

    folder.prepare()
    return f"{folder.path} can be written; {check_readable(folder, web_user)}"


def _state(parts: Parts, name: str) -> str:
    from sitemap_store.model.guard import Verdict, judge

    folder = parts.folder(name)
    ids = {partition.state_id() for partition in parts.store(name).partitions}
    verdict = judge(ids.pop() if len(ids) == 1 else None, folder.marker(), bool(folder.published()))
    if verdict in (Verdict.FOREIGN, Verdict.FORGOTTEN):
        raise SitemapdError(f"{verdict.value}; see `sitemapd restore --help`")
    return str(verdict.value)


def _workers(parts: Parts, name: str) -> Finding:
    from sitemapd.status import report

    row = report(parts.store(name))
    fine = row["workers"] > 0
    detail = f"{row['workers']} alive, {row['unfolded_events']} unfolded events"
    return Finding(f"workers of {name}", fine, detail if fine else f"{detail}: start `sitemapd worker`")


def _aside(parts: Parts, name: str) -> Iterator[Finding]:
    """Files that can't be rendered, and the way out."""
    from sitemapd.status import report

    for file, reason in report(parts.store(name))["aside"].items():
        way = (
            "it is tried again with its next event. Delete the URL that is named, or update sitemapd and run "
            "`sitemapd rebuild`"
        )
        yield Finding(f"{file} of {name}", False, f"can't be rendered ({reason}); {way}")


def _held(parts: Parts, name: str) -> Iterator[Finding]:
    """Deletes that the guard holds back, and the command that lets them pass."""
    from sitemapd.held import held_report

    for source, held in held_report(parts, name).items():
        yield Finding(
            f"deletes of {source} of {name}",
            False,
            f"{held['sentence']} If that is meant, run `{held['command']}`",
        )


def _packages() -> Finding:
    """Whether another installed package hides one of ours: `worker` is a common name."""
    here = Path(__file__).resolve().parents[2]
    for name in ("sitemap_store", "producers", "worker"):
        module = importlib.import_module(name)
        place = Path(module.__file__ or "").resolve()
        if not place.is_relative_to(here):
            return Finding("packages", False, f"another package named {name} hides ours: {place}")
    return Finding("packages", True, "no other package hides one of sitemapd's")

"""Checks of a site: output, state, workers, what is put aside or held back."""

from __future__ import annotations

from collections.abc import Iterator

from sitemap_store.errors import SitemapdError
from sitemap_store.model.guard import Verdict, judge
from sitemap_store.output.folder import Folder
from sitemapd.build import Parts
from sitemapd.doctor.finding import Finding, attempt
from sitemapd.held import held_report
from sitemapd.readable import check_readable
from sitemapd.status import report, stuck


def output(folder: Folder, web_user: str | None) -> str:
    """Check that the folder can be written, and that a web server's user can read it."""
    folder.prepare()
    return f"{folder.path} can be written; {check_readable(folder, web_user)}"


def check_site(parts: Parts, name: str) -> Iterator[Finding]:
    """The findings of a site's state, which is in a Redis that answers."""
    yield attempt(f"state of {name}", lambda: _state(parts, name))
    row = report(parts.store(name))
    if row["workers"]:
        alive = f"{row['workers']} alive, {row['unfolded_events']:,} unfolded events"
        yield Finding(f"workers of {name}", True, alive)
    for problem in stuck(row, held_report(parts, name), parts.command_for(name)):
        yield Finding(f"{problem.what} of {name}", False, problem.sentence)


def _state(parts: Parts, name: str) -> str:
    folder = parts.folder(name)
    ids = {partition.state_id() for partition in parts.store(name).partitions}
    verdict = judge(ids.pop() if len(ids) == 1 else None, folder.marker(), bool(folder.published()))
    if verdict in (Verdict.FOREIGN, Verdict.FORGOTTEN):
        raise SitemapdError(f"{verdict.value}; see `{parts.command_for(name)} restore --help`")
    return str(verdict.value)

"""`accept-deletes`: lets what the guard holds back pass."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

import click

from sitemap_store.errors import BadSetting
from sitemapd.cli import Context

if TYPE_CHECKING:
    from sitemap_store.redis.held import Held
    from sitemapd.build import Parts

POLL_S: Final = 0.1
HEARD_MS: Final = 10_000
"""How lately a service must have reported a source to be waited for."""


@click.command("accept-deletes")
@click.argument("source", required=False)
@click.option("--timeout", type=float, default=60.0, show_default=True, metavar="SECONDS")
@click.pass_obj
def accept_deletes(context: Context, source: str | None, timeout: float) -> None:
    """Accept exactly the deletes that the guard holds back now, and none that follow later.

    `status` shows what is held. A service that runs compares its source anew, and this waits until it has; a
    list that is held back passes when it is sent again.
    """
    from sitemap_store.redis.held import accept

    site, name, held = _chosen(context, source)
    store = context.parts.store(site)
    accept(store, name, held)
    number = f"{held.deletes:,} URLs of {name}"
    if held.kind == "list":
        click.echo(f"{number} are accepted to be gone: send the list again.")
    elif not _runs(context.parts, site, name):
        click.echo(f"{number} are accepted to be gone: they go when a service next compares {name}.")
    else:
        _await(context.parts, site, name, held, timeout)
        click.echo(f"{number} are gone from the sitemap.")


def _chosen(context: Context, source: str | None) -> tuple[str, str, Held]:
    """The site, the source and what is held back of it. Raises BadSetting."""
    from sitemapd.held import held_of

    sites = [context.site_name] if context.site else list(context.parts.sites)
    found = [
        (site, name, held)
        for site in sites
        for name, held in held_of(context.parts, site).items()
        if source in (None, name)
    ]
    if len(found) == 1:
        return found[0]
    what = "nothing" if source is None else f"nothing of {source!r}"
    if not found:
        raise BadSetting(setting="SOURCE", detail=f"{what} is held back.", hint="See `sitemapd status`.")
    named = " and ".join(f"{name!r} of {site}" for site, name, _ in found)
    raise BadSetting(setting="SOURCE", detail=f"deletes of {named} are held back.", hint="Name one.")


def _runs(parts: Parts, site: str, source: str) -> bool:
    from sitemap_store.redis.observed import producers

    store = parts.store(site)
    how = producers(store).get(source)
    return how is not None and how["state"] != "stopped" and how["seen"] >= store.now() - HEARD_MS


def _await(parts: Parts, site: str, source: str, accepted: Held, timeout: float) -> None:
    """Wait until the source was compared; exit 1 when others are held then, or after `timeout` seconds."""
    from sitemap_store.redis.held import held_deletes

    store, deadline = parts.store(site), time.monotonic() + timeout
    while (held := held_deletes(store).get(source)) is not None:
        if not held.accepted:
            click.echo(
                f"sitemapd: other deletes of {source} than those that you accepted are held back now: "
                "`sitemapd status` shows them",
                err=True,
            )
            sys.exit(1)
        if time.monotonic() >= deadline:
            click.echo(
                f"sitemapd: {source} was not compared within {timeout:g} s: see `sitemapd status`. The "
                f"{accepted.deletes:,} URLs are deleted with its next comparison",
                err=True,
            )
            sys.exit(1)
        time.sleep(POLL_S)

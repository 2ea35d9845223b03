"""The services, one process each: `worker`, `watch`, `serve`."""

from __future__ import annotations

import logging

import click

from sitemap_store.errors import BadSetting
from sitemapd.cli import Context

log = logging.getLogger("sitemapd")


@click.command()
@click.option("--workers", type=click.IntRange(1, 64), help="Worker processes.")
@click.pass_obj
def worker(context: Context, workers: int | None) -> None:
    """Run the workers: fold events, rewrite shards, publish the index. On SIGTERM they finish their jobs."""
    if workers is not None:
        context.flags["workers"] = workers
    context.configure_logging()
    parts = context.parts
    from sitemapd.begin import begin
    from sitemapd.services import scrubbers, stop_on_signals, supervisor

    configs = begin(parts)
    stop = stop_on_signals()
    log.info(
        "Working for %s with %d processes",
        ", ".join(parts.sites),
        parts.settings.workers,
        extra={"action": "started"},
    )
    scrubbing = scrubbers(parts, configs)
    scrubbing.start()
    try:
        supervisor(parts, configs, as_json=context.log_json).run(stop)
    finally:
        scrubbing.stop()


@click.command()
@click.option("--accept-deletes", is_flag=True, help="Accept all deletes of the first scan.")
@click.pass_obj
def watch(context: Context, accept_deletes: bool) -> None:
    """Watch the configured content directories. On SIGHUP, scan them again."""
    context.configure_logging()
    parts = context.parts
    from sitemapd.begin import begin_producers
    from sitemapd.reporting import Reporter
    from sitemapd.services import rescan_on_hangup, stop_on_signals, watchers

    watching = watchers(parts, accept_deletes=accept_deletes)
    if not watching:
        raise BadSetting(
            setting="watch",
            detail="no content directory is configured.",
            hint="Add one under [sites.NAME.watch.SOURCE].",
        )
    begin_producers(parts)

    stop = stop_on_signals()
    rescan_on_hangup(watching)
    for watcher in watching:
        watcher.start()
    reporter = Reporter(parts, watching)
    reporter.start()
    stop.wait()
    for watcher in watching:
        watcher.stop()
    reporter.stop()


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8321, show_default=True)
@click.pass_obj
def serve(context: Context, host: str, port: int) -> None:
    """Serve the published files, the status page, metrics and the push API over HTTP."""
    context.configure_logging()
    parts = context.parts
    from sitemapd.services import health, stop_on_signals
    from sitemapd.serving import listeners, served, server

    if not parts.sites:
        raise BadSetting(
            setting="sites", detail="no site is configured.", hint="Add a table such as [sites.main]."
        )
    with listeners(parts.settings, host, port) as taken:
        web = server(parts, served(parts, lambda: health(parts, None, [])), taken)
        stop = stop_on_signals()
        web.start()
        log.info("Serving at %s", web.address, extra={"action": "serving"})
        stop.wait()
        web.stop()

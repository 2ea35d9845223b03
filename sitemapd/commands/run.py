"""`sitemapd run`: everything on one machine."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import click

from sitemap_store.errors import BadSetting
from sitemapd.cli import Context

if TYPE_CHECKING:
    from sitemapd.build import Parts
    from sitemapd.embedded import EmbeddedServer
    from sitemapd.serving import Listeners
    from sitemapd.settings import Settings

log = logging.getLogger("sitemapd")


@click.command()
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option("--base-url", metavar="URL", help="Address of the folder that is published.")
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="DIR", help="The folder that sitemapd writes to."
)
@click.option("--data-dir", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8321, show_default=True, help="0: any free one."
)
@click.pass_obj
def run(
    context: Context,
    directory: Path | None,
    base_url: str | None,
    output: Path | None,
    data_dir: Path | None,
    host: str,
    port: int,
) -> None:
    """Run everything: Redis if none is configured, workers, watchers and an HTTP server with its status page.

    With --base-url and --output no configuration file is needed: one site, and DIRECTORY is watched.
    Without them the configuration file says it all.
    """
    context.configure_logging()
    settings = _settings(context, directory, base_url, output, data_dir)
    from sitemapd.build import build
    from sitemapd.embedded import EmbeddedServer
    from sitemapd.services import stop_on_signals
    from sitemapd.serving import listeners

    parts = build(settings, file=context.config)
    for name in {**parts.sources, **parts.databases}:
        parts.folder(name).prepare()
    if not parts.sites:
        raise BadSetting(
            setting="sites",
            detail="no site is configured.",
            hint="Give --base-url and --output, or add one under [sites.NAME].",
        )
    stop = stop_on_signals()
    with listeners(settings, host, port) as taken:
        file = None
        if base_url is not None:
            # Before the state is looked at: a refusal names the command that helps, which reads this file.
            file = _remember(settings)
            parts = build(settings, file=file)
        if settings.redis_url is not None:
            _run(context, parts, stop, taken, file)
        else:
            server = EmbeddedServer(settings.data_dir)
            try:
                server.start()
                keeping = _keep_running(server, stop)
                try:
                    _run(context, parts, stop, taken, file)
                finally:
                    stop.set()
                    keeping.join()  # or it would start anew what is stopped next
            finally:
                server.stop()
    log.info("Stopped", extra={"action": "stopped"})


def _run(context: Context, parts: Parts, stop: Event, taken: Listeners, file: Path | None) -> None:
    from sitemapd.begin import begin
    from sitemapd.reporting import Reporter
    from sitemapd.services import (
        check_relays,
        health,
        relays,
        rescan_on_hangup,
        scrubbers,
        supervisor,
        watchers,
    )
    from sitemapd.serving import served, server

    relaying = relays(parts)
    check_relays(relaying)
    configs = begin(parts, stop)
    if stop.is_set():
        return
    if parts.settings.redis_url is None:
        log.info("Redis runs at %s", parts.redis_url, extra={"action": "redis_started"})
    watching = watchers(parts)
    rescan_on_hangup([*watching, *relaying])
    supervised = supervisor(parts, configs, as_json=context.log_json)
    web = server(parts, served(parts, lambda: health(parts, supervised, watching, relaying)), taken)
    reporter = Reporter(parts, watching)
    relay_reporter = Reporter(parts, relaying, kind="relay")
    scrubbing = scrubbers(parts, configs)
    scrubbing.start()
    web.start()
    for watcher in watching:
        watcher.start()
    for relay in relaying:
        relay.start()
    reporter.start()
    relay_reporter.start()
    if file is not None:
        click.echo(f"Other commands: sitemapd --config {file} status")
    click.echo(f"Serving at {web.address}")
    try:
        supervised.run(stop)
    finally:
        scrubbing.stop()
        for watcher in watching:
            watcher.stop()
        for relay in relaying:
            relay.stop()
        reporter.stop()
        relay_reporter.stop()
        web.stop()


def _keep_running(server: EmbeddedServer, stop: Event) -> Thread:
    """Start the embedded server anew when it dies; what it acknowledged is on disk."""

    def watch() -> None:
        while not stop.wait(0.5):
            if not server.alive():
                log.error("Redis ended; sitemapd starts it again", extra={"action": "redis_died"})
                try:
                    server.start()
                except BadSetting as error:
                    log.error("%s", error, extra={"action": "redis_failed"})

    thread = Thread(target=watch, name="redis", daemon=True)
    thread.start()
    return thread


def _remember(settings: Settings) -> Path:
    """Write the flags as a configuration file into the data folder, for the other commands.

    Raises BadSetting.
    """
    (name, site), *_ = settings.sites.items()
    lines = [
        "# Written by `sitemapd run` from its flags, so that the other commands find the site.",
        'data_dir = "."',
        f"[sites.{name}]",
        f"base_url = {json.dumps(site.base_url)}",
        f"output = {json.dumps(str(site.output))}",
    ]
    for source, options in site.watch.items():
        lines += [
            f"[sites.{name}.watch.{source}]",
            f"directory = {json.dumps(str(options['directory']))}",
        ]
    file = settings.data_dir / "sitemapd.toml"
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n", "utf-8")
    except OSError as error:
        raise BadSetting(
            setting="data_dir",
            detail=f"{settings.data_dir} can't be written ({error.strerror}).",
            hint="Give this user the right to, or name another folder with --data-dir.",
        ) from error
    return file


def _settings(
    context: Context,
    directory: Path | None,
    base_url: str | None,
    output: Path | None,
    data_dir: Path | None,
) -> Settings:
    from sitemap_store.model.urls import normalise_base
    from sitemapd.settings import DEFAULT_FILE, load

    flags: dict[str, Any] = {}
    if data_dir is not None:
        flags["data_dir"] = data_dir.absolute()
    if base_url is None and output is None:
        if directory is not None:
            raise BadSetting(
                setting="DIRECTORY",
                detail=f"{directory} on the command line needs --base-url and --output too.",
                hint="Give both, or name the directory under [sites.NAME.watch.SOURCE].",
            )
        return load(context.config or Path(DEFAULT_FILE), flags)
    if base_url is None or output is None:
        missing = "--base-url" if base_url is None else "--output"
        raise BadSetting(
            setting=missing,
            detail="is missing: a site on the command line needs --base-url and --output.",
            hint="Give both, or neither and a configuration file.",
        )
    site: dict[str, Any] = {"base_url": normalise_base(base_url, "--base-url"), "output": output.absolute()}
    if directory is not None:
        site["watch"] = {"pages": {"directory": str(directory.absolute())}}
    file = context.config
    if file is not None:
        raise BadSetting(
            setting="--config",
            detail=f"{file} defines the sites, and so do --base-url and --output.",
            hint="Leave out either.",
        )
    return load(None, {**flags, "sites": {"main": site}})

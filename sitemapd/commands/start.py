"""Commands of the first minutes: `init`, `completion`."""

from __future__ import annotations

from pathlib import Path

import click

from sitemap_store.errors import BadSetting
from sitemap_store.model.urls import normalise_base
from sitemapd.cli import Context
from sitemapd.settings import DEFAULT_FILE

_TEMPLATE = """\
# The configuration of sitemapd; see docs/configuration.md for every setting.

# redis_url = "redis://127.0.0.1:6379/0"   # left out: `sitemapd run` keeps a server under data_dir
data_dir = ".sitemapd"

[sites.main]
base_url = {base_url}   # the address of the folder that the sitemaps are published at
output = {output}

# [sites.main.sections.blog]
# match = "/blog/**"
# changefreq = "weekly"

# [sites.main.watch.pages]
# directory = "content/"
# url = "/{{path}}/"
"""


@click.command()
@click.option("--base-url", metavar="URL", required=True, help="Address of the published folder.")
@click.option("--output", metavar="DIR", default="public", show_default=True)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.pass_obj
def init(context: Context, base_url: str, output: str, force: bool) -> None:
    """Write a configuration file to start from."""
    file = context.config or Path(DEFAULT_FILE)
    base = normalise_base(base_url, "--base-url")
    if file.exists() and not force:
        raise BadSetting(
            setting="--config", detail=f"{file} is there already.", hint="Overwrite it with --force."
        )
    try:
        file.write_text(_TEMPLATE.format(base_url=_quoted(base), output=_quoted(output)), "utf-8")
    except OSError as error:
        raise BadSetting(
            setting="--config",
            detail=f"{file} can't be written ({error.strerror}).",
            hint="Name another file with --config.",
        ) from error
    click.echo(f"Wrote {file}. Start with: sitemapd run")


def _quoted(text: str) -> str:
    """A TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands and options in a shell."""
    from click.shell_completion import get_completion_class

    from sitemapd.cli import cli

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "sitemapd", "_SITEMAPD_COMPLETE").source())

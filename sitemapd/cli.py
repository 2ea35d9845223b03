"""`sitemapd`: the global options, the list of subcommands, and errors as one sentence.

Exit codes: 0 fine, 1 what was asked for failed, 2 usage or configuration.
"""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass, field
from functools import cached_property
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sitemap_store.errors import BadSetting, SitemapdError

if TYPE_CHECKING:
    from sitemapd.build import Parts
    from sitemapd.settings import Settings

_COMMANDS = {
    "init": "start",
    "run": "run",
    "worker": "services",
    "watch": "services",
    "relay": "database",
    "triggers": "database",
    "sync": "sync",
    "import": "importing",
    "accept-deletes": "accept",
    "serve": "services",
    "token": "token",
    "push": "push",
    "wait": "look",
    "status": "look",
    "show": "look",
    "rejected": "look",
    "check": "check",
    "verify": "verify",
    "rebuild": "maintain",
    "backup": "backup",
    "restore": "backup",
    "compact": "compact",
    "tail": "live",
    "top": "live",
    "completion": "start",
    "robots": "look",
    "doctor": "doctor",
}
"""Subcommand → module: only the module of the one that is called is imported."""


@dataclass
class Context:
    """What the global options say."""

    config: Path | None
    site: str | None
    log_json: bool
    log_level: str
    flags: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def settings(self) -> Settings:
        """The settings of the configuration file. Raises BadSetting."""
        from sitemapd.settings import DEFAULT_FILE, load

        file = self.config or Path(DEFAULT_FILE)
        return load(file, self.flags)

    @cached_property
    def parts(self) -> Parts:
        """The parts. Raises BadSetting."""
        settings = self.settings  # what is wrong with them is said before slow imports
        from sitemapd.build import build

        return build(settings, file=self.config)

    @property
    def site_name(self) -> str:
        """The site that the command is about. Raises BadSetting."""
        return self.parts.site_named(self.site)

    def configure_logging(self) -> None:
        """Log as the options say; for the commands that run for long."""
        from sitemapd.logs import configure

        configure(as_json=self.log_json, level=self.log_level.upper())


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"sitemapd.commands.{_COMMANDS[cmd_name]}")
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(module, f"{name}_" if iskeyword(name) else name)
        return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="SITEMAPD_CONFIG",
    help="The configuration file.  [default: sitemapd.toml]",
)
@click.option("--site", metavar="NAME", help="The site, if several are configured.")
@click.option("--log-json", is_flag=True, help="Log one JSON object per line.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
@click.version_option(package_name="sitemapd")
@click.pass_context
def cli(ctx: click.Context, config: Path | None, site: str | None, log_json: bool, log_level: str) -> None:
    """Keep the XML sitemaps of a large site up to date."""
    ctx.obj = Context(config, site, log_json, log_level)


def main() -> None:
    """The console script: errors become one sentence and an exit code."""
    try:
        status = cli.main(standalone_mode=False, prog_name="sitemapd")
    except click.exceptions.Abort:
        status = _print_error("interrupted", 130)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except BadSetting as error:
        status = _print_error(str(error), 2)
    except SitemapdError as error:
        status = _print_error(str(error), 1)
    except BrokenPipeError:
        # The reader of our output has gone (`sitemapd show … | head`): nothing to say, nobody to hear.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status if isinstance(status, int) else 0)


def _print_error(sentence: str, status: int) -> int:
    click.echo(f"sitemapd: {sentence}", err=True)
    return status

"""docs/databases.md: each worked example is run as it stands, and each setting is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

from producers.database import DatabaseSource
from tests.integration.database_servers import Server
from tests.integration.database_world import World

PAGE: Final = (Path(__file__).parents[3] / "docs" / "databases.md").read_text()


def _block(language: str, first: str) -> str:
    found = re.search(rf"```{language}\n(?:#|--) {first}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None, (language, first)
    return found[1]


def _table_after(text: str) -> dict[str, str]:
    rows = re.search(r"\| address \| lastmod \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE[PAGE.index(text) :])
    assert rows is not None
    found = {}
    for row in rows[1].splitlines():
        address, lastmod = (cell.strip().strip("`") for cell in row.strip("|").split("|"))
        found[address] = lastmod
    return found


def _run(world: World, script: str) -> None:
    world.run(*(statement for statement in script.split(";\n") if statement.strip(" \n;")))


def test_the_worked_example_of_each_database(server: Server, redis_url: str) -> None:
    """Schema, settings and later statements give the addresses and dates that the page shows."""
    server.start()
    later = _block("sql", f"{server.kind}, later")
    world = World(server, redis_url, site="shop")
    try:
        _run(world, _block("sql", server.kind))
        sources = tomllib.loads(_block("toml", server.kind))["sites"]["shop"]["database"]
        ((name, options),) = sources.items()
        options["dsn"] = server.dsn(world.database)  # the page's server is elsewhere
        world.relay(DatabaseSource(name=name, **options))
        _run(world, later)
        wanted = _table_after(later)
        world.settled()
        assert {path: entry.lastmod for path, entry in world.entries(name).items()} == wanted
    finally:
        world.close()


def test_every_setting_is_documented_with_its_default() -> None:
    """The table of settings has the fields of a source, in their names and defaults."""
    rows = PAGE[PAGE.index("## Settings") : PAGE.index("## The fields of `status`")].splitlines()
    documented = {}
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        for name in re.findall(r"`([a-z_]+)`", cells[0]):
            documented[name] = cells[1].strip("`")
    fields = {name: field.default for name, field in DatabaseSource.model_fields.items() if name != "name"}
    assert set(documented) == set(fields)
    for name in ("triggers", "notify", "poll_interval", "reconcile_interval", "max_delete"):
        default = fields[name]
        shown = f'"{default}"' if isinstance(default, str) else str(default).lower()
        assert documented[name] == shown

"""Relative paths in a database source's options, made absolute before anything is checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_FILE: Final = "sqlite:///"


def located(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The options with a SQLite file and a `setup` file that are relative to the configuration's folder."""
    found = dict(options)
    dsn, setup = found.get("dsn"), found.get("setup")
    if isinstance(dsn, str) and dsn.startswith(_FILE) and dsn != _FILE:
        found["dsn"] = f"{_FILE}{folder.absolute() / dsn.removeprefix(_FILE)}"
    if isinstance(setup, str):
        found["setup"] = folder.absolute() / setup
    return found

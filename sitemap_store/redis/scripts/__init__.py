"""The Lua scripts of the store, loaded once for each client."""

from __future__ import annotations

from importlib import resources
from typing import Any

import redis

NAMES = (
    "append",
    "claim",
    "commit",
    "published",
    "index_claim",
    "index_published",
    "keeper",
    "release",
    "is_listed",
    "beat",
    "postpone",
    "merge_turn",
    "merge_claim",
    "merge",
    "refuse",
    "want",
    "witness",
    "configure",
    "restore",
    "drain",
    "once",
)


class Scripts:
    """The scripts by name, sent by their hash and loaded again when the server has forgotten them."""

    def __init__(self, client: redis.Redis) -> None:
        folder = resources.files(__package__)
        common = "".join(folder.joinpath(f"{name}.lua").read_text("utf-8") for name in ("common", "record"))
        self._scripts = {
            name: client.register_script(common + folder.joinpath(f"{name}.lua").read_text("utf-8"))
            for name in NAMES
        }

    def run(self, name: str, key: str, *args: Any) -> Any:
        """Run a script on one partition's prefix."""
        return self._scripts[name](keys=[key], args=args)

    def call(self, name: str, key: str, *args: Any) -> tuple[Any, ...]:
        """The command that runs a script which the server knows; it answers with an error otherwise."""
        return "EVALSHA", self._scripts[name].sha, 1, key, *args

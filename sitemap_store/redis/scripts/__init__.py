"""The Lua scripts of the store, loaded once for each client."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import resources
from typing import Any

import redis

from sitemap_store.redis.keys import lua_functions

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
        self._pool = client.connection_pool
        folder = resources.files(__package__)
        common = "".join(folder.joinpath(f"{name}.lua").read_text("utf-8") for name in ("common", "record"))
        self._scripts = {}
        for name in NAMES:
            script = common + folder.joinpath(f"{name}.lua").read_text("utf-8")
            self._scripts[name] = client.register_script(lua_functions(script) + script)

    def run(self, name: str, key: str, *args: Any) -> Any:
        """Run a script on one partition's prefix."""
        return self._scripts[name](keys=[key], args=args)

    def begin(self, name: str, key: str, *args: Any) -> Callable[[], Any]:
        """Send a script's call; what is returned waits for its answer, and has to be called, once.

        When the connection breaks or the server has forgotten the script, it is run again. The server comes
        to the first call, if at all, before it comes to anything that is sent after the second's answer.
        """
        connection: Any = None  # redis-py's connections are not typed
        try:
            connection = self._pool.get_connection()
            connection.send_command(*self.call(name, key, *args))
        except redis.RedisError:
            if connection is not None:
                self._pool.release(connection)
            return partial(self.run, name, key, *args)

        def answer() -> Any:
            try:
                return connection.read_response()
            except redis.RedisError:
                connection.disconnect()
                return self.run(name, key, *args)
            finally:
                self._pool.release(connection)

        return answer

    def call(self, name: str, key: str, *args: Any) -> tuple[Any, ...]:
        """The command that runs a script which the server knows; it answers with an error otherwise."""
        return "EVALSHA", self._scripts[name].sha, 1, key, *args

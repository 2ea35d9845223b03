"""The table of Redis keys, and the page that documents it."""

import re
from pathlib import Path
from typing import Any

import pytest

from sitemap_store.redis.keys import KEYS, Keys, lua_functions
from tests.redis_server import RedisServer

PAGE = Path(__file__).parents[2] / "docs" / "redis-keys.md"
TYPES = {"string", "hash", "list", "set", "zset", "stream"}


def test_every_key_says_what_it_is() -> None:
    """Name, type, meaning, writer and bound; each name once."""
    names = [key.name for key in KEYS.values()]
    assert len(names) == len(set(names))
    for key in KEYS.values():
        assert key.type in TYPES
        assert key.meaning
        assert key.writer
        assert key.bound


def test_all_keys_of_a_partition_have_one_hash_tag() -> None:
    """A Redis cluster hashes what the braces hold."""
    assert Keys("shop", 3).prefix == "sm:{shop.3}"


def test_the_documentation_lists_every_key_and_no_other() -> None:
    """docs/redis-keys.md has a row for each, with its type."""
    rows = re.findall(r"^\| `([^`]+)` \| (\w+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted((key.name, key.type) for key in KEYS.values())


@pytest.mark.parametrize("name", KEYS)
def test_lua_and_python_make_the_same_key(redis_server: RedisServer, name: str) -> None:
    """The function that a script calls is made from the method of `Keys`."""
    arguments = ["7"] * KEYS[name].name.count("<")
    script = f"return keys.{name}({', '.join(arguments)})"
    keys = Keys("shop", 3)
    with redis_server.client() as client:
        found: Any = client.eval(lua_functions(script) + script, 1, keys.prefix)
    assert found.decode() == getattr(keys, name)(*arguments)


def test_a_script_that_calls_an_unknown_key_is_not_loaded() -> None:
    """A misspelt key is an error at the start, and not a key that nobody reads."""
    with pytest.raises(KeyError, match="logs"):
        lua_functions("redis.call('DEL', keys.logs(id))")

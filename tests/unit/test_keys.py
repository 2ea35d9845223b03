"""The table of Redis keys, and the page that documents it."""

import re
from pathlib import Path

from sitemap_store.redis.keys import KEYS, prefix

PAGE = Path(__file__).parents[2] / "docs" / "redis-keys.md"
TYPES = {"string", "hash", "list", "set", "zset", "stream"}


def test_every_key_says_what_it_is() -> None:
    """Name, type, meaning, writer and bound; each name once."""
    names = [key.name for key in KEYS]
    assert len(names) == len(set(names))
    for key in KEYS:
        assert key.type in TYPES
        assert key.meaning
        assert key.writer
        assert key.bound


def test_all_keys_of_a_partition_have_one_hash_tag() -> None:
    """A Redis cluster hashes what the braces hold."""
    assert prefix("shop", 3) == "sm:{shop.3}"


def test_the_documentation_lists_every_key_and_no_other() -> None:
    """docs/redis-keys.md has a row for each, with its type."""
    rows = re.findall(r"^\| `([^`]+)` \| (\w+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted((key.name, key.type) for key in KEYS)

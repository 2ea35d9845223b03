"""What is said of a Redis' settings is what they mean."""

from __future__ import annotations

from typing import Any

import pytest

from sitemapd.redis_settings import may_lose
from tests.redis_server import RedisServer


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"appendonly": "yes", "appendfsync": "always"}, "loses nothing that was acknowledged"),
        ({"appendonly": "yes", "appendfsync": "everysec"}, "up to a second of what was acknowledged"),
        ({"appendonly": "yes", "appendfsync": "no"}, "set appendfsync to everysec"),
        ({"appendonly": "no"}, "set appendonly to yes"),
    ],
)
def test_each_setting_has_its_sentence(any_redis: RedisServer, settings: dict[str, str], said: str) -> None:
    """With the way out."""
    client = any_redis.client()
    for name, value in settings.items():
        client.config_set(name, value)
    try:
        assert said in may_lose(client)
        assert "Replicas" not in may_lose(client)
    finally:
        client.config_set("appendonly", "yes")
        client.config_set("appendfsync", "everysec")


def test_a_user_without_rights_is_told_so(any_redis: RedisServer) -> None:
    """It can't be checked: that is not the same as fine."""
    client = any_redis.client()
    command: Any = client.execute_command
    command("ACL", "SETUSER", "plain", "on", ">secret", "~*", "+@all", "-config", "-info")
    try:
        plain = any_redis.client()
        plain.connection_pool.connection_kwargs |= {"username": "plain", "password": "secret"}
        assert "can't be checked" in may_lose(plain)
    finally:
        command("ACL", "DELUSER", "plain")


def test_a_replica_that_may_take_over_is_named(
    any_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had not got yet is lost then, which a setting bounds."""
    client = any_redis.client()
    told = {**client.info(), "connected_slaves": 2}
    monkeypatch.setattr(client, "info", lambda: told)
    assert "Replicas: 2; a fail-over loses the writes that the replica had not received" in may_lose(client)
    assert "min-replicas-to-write bounds their number" in may_lose(client)
    client.config_set("min-replicas-to-write", "1")
    try:
        assert "min-replicas-to-write" not in may_lose(client)
    finally:
        client.config_set("min-replicas-to-write", "0")

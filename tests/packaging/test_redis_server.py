"""The servers that other tests rely on: they keep their word over restarts, and are given empty."""

import pytest
import redis

from tests import needs
from tests.redis_server import SOCKET_PATH_LIMIT, RedisServer


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_restarted_server_has_what_it_acknowledged(redis_server: RedisServer, kill: bool) -> None:
    """A value that was set is there after the server was stopped or killed and started again.

    With `everysec` a server that still syncs holds writes back for up to 2 s (docs/reliability.md), so a kill
    is tried with `always`.
    """
    redis_server.flush()
    before = redis_server.pid
    with redis_server.client() as client:
        if kill:
            client.config_set("appendfsync", "always")
        client.set("key", "value")

    redis_server.restart(kill=kill)

    assert redis_server.pid != before
    with redis_server.client() as client:
        assert client.get("key") == b"value"


def test_the_server_is_set_as_sitemapd_asks(redis_server: RedisServer) -> None:
    """The append-only file is on, nothing is evicted, and no port is open."""
    with redis_server.client() as client:
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("port") == {"port": "0"}


def test_the_server_is_of_the_kind_that_it_says(redis_server: RedisServer) -> None:
    """A run on Valkey is a run on Valkey."""
    with redis_server.client() as client:
        assert ("valkey_version" in client.info("server")) == (redis_server.kind == "valkey")


def test_the_socket_is_private_and_its_path_short(redis_server: RedisServer) -> None:
    """Only its owner may connect, and the path fits into a socket address on every system."""
    assert redis_server.socket.stat().st_mode & 0o077 == 0
    assert len(str(redis_server.socket)) < SOCKET_PATH_LIMIT


def test_a_server_that_a_test_ended_runs_again_for_the_next(any_redis: RedisServer) -> None:
    """After `stop` there is no process, and `flush` brings an empty server back."""
    any_redis.flush()
    with any_redis.client() as client:
        client.set("key", "value")
    any_redis.stop()
    assert any_redis.pid is None

    any_redis.flush()

    with any_redis.client() as client:
        assert client.dbsize() == 0


def test_the_url_is_of_an_empty_server(redis_url: str) -> None:
    """A test that asks for a URL finds nothing of the test before it."""
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        client.set("left", "behind")


def test_the_url_is_of_an_empty_server_again(redis_url: str) -> None:
    """What the test above left behind is gone."""
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0


def test_a_closed_server_leaves_nothing() -> None:
    """Closing ends the process and removes its folder."""
    server = RedisServer("valkey")
    server.start()
    server.close()
    assert server.pid is None
    assert not server.folder.exists()


def test_what_is_missing_skips_on_a_laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without CI in the environment, an unmet need skips with its reason."""
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no such program"):
        needs.require(False, "no such program")


def test_what_is_missing_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """With CI=true, an unmet need fails with its reason: a green run proves that it was there."""
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no such program"):
        needs.require(False, "no such program")
    needs.require(True, "not needed")

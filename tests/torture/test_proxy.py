"""The proxy cuts commands where they end, and each of its modes is what a client of Redis then meets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.redis_server import RedisServer
from tests.torture.proxy import Commands, Proxy, name_of
from tests.torture.redis_faults import REPLIES

SET = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4\r\n\r\n*1\r\n"


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_commands_are_cut_where_they_end(size: int) -> None:
    """Whatever the pieces in which they come, also when a value looks like a command."""
    stream = (SET + b"PING\r\n") * 2
    commands, found = Commands(), list[bytes]()
    for place in range(0, len(stream), size):
        found += commands.feed(stream[place : place + size])
    assert found == [SET, b"PING\r\n"] * 2
    assert [name_of(command) for command in found[:2]] == ["SET", "PING"]


@pytest.fixture
def proxy(any_redis: RedisServer) -> Iterator[Proxy]:
    """Give a proxy before an emptied server."""
    any_redis.flush()
    proxy = Proxy(str(any_redis.socket))
    yield proxy
    proxy.close()


@pytest.fixture
def client(proxy: Proxy) -> Iterator[redis.Redis]:
    """Give a client that connects through the proxy and never tries again."""
    client = redis.Redis.from_url(proxy.url, retry=Retry(NoBackoff(), 0), socket_timeout=10)
    yield client
    client.close()


def test_it_forwards(client: redis.Redis) -> None:
    """Values of any size and bytes come through."""
    value = bytes(range(256)) * 3000
    client.set("a", value)
    assert client.get("a") == value


@pytest.mark.parametrize(("text", "writes_only"), REPLIES.values(), ids=REPLIES)
def test_it_answers_with_an_error(proxy: Proxy, client: redis.Redis, text: str, writes_only: bool) -> None:
    """Writes fail with Redis' own words and do nothing; reads too, or not; then all is as before."""
    client.set("a", 1)
    proxy.answer(text, writes_only=writes_only)
    with pytest.raises(redis.RedisError):
        client.incr("a")
    if writes_only:
        assert client.get("a") == b"1"
    else:
        with pytest.raises(redis.RedisError):
            client.get("a")
    proxy.pass_on()
    assert client.get("a") == b"1"
    assert proxy.struck


def test_a_pipeline_gets_an_error_for_each_command(proxy: Proxy, client: redis.Redis) -> None:
    """The answers stay in their order."""
    proxy.answer(REPLIES["BUSY"][0])
    pipeline = client.pipeline(transaction=False)
    pipeline.set("a", 1)
    pipeline.get("a")
    answers = pipeline.execute(raise_on_error=False)
    assert [str(answer) for answer in answers] == [REPLIES["BUSY"][0]] * 2


def test_it_resets(proxy: Proxy, client: redis.Redis) -> None:
    """A connection that was there breaks; the next one is served."""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as connection:
        connection.sendall(b"PING\r\n")
        assert connection.recv(100) == b"+PONG\r\n"
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            connection.recv(100)
    assert client.get("a") is None


def test_it_refuses(proxy: Proxy, client: redis.Redis) -> None:
    """Nobody gets through until it passes on again."""
    proxy.refuse()
    for _ in range(2):
        with pytest.raises(redis.ConnectionError):
            client.get("a")
    proxy.pass_on()
    assert client.get("a") is None


def test_it_swallows_answers(proxy: Proxy, client: redis.Redis, any_redis: RedisServer) -> None:
    """The command runs, and its caller sees a broken connection."""
    client.ping()
    proxy.swallow()
    with pytest.raises(redis.ConnectionError):
        client.incr("a")
    proxy.pass_on()
    with any_redis.client() as direct:
        assert direct.get("a") == b"1"

"""The address of sentinels, as redis-py is given it."""

from __future__ import annotations

from typing import Any

import pytest
from redis.sentinel import SentinelManagedConnection, SentinelManagedSSLConnection

from sitemap_store.redis.connection import connect


def _pool(url: str) -> Any:
    return connect(url).connection_pool


def _hosts(pool: Any) -> list[tuple[str, int]]:
    kwargs = [one.connection_pool.connection_kwargs for one in pool.sentinel_manager.sentinels]
    return [(one["host"], one["port"]) for one in kwargs]


def test_each_part_of_the_address_goes_where_it_belongs() -> None:
    """Login, database and options are those of Redis; what begins with sentinel_ is of the sentinels."""
    pool = _pool(
        "redis+sentinel://shop:p%40ss@one,two:1234,[::1]:5/my%20shop/3"
        "?sentinel_username=watch&sentinel_password=s%26t&max_connections=7"
    )
    assert _hosts(pool) == [("one", 26379), ("two", 1234), ("::1", 5)]
    assert pool.service_name == "my shop"
    assert pool.connection_class is SentinelManagedConnection
    assert pool.max_connections == 7
    kwargs = pool.connection_kwargs
    assert (kwargs["username"], kwargs["password"], kwargs["db"]) == ("shop", "p@ss", 3)
    for one in pool.sentinel_manager.sentinels:
        theirs = one.connection_pool.connection_kwargs
        assert (theirs["username"], theirs["password"]) == ("watch", "s&t")
        assert theirs["socket_timeout"] <= 1.0


def test_no_login_is_sent_to_sentinels_that_have_none() -> None:
    """The password of Redis is not theirs."""
    (one,) = _pool("redis+sentinel://:geheim@one/shop").sentinel_manager.sentinels
    assert one.connection_pool.connection_kwargs["password"] is None


def test_tls_is_for_both() -> None:
    """`rediss+sentinel` speaks TLS to the sentinels and to Redis, with the same authorities."""
    pool = _pool("rediss+sentinel://one,two/shop?ssl_ca_certs=/etc/ssl/own.pem")
    assert pool.connection_class is SentinelManagedSSLConnection
    for kwargs in (
        pool.connection_kwargs,
        pool.sentinel_manager.sentinels[1].connection_pool.connection_kwargs,
    ):
        assert kwargs["ssl_ca_certs"] == "/etc/ssl/own.pem"


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://one",
        "redis+sentinel://one/",
        "redis+sentinel:///shop",
        "redis+sentinel://one,,two/shop",
        "redis+sentinel://one:0/shop",
        "redis+sentinel://one:65536/shop",
        "redis+sentinel://one:²/shop",
        "redis+sentinel://one:1:2/shop",
        "redis+sentinel://[::1/shop",
        "redis+sentinel://one/shop/first",
        "redis+sentinel://one/shop/1/2",
        "redis+sentinel://one/shop?max_connections=many",
        "redis+sentinel://" + ",".join(f"h{number}" for number in range(33)) + "/shop",
    ],
)
def test_what_cannot_be_read_is_refused(url: str) -> None:
    """Before anything connects."""
    with pytest.raises(ValueError, match=r"\S"):
        connect(url)

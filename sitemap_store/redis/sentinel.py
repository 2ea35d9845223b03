"""A client for the primary that Redis Sentinel names, also after each fail-over.

The address is `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/SERVICE/DB`, or `rediss+sentinel://` for
TLS to the sentinels and to Redis. User, password and the options after `?` are those of Redis;
`sentinel_username` and `sentinel_password` are those of the sentinels. A port that is left out is 26379, a
database that is left out is 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.retry import Retry
from redis.sentinel import Sentinel

SCHEMES: Final = {"redis+sentinel": "redis", "rediss+sentinel": "rediss"}
PORT: Final = 26379
SENTINEL_TIMEOUT_S: Final = 1.0
"""The longest, in seconds, that one sentinel may take before the next one is asked."""
SENTINELS_MAX: Final = 32
_LOGIN: Final = {"sentinel_username": "username", "sentinel_password": "password"}
_OF_ONE: Final = frozenset({"host", "port", "connection_class"})
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?")


def names_sentinels(url: str) -> bool:
    """Whether an address is one of sentinels."""
    return url.partition("://")[0].lower() in SCHEMES


def primary_client(url: str, options: Mapping[str, Any]) -> redis.Redis:
    """A client for the primary of a service: it asks the sentinels whenever it connects.

    `options` are redis-py's, for the connections to Redis. Raises ValueError for an address that can't be
    read.
    """
    parts = urlsplit(url)
    login, _, hosts = parts.netloc.rpartition("@")
    service, _, database = parts.path.removeprefix("/").partition("/")
    if not service:
        raise ValueError("the name of the service is missing after the hosts")
    if database and not (database.isascii() and database.isdigit()):
        raise ValueError(f"{database!r} is no number of a database")
    query = parse_qsl(parts.query)
    # redis-py reads the rest as it reads the address of one server.
    one = SplitResult(
        SCHEMES[parts.scheme],
        f"{login}@redis" if login else "redis",
        f"/{database or 0}",
        urlencode([(name, value) for name, value in query if name not in _LOGIN]),
        "",
    )
    read, make = cast("tuple[Any, Any]", (parse_url, Sentinel))  # they are not typed
    found = {name: value for name, value in read(one.geturl()).items() if name not in _OF_ONE}
    tls = {name: value for name, value in found.items() if name.startswith("ssl_")}
    if one.scheme == "rediss":
        tls["ssl"] = True
    sentinel = make(
        _hosts(hosts),
        sentinel_kwargs={
            "socket_timeout": SENTINEL_TIMEOUT_S,
            "socket_connect_timeout": SENTINEL_TIMEOUT_S,
            # The next sentinel is asked instead of the same one again.
            "retry": Retry(NoBackoff(), 0),
            **{_LOGIN[name]: value for name, value in query if name in _LOGIN},
            **tls,
        },
    )
    client: redis.Redis = sentinel.master_for(unquote(service), **{**found, **tls, **options})
    return client


def _hosts(text: str) -> list[tuple[str, int]]:
    """The sentinels of an address, in its order."""
    hosts = []
    for part in text.split(","):
        found = _HOST.fullmatch(part)
        if found is None or not 0 < int(found[2] or PORT) < 65536:
            raise ValueError(f"{part!r} is no HOST:PORT of a sentinel")
        hosts.append((found[1].strip("[]"), int(found[2] or PORT)))
    if len(hosts) > SENTINELS_MAX:
        raise ValueError(f"{len(hosts)} sentinels; at most {SENTINELS_MAX} are asked")
    return hosts

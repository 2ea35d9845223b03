"""Connections to Redis, and its errors in our words.

redis-py's `Redis()` repeats a write that timed out up to ten times and `from_url` never does, so the
retries are set here. Every write of ours may be repeated: scripts are fenced by versions and leases,
and an event that is appended twice in a row folds to the same entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError

from sitemap_store.errors import RedisRefuses, RedisUnavailable
from sitemap_store.redis.sentinel import names_sentinels, primary_client

TIMEOUT_S = 10.0
"""The longest that one command may take before it counts as failed."""
_RETRIES = 3

_REASONS: Final = {
    "LOADING": "it is still loading its data",
    "BUSY": "a script has kept it busy for too long",
    "MASTERDOWN": "it is a replica that has lost its primary",
    "READONLY": "it is a replica, which takes no writes",
    "MISCONF": "it can't write its data to the disk: its own log says why",
    "NOREPLICAS": "too few replicas follow it (its min-replicas-to-write)",
    "OOM": "it is full: raise maxmemory (the policy must stay noeviction)",
    "NOPERM": "its user may not do that ({})",
    "CLUSTERDOWN": "its cluster has no node for some keys",
    "MOVED": "another node of its cluster has these keys ({}): redis_url must name that one",
    "ASK": "its cluster is moving these keys to another node",
    "TRYAGAIN": "its cluster is moving these keys to another node",
}
"""The error replies that go away by themselves, or when the operator acts; others are faults of ours."""
_WITH_TEXT: Final = {"NOPERM", "MOVED"}
_CODE: Final = re.compile(rf"(?:^|caused error: |: -)({'|'.join(_REASONS)}) ")


def connect(url: str, *, timeout: float = TIMEOUT_S) -> redis.Redis:
    """A client for a `redis://`, `rediss://`, `unix://` or `redis+sentinel://` address.

    It connects on first use. Raises ValueError for an address that can't be read.
    """
    options: dict[str, Any] = {
        "decode_responses": False,
        "socket_timeout": timeout,
        "socket_connect_timeout": min(timeout, 5.0),
        "health_check_interval": 30,
        "retry": Retry(ExponentialBackoff(cap=1.0, base=0.05), _RETRIES),
        "retry_on_error": [redis.ConnectionError, redis.TimeoutError],
    }
    if names_sentinels(url):
        return primary_client(url, options)
    return redis.Redis.from_url(url, **options)


def shown(url: str) -> str:
    """The address without its password, for logs and messages."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return url.replace(f":{parts.password}@", ":***@", 1)


@contextmanager
def translated(what: str = "Redis") -> Iterator[None]:
    """Turn redis-py's errors into `RedisUnavailable`, with one sentence that says what to look at.

    Replies that say a command is wrong stay redis-py's: trying again would not help.
    """
    try:
        yield
    except redis.RedisError as error:
        code = _code(error)
        if code in _REASONS:
            text = str(error) if code in _WITH_TEXT else ""
            raise RedisRefuses(what=what, because=_REASONS[code].format(text)) from error
        if isinstance(error, redis.AuthenticationError):
            raise RedisUnavailable(what=what, detail=f"refused the login ({error})") from error
        if isinstance(error, redis.TimeoutError):
            raise RedisUnavailable(what=what, detail=f"did not answer in time ({error})") from error
        if isinstance(error, MasterNotFoundError):
            # What redis-py adds describes each connection to a sentinel in 30 lines.
            reason = (
                str(error)
                .partition(" : ")[0]
                .replace("No master found for", "no sentinel names a primary of")
            )
            raise RedisUnavailable(what=what, detail=f"can't be reached ({reason} that is alive)") from error
        if isinstance(error, redis.ConnectionError):
            raise RedisUnavailable(what=what, detail=f"can't be reached ({error})") from error
        raise


def _code(error: redis.RedisError) -> str:
    """The code of an error reply, such as OOM; empty for what is none of ours.

    redis-py takes the codes that it knows off the text. A pipeline puts words of its own before the text, and
    Redis 6.2 does when a script got the error.
    """
    code = str(getattr(error, "status_code", None) or "")
    if code in _REASONS:
        return code
    found = _CODE.search(str(error))
    return found[1] if found else ""

"""Connections to Redis, and its errors in our words.

redis-py's `Redis()` repeats a write that timed out up to ten times and `from_url` never does, so the
retries are set here. Every write of ours may be repeated: scripts are fenced by versions and leases,
and an event that is appended twice in a row folds to the same entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from sitemap_store.errors import Unavailable

TIMEOUT_S = 10.0
"""The longest that one command may take before it counts as failed."""
_RETRIES = 3


def connect(url: str, *, timeout: float = TIMEOUT_S) -> redis.Redis:
    """A client for a `redis://`, `rediss://` or `unix://` address. It connects on first use.

    Raises ValueError for an address that redis-py can't read.
    """
    return redis.Redis.from_url(
        url,
        decode_responses=False,
        socket_timeout=timeout,
        socket_connect_timeout=min(timeout, 5.0),
        health_check_interval=30,
        retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), _RETRIES),
        retry_on_error=[redis.ConnectionError, redis.TimeoutError],
    )


def shown(url: str) -> str:
    """The address without its password, for logs and messages."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return url.replace(f":{parts.password}@", ":***@", 1)


@contextmanager
def translated(what: str = "Redis") -> Iterator[None]:
    """Turn redis-py's errors into `Unavailable`, with one sentence that says what to look at."""
    try:
        yield
    except redis.BusyLoadingError as error:
        raise Unavailable(what=what, detail="is still loading its data") from error
    except (redis.AuthenticationError, redis.exceptions.NoPermissionError) as error:
        raise Unavailable(what=what, detail=f"refused the login ({error})") from error
    except redis.TimeoutError as error:
        raise Unavailable(what=what, detail=f"did not answer in time ({error})") from error
    except redis.ConnectionError as error:
        raise Unavailable(what=what, detail=f"can't be reached ({error})") from error
    except redis.exceptions.OutOfMemoryError as error:
        raise Unavailable(
            what=what, detail="is full: raise maxmemory (the policy must stay noeviction)"
        ) from error
    except redis.exceptions.ReadOnlyError as error:
        raise Unavailable(what=what, detail=f"takes no writes ({error})") from error
    except redis.ResponseError as error:
        # redis-py knows no class for it: the server can't write its append-only file.
        if "MISCONF" in str(error):
            raise Unavailable(what=what, detail=f"takes no writes ({error})") from error
        raise

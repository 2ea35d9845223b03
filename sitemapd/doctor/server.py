"""Checks of the Redis in use: settings, memory, disk, clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import redis

from sitemap_store.errors import SitemapdError
from sitemap_store.redis.connection import translated
from sitemap_store.redis.observed import failed_writes
from sitemapd.build import Parts
from sitemapd.doctor.finding import size
from sitemapd.redis_settings import allowed, check_redis

MEMORY_SHARE: Final = 0.1
"""Redis with less than this share of its memory left is nearly full."""
CLOCK_S: Final = 2.0
"""Seconds that two clocks may be apart."""


def settings(parts: Parts) -> str:
    """Check that Redis answers, is new enough, and stores data safely."""
    warnings = check_redis(parts)
    with translated():
        info = allowed(parts.client.info)
    version = f"version {info['redis_version']}" if info else "of a version that its user may not ask for"
    return "; ".join([version, *(warnings or ["stores data safely"])])


def memory(client: redis.Redis) -> str:
    """Check that Redis has memory left."""
    with translated():
        info = allowed(client.info)
    if info is None:
        return "its user may not ask (INFO), so the memory that is left can't be checked"
    used, most = int(info["used_memory"]), int(info["maxmemory"])
    limit = most or int(info.get("total_system_memory", 0))
    if not limit:
        return f"{size(used)} are used, and this server does not say of how many"
    of = "maxmemory" if most else "the memory of its machine, since maxmemory is not set"
    said = f"{size(limit - used)} of {size(limit)} are left ({of})"
    if limit - used < limit * MEMORY_SHARE:
        more = "raise maxmemory" if most else "use a machine with more memory"
        raise SitemapdError(f"only {said}: {more}, since a full Redis refuses every change")
    return said


def disk(client: redis.Redis) -> str:
    """Check that Redis' last writes to its disk went well."""
    with translated():
        info = allowed(client.info)
    if info is None:
        return "its user may not ask (INFO), so whether Redis can write to its disk can't be checked"
    if failed := failed_writes(info):
        raise SitemapdError("; ".join(failed))
    return "the last writes of the append-only file and of a snapshot went well"


def clock(client: redis.Redis, now: Callable[[], float]) -> str:
    """Check that this machine's clock, in seconds since 1970, is that of Redis."""
    before = now()
    with translated():
        seconds, micros = client.time()
    after = now()
    ahead = (before + after) / 2 - (seconds + micros / 1e6)
    way = "ahead of" if ahead > 0 else "behind"
    if abs(ahead) > CLOCK_S + (after - before) / 2:
        raise SitemapdError(
            f"this machine is {abs(ahead):,.1f} s {way} Redis, so dates of files and times of events don't "
            "compare: have NTP (chrony, systemd-timesyncd) set both clocks"
        )
    return f"this machine and Redis agree within {CLOCK_S:g} s"

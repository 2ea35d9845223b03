"""Whether the Redis in use keeps what it is told."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import redis

from sitemap_store.errors import BadSetting, RedisRefuses, Unavailable
from sitemap_store.redis.connection import translated
from sitemapd.build import Parts, masked


def check_redis(parts: Parts) -> list[str]:
    """See that Redis answers and keeps what it is told; warnings in sentences.

    Raises BadSetting when it can't be reached, or may lose changes and that is not allowed; RedisRefuses when
    it answers that it can't take commands for now.
    """
    client, address = parts.client, masked(parts.redis_url)
    try:
        with translated():
            client.ping()
        with translated("the queue's Redis"):
            parts.queue_client.ping()
        with translated():
            info = allowed(client.info)
            policy = allowed(lambda: client.config_get("maxmemory-policy").get("maxmemory-policy"))
            append_only = allowed(lambda: client.config_get("appendonly").get("appendonly"))
    except RedisRefuses:
        raise
    except Unavailable as error:
        raise BadSetting(
            setting="redis_url",
            detail=f"{address} {error.detail}.",
            hint="Start it, or correct the address.",
        ) from error
    except redis.RedisError as error:
        raise BadSetting(
            setting="redis_url",
            detail=f"{address} refuses ({error}).",
            hint="See that user and password are right.",
        ) from error
    number = str((info or {}).get("redis_version", "6.2"))
    if tuple(int(part) for part in number.split(".")[:2]) < (6, 2):
        raise BadSetting(
            setting="redis_url",
            detail=f"{address} is version {number}; 6.2 is needed.",
            hint="Install a newer one.",
        )
    if (info or {}).get("cluster_enabled") and _nodes(client) > 1:
        raise BadSetting(
            setting="redis_url",
            detail=f"{address} is a node of a cluster, which sitemapd can't use.",
            hint="Name a Redis that has all keys, or one with Sentinel.",
        )
    # INFO tells of both too, where CONFIG is not allowed.
    if info is not None:
        policy = policy or info.get("maxmemory_policy")
        append_only = append_only or {0: "no", 1: "yes"}.get(info.get("aof_enabled", -1))
    wrong = []
    if policy not in (None, "noeviction"):
        wrong.append(f"maxmemory-policy is {policy}: set it to noeviction, or keys get lost")
    if append_only not in (None, "yes"):
        wrong.append("appendonly is no: set it to yes, or a restart loses changes")
    if wrong and not parts.settings.allow_volatile_redis:
        raise BadSetting(
            setting="redis_url",
            detail=f"the Redis at {address} may lose changes: {'; '.join(wrong)}.",
            hint="Or accept the loss with allow_volatile_redis = true.",
        )
    checks = {
        "its version is 6.2 or newer": info,
        "maxmemory-policy is noeviction": policy,
        "appendonly is yes": append_only,
    }
    unseen = [what for what, found in checks.items() if found is None]
    if unseen:
        wrong.append(
            f"the Redis at {address} does not let its user ask for everything, so these could not be "
            f"checked: {'; '.join(unseen)}"
        )
    return wrong


def may_lose(client: redis.Redis) -> str:
    """What the Redis in use may lose of what it has acknowledged, in a sentence or two with the way out.

    Raises Unavailable when it is away.
    """
    with translated():
        info = allowed(client.info)
        settings = {
            name: allowed(partial(_setting, client, name))
            for name in ("appendonly", "appendfsync", "min-replicas-to-write")
        }
    append_only = settings["appendonly"] or {0: "no", 1: "yes"}.get((info or {}).get("aof_enabled", -1))
    if append_only is None:
        said = "its user may not ask (CONFIG, INFO), so what a crash may lose can't be checked"
    elif append_only == "no":
        said = "a restart loses everything since its last snapshot: set appendonly to yes"
    elif settings["appendfsync"] is None:
        said = "its user may not ask for appendfsync, so what a power cut may lose can't be checked"
    elif settings["appendfsync"] == "always":
        said = "a crash or a power cut loses nothing that was acknowledged"
    elif settings["appendfsync"] == "everysec":
        said = (
            "a power cut loses up to a second of what was acknowledged (two while the disk is slow), a crash "
            "of Redis alone nothing, unless the disk is slow: appendfsync always loses nothing, and each "
            "append then waits for the disk"
        )
    else:
        said = "a power cut loses what the system had not written yet, some 30 s: set appendfsync to everysec"
    replicas = int((info or {}).get("connected_slaves", 0))
    if replicas:
        said += f". Replicas: {replicas}; a fail-over loses the writes that the replica had not received"
        if not int(settings["min-replicas-to-write"] or 0):
            said += "; min-replicas-to-write bounds their number"
    return said


def _nodes(client: redis.Redis) -> int:
    """How many nodes of its cluster have keys; 0 where its user may not ask."""
    command: Any = client.execute_command
    with translated():
        found = allowed(lambda: command("CLUSTER INFO"))
    return int((found or {}).get("cluster_size", 0))


def _setting(client: redis.Redis, name: str) -> Any:
    return client.config_get(name).get(name)


def allowed(ask: Callable[[], Any]) -> Any:
    """Return what Redis answers; None where its user may not ask, or it does not know the command."""
    try:
        return ask()
    except redis.exceptions.NoPermissionError:
        return None
    except redis.ResponseError as error:
        if "unknown command" in str(error):
            return None
        raise

"""What must hold before workers start: Redis keeps what it is told, and state and tree belong together."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from threading import Event
from typing import TypeVar

from sitemap_store.errors import BadSetting, RedisRefuses
from sitemap_store.model.guard import Verdict, judge
from sitemap_store.output.folder import Folder, NotOurs
from sitemap_store.redis.store import Store
from sitemapd.build import Parts
from sitemapd.redis_settings import check_redis
from sitemapd.turn import turn
from worker.processes import SEEN_MS, living

log = logging.getLogger(__name__)


Configs = dict[str, list[int]]
"""Each site's settings by their number, in each of its partitions."""

Done = TypeVar("Done")

REFUSED_S = 0.5
"""The pause before a Redis that can't take commands for now is asked again."""


WAITS = "Another process appends what a restore held back; waiting for it"


def begin(parts: Parts, stop: Event | None = None) -> Configs:
    """Check everything and tie each site's state to its output; wait while Redis can't take it now.

    Returns early, with nothing, when `stop` is set meanwhile. Raises BadSetting or Unavailable.
    """
    return patiently(lambda: _begin(parts), stop) or {}


def begin_producers(parts: Parts) -> None:
    """What a watcher or relay needs of Redis before it starts. Raises BadSetting or Unavailable."""
    patiently(lambda: _check_redis(parts), None)


def patiently(work: Callable[[], Done], stop: Event | None) -> Done | None:
    """Do it; while Redis answers that it can't take it now, log why and do it again until `stop` is set."""
    stop, logged = stop or Event(), ""
    while not stop.is_set():
        try:
            return work()
        except RedisRefuses as error:
            if str(error) != logged:
                logged = str(error)
                log.warning("%s. sitemapd retries.", logged, extra={"action": "redis_refuses"})
            stop.wait(REFUSED_S)
    return None


def _begin(parts: Parts) -> Configs:
    if not parts.sites:
        raise BadSetting(setting="sites", detail="no site is configured.", hint="Add one under [sites.NAME].")
    for name in {**parts.sources, **parts.databases}:
        parts.folder(name).prepare()
    _check_redis(parts)
    return {name: _begin_site(parts, name) for name in parts.sites}


def _check_redis(parts: Parts) -> None:
    for warning in check_redis(parts):
        log.warning("%s", warning, extra={"action": "redis_settings"})


def _begin_site(parts: Parts, name: str) -> list[int]:
    folder, store = parts.folder(name), parts.store(name)
    _check_partitions(store)
    ids = {partition.state_id() for partition in store.partitions}
    state_id = ids.pop() if len(ids) == 1 else None
    files = folder.published()
    try:
        verdict = judge(state_id, folder.marker(), bool(files))
    except NotOurs as error:
        raise BadSetting(setting=f"sites.{name}.output", detail=f"{error}.") from error
    if verdict is Verdict.FOREIGN and state_id is not None and store.files().issuperset(files):
        # The marker is lost, and every file is one that this state published.
        verdict = Verdict.REPUBLISH
    if verdict is Verdict.FOREIGN:
        raise BadSetting(
            setting=f"sites.{name}.output",
            detail=f"{folder.path} holds {files[0]}, which sitemapd did not write.",
            hint="Move it away, or set another folder.",
        )
    if verdict is Verdict.FORGOTTEN:
        raise BadSetting(
            setting=f"sites.{name}",
            detail=f"Redis does not remember the {len(files)} sitemap files in {folder.path}, so "
            "nothing is published over them.",
            hint=f"Take them back with `{parts.command_for(name)} restore`, or let them go with "
            f"`{parts.command_for(name)} restore --discard`.",
        )
    if verdict is Verdict.REPUBLISH:
        _check_alone(store, folder)
    if verdict is not Verdict.GO:
        adopt(parts, name, state_id or secrets.token_hex(8))
    # Each file keeps the number of the settings that it was published with: what a crash leaves out here, the
    # scrubber finds.
    changed = [partition.configure() for partition in store.partitions]
    if verdict is Verdict.REPUBLISH:
        _want_all(store, f"The output {folder.path} was emptied or replaced", files)
    elif any(changed):
        _want_all(store, "Settings that the files depend on have changed", files)
    if store.has_held():
        # A restore was cut short before it could append it again, or still does it.
        with turn(store, lambda: log.info("%s", WAITS, extra={"action": "waits", "site": name})) as alive:
            parts.waker.wake(name, store.replay_held(alive))
    return [partition.config for partition in store.partitions]


def _check_alone(store: Store, folder: Folder) -> None:
    """See that no other process publishes this state to another folder, before a wiped one is put back."""
    seen = store.partitions[0].saw_marker("", there=False, within_ms=SEEN_MS)
    if others := living(seen):
        host, pid, _ = min(others).split("/")
        raise BadSetting(
            setting=f"sites.{store.site.name}.output",
            detail=f"{folder.path} is not the folder that process {pid} on {host} publishes this site to.",
            hint=f"Give both the same folder, or stop that one and start again {SEEN_MS // 1000} s later.",
        )


def _check_partitions(store: Store) -> None:
    """URLs are spread by the number of partitions: with another one each would be looked for elsewhere."""
    made_with = store.partitions[0].remembered("partitions")
    if made_with is not None and int(made_with) != store.site.partitions:
        raise BadSetting(
            setting=f"sites.{store.site.name}.partitions",
            detail=f"is {store.site.partitions}, but the state was made with {made_with}.",
            hint=f"Set it back to {made_with}.",
        )


def _want_all(store: Store, why: str, files: Sequence[str]) -> None:
    present = frozenset(files)
    shards = sum(partition.want_all(present) for partition in store.partitions)
    log.warning(
        "%s: %d shards are rendered again and replaced where they differ",
        why,
        shards,
        extra={"action": "compare_all", "site": store.site.name},
    )


def adopt(parts: Parts, name: str, state_id: str) -> None:
    """Tie a site's state and its output together; of two that start at once, the first one's id wins."""
    first, *others = parts.store(name).partitions
    first.adopt(state_id)
    agreed = first.state_id() or state_id
    for partition in others:
        partition.adopt(agreed)
    parts.folder(name).mark(name, agreed)

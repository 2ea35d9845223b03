"""What must hold before workers start: Redis keeps what it is told, and state and tree belong together."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from threading import Event

from sitemap_store.errors import BadSetting, RedisRefuses
from sitemap_store.guard import Verdict, judge
from sitemap_store.output import NotOurs
from sitemap_store.store import Store
from sitemapd.build import Parts, check_redis
from sitemapd.presence import check_output, note_output
from sitemapd.turn import turn

log = logging.getLogger(__name__)


REFUSED_S = 0.5
"""The pause before a Redis that can't take commands for now is asked again."""


WAITS = "Another process appends what a restore held back; waiting for it"


def begin(parts: Parts, stop: Event | None = None) -> None:
    """Check everything and tie each site's state to its output; wait while Redis can't take it now.

    Returns early when `stop` is set meanwhile. Raises BadSetting or Unavailable.
    """
    patiently(lambda: _begin(parts), stop)


def begin_producers(parts: Parts) -> None:
    """What a watcher or relay needs of Redis before it starts. Raises BadSetting or Unavailable."""
    patiently(lambda: _check_redis(parts), None)


def patiently(work: Callable[[], None], stop: Event | None) -> None:
    """Do it; while Redis answers that it can't take it now, log why and do it again until `stop` is set."""
    stop, logged = stop or Event(), ""
    while not stop.is_set():
        try:
            work()
            return
        except RedisRefuses as error:
            if str(error) != logged:
                logged = str(error)
                log.warning("%s. Trying again.", logged, extra={"action": "redis_refuses"})
            stop.wait(REFUSED_S)


def _begin(parts: Parts) -> None:
    if not parts.sites:
        raise BadSetting(setting="sites", detail="no site is configured.", hint="Add one under [sites.NAME].")
    for name in {**parts.sources, **parts.databases}:
        parts.folder(name).prepare()
    _check_redis(parts)
    for name in parts.sites:
        _begin_site(parts, name)


def _check_redis(parts: Parts) -> None:
    for warning in check_redis(parts):
        log.warning("%s", warning, extra={"action": "redis_settings"})


def _begin_site(parts: Parts, name: str) -> None:
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
    if verdict is not Verdict.GO:
        check_output(store, folder)
        adopt(parts, name, state_id or secrets.token_hex(8))
    note_output(store, folder)
    looks = {partition.remembered("looks") for partition in store.partitions}
    if verdict is Verdict.REPUBLISH:
        _recheck(store, f"The output {folder.path} was emptied or replaced", files)
    elif looks - {None, store.site.looks}:
        _recheck(store, "Settings that the files depend on have changed", files)
    for partition in store.partitions:
        partition.note_looks()
    if store.has_held():
        # A restore was cut short before it could append it again, or still does it.
        with turn(store, lambda: log.info("%s", WAITS, extra={"action": "waits", "site": name})) as alive:
            parts.waker.wake(name, store.replay_held(alive))


def _check_partitions(store: Store) -> None:
    """URLs are spread by the number of partitions: with another one each would be looked for elsewhere."""
    made_with = store.partitions[0].remembered("partitions")
    if made_with is not None and int(made_with) != store.site.partitions:
        raise BadSetting(
            setting=f"sites.{store.site.name}.partitions",
            detail=f"is {store.site.partitions}, but the state was made with {made_with}.",
            hint=f"Set it back to {made_with}.",
        )


def _recheck(store: Store, why: str, files: Sequence[str]) -> None:
    present = frozenset(files)
    shards = sum(partition.recheck(present) for partition in store.partitions)
    log.warning(
        "%s: %d shards are rendered again and replaced where they differ",
        why,
        shards,
        extra={"action": "recheck", "site": store.site.name},
    )


def adopt(parts: Parts, name: str, state_id: str) -> None:
    """Tie a site's state and its output together; of two that start at once, the first one's id wins."""
    first, *others = parts.store(name).partitions
    first.adopt(state_id)
    agreed = first.state_id() or state_id
    for partition in others:
        partition.adopt(agreed)
    parts.folder(name).mark(name, agreed)

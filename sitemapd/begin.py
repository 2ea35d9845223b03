"""What must hold before workers start: Redis keeps what it is told, and state and tree belong together."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence

from sitemap_store.errors import BadSetting
from sitemap_store.guard import Verdict, judge
from sitemap_store.output import Folder, NotOurs
from sitemap_store.store import Store
from sitemapd.build import Parts, check_redis
from worker.scrub import SEEN_MS, living

log = logging.getLogger(__name__)


Configs = dict[str, list[int]]
"""Each site's settings by their number, in each of its partitions."""


def begin(parts: Parts) -> Configs:
    """Check everything and tie each site's state to its output. Raises BadSetting or Unavailable."""
    if not parts.sites:
        raise BadSetting(setting="sites", detail="no site is configured.", hint="Add one under [sites.NAME].")
    for name in {**parts.sources, **parts.databases}:
        parts.folder(name).prepare()
    for warning in check_redis(parts):
        log.warning("%s", warning, extra={"action": "redis_settings"})
    return {name: _begin_site(parts, name) for name in parts.sites}


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
            hint="Take them back with `sitemapd restore`, or let them go with `sitemapd restore --discard`.",
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
    # What a restore held back, if it was cut short before it could append it again.
    parts.waker.wake(name, store.replay_held())
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

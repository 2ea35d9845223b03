"""The long-running parts, as `run`, `worker`, `watch` and `serve` start them."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import SimpleQueue
from types import FrameType

import redis
from rq import Queue
from rq.worker import BaseWorker

from producers.database.relay import Relay
from producers.filesystem.watcher import Watcher
from sitemap_store.errors import BadSetting, SitemapdError, Unavailable
from sitemap_store.model.wire import QUEUE
from sitemapd.begin import Configs
from sitemapd.build import Parts
from sitemapd.child import command, spec
from worker.keeper import Beat, Keeper
from worker.processes import process_name
from worker.scrub import Scrubber
from worker.supervisor import Supervisor

log = logging.getLogger(__name__)


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    on_signals(stop.set, signal.SIGTERM, signal.SIGINT)
    return stop


def on_signals(act: Callable[[], None], *numbers: signal.Signals) -> None:
    """Do something in a thread of its own each time that one of these signals comes.

    Not in the handler: that runs in the midst of what the main thread does, and an event or a lock that it
    holds just then would be waited for forever. `SimpleQueue.put` alone is made for handlers.
    """
    came: SimpleQueue[int] = SimpleQueue()

    def note(number: int, frame: FrameType | None) -> None:
        came.put(number)

    def follow() -> None:
        while True:
            came.get()
            act()

    threading.Thread(target=follow, name="signals", daemon=True).start()
    for number in numbers:
        signal.signal(number, note)


def rescan_on_hangup(watching: Sequence[Watcher | Relay]) -> None:
    """Let SIGHUP compare every content directory, or table, with the state anew."""

    def again() -> None:
        for watcher in watching:
            watcher.rescan()

    on_signals(again, signal.SIGHUP)


def supervisor(parts: Parts, configs: Configs, *, as_json: bool) -> Supervisor:
    """The supervisor of the configured number of workers, for all sites."""
    partitions = [partition for name in parts.sites for partition in parts.store(name).partitions]

    def sweep(worker: str) -> None:
        for name in parts.sites:
            try:
                parts.folder(name).sweep(worker)
            except SitemapdError as error:
                log.warning("%s", error, extra={"action": "sweep_failed", "site": name})

    def keeper(beat: Beat) -> Keeper:
        return Keeper(partitions, parts.waker, beat)

    settings = parts.settings.model_copy(update={"redis_url": parts.redis_url})
    return Supervisor(
        workers=parts.settings.workers,
        command=command,
        spec=spec(settings, configs, as_json=as_json),
        keeper=keeper,
        swept=sweep,
    )


def scrubbers(parts: Parts, configs: Configs) -> ScrubThreads:
    """What compares each site's output with its state, in threads."""
    process = process_name()

    def scrubber(name: str) -> Scrubber:
        store = parts.store(name)
        for partition, config in zip(store.partitions, configs[name], strict=True):
            partition.config = config
        return Scrubber(store, parts.folder(name), process)

    return ScrubThreads([scrubber(name) for name in parts.sites])


def watchers(parts: Parts, *, accept_deletes: bool = False) -> list[Watcher]:
    """A watcher for each configured content directory."""
    return [
        Watcher(
            source,
            parts.publisher(name),
            state_dir=parts.settings.data_dir / "watch" / name,
            accept_deletes=accept_deletes,
            configured=[each.name for each in (*sources, *parts.databases[name])],
            command=parts.command_for(name),
        )
        for name, sources in parts.sources.items()
        for source in sources
    ]


def relays(parts: Parts, *, only: str | None = None, accept_deletes: bool = False) -> list[Relay]:
    """A relay for each configured database source, or for the one of that name."""
    return [
        Relay(
            source,
            parts.publisher(name),
            accept_deletes=accept_deletes,
            configured=[each.name for each in (*sources, *parts.sources[name])],
            command=parts.command_for(name),
        )
        for name, sources in parts.databases.items()
        for source in sources
        if only in (None, source.name)
    ]


def check_relays(relaying: Sequence[Relay]) -> None:
    """See that databases hold what is set. Raises BadSetting; one that is away for now is waited for."""
    for relay in relaying:
        try:
            relay.check()
        except BadSetting as error:
            raise BadSetting(
                setting=f"sites.{relay.site}.{error.setting}", detail=error.detail, hint=error.hint
            ) from error
        except Unavailable as error:
            log.warning(
                "%s. It is waited for.",
                error,
                extra={"action": "database_away", "site": relay.site, "source": relay.source.name},
            )


def listening(parts: Parts, supervised: Supervisor) -> bool:
    """Whether one of the workers takes jobs: it has once been seen to, and runs.

    A worker tells RQ only once, so RQ's list is empty after Redis was.
    """
    running = set(supervised.alive())
    keys = BaseWorker.all_keys(queue=Queue(QUEUE, connection=parts.queue_client))
    supervised.heard.update(running & {key.rpartition(":")[2] for key in keys})
    return bool(running & supervised.heard)


def health(
    parts: Parts, supervised: Supervisor | None, watching: Sequence[Watcher], relaying: Sequence[Relay] = ()
) -> tuple[bool, Mapping[str, object]]:
    """Whether everything runs, and what is waited for."""
    waits = []
    try:
        parts.client.ping()
        if supervised is not None and not listening(parts, supervised):
            waits.append("workers")
    except (redis.RedisError, SitemapdError):
        waits.append("redis")
    waits += [f"watch {watcher.source.name}" for watcher in watching if not watcher.ready.is_set()]
    waits += [f"relay {relay.source.name}" for relay in relaying if not relay.ready.is_set()]
    return not waits, {"waiting_for": waits}


class ScrubThreads:
    """A thread for each site's scrubber."""

    def __init__(self, scrubbers: Sequence[Scrubber]) -> None:
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=scrubber.run, args=(self._stop,), name="scrub", daemon=True)
            for scrubber in scrubbers
        ]

    def start(self) -> None:
        """Start them."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ask them to end, and wait a little for it."""
        self._stop.set()
        for thread in self._threads:
            with suppress(RuntimeError):  # never started
                thread.join(5)

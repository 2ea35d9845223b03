"""The faults: what each is called, what is promised under it, and how it is brought about and ended.

A strike is a context manager: it brings the fault about on entry, lets it last while the block runs,
and ends it on exit, as an operator or an init system would.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

from tests.published import NS, URLSET, parse, shard_files
from tests.torture.checks import Found
from tests.torture.world import World, go_on, kill, stop

LOSES_NOTHING: Final = "nothing is lost"


@dataclass(slots=True, kw_only=True)
class Strike:
    """One injection while it lasts."""

    world: World
    chance: random.Random
    lasts: float
    """Seconds for which the fault holds."""
    altered: set[str]
    """Files of ours that the fault wrote other bytes to."""
    found: list[Found]
    """What was wrong with how the fault was mended."""


Means = Callable[[Strike], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault."""

    name: str
    group: str
    promised: str
    within: float
    """Seconds in which everything is to be published again, on a machine that does nothing else."""
    means: Means
    lasts: tuple[float, float] = (0.2, 2.0)
    """Seconds for which it holds, from and to."""
    excuses: frozenset[str] = frozenset()
    """What a reader may meet until it is mended."""
    push_again: bool = False
    """Whether what was pushed shortly before has to be pushed again."""


@contextmanager
def _kill_worker(strike: Strike) -> Iterator[None]:
    who = strike.world.workers(strike.chance.choice(("supervisor-1", "supervisor-2")))
    kill([strike.chance.choice(who)] if who else [])
    yield


@contextmanager
def _kill_workers(strike: Strike) -> Iterator[None]:
    kill([*strike.world.workers("supervisor-1"), *strike.world.workers("supervisor-2")])
    yield


@contextmanager
def _kill_push(strike: Strike) -> Iterator[None]:
    deadline = time.monotonic() + 3
    while not (pids := strike.world.pushes()) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(strike.chance.uniform(0, 0.8))
    kill(pids)
    yield


@contextmanager
def _kill_service(names: tuple[str, ...], strike: Strike) -> Iterator[None]:
    name = strike.chance.choice(names)
    strike.world.services[name].kill()
    yield
    strike.world.begin(name)


@contextmanager
def _stop_worker(strike: Strike) -> Iterator[None]:
    who = strike.world.workers(strike.chance.choice(("supervisor-1", "supervisor-2")))
    chosen = [strike.chance.choice(who)] if who else []
    stop(chosen)
    yield
    go_on(chosen)


@contextmanager
def _stop_host(strike: Strike) -> Iterator[None]:
    name = strike.chance.choice(("supervisor-1", "supervisor-2"))
    chosen = [strike.world.services[name].pid, *strike.world.workers(name)]
    stop(chosen)
    yield
    go_on(chosen[::-1])


@contextmanager
def _stop_service(name: str, strike: Strike) -> Iterator[None]:
    pid = strike.world.services[name].pid
    stop([pid])
    yield
    go_on([pid])


@contextmanager
def _restart_redis(kill_it: bool, strike: Strike) -> Iterator[None]:
    redis = strike.world.redis
    proxy = strike.world.proxy
    assert redis is not None
    assert proxy is not None
    redis.stop(kill=kill_it)
    yield
    strike.world.restart_redis(kill=kill_it)


@contextmanager
def _kill_redis_everysec(strike: Strike) -> Iterator[None]:
    strike.world.sync("everysec")
    time.sleep(strike.lasts)
    with _restart_redis(True, strike):
        yield


@contextmanager
def _pause_redis(strike: Strike) -> Iterator[None]:
    redis = strike.world.redis
    assert redis is not None
    assert redis.pid is not None
    stop([redis.pid])
    yield
    go_on([redis.pid])


@contextmanager
def _reset(strike: Strike) -> Iterator[None]:
    assert strike.world.proxy is not None
    for _ in range(strike.chance.randrange(1, 6)):
        strike.world.proxy.reset()
        time.sleep(strike.lasts / 6)
    yield


@contextmanager
def _refuse(strike: Strike) -> Iterator[None]:
    assert strike.world.proxy is not None
    strike.world.proxy.refuse()
    yield
    strike.world.proxy.pass_on()


@contextmanager
def _swallow(strike: Strike) -> Iterator[None]:
    assert strike.world.proxy is not None
    strike.world.proxy.swallow()
    yield
    strike.world.proxy.pass_on()


@contextmanager
def _reply(text: str, writes_only: bool, strike: Strike) -> Iterator[None]:
    assert strike.world.proxy is not None
    strike.world.proxy.answer(text, writes_only=writes_only)
    yield
    strike.world.proxy.pass_on()


@contextmanager
def _full(strike: Strike) -> Iterator[None]:
    filler = strike.world.output / ".filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    yield
    filler.unlink()


@contextmanager
def _read_only(strike: Strike) -> Iterator[None]:
    strike.world.remount("ro")
    yield
    strike.world.remount("rw")


@contextmanager
def _not_ours(strike: Strike) -> Iterator[None]:
    strike.world.output.chmod(0o555)
    yield
    strike.world.output.chmod(0o755)


@contextmanager
def _delete_files(strike: Strike) -> Iterator[None]:
    files = shard_files(strike.world.output)
    for file in strike.chance.sample(files, min(len(files), strike.chance.randrange(1, 6))):
        file.unlink(missing_ok=True)
    yield


@contextmanager
def _wipe(strike: Strike) -> Iterator[None]:
    for file in strike.world.output.iterdir():
        file.unlink(missing_ok=True)
    yield


@contextmanager
def _rewritten(change: Callable[[bytes], bytes], strike: Strike) -> Iterator[None]:
    files = shard_files(strike.world.output)
    for file in strike.chance.sample(files, min(len(files), 2)):
        data = file.read_bytes()
        other = change(data)
        if other != data:
            file.write_bytes(other)
            strike.altered.add(file.name)
    yield
    result = strike.world.place.command("rebuild")
    if result.code:
        strike.found.append(Found("rebuild", f"exit {result.code}: {result.err[-300:]}"))


def _one_less(data: bytes) -> bytes:
    """The same file without its first URL."""
    root = parse(data, URLSET)
    if len(root.findall(f"{NS}url")) < 2:
        return data
    start = data.index(b"<url>")
    return data[:start] + data[data.index(b"</url>") + len(b"</url>") :]


def _torn(data: bytes) -> bytes:
    return data[: len(data) // 2]


REPLIES: Final = {
    "LOADING": ("LOADING Redis is loading the dataset in memory", False),
    "READONLY": ("READONLY You can't write against a read only replica.", True),
    "OOM": ("OOM command not allowed when used memory > 'maxmemory'.", True),
    "BUSY": ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", False),
    "NOREPLICAS": ("NOREPLICAS Not enough good replicas to write.", True),
    "MISCONF": ("MISCONF Errors writing to the AOF file: No space left on device", True),
    "MASTERDOWN": ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", False),
    "CLUSTERDOWN": ("CLUSTERDOWN The cluster is down", False),
    "TRYAGAIN": ("TRYAGAIN Multiple keys request during rehashing of slot", False),
    "NOPERM": ("NOPERM User default has no permissions to run the 'evalsha' command", False),
}
_GONE: Final = frozenset({"no file", "malformed"})


def _all(stop_seconds: float) -> Iterator[Fault]:
    long = (min(1.0, stop_seconds), stop_seconds)
    killed = partial(Fault, group="processes", within=5.0)
    yield killed(name="kill-worker", promised=LOSES_NOTHING, means=_kill_worker)
    yield killed(name="kill-workers", promised=LOSES_NOTHING, means=_kill_workers)
    yield killed(name="kill-push", promised="what it had not stored is pushed again", means=_kill_push)
    for name, names in {
        "kill-supervisor": ("supervisor-1", "supervisor-2"),
        "kill-watcher": ("watcher",),
        "kill-relay": ("relay",),
        "kill-http": ("http",),
    }.items():
        yield killed(name=name, promised=LOSES_NOTHING, means=partial(_kill_service, names))
    yield killed(name="stop-worker", promised="old bytes win never for good", means=_stop_worker, lasts=long)
    yield killed(name="stop-host", promised="old bytes win never for good", means=_stop_host, lasts=long)
    for name in ("watcher", "relay", "http"):
        yield killed(
            name=f"stop-{name}", promised=LOSES_NOTHING, means=partial(_stop_service, name), lasts=(0.5, 3.0)
        )
    redis = partial(Fault, group="redis", within=3.0)
    yield redis(name="kill-redis", promised=LOSES_NOTHING, means=partial(_restart_redis, True))
    yield redis(name="restart-redis", promised=LOSES_NOTHING, means=partial(_restart_redis, False))
    yield redis(
        name="kill-redis-everysec",
        promised="nothing but the last second",
        means=_kill_redis_everysec,
        push_again=True,
    )
    yield redis(name="pause-redis", promised=LOSES_NOTHING, means=_pause_redis, lasts=(1.0, 4.0))
    yield redis(name="redis-away", promised=LOSES_NOTHING, means=_refuse)
    yield redis(name="reset-connections", promised=LOSES_NOTHING, means=_reset)
    yield redis(name="lose-answers", promised="nothing is lost or done twice", means=_swallow)
    for code, (text, writes_only) in REPLIES.items():
        yield Fault(
            name=f"reply-{code}",
            group="replies",
            within=3.0,
            promised="a plain sentence, and all goes on",
            means=partial(_reply, text, writes_only),
        )
    disk = partial(Fault, group="disk", within=5.0, promised="old files stay whole, all goes on")
    yield disk(name="enospc", means=_full)
    yield disk(name="erofs", means=_read_only)
    yield disk(name="eacces", means=_not_ours)
    tampering = partial(Fault, group="tampering", within=10.0, excuses=_GONE)
    yield tampering(name="delete-files", promised="back as they were, by itself", means=_delete_files)
    yield tampering(name="wipe-output", promised="back as it was, by itself", means=_wipe)
    yield tampering(
        name="alter-files", promised="rebuild repairs, lastmod moves", means=partial(_rewritten, _one_less)
    )
    yield tampering(
        name="tear-files", promised="rebuild repairs, lastmod moves", means=partial(_rewritten, _torn)
    )


def faults(stop_seconds: float = 5.0) -> Mapping[str, Fault]:
    """All faults by name. A process is stopped for up to `stop_seconds`."""
    return MappingProxyType({fault.name: fault for fault in _all(stop_seconds)})


def chosen(words: str, known: Mapping[str, Fault]) -> dict[str, Fault]:
    """The faults that a list names: names, groups, `all`, with `-` before what is left out.

    Raises ValueError for a word that names none.
    """
    found: dict[str, Fault] = {}
    for word in filter(None, (word.strip() for word in words.replace(",", " ").split())):
        plain = word.removeprefix("-")
        named = {name: fault for name, fault in known.items() if plain in ("all", name, fault.group)}
        if not named and plain != "none":
            groups = sorted({fault.group for fault in known.values()})
            raise ValueError(
                f"FAULTS: {plain!r} is no fault; there are all, none, the groups {', '.join(groups)}, "
                f"and {', '.join(known)}."
            )
        if word.startswith("-"):
            found = {name: fault for name, fault in (found or known).items() if name not in named}
        else:
            found |= named
    return found


def skipped(names: Collection[str], world: World) -> dict[str, str]:
    """Which of the faults can't be brought about here, and why."""
    reasons = {}
    if not world.mounted:
        for name in ("enospc", "erofs"):
            reasons[name] = f"the output can't be a disk of its own: {world.no_mount}"
    if os.geteuid() == 0:
        reasons["eacces"] = "root may write everywhere"
    return {name: reason for name, reason in reasons.items() if name in names}

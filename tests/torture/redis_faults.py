"""Faults of Redis: killed, paused, away, behind a broken connection, with another clock, or failed over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from tests.torture.fault import LOSES_NOTHING, Fault, Strike
from tests.torture.world import go_on, stop

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
    "MOVED": ("MOVED 1234 10.0.0.1:6379", False),
    "ASK": ("ASK 1234 10.0.0.1:6379", False),
    "NOPERM": ("NOPERM User default has no permissions to run the 'evalsha' command", False),
}


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
def _promote(strike: Strike) -> Iterator[None]:
    """The replica gets nothing any more, load goes on, and then the replica is the primary."""
    strike.world.part()
    yield
    strike.world.promote()


@contextmanager
def _move_clock(strike: Strike) -> Iterator[None]:
    """An hour back, and at the next time an hour on: it stays so."""
    strike.world.set_clock("redis", 0 if strike.world.clocks["redis"] else -3600)
    strike.world.sees_clock()
    yield


def redis_faults() -> Iterator[Fault]:
    """Them all."""
    redis = partial(Fault, group="redis", within=3.0)
    yield redis(name="kill-redis", promised=LOSES_NOTHING, means=partial(_restart_redis, True))
    yield redis(name="restart-redis", promised=LOSES_NOTHING, means=partial(_restart_redis, False))
    yield redis(
        name="kill-redis-everysec",
        promised="nothing but the last second",
        means=_kill_redis_everysec,
        loses=True,
    )
    yield redis(name="pause-redis", promised=LOSES_NOTHING, means=_pause_redis, lasts=(1.0, 4.0))
    yield redis(name="redis-away", promised=LOSES_NOTHING, means=_refuse)
    yield redis(name="reset-connections", promised=LOSES_NOTHING, means=_reset)
    yield redis(name="lose-answers", promised="nothing is lost or done twice", means=_swallow)
    yield redis(
        name="promote-replica",
        promised="nothing but what the replica had not got",
        means=_promote,
        lasts=(0.5, 3.0),
        loses=True,
    )
    yield redis(
        name="clock-back-redis",
        promised="no lastmod goes back; a minute at most",
        within=60.0,
        means=_move_clock,
        needs=lambda world: world.no_redis_clock,
    )
    for code, (text, writes_only) in REPLIES.items():
        yield Fault(
            name=f"reply-{code}",
            group="replies",
            within=3.0,
            promised="a plain sentence, and all goes on",
            means=partial(_reply, text, writes_only),
        )

"""One at a time: who restores a site, or appends what a restore held back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import redis

from sitemap_store.errors import SitemapdError
from sitemap_store.redis.connection import translated
from sitemap_store.redis.store import Store

HELD_S: Final = 30.0
"""How long one who died keeps the others waiting."""


@contextmanager
def turn(store: Store, waiting: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Within it, no other process restores this site or appends what was held back.

    `waiting` is called once when another does, before it is waited for. Gives a function to call at least
    every `HELD_S` seconds: it raises SitemapdError when the turn was lost. Raises Unavailable.
    """
    lock = store.client.lock(store.partitions[0].keys.turn(), timeout=HELD_S, sleep=0.2, thread_local=False)

    def alive() -> None:
        try:
            with translated():
                lock.reacquire()
        except redis.exceptions.LockError as error:
            name = store.site.name
            raise SitemapdError(
                f"another process has taken over site {name}: see `sitemapd status`"
            ) from error

    with translated():
        if not lock.acquire(blocking=False):
            waiting()
            lock.acquire()
    try:
        yield alive
    finally:
        with suppress(redis.exceptions.LockError), translated():
            lock.release()

"""What happens to publishers when their process forks or ends.

1. After a fork the child begins with nothing; what waited stays the parent's.
2. The end of the interpreter waits for what is not delivered yet, for each publisher's timeout at the
   most, and for all at once. So does the end of a worker of multiprocessing, which runs no atexit.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
import warnings
import weakref
from typing import Protocol

from sitemapd_client.errors import Unavailable

log = logging.getLogger(__name__)


class Delivery(Protocol):
    """A publisher's delivery (`sitemapd_client.delivery`), as far as forks and ends go."""

    timeout: float
    ending: bool
    stopped: bool

    def begin_in_child(self) -> None:
        """Leave everything to the parent."""

    def end(self, deadline: float) -> None:
        """Take no further event, and deliver what waits until the deadline."""

    def flush(self, deadline: float) -> None:
        """Return when everything taken before is stored. Raises Unavailable."""

    def stop(self, deadline: float) -> None:
        """End the thread, and give back what it uses."""


_deliveries: weakref.WeakSet[Delivery] = weakref.WeakSet()
"""Those of this process; a thread keeps its own alive."""
_worker_exits: list[object] = []
"""The one finalizer of this process, if it is a worker of multiprocessing."""


def follow(delivery: Delivery) -> None:
    """See to a delivery's forks and end."""
    _deliveries.add(delivery)


def _after_fork_in_child() -> None:
    _worker_exits.clear()
    for delivery in list(_deliveries):
        delivery.begin_in_child()


def _at_exit() -> None:
    begin = time.monotonic()
    left = [delivery for delivery in list(_deliveries) if not delivery.stopped]
    unclosed = [delivery for delivery in left if not delivery.ending]
    for delivery in left:
        delivery.end(begin + delivery.timeout)
    for delivery in left:
        deadline = begin + delivery.timeout
        try:
            delivery.flush(deadline)
        except Unavailable as error:
            log.error("The process ends: %s", error, extra={"action": "push_lost"})
        delivery.stop(deadline)
    for delivery in unclosed:  # at last, since the warning may be an error
        warnings.warn("A Publisher was not closed", ResourceWarning, source=delivery, stacklevel=1)


def deliver_at_worker_exit() -> None:
    """See that a worker of multiprocessing delivers before it ends: it does so without atexit."""
    process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() and not _worker_exits:
        _worker_exits.append(util.Finalize(None, _at_exit, exitpriority=0))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)

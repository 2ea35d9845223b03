"""The thread that delivers a publisher's events.

1. A batch is tried until it is delivered, with pauses that grow and with the same idempotency key, as long as
   its lines are the same. Later events wait behind it: their order stays.
2. The thread ends when it was idle for a while; the next event starts another.
3. An error of ours in the thread is that of every later call: nobody waits for ever.

It is longer than other modules, since the queue, the thread and the counts change together under one lock.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sitemapd_client.client import pause_of
from sitemapd_client.errors import Problem, Unavailable
from sitemapd_client.lifetime import deliver_at_worker_exit, follow
from sitemapd_client.lines import loc_of
from sitemapd_client.pending import Full, Queue
from sitemapd_client.results import Refusal
from sitemapd_client.spool import Spool
from sitemapd_client.transport import REQUEST_S, Transport

log = logging.getLogger(__name__)

_FAILED: Final = "The publisher has failed ({!r}): make a new one"
IDLE_S: Final = 2.0
"""After which a thread that has nothing to deliver ends."""
ADOPT_S: Final = 10.0
"""How often a thread looks for what processes that are gone left in the spool."""


class Counts(NamedTuple):
    """What became of a publisher's events in this process."""

    taken: int
    """By `add`, `update`, `delete`, and from the spool of processes that are gone."""
    delivered: int
    """Answered by sitemapd, the refused ones included."""
    refused: int
    dropped: int
    """For which there was no room, or which were left at the end without a spool."""


class Delivery:
    """What waits, and the thread that delivers it. `timeout` (seconds) is for the end of the interpreter."""

    def __init__(
        self,
        transport: Transport,
        queue: Callable[[], Queue],
        *,
        batch: int,
        linger: float,
        timeout: float,
        on_refused: Callable[[Refusal], None],
    ) -> None:
        self._transport = transport
        self._new_queue = queue
        self._batch = batch
        self._linger = linger
        self.timeout = timeout
        self._on_refused = on_refused
        self._begin()
        self._adopt()
        follow(self)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._queue = self._new_queue()
        self._taken = 0
        self._settled = 0
        """Events that are delivered or lost."""
        self._refused = self._lost = self._turned_away = 0
        self._hurry = 0
        """Up to which event nobody should wait for a batch to fill up."""
        self.ending = False
        """Whether no further event is taken; the thread ends when all are delivered."""
        self.stopped = False
        """Whether the thread ends before it tries again."""
        self._deadline: float | None = None
        """When the last request must be over."""
        self._failure: BaseException | None = None
        self._problem: Unavailable | None = None
        self._thread: threading.Thread | None = None
        """The last one that was started."""
        self._delivering = threading.Lock()
        """Held while a thread takes what waits: one at the most, also when a signal interrupts `_start`."""

    def put(self, line: str) -> None:
        """Take a line in. Raises Unavailable when there is no room, or none is taken any more."""
        with self._changed:
            try:
                self._take(line)
            except Unavailable:
                self._turned_away += 1
                raise

    def flush(self, deadline: float) -> None:
        """Return when everything taken before is stored. Raises Unavailable."""
        with self._changed:
            upto = self._taken
            self._hurry = max(self._hurry, upto)
            self._start()
            self._changed.notify_all()
            while self._settled < upto:
                if self._failure is not None:
                    raise Unavailable(_FAILED.format(self._failure))
                if not self._changed.wait(deadline - time.monotonic()):
                    left = upto - self._settled
                    raise Unavailable(f"sitemapd has not taken {left} events yet{self._why()}")

    def end(self, deadline: float) -> None:
        """Take no further event, and deliver what waits until the deadline."""
        with self._changed:
            self.ending = True
            self._deadline = deadline
            self._start()
            self._changed.notify_all()
            waiting = len(self._queue) > 0 and self._failure is None
            alone = waiting and self._delivering.acquire(blocking=False)
        if alone:
            self._deliver()

    def forget(self) -> None:
        """Take no further event, and end the thread once all is delivered; nobody waits for that."""
        with self._changed:
            self.ending = True
            self._changed.notify_all()
            if not self._delivering.locked():
                self._queue.close()

    def stop(self, deadline: float) -> None:
        """End the thread, and give back what it uses. What is left is lost, or in the spool."""
        with self._changed:
            self.stopped = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._changed:
            if not isinstance(self._queue, Spool):
                self._lose(len(self._queue))
            self._queue.close()
        self._transport.close()

    def counts(self) -> Counts:
        """What became of the events."""
        with self._changed:
            dropped = self._turned_away + self._lost
            return Counts(self._taken, self._settled - self._lost, self._refused, dropped)

    def begin_in_child(self) -> None:
        """Leave everything to the parent."""
        try:
            self._queue.close(forked=True)
            self._transport.close()
            ended = self.ending
            self._begin()
            self.ending = ended
        except OSError as error:
            self._failure = error
            log.exception("A publisher can't go on after a fork", extra={"action": "push_fork"})

    def _take(self, line: str) -> None:
        if self.ending:
            raise Unavailable("The publisher is closed: make a new one")
        if self._failure is not None:
            raise Unavailable(_FAILED.format(self._failure))
        try:
            self._queue.put(line, time.time())
        except Full as full:
            raise Unavailable(f"The publisher's queue is full: {full}{self._why()}") from full
        except OSError as error:
            raise Unavailable(
                f"The publisher's spool can't be written ({error}): free its disk, or name another folder"
            ) from error
        self._taken += 1
        self._start()
        if len(self._queue) in (1, self._batch):
            self._changed.notify_all()

    def _adopt(self) -> None:
        """Take over what processes that are gone left in the spool."""
        queue = self._queue
        self._adopt_at = time.monotonic() + ADOPT_S
        if not isinstance(queue, Spool):
            return
        found = queue.find()
        with self._changed:
            adopted = queue.adopt(found)
            self._taken += adopted
            self._start()
        if adopted:
            log.info(
                "%d events of earlier processes are delivered", adopted, extra={"action": "push_adopted"}
            )

    def _start(self) -> None:
        """See that a thread delivers what waits."""
        if self._failure is not None or not len(self._queue):
            return
        if not self._delivering.acquire(blocking=False):
            return
        deliver_at_worker_exit()
        thread = threading.Thread(target=self._deliver, name="sitemapd-push", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # No thread can be had now, or the interpreter ends: the next call or `end` sees to it.
            self._delivering.release()
            log.warning("Events wait, since no thread starts: %s", error, extra={"action": "push_no_thread"})
        else:
            self._thread = thread

    def _deliver(self) -> None:
        try:
            while self._await_batch() and self._deliver_batch():
                pass
        except BaseException as error:
            with self._changed:
                self._failure = error
                self._delivering.release()
                self._changed.notify_all()
            raise
        finally:
            self._transport.close()

    def _await_batch(self) -> bool:
        """Wait until there is a batch to deliver; false when the thread is to end."""
        if time.monotonic() >= self._adopt_at and not self.ending:
            self._adopt()
        with self._changed:
            idle_until = time.monotonic() + IDLE_S
            while not len(self._queue):
                left = idle_until - time.monotonic()
                if self.ending or left <= 0:
                    self._delivering.release()
                    if self.ending:
                        self._queue.close()
                    return False
                self._changed.wait(left)
            deadline = time.monotonic() + self._linger
            while len(self._queue) < self._batch and not self.ending and self._hurry <= self._settled:
                if not self._changed.wait(deadline - time.monotonic()):
                    break
            return True

    def _deliver_batch(self) -> bool:
        """Deliver the next events, however often that must be tried; false when the thread is to end."""
        most, tries, key = self._batch, 0, ""
        lines: list[str] = []
        while True:
            with self._changed:
                waiting = len(self._queue)
                now = self._queue.peek(most, time.time())
                self._lose(waiting - len(self._queue))  # somebody deleted files of the spool
                left = REQUEST_S if self._deadline is None else self._deadline - time.monotonic()
            if not now:
                return True
            if now != lines:
                lines, key = now, uuid.uuid4().hex
            try:
                refused = self._transport.send(lines, key, max(0.05, min(REQUEST_S, left)))
            except Unavailable as error:
                if not self._pause(error, pause_of(tries, error.wait)):
                    return False
                tries += 1
                continue
            except Problem as problem:
                if len(lines) > 1:
                    most = len(lines) // 2
                    continue
                refused = [Refusal(1, loc_of(lines[0]), problem.rule, problem.detail)]
            return self._settle(len(lines), refused)

    def _settle(self, count: int, refused: Sequence[Refusal]) -> bool:
        with self._changed:
            if self.stopped:
                return False  # they count as lost, or are in the spool, and may come a second time
            self._queue.drop(count)
            self._settled += count
            self._refused += len(refused)
            self._problem = None
            self._changed.notify_all()
        for each in refused:
            try:
                self._on_refused(each)
            except Exception:
                # It is the app's error: it stops no delivery.
                log.exception("The app's on_refused failed", extra={"action": "push_callback"})
        return True

    def _pause(self, error: Unavailable, pause: float) -> bool:
        """Wait before the next try; false when the thread is to end."""
        log.warning(
            "%s; the publisher sends the events again in %.1f s", error, pause, extra={"action": "push_later"}
        )
        end = time.monotonic() + pause
        with self._changed:
            self._problem = error
            while not self.stopped:
                until = end if self._deadline is None else min(end, self._deadline)
                if time.monotonic() >= until:
                    return until == end
                self._changed.wait(until - time.monotonic())
            return False

    def _lose(self, count: int) -> None:
        self._lost += count
        self._settled += count
        if count:
            self._changed.notify_all()

    def _why(self) -> str:
        return f" ({self._problem})" if self._problem is not None else ""

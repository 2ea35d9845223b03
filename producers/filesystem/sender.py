"""Events are sent on a thread of their own, so that the next ones are made while Redis takes the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from sitemap_store.events import Event


class Sender:
    """Sends batches in their order, one at a time; none waits, which bounds memory.

    What sending raises is raised by the next call, and no other batch is begun. The thread ends with
    the context.
    """

    def __init__(self, send: Callable[[Sequence[Event]], int]) -> None:
        """`send` returns how many events it sent."""
        self._send = send
        self._thread = ThreadPoolExecutor(1, "send")
        self._under_way: Future[int] | None = None
        self._sent = 0

    def __enter__(self) -> Sender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()

    def put(self, events: Sequence[Event]) -> None:
        """Begin to send a batch. All earlier ones are stored when it returns."""
        self.finish()
        self._under_way = self._thread.submit(self._send, events)

    def finish(self) -> int:
        """Wait until all are stored; returns how many events were sent by now."""
        if self._under_way is not None:
            under_way, self._under_way = self._under_way, None
            self._sent += under_way.result()
        return self._sent

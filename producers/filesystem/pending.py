"""The paths that something happened to, until they have been quiet for long enough.

Written to by the thread that reads the kernel's events, read by the one that looks at the paths.
Only paths are kept, never what happened: what is true is asked of the path itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

MOST: Final = 200_000
"""Paths kept; when more wait, looking at the whole tree is the cheaper way."""


class PendingPaths:
    """Debounce per path: ripe `quiet` seconds after it was last added, or `longest` after the first time.

    Times are of a monotonic clock, in seconds. `notify` is called when the first path waits.
    """

    def __init__(
        self, quiet: float, longest: float, *, clock: Callable[[], float], notify: Callable[[], object]
    ) -> None:
        self._quiet = quiet
        self._longest = longest
        self._clock = clock
        self._notify = notify
        # Both in the order of their times: the next to ripen is at the front of one of them.
        self._first: dict[bytes, float] = {}
        self._last: dict[bytes, float] = {}
        self._lock = threading.Lock()
        self.overflowed = False
        """Paths were dropped because too many waited."""

    def __len__(self) -> int:
        return len(self._first)

    def add(self, path: bytes) -> None:
        """Something happened to a path (relative to the directory)."""
        now = self._clock()
        with self._lock:
            if path in self._first:
                del self._last[path]
            elif len(self._first) >= MOST:
                self.overflowed = True
                return
            else:
                self._first[path] = now
            self._last[path] = now
        if len(self._first) == 1:
            self._notify()

    def put_back(self, paths: Iterable[bytes]) -> None:
        """Paths that were taken and could not be dealt with are ripe again at once."""
        with self._lock:
            again = dict.fromkeys(paths, 0.0)
            self._first = again | self._first
            self._last = again | {k: v for k, v in self._last.items() if k not in again}

    def take(self, most: int) -> list[bytes]:
        """Up to `most` ripe paths, which then wait no longer."""
        now = self._clock()
        taken: list[bytes] = []
        with self._lock:
            for times, wait in ((self._last, self._quiet), (self._first, self._longest)):
                while times and len(taken) < most:
                    path = next(iter(times))
                    if times[path] + wait > now:
                        break
                    del self._first[path]
                    del self._last[path]
                    taken.append(path)
        return taken

    def clear(self) -> None:
        """Forget all paths: the whole tree is about to be looked at."""
        with self._lock:
            self._first.clear()
            self._last.clear()
            self.overflowed = False

    def next_ripe(self) -> float:
        """Seconds until a path is ripe; infinite when none waits."""
        with self._lock:
            if not self._first:
                return float("inf")
            ripe = min(
                next(iter(self._last.values())) + self._quiet,
                next(iter(self._first.values())) + self._longest,
            )
        return max(ripe - self._clock(), 0.0)

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


class Dirty:
    """Debounce per path: ripe after `quiet` seconds without a mark, or `longest` after the first.

    Times are of a monotonic clock, in seconds.
    """

    def __init__(self, quiet: float, longest: float, *, clock: Callable[[], float], most: int = MOST) -> None:
        self._quiet = quiet
        self._longest = longest
        self._clock = clock
        self._most = most
        # Both in the order of their times: the next to ripen is at the front of one of them.
        self._first: dict[bytes, float] = {}
        self._last: dict[bytes, float] = {}
        self._changed = threading.Condition()
        self._roused = False
        self._overflowed = False

    def __len__(self) -> int:
        return len(self._first)

    def mark(self, path: bytes) -> None:
        """Something happened to a path (relative to the directory)."""
        now = self._clock()
        with self._changed:
            if path in self._first:
                del self._last[path]
            elif len(self._first) >= self._most:
                self._overflowed = True
                return
            else:
                self._first[path] = now
            self._last[path] = now
            if len(self._first) == 1:
                self._changed.notify()

    def put_back(self, paths: Iterable[bytes]) -> None:
        """Paths that were taken and could not be dealt with are ripe again at once."""
        with self._changed:
            again = dict.fromkeys(paths, 0.0)
            self._first = again | self._first
            self._last = again | {k: v for k, v in self._last.items() if k not in again}

    def take(self, most: int) -> list[bytes]:
        """Up to `most` ripe paths, which are then not dirty any more."""
        now = self._clock()
        taken: list[bytes] = []
        with self._changed:
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
        with self._changed:
            self._first.clear()
            self._last.clear()
            self._overflowed = False

    @property
    def overflowed(self) -> bool:
        """Whether marks were lost because too many paths were dirty."""
        return self._overflowed

    def rouse(self) -> None:
        """End the wait that goes on now, or the next one."""
        with self._changed:
            self._roused = True
            self._changed.notify()

    def wait(self, longest: float) -> None:
        """Wait until a path is ripe, or `rouse` is called, for `longest` seconds at most."""
        end = self._clock() + longest
        with self._changed:
            while not self._roused:
                now = self._clock()
                ripe = self._ripe_at()
                until = end if ripe is None else min(end, ripe)
                if until <= now:
                    break
                self._changed.wait(until - now)
            self._roused = False

    def _ripe_at(self) -> float | None:
        if not self._first:
            return None
        return min(
            next(iter(self._last.values())) + self._quiet,
            next(iter(self._first.values())) + self._longest,
        )

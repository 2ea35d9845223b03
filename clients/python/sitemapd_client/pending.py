"""The events that a publisher has taken and not delivered yet: the interface, and the queue in memory."""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from sitemapd_client.lines import dated_line

LATE_S: Final = 5.0
"""Seconds after which an event that waits gets its call's time as `at`.

Until then its order is that of its delivery, which is right however clocks differ. Later, an `add` that
waited for an hour must not undo the `delete` that another process sent meanwhile.
"""
PEEK_BYTES: Final = 1024 * 1024
"""About how many bytes go in one request."""
MEMORY_BYTES: Final = 32 * 1024 * 1024


class Queue(Protocol):
    """Lines in the order of their calls. Its user holds a lock around each method."""

    def __len__(self) -> int: ...

    def put(self, line: str, called: float) -> None:
        """Take a line in; `called` is the time of the call in epoch seconds. Raises Full, OSError."""

    def peek(self, most: int, now: float) -> list[str]:
        """The next lines, one at least unless it is empty; they stay until `drop`."""

    def drop(self, count: int) -> None:
        """Remove so many lines of the last `peek`."""

    def close(self, *, forked: bool = False) -> None:
        """Give resources back. `forked`: they are a child's copies, and nothing may change for the parent."""


class Full(Exception):
    """The queue has no room for another line; the message says how much waits."""


class MemoryQueue:
    """Up to `most` lines, and 32 MiB of them; they are lost with the process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lines: deque[tuple[str, float]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._lines)

    def put(self, line: str, called: float) -> None:
        """Take a line in. Raises Full."""
        size = len(line)
        if len(self._lines) >= self._most or self._bytes + size > MEMORY_BYTES:
            raise Full(f"{len(self._lines)} events wait")
        self._bytes += size
        self._lines.append((line, called))

    def peek(self, most: int, now: float) -> list[str]:
        """The next lines; those that wait for long carry the time of their call."""
        lines: list[str] = []
        size = 0
        for line, called in self._lines:
            size += len(line)
            if len(lines) == most or (lines and size > PEEK_BYTES):
                break
            lines.append(dated_line(line, called) if now - called > LATE_S else line)
        return lines

    def drop(self, count: int) -> None:
        """Remove lines."""
        for _ in range(count):
            line, _ = self._lines.popleft()
            self._bytes -= len(line)

    def close(self, *, forked: bool = False) -> None:
        """Forget what is left."""
        self._lines.clear()
        self._bytes = 0

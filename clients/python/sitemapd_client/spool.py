"""The queue in files: what was taken survives a kill, and the next process that opens the folder delivers it.

1. Each process has a log of its own: numbered segments `<name>-<id>-<number>.ndjson`, to which it appends,
   and `<name>-<id>.lock`, which it holds locked (flock) and which says up to where all is delivered.
2. A log whose lock is free belonged to a process that is gone. Whoever opens the folder next takes the lock
   and delivers that log first. So processes may share a folder, and the lines of a log have one reader.
3. The place in the lock file is written after a delivery: a crash in between delivers some lines twice. Each
   line carries `at`, the time of its call, so that a late or second delivery undoes nothing newer.
4. `name` is made from the site and the source: publishers for others may share the folder.
5. A line is whole when its line feed is there. What a crash cut off was never taken.
"""

from __future__ import annotations

import hashlib
import os
import sys
import uuid
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from sitemapd_client.lines import LINE_MAX, dated_line
from sitemapd_client.pending import Full

if sys.platform != "win32":
    import fcntl

PEEK_BYTES: Final = LINE_MAX + 1024
"""The longest line, with its `at` and its line feed, is read at once."""
SEGMENT_BYTES: Final = 1024 * 1024
"""From which size on a new segment is begun; delivered ones are deleted."""


class Spool:
    """The queue of a folder. `size_max` bounds the bytes of this process' log and those that it took over.

    With `fsync` a line is on the disk when `put` returns, and so survives a power cut too. Raises OSError,
    and RuntimeError where the system has no flock.
    """

    def __init__(self, folder: str | os.PathLike[str], target: str, *, size_max: int, fsync: bool) -> None:
        if sys.platform == "win32":
            raise RuntimeError("A spool needs flock, which this system does not have: leave out spool=")
        self._folder = Path(folder)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._name = hashlib.blake2b(target.encode(), digest_size=6).hexdigest()
        self._size_max = size_max
        self._fsync = fsync
        self._logs: deque[Log] = deque()
        """Those of others first; the last may be this process' own."""
        self._own: Log | None = None

    def __len__(self) -> int:
        return sum(log.lines for log in self._logs)

    def find(self) -> list[Log]:
        """The logs of processes that are gone, locked for this one. It needs no lock of the queue's user."""
        found = map(Log.take_over, sorted(self._folder.glob(f"{self._name}-*.lock")))
        return [log for log in found if log is not None]

    def adopt(self, logs: Iterable[Log]) -> int:
        """Deliver these logs first; gives how many lines they hold."""
        before = len(self)
        self._logs.extendleft(logs)
        return len(self) - before

    def put(self, line: str, called: float) -> None:
        """Append a line. Raises Full, OSError; the line is then not taken."""
        raw = dated_line(line, called).encode() + b"\n"
        if sum(log.bytes for log in self._logs) + len(raw) > self._size_max:
            raise Full(f"{len(self)} events wait in {self._folder}")
        if self._own is None:
            self._own = Log.create(self._folder, self._name)
            self._logs.append(self._own)
        self._own.append(raw, fsync=self._fsync)

    def peek(self, most: int, now: float) -> list[str]:
        """The next lines of the oldest log that has some."""
        for log in self._logs:
            if log.lines:
                return log.peek(most)
        return []

    def drop(self, count: int) -> None:
        """Note that lines are delivered."""
        log = next(log for log in self._logs if log.lines)
        log.drop(count, fsync=self._fsync)
        if not log.lines and log is not self._own:
            log.close()
            self._logs.remove(log)

    def close(self, *, forked: bool = False) -> None:
        """Unlock the logs, and delete those of which all is delivered."""
        for log in self._logs:
            log.close(forked=forked)
        self._logs.clear()
        self._own = None


class Log:
    """The segments of one process, from the place up to which all is delivered."""

    def __init__(self, stem: Path, lock: int, segment: int = 0, offset: int = 0) -> None:
        self._stem = stem
        self._lock = lock
        self._segment = segment
        """The segment that is read."""
        self._offset = offset
        """The place in it up to which all is delivered."""
        self._last = segment
        self._written: int | None = None
        """The file of the last segment, when this process appends to it."""
        self._written_size = 0
        self._peeked: list[int] = []
        """The lengths of the lines that were read last."""
        self.lines = 0
        """Lines to deliver."""
        self.bytes = 0
        """Bytes of all segments."""

    @classmethod
    def create(cls, folder: Path, name: str) -> Log:
        """A new log. Raises OSError."""
        while True:
            stem = folder / f"{name}-{uuid.uuid4().hex}"
            lock = os.open(_lock_file(stem), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            if _locked(lock, _lock_file(stem)):
                return cls(stem, lock)
            os.close(lock)  # a process that looked for free logs was faster, and deletes the file

    @classmethod
    def take_over(cls, path: Path) -> Log | None:
        """The log of a process that is gone; None when it lives, or left nothing."""
        try:
            lock = os.open(path, os.O_RDWR)
        except OSError:
            return None  # another process has just deleted it, or it is another user's
        if not _locked(lock, path):
            os.close(lock)
            return None
        stem = path.with_suffix("")
        numbers = sorted(
            int(each.name[len(stem.name) + 1 : -len(".ndjson")])
            for each in path.parent.glob(f"{stem.name}-*.ndjson")
        )
        log = cls(stem, lock, *_place(lock, numbers))
        for number in range(log._segment, max(numbers, default=0) + 1):
            data = log._content(number)
            if number == log._segment and log._offset > len(data):
                log._offset = 0  # the disk lost what was written last: rather twice than never
            log.bytes += len(data)
            log.lines += data[log._offset if number == log._segment else 0 :].count(b"\n")
            log._last = number
        if not log.lines:
            log.close()
            return None
        return log

    def append(self, raw: bytes, *, fsync: bool) -> None:
        """Add a line. Raises OSError."""
        if self._written is None or self._written_size >= SEGMENT_BYTES:
            self._begin_segment(fsync=fsync)
        file = self._written
        assert file is not None
        try:
            if os.write(file, raw) != len(raw):
                raise OSError(f"the disk of {self._stem.parent} is full")
            if fsync:
                os.fsync(file)
        except OSError:
            os.ftruncate(file, self._written_size)
            raise
        self._written_size += len(raw)
        self.bytes += len(raw)
        self.lines += 1

    def peek(self, most: int) -> list[str]:
        """The next lines of the segment that is read. A segment that was lost is passed over."""
        while True:
            data = self._read()
            end = data.rfind(b"\n") + 1
            if end:
                lines = data[:end].split(b"\n", most)[:most]
                if not lines[-1]:
                    lines.pop()
                self._peeked = [len(line) + 1 for line in lines]
                return [line.decode(errors="replace") for line in lines]
            if self._segment == self._last:
                self.lines = 0
                return []
            self._next_segment()

    def drop(self, count: int, *, fsync: bool) -> None:
        """Move the place on."""
        self._offset += sum(self._peeked[:count])
        self._peeked = self._peeked[count:]
        self.lines -= count
        while self._segment < self._last and self._offset >= _size(self._file(self._segment)):
            self._next_segment()
        emptied = self._written is not None and not self.lines
        if emptied:
            self._offset = 0
        with suppress(OSError):  # a full disk: after a crash these lines would be delivered again
            os.pwrite(self._lock, b"%010d %012d\n" % (self._segment, self._offset), 0)
            if fsync:
                os.fsync(self._lock)
        if emptied and self._written is not None:
            os.ftruncate(self._written, 0)
            self.bytes -= self._written_size
            self._written_size = 0

    def close(self, *, forked: bool = False) -> None:
        """Unlock the log, and delete it when all is delivered."""
        if not forked and not self.lines:
            for number in range(self._segment, self._last + 1):
                with suppress(OSError):
                    self._file(number).unlink()
            with suppress(OSError):
                _lock_file(self._stem).unlink()
        if self._written is not None:
            os.close(self._written)
            self._written = None
        os.close(self._lock)

    def _begin_segment(self, *, fsync: bool) -> None:
        number = self._last if self._written is None else self._last + 1
        file = os.open(self._file(number), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_EXCL, 0o600)
        if self._written is not None:
            os.close(self._written)
        self._last, self._written, self._written_size = number, file, 0
        if fsync:
            folder = os.open(self._stem.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _next_segment(self) -> None:
        path = self._file(self._segment)
        self.bytes -= _size(path)
        with suppress(OSError):
            path.unlink()
        self._segment, self._offset = self._segment + 1, 0

    def _read(self) -> bytes:
        """A request's bytes from the place on, which are one whole line at least."""
        if self._written is not None and self._segment == self._last:
            return os.pread(self._written, PEEK_BYTES, self._offset)  # whoever has deleted the file by now
        try:
            with self._file(self._segment).open("rb") as file:
                file.seek(self._offset)
                return file.read(PEEK_BYTES)
        except OSError:
            return b""

    def _content(self, number: int) -> bytes:
        try:
            return self._file(number).read_bytes()
        except OSError:
            return b""

    def _file(self, number: int) -> Path:
        return self._stem.with_name(f"{self._stem.name}-{number:06}.ndjson")


def _lock_file(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.lock")


def _locked(lock: int, path: Path) -> bool:
    """Whether this process now holds the lock of a file that is still there."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(lock), os.stat(path))
    except OSError:
        return False


def _place(lock: int, numbers: list[int]) -> tuple[int, int]:
    """The segment and offset that a lock file says; those of the beginning when it says none."""
    words = os.pread(lock, 64, 0).split()
    if len(words) == 2 and all(word.isdigit() for word in words) and int(words[0]) in numbers:
        return int(words[0]), int(words[1])
    return numbers[0] if numbers else 0, 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0

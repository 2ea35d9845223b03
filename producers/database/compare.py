"""Desired state against listed state: only the difference becomes events.

Both sides come as streams of lines, in any order, and are parted by their URL into files; then each part
is small enough to compare in memory. A million lines on each side take up disk, and a few megabytes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from types import TracebackType
from typing import IO, Final, NamedTuple

from sitemap_store.model.dates import instant_ms
from sitemap_store.model.entries import Entry

PARTS: Final = 64
MANY: Final = 100
"""Deletes up to which a comparison is believed whatever share of the URLs they are."""
BUFFERED: Final = 64 * 1024
"""Lines that are kept before they are written."""


class Synced(NamedTuple):
    """What a comparison came to."""

    listed: int
    """URLs of the source in the state before."""
    wanted: int
    """Rows or lines of the desired state."""
    sent: int
    """URLs added or updated."""
    deleted: int
    held: int
    """Deletes that were not sent because they were too many."""


class Difference(NamedTuple):
    """One part's difference."""

    add: list[str]
    """Lines to be added, or to replace what is listed, in the order in which they came."""
    delete: list[str]
    """Keys (what stands before a line's first tab) that are listed and not wanted."""


def line_of(entry: Entry) -> str:
    """An entry as a line; equal entries are equal lines."""
    loc, lastmod, changefreq, priority, _, _, ext = entry
    return f"{loc}\t{lastmod}\t{changefreq}\t{priority}\t{ext}"


def too_many(deletes: int, listed: int, share: float) -> bool:
    """Whether so many deletes are rather a fault of the source."""
    return deletes > MANY and deletes > share * listed


class Lines:
    """One side: lines parted by what stands before their first tab."""

    def __init__(self, buffered: int = BUFFERED) -> None:
        self._most = buffered
        self._files: list[IO[str]] = []
        self._waiting: list[list[str]] = [[] for _ in range(PARTS)]
        self._count = self._buffered = 0

    def __len__(self) -> int:
        return self._count

    def add(self, lines: Iterable[str]) -> None:
        """Take lines in. Raises OSError when the disk is full."""
        waiting, count = self._waiting, 0
        for line in lines:
            waiting[hash(line.partition("\t")[0]) % PARTS].append(line)
            count += 1
        self._added(count)

    def spread(self, lines: Sequence[str]) -> None:
        """Take lines in by their order instead, one such call for each part of another side.

        Where a line stands among those of its part is about where it stood among all: URLs are parted by
        chance. So what lay together comes out together, and gets its seats in the same few shards.
        """
        for place, line in enumerate(lines):
            self._waiting[place * PARTS // len(lines)].append(line)
        self._added(len(lines))

    def part(self, number: int) -> list[str]:
        """The lines of one part, in the order in which they came."""
        found: list[str] = []
        if self._files:
            file = self._files[number]
            file.seek(0)
            found = file.read().split("\n")
            found.pop()
        return found + self._waiting[number]

    def chunks(self, size: int) -> Iterator[list[str]]:
        """All lines, part by part, up to `size` at a time."""
        return chain.from_iterable(chunks(self.part(number), size) for number in range(PARTS))

    def close(self) -> None:
        """Give the disk back."""
        for file in self._files:
            file.close()

    def _added(self, count: int) -> None:
        self._count += count
        self._buffered += count
        if self._buffered >= self._most:
            self._write()

    def _write(self) -> None:
        if not self._files:
            for _ in range(PARTS):
                self._files.append(tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n"))  # noqa: SIM115 - `close` does it
        for file, lines in zip(self._files, self._waiting, strict=True):
            if lines:
                file.write("\n".join(lines) + "\n")
                lines.clear()
        self._buffered = 0


class Comparison:
    """The two sides, and what differs."""

    def __init__(
        self, *, newest: Callable[[str], tuple[int, str]] | None = None, buffered: int = BUFFERED
    ) -> None:
        """`newest` ranks the lines of one URL; `buffered`: lines kept in memory at a time."""
        self.wanted = Lines(buffered)
        self.listed = Lines(buffered)
        self._rank = newest or _rank

    def __enter__(self) -> Comparison:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wanted.close()
        self.listed.close()

    def differences(self) -> Iterator[Difference]:
        """Part by part. Of several lines wanted for one URL the newest speaks for it."""
        for number in range(PARTS):
            wanted, listed = self.wanted.part(number), set(self.listed.part(number))
            new, old = set(wanted), listed.difference(wanted)
            new -= listed
            if not new and not old:
                continue
            concerned = {line[: line.index("\t")] for line in (*new, *old)}
            best: dict[str, str] = {}
            for line in wanted:
                loc = line[: line.index("\t")]
                if loc in concerned and (loc not in best or self._rank(line) > self._rank(best[loc])):
                    best[loc] = line
            yield Difference(
                [line for line in best.values() if line not in listed],
                sorted(concerned.difference(best)),
            )


def fields_of(line: str) -> Sequence[str]:
    """loc, lastmod, changefreq, priority, ext of a line."""
    return line.split("\t")


def chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Lines, `size` at a time."""
    stream = iter(lines)
    while several := list(islice(stream, size)):
        yield several


def _rank(line: str) -> tuple[int, str]:
    _, lastmod, rest = line.split("\t", 2)
    return (instant_ms(lastmod) if lastmod else -(2**62)), f"{lastmod}\t{rest}"

"""A crawler that never rests: it reads index and files, from the folder and over HTTP, and checks them."""

from __future__ import annotations

import gzip
import random
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import httpx

from tests.published import index_files
from tests.torture import checks
from tests.torture.checks import Bad, Found, Shown
from tests.torture.model import Entry
from tests.torture.world import World

Read = Callable[[str], bytes | None]
"""Gives a file's bytes; None when it is not there."""
FILES: Final = 4
"""How many files are read for each look at the index."""


class Away(Exception):
    """There is nobody to answer: no fault of the tree."""


class FolderReader:
    """Reads the output as a web server's disk would give it."""

    def __init__(self, output: Path) -> None:
        self._output = output

    def close(self) -> None:
        """Nothing is held."""

    def indexes(self) -> list[str]:
        """The index files that are there."""
        return [file.name for file in index_files(self._output)]

    def read(self, name: str) -> bytes | None:
        """A file's bytes."""
        try:
            data = (self._output / name).read_bytes()
            return gzip.decompress(data) if name.endswith(".gz") else data
        except FileNotFoundError:
            return None
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise Bad(f"{name}: {error}") from error


class HttpReader:
    """Reads what `serve` gives."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._client = httpx.Client(timeout=10)

    def close(self) -> None:
        """Let the connection go."""
        self._client.close()

    def indexes(self) -> list[str]:
        """The index files that robots.txt names."""
        robots = self.read("robots.txt") or b""
        lines = [line for line in robots.decode().splitlines() if line.startswith("Sitemap: ")]
        return [line.rpartition("/")[2] for line in lines]

    def read(self, name: str) -> bytes | None:
        """A file's bytes. Raises Away while nobody listens, Bad for an answer that is neither 200 nor 404."""
        address = self._world.find_http()
        if not address:
            raise Away
        try:
            answer = self._client.get(f"{address}main/{name}")
        except httpx.TransportError as error:
            raise Away from error
        if answer.status_code == 404:
            return None
        if answer.status_code != 200:
            raise Bad(f"HTTP answers {answer.status_code}")
        return answer.content


Reader = FolderReader | HttpReader


def whole_index(reader: Reader) -> dict[str, str]:
    """File name → lastmod of all index files. Raises Bad."""
    found: dict[str, str] = {}
    for name in reader.indexes():
        if (data := reader.read(name)) is not None:
            with naming(name):
                found |= checks.read_index(data)
    return found


def settled(reader: Reader) -> tuple[dict[str, Shown], dict[str, dict[str, Entry]]]:
    """A tree that is at rest: what is shown of each file, and its URLs. Raises Bad."""
    shown, tree = {}, {}
    for name, lastmod in whole_index(reader).items():
        data = reader.read(name)
        if data is None:
            raise Bad(f"the index names {name}, which is not there")
        with naming(name):
            tree[name] = checks.read_urls(data)
        shown[name] = Shown(lastmod, checks.digest(data), frozenset(tree[name]))
    return shown, tree


class naming:  # noqa: N801 - reads as a statement: with naming(file)
    """Puts the file's name before what is bad about it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Bad):
            raise Bad(f"{self._name}: {error}") from error


class Crawler:
    """A thread that reads at random until it is closed."""

    def __init__(self, world: World, seed: int) -> None:
        self._chance = random.Random(f"crawler {seed}")
        self._readers: list[tuple[str, Reader, checks.Memory]] = [
            ("folder", FolderReader(world.output), checks.Memory()),
            ("http", HttpReader(world), checks.Memory()),
        ]
        self._lock = threading.Lock()
        self._found: list[Found] = []
        self._over = threading.Event()
        self.visits = 0
        """Files that were read and checked."""
        self._excused: frozenset[str] = frozenset()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def excuse(self, rules: frozenset[str]) -> None:
        """What may be met from now on."""
        with self._lock:
            self._excused = rules

    def take(self) -> list[Found]:
        """What was found since the last time."""
        with self._lock:
            found, self._found = self._found, []
        return found

    def close(self) -> None:
        """End the thread."""
        self._over.set()
        self._thread.join(30)
        for _, reader, _ in self._readers:
            reader.close()

    def _run(self) -> None:
        try:
            self._crawl()
        except Exception as error:  # noqa: BLE001 - a crawler that dies in silence would find nothing any more
            self._note("harness", [Found("harness", f"the crawler ended: {error!r}")])

    def _crawl(self) -> None:
        while not self._over.is_set():
            for where, reader, memory in self._readers:
                # Whoever reads the folder meets a read-only or vanishing disk; that is no tree.
                with suppress(Away):
                    excused = self._excused
                    self._note(where, [row for row in self._look(reader, memory) if row.rule not in excused])
            self._over.wait(0.01)

    def _look(self, reader: Reader, memory: checks.Memory) -> Iterator[Found]:
        try:
            index = whole_index(reader)
            yield from memory.see(index)
            for name in self._chance.sample(sorted(index), min(FILES, len(index))):
                yield from self._visit(reader, memory, name, index)
        except Bad as bad:
            yield Found("malformed", str(bad))

    def _visit(
        self, reader: Reader, memory: checks.Memory, name: str, index: dict[str, str]
    ) -> Iterator[Found]:
        data = reader.read(name)
        self.visits += 1
        if data is None:
            # It may have left the index meanwhile: that comes before the file goes.
            again = whole_index(reader)
            yield from memory.see(again)
            yield from checks.missing(name, index, False, again)
            return
        with naming(name):
            checks.read_urls(data)

    def _note(self, where: str, rows: list[Found]) -> None:
        with self._lock:
            self._found += [
                Found(rule, f"{where}: {detail}") for rule, detail in rows if rule not in self._excused
            ]

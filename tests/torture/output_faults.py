"""Faults of the output: a full, failing or read-only disk, and files that somebody else deletes or alters."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from tests.published import NS, URLSET, index_files, parse, shard_files
from tests.torture import hostile
from tests.torture.checks import Found
from tests.torture.fault import Fault, Strike
from tests.torture.world import World

LARGEST: Final = 1_000_000
_GONE: Final = frozenset({"no file", "malformed"})


@contextmanager
def _full(strike: Strike) -> Iterator[None]:
    filler = strike.world.output / ".filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    yield
    filler.unlink(missing_ok=True)


@contextmanager
def _read_only(strike: Strike) -> Iterator[None]:
    strike.world.remount("ro")
    yield
    strike.world.remount("rw")


@contextmanager
def _not_ours(strike: Strike) -> Iterator[None]:
    strike.world.output.chmod(0o555)
    yield
    strike.world.output.chmod(0o755)


@contextmanager
def _failing(strike: Strike) -> Iterator[None]:
    strike.world.fail_calls(strike.chance.choice((("fsync",), ("replace",), ("fsync", "unlink", "scandir"))))
    yield
    strike.world.fail_calls(())


def _delete(file: Path) -> None:
    with suppress(OSError):  # it is gone already, or a fault that strikes with this one protects it
        file.unlink()


def _write_over(strike: Strike, file: Path, data: bytes) -> None:
    """Write over a file in place, as a stranger would: a disk that is full leaves it cut."""
    before = file.read_bytes()
    with suppress(OSError):
        file.write_bytes(data)
    if file.read_bytes() != before:
        strike.altered.add(file.name)


@contextmanager
def _delete_files(strike: Strike) -> Iterator[None]:
    files = shard_files(strike.world.output)
    for file in strike.chance.sample(files, min(len(files), strike.chance.randrange(1, 6))):
        _delete(file)
    yield


@contextmanager
def _wipe(strike: Strike) -> Iterator[None]:
    for file in strike.world.output.iterdir():
        _delete(file)
    yield


@contextmanager
def _rewritten(change: Callable[[bytes], bytes], strike: Strike) -> Iterator[None]:
    files = shard_files(strike.world.output)
    for file in strike.chance.sample(files, min(len(files), 2)):
        data = file.read_bytes()
        _write_over(strike, file, change(data))
    yield
    result = strike.world.place.command("rebuild")
    # A fault of Redis may strike with this one; the scrubber finds what was altered all the same.
    if result.code and not result.err.startswith("sitemapd: Redis"):
        strike.found.append(Found("rebuild", f"exit {result.code}: {result.err[-300:]}"))


def _hostile(strike: Strike, root: str) -> bytes:
    """A hostile file that leaves room on the small disk: what replaces it must fit beside it."""
    return strike.chance.choice([data for data in hostile.xml(root).values() if len(data) < LARGEST])


@contextmanager
def _hostile_shards(strike: Strike) -> Iterator[None]:
    files = shard_files(strike.world.output)
    for file in strike.chance.sample(files, min(len(files), 2)):
        _write_over(strike, file, _hostile(strike, "urlset"))
    yield


@contextmanager
def _hostile_index(strike: Strike) -> Iterator[None]:
    for file in index_files(strike.world.output):
        _write_over(strike, file, _hostile(strike, "sitemapindex"))
    yield


def _one_less(data: bytes) -> bytes:
    """The same file without its first URL."""
    root = parse(data, URLSET)
    if len(root.findall(f"{NS}url")) < 2:
        return data
    start = data.index(b"<url>")
    return data[:start] + data[data.index(b"</url>") + len(b"</url>") :]


def _torn(data: bytes) -> bytes:
    return data[: len(data) // 2]


def output_faults() -> Iterator[Fault]:
    """Them all."""
    disk = partial(Fault, group="disk", within=5.0, promised="old files stay whole, all goes on")
    yield disk(name="enospc", means=_full, needs=_mount)
    yield disk(name="erofs", means=_read_only, needs=_mount)
    yield disk(name="eacces", means=_not_ours, needs=lambda world: world.may_all)
    # No disk fails on demand without help from the kernel: the calls fail inside of our processes.
    yield disk(name="eio", means=_failing)
    tampering = partial(Fault, group="tampering", within=10.0, excuses=_GONE)
    yield tampering(name="delete-files", promised="back as they were, by itself", means=_delete_files)
    yield tampering(name="wipe-output", promised="back as it was, by itself", means=_wipe)
    yield tampering(
        name="alter-files", promised="rebuild repairs, lastmod moves", means=partial(_rewritten, _one_less)
    )
    yield tampering(
        name="tear-files", promised="rebuild repairs, lastmod moves", means=partial(_rewritten, _torn)
    )
    for name, means in {"hostile-shards": _hostile_shards, "hostile-index": _hostile_index}.items():
        yield tampering(name=name, promised="replaced by itself, nobody chokes on it", means=means)


def _mount(world: World) -> str:
    return f"the output can't be a disk of its own: {world.no_mount}" if world.no_mount else ""

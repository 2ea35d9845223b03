"""A backup: a site's whole state as one file.

The file is gzip. Its content is records, each a line of JSON that says what it is (`kind`) and how many bytes
of which parts follow (`sizes`), and then those bytes:

1. `sitemapd-backup`: `version` of this format and of the `snapshot`s, `site`, `partitions`, `state` (the id),
   `taken` (when it began, ms by Redis' clock). This line stays readable in every version.
2. `shard`: `partition`, `id`, `meta` (its hash), `in_hand` and `late` (`sitemap_store.redis.dump`); parts:
   the snapshot, and each element of its log. A shard may come again: its last record counts.
3. `held`: elements of a partition's list of held events. `webhook`: fields and values of the hash `name`.
4. `partition`: the small hashes of a partition, read after its shards.
5. The last line is the BLAKE2b digest of all before it, in hexadecimal.

Nothing of a file is used before its digest was compared: a damaged one could say anything.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, NamedTuple, cast

from sitemap_store.errors import SitemapdError, Unavailable
from sitemap_store.model.events import count_events
from sitemap_store.redis.dump import ShardCopy, copy_shards, fields_of, held_events, webhook_keys
from sitemap_store.redis.store import Store
from sitemap_store.shards.snapshot import VERSION as SNAPSHOT_VERSION

VERSION: Final = 1
FORMAT: Final = "sitemapd-backup"
_LEVEL: Final = 1
"""gzip's level: snapshots, nearly all of a backup, are compressed already."""
_END: Final = 2 * hashlib.blake2b().digest_size + 1
_CHUNK: Final = 1 << 20


class BadBackup(SitemapdError):
    """A file is no whole backup that this version can restore."""


class BackedUp(NamedTuple):
    """What a backup holds."""

    urls: int
    """As folded."""
    shards: int
    events: int
    """Not folded yet."""
    bytes: int
    """Of the file."""


class Record(NamedTuple):
    """One record of a backup."""

    head: dict[str, Any]
    parts: list[bytes]


def back_up(
    store: Store, file: BinaryIO, now: int, alive: Callable[[int, int], None] = lambda done, of: None
) -> BackedUp:
    """Write a site's state to a file while it is in use. Memory is one shard.

    `alive` is called with how many shards were copied, and how many there are. Raises Unavailable, and
    SitemapdError when there is no state or a restore is under way.
    """
    counts: dict[tuple[int, int], tuple[int, int]] = {}
    digest, size = hashlib.blake2b(), _Counted(file)
    with gzip.GzipFile("", "wb", _LEVEL, cast("IO[bytes]", size), mtime=0) as packed:
        for record in _records(store, now, counts, alive):
            for piece in _encoded(record):
                digest.update(piece)
                packed.write(piece)
        packed.write(digest.hexdigest().encode() + b"\n")
    urls, events = (sum(column) for column in zip(*counts.values(), (0, 0), strict=True))
    return BackedUp(urls, len(counts), events, size.written)


def _records(
    store: Store,
    now: int,
    counts: dict[tuple[int, int], tuple[int, int]],
    alive: Callable[[int, int], None],
) -> Iterator[Record]:
    first, site = store.partitions[0], store.site
    state = first.state_id()
    if state is None or any(partition.remembered("restoring") for partition in store.partitions):
        why = "has no state yet" if state is None else "is being restored"
        raise SitemapdError(f"site {site.name} {why}: there is nothing to back up")
    yield Record(
        {
            "kind": FORMAT,
            "version": VERSION,
            "snapshot": SNAPSHOT_VERSION,
            "site": site.name,
            "partitions": site.partitions,
            "state": state,
            "taken": now,
        },
        [],
    )
    total = sum(partition.count_shards() for partition in store.partitions)
    for partition in store.partitions:
        for copy in copy_shards(partition):
            place = (copy.partition, copy.id)
            if copy.meta:
                counts[place] = (int(copy.meta["urls"]), count_events(copy.log))
            else:
                counts.pop(place, None)
            alive(len(counts), total)
            head = {"kind": "shard", **copy._asdict(), "folded": copy.snapshot is not None}
            parts = [copy.snapshot or b"", *copy.log]
            del head["snapshot"], head["log"]
            yield Record(head, parts)
        for elements in held_events(partition):
            yield Record({"kind": "held", "partition": partition.number}, elements)
        small = {
            "state": fields_of(partition, partition.keys.state()),
            "open": fields_of(partition, partition.keys.open_shards()),
            "numbers": fields_of(partition, partition.keys.numbers()),
        }
        yield Record({"kind": "partition", "partition": partition.number, **small}, [])
    for name, pairs in webhook_keys(store):
        yield Record({"kind": "webhook", "name": name}, pairs)


def _encoded(record: Record) -> Iterator[bytes]:
    line = {**record.head, "sizes": [len(part) for part in record.parts]}
    yield json.dumps(line, separators=(",", ":")).encode() + b"\n"
    yield from record.parts


class Backup:
    """A backup whose digest was compared. `name` is what messages call it."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self.name = name
        self.head = self._checked()

    def records(self) -> Iterator[Record]:
        """Its records from the beginning, without the first."""
        with self._open() as content:
            content.readline()
            while (line := content.readline()).startswith(b"{"):
                head = json.loads(line)
                yield Record(head, [content.read(size) for size in head["sizes"]])

    def shards(self) -> Iterator[ShardCopy]:
        """The shards in the order of their copies; some come again."""
        for head, parts in self.records():
            if head["kind"] == "shard":
                snapshot = parts[0] if head["folded"] else None
                yield ShardCopy(
                    head["partition"],
                    head["id"],
                    head["meta"],
                    snapshot,
                    parts[1:],
                    head["in_hand"],
                    head["late"],
                )

    def _checked(self) -> dict[str, Any]:
        """The first record, once all of the file is known to be as it was written. Raises BadBackup."""
        with self._open() as content:
            line = content.readline(_CHUNK)
            try:
                head = json.loads(line)
                if head["kind"] != FORMAT:
                    raise ValueError(head["kind"])
                versions = {
                    "format": (head["version"], VERSION),
                    "snapshot": (head["snapshot"], SNAPSHOT_VERSION),
                }
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise BadBackup(f"{self.name} is no backup of sitemapd") from error
            for what, (theirs, ours) in versions.items():
                if theirs != ours:
                    raise BadBackup(
                        f"{self.name} has {what} version {theirs}, and this sitemapd reads {ours}: restore "
                        "it with the sitemapd that wrote it, or a newer one"
                    )
            digest, tail = hashlib.blake2b(line), b""
            while chunk := content.read(_CHUNK):
                tail += chunk
                digest.update(tail[:-_END])
                tail = tail[-_END:]
        if tail != digest.hexdigest().encode() + b"\n":
            raise BadBackup(f"{self.name} is damaged: the checksum does not match the content")
        return cast("dict[str, Any]", head)

    @contextmanager
    def _open(self) -> Iterator[gzip.GzipFile]:
        self._file.seek(0)
        try:
            with gzip.GzipFile(fileobj=self._file) as content:
                yield content
        except EOFError as error:
            raise BadBackup(f"{self.name} is cut off: it ends before its checksum") from error
        except gzip.BadGzipFile as error:
            what = (
                "is damaged: its checksum is wrong"
                if "CRC" in str(error)
                else "is no backup of sitemapd, or damaged"
            )
            raise BadBackup(f"{self.name} {what}") from error
        except zlib.error as error:
            raise BadBackup(f"{self.name} is damaged: it can't be decompressed") from error
        except OSError as error:
            raise Unavailable(what=self.name, detail=f"can't be read ({error.strerror or error})") from error


@contextmanager
def opened(path: Path | None, stdin: BinaryIO) -> Iterator[Backup]:
    """The backup in a file, or for None the one that comes on standard input, spooled to a temp file.

    Raises BadBackup, and Unavailable when it can't be read.
    """
    name = "standard input" if path is None else str(path)
    try:
        file: BinaryIO
        if path is None:
            file = cast("BinaryIO", tempfile.TemporaryFile(prefix="sitemapd-"))  # noqa: SIM115 - closed by the `with` below
            shutil.copyfileobj(stdin, file)
        else:
            file = path.open("rb")
    except OSError as error:
        raise Unavailable(what=name, detail=f"can't be read ({error.strerror})") from error
    with file:
        yield Backup(file, name)


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """A temp file of mode 0600 beside `path`, which takes its place when all is on the disk.

    Raises Unavailable.
    """
    temp = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temp, "wb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600)) as file:
            os.fchmod(file.fileno(), 0o600)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temp, path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise Unavailable(what=str(path), detail=f"can't be written ({error.strerror or error})") from error
    finally:
        with suppress(OSError):
            temp.unlink()


class _Counted:
    """A file that counts what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.written = 0

    def write(self, data: Any) -> int:
        """Write it."""
        self.written += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        """Flush the file."""
        self._file.flush()

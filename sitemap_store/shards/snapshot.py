"""A shard's folded entries as compressed bytes.

Theory of operation: entries lie column by column (all locs, then all dates, …) in the order of
their locs, since like stands beside like then: it compresses better than rows and splits back at
C speed. The text before compression is lines joined by LF:

1. a JSON header: ``v`` (format version), ``n`` entries, ``d`` tombstones, ``base`` (subtracted
   from every time), ``columns`` (the names of the entry columns that follow; a column that is
   empty throughout is left out), ``sources`` (the table that the source column points into);
2. ``n`` lines for each column named in the header;
3. ``d`` lines each of the tombstones' loc, at, until and source.

A later version may add columns; a reader ignores none: an unknown column or version is an error,
because writing the shard again without it would lose what it held.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from sitemap_store.errors import SitemapdError
from sitemap_store.model.entries import Entry, Tombstone
from sitemap_store.shards.compression import compress_snapshot

VERSION = 1

_AT = Entry._fields.index("at")
_TEXT_COLUMNS = ("lastmod", "changefreq", "priority", "ext")


class SnapshotError(SitemapdError):
    """A snapshot can't be read: it is damaged or was written by a newer version."""


class Snapshot(NamedTuple):
    """The entries and tombstones of one shard, keyed by loc, entries in the order of their locs."""

    entries: Mapping[str, Entry]
    tombstones: Mapping[str, Tombstone]


EMPTY = Snapshot({}, {})


def encode(snapshot: Snapshot) -> bytes:
    """The compressed bytes of a snapshot; the same entries give the same bytes."""
    rows = sorted(snapshot.entries.values())
    graves = sorted(snapshot.tombstones.values())
    times = [row[_AT] for row in rows] + [grave.at for grave in graves]
    base = min(times, default=0)
    sources = sorted({row.source for row in rows})
    number = {source: str(i) for i, source in enumerate(sources)}
    lines: list[str] = []
    columns: list[str] = []
    if rows:
        locs, lastmods, changefreqs, priorities, ats, owners, exts = zip(*rows, strict=True)
        columns.append("loc")
        lines.extend(locs)
        for name, column in zip(_TEXT_COLUMNS, (lastmods, changefreqs, priorities, exts), strict=True):
            if any(column):
                columns.append(name)
                lines.extend(column)
        columns.append("at")
        since = {at: str(at - base) for at in set(ats)}  # a load's entries have few
        lines.extend([since[at] for at in ats])
        if len(sources) > 1:
            columns.append("source")
            lines.extend([number[owner] for owner in owners])
    for grave_column in zip(*graves, strict=True):
        lines.extend(str(value) for value in grave_column)
    header = {
        "v": VERSION,
        "n": len(rows),
        "d": len(graves),
        "base": base,
        "columns": columns,
        "sources": sources,
    }
    text = "\n".join([json.dumps(header, separators=(",", ":")), *lines])
    return compress_snapshot(text.encode())


def decode(data: bytes | None) -> Snapshot:
    """The snapshot in `data`; None (a shard that was never folded) is an empty one.

    Raises SnapshotError for bytes that `encode` of this version can't have written.
    """
    if data is None:
        return EMPTY
    try:
        lines = zlib.decompress(data).decode().split("\n")
        header = json.loads(lines[0])
        if header["v"] != VERSION:
            raise SnapshotError(
                f"a snapshot has format version {header['v']}, this sitemapd reads {VERSION}: "
                "run the newer sitemapd that wrote it"
            )
        return _read(header, lines)
    except (zlib.error, ValueError, KeyError, IndexError, TypeError) as error:
        raise SnapshotError(f"a snapshot is damaged ({error})") from error


def _read(header: dict[str, object], lines: list[str]) -> Snapshot:
    n, d, base = _int(header["n"]), _int(header["d"]), _int(header["base"])
    names, sources = header["columns"], header["sources"]
    if not isinstance(names, list) or not isinstance(sources, list):
        raise ValueError("columns and sources are lists")
    columns: dict[str, list[str]] = {}
    place = 1
    for name in names:
        columns[name] = lines[place : place + n]
        place += n
    unknown = set(columns) - {"loc", "at", "source", *_TEXT_COLUMNS}
    if unknown or len(lines) != place + 4 * d:
        raise ValueError(f"unknown columns {sorted(unknown)} or a wrong number of lines")
    empty = [""] * n
    owners = (
        [sources[int(i)] for i in columns["source"]]
        if "source" in columns
        else [sources[0] if sources else ""] * n
    )
    locs = columns.get("loc", [])
    entries = map(
        Entry._make,
        zip(
            locs,
            columns.get("lastmod", empty),
            columns.get("changefreq", empty),
            columns.get("priority", empty),
            [int(at) + base for at in columns.get("at", [])],
            owners,
            columns.get("ext", empty),
            strict=True,
        ),
    )
    dead = zip(
        lines[place : place + d],
        map(int, lines[place + d : place + 2 * d]),
        map(int, lines[place + 2 * d : place + 3 * d]),
        lines[place + 3 * d :],
        strict=True,
    )
    return Snapshot(
        dict(zip(locs, entries, strict=True)), {grave[0]: Tombstone._make(grave) for grave in dead}
    )


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is no number")
    return value

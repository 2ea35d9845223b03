"""Events → what the append script takes: their digests and records, by partition and section. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Final, NamedTuple

from sitemap_store.model.entries import DIGEST_BYTES, digest
from sitemap_store.model.events import Adds, Event, encode, encode_adds
from sitemap_store.model.site import Site

BATCH: Final = 500
"""Events per append: a script call of about 3 ms, so that no other client of Redis waits longer."""

Packed = Sequence[str | bytes]
"""Events as the script takes them."""


class Prepared(NamedTuple):
    """Some events, encoded for the partitions that hold their URLs."""

    events: int
    """How many."""
    packed: list[tuple[int, Packed]]
    """Of each partition."""


class Keyed(NamedTuple):
    """Events and, in the same order, the digests of their URLs."""

    digests: list[bytes]
    events: list[Event]


_KIND = itemgetter(*map(Event._fields.index, ("op", "source", "urgent")))


def prepare(site: Site, events: Iterable[Event]) -> Iterator[Prepared]:
    """Encode checked events in their order, `BATCH` at a time."""
    find, partition_of = site.sections.find, site.partition
    stream = iter(events)
    while batch := list(islice(stream, BATCH)):
        parts: list[dict[str, Keyed]] = [{} for _ in range(site.partitions)]
        for event in batch:
            loc = event.loc
            key = digest(loc)
            part, section = parts[partition_of(key)], find(loc)
            keyed = part.get(section)
            if keyed is None:
                keyed = part[section] = Keyed([], [])
            keyed[0].append(key)
            keyed[1].append(event)
        packed = [(number, pack(part)) for number, part in enumerate(parts) if part]
        yield Prepared(len(batch), packed)


def prepare_adds(site: Site, adds: Adds) -> Iterator[Prepared]:
    """What `prepare` gives for these adds, column by column: half of its time."""
    for start in range(0, len(adds.locs), BATCH):
        some = adds.part(slice(start, start + BATCH))
        count = len(some.locs)
        # No loc holds a line feed, so all are encoded in one go.
        keys = [
            hashlib.blake2b(loc, digest_size=DIGEST_BYTES).digest()
            for loc in "\n".join(some.locs).encode().split(b"\n")
        ]
        places = list(zip(map(site.partition, keys), map(site.sections.find, some.locs), strict=True))
        parts: dict[int, list[tuple[str, list[bytes], Adds]]] = {}
        for place in dict.fromkeys(places):
            number, section = place
            its_keys, its_adds = keys, some
            if places.count(place) < count:
                chosen = [n for n, each in enumerate(places) if each == place]
                its_keys, its_adds = [keys[n] for n in chosen], some.chosen(chosen)
            parts.setdefault(number, []).append((section, its_keys, its_adds))
        yield Prepared(count, [(number, _pack_adds(parts[number])) for number in sorted(parts)])


def pack(sections: Mapping[str, Keyed]) -> Packed:
    """The events of each section, encoded, for `Partition.append`."""
    kinds = Counter(chain.from_iterable(map(_KIND, keyed.events) for keyed in sections.values()))
    packed: list[str | bytes] = [
        "\n".join(f"{len(keyed.events)} {section}" for section, keyed in sections.items()),
        "\n".join(f"{count} {op} {source or ''}" for (op, source, _), count in kinds.items()),
        "1" if any(urgent for _, _, urgent in kinds) else "",
    ]
    for digests, events in sections.values():
        packed += [b"".join(digests), "\n".join(map(encode, events))]
    return packed


def _pack_adds(sections: Sequence[tuple[str, list[bytes], Adds]]) -> Packed:
    source = sections[0][2].source or ""
    packed: list[str | bytes] = [
        "\n".join(f"{len(keys)} {section}" for section, keys, _ in sections),
        f"{sum(len(keys) for _, keys, _ in sections)} add {source}",
        "",
    ]
    for _, keys, adds in sections:
        packed += [b"".join(keys), encode_adds(adds)]
    return packed

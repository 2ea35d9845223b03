"""Events → what the append script takes: their digests and records, by partition and section. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from sitemap_store.model.entries import digest
from sitemap_store.model.events import Event, encode
from sitemap_store.model.site import Site

Packed = Sequence[str | bytes]
"""Events as the script takes them."""


class Keyed(NamedTuple):
    """Events and, in the same order, the digests of their URLs."""

    digests: list[bytes]
    events: list[Event]


_KIND = itemgetter(*map(Event._fields.index, ("op", "source", "urgent")))


def prepare(site: Site, events: Iterable[Event]) -> list[tuple[int, Packed]]:
    """Encode checked events in their order, for each partition that holds URLs of them."""
    find, partition_of = site.sections.find, site.partition
    parts: list[dict[str, Keyed]] = [{} for _ in range(site.partitions)]
    for event in events:
        loc = event.loc
        key = digest(loc)
        part, section = parts[partition_of(key)], find(loc)
        keyed = part.get(section)
        if keyed is None:
            keyed = part[section] = Keyed([], [])
        keyed[0].append(key)
        keyed[1].append(event)
    return [(number, pack(part)) for number, part in enumerate(parts) if part]


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

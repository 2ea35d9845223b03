"""URL events and the text in which a shard's log keeps them.

A log element is what one append gave one shard: its first line is the time of the append in epoch
milliseconds, each further line is one record::

    <op><loc> TAB <lastmod> TAB <changefreq> TAB <priority> TAB <at> TAB <source> TAB <ext>

Empty fields at the end are left out. In an update a lone ``=`` stands for "keep what is there".
No field can hold a tab or a line feed: locs are percent-encoded, ``ext`` is JSON on one line, and the other
fields are checked before they get here (`sitemap_store.model.wire`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import methodcaller
from typing import Literal, NamedTuple

Op = Literal["add", "update", "delete"]

FUTURE_MS = 5 * 60 * 1000
"""How far clocks may differ: an event's `at` that is further ahead counts as now."""
KEEP = "="
"""In a record: the producer said nothing about this field of an update."""

_OP_CODES: dict[str, str] = {"add": "a", "update": "u", "delete": "d"}
_CODE_OPS: dict[str, Op] = {"a": "add", "u": "update", "d": "delete", "x": "delete"}
_URGENT_DELETE = "x"
_UPDATED = (0, 1, 2, 5)
"""Where the fields that an update may keep are in a record, after its loc."""
_AT_TAB = methodcaller("partition", "\t")
_TO_SOURCE = "\t" * 4
"""What stands between lastmod and source in an add that says nothing else, as those of a bulk load do."""


class Event(NamedTuple):
    """One add, update or delete of one URL, with what the producer knows about it.

    `add` states the whole entry; `update` states only the fields that are not None and makes the
    URL if it isn't there; `delete` removes the URL, or only the entry of `source` when one is
    named. `at` (epoch milliseconds) is when it happened; None means "in the order of appending".
    """

    op: Op
    loc: str
    lastmod: str | None = None
    changefreq: str | None = None
    priority: str | None = None
    at: int | None = None
    source: str | None = None
    ext: str | None = None
    """Extensions as canonical text; in an update those that it names, `null` for one that goes."""
    urgent: bool = False
    """A delete that skips the shard's `min_interval`."""


class Logged(NamedTuple):
    """An event as read back from a log, with the time of its append in epoch milliseconds."""

    event: Event
    appended: int


def encode(event: Event) -> str:
    """The record line of an event."""
    op, loc, lastmod, changefreq, priority, at, source, ext, urgent = event
    if op == "add" and not (changefreq or priority or ext) and at is None:
        if source:
            return f"a{loc}\t{lastmod or ''}{_TO_SOURCE}{source}"
        return f"a{loc}\t{lastmod}" if lastmod else f"a{loc}"
    code = _URGENT_DELETE if urgent and op == "delete" else _OP_CODES[op]
    when = None if at is None else str(at)
    fields: list[str | None] = [lastmod, changefreq, priority, when, source, ext]
    if op == "update":
        for place in _UPDATED:
            fields[place] = KEEP if fields[place] is None else fields[place]
    return "\t".join([code + loc, *(field or "" for field in fields)]).rstrip("\t")


def decode(record: str) -> Event:
    """The event of a record line that `encode` wrote."""
    code, loc, *fields = record[0], *record[1:].split("\t")
    if code == "a" and len(fields) <= 1:
        # What a bulk load is made of, without the detour of a named tuple's own constructor.
        plain = ("add", loc, fields[0] if fields else "", None, None, None, None, None, False)
        return tuple.__new__(Event, plain)
    fields += [""] * (6 - len(fields))
    lastmod, changefreq, priority, at, source, ext = fields
    when = int(at) if at else None
    op = _CODE_OPS[code]
    if op == "update":
        kept = [None if fields[place] == KEEP else fields[place] for place in _UPDATED]
        return Event(op, loc, kept[0], kept[1], kept[2], when, source or None, kept[3])
    urgent = code == _URGENT_DELETE
    return Event(op, loc, lastmod, changefreq, priority, when, source or None, ext, urgent)


class PlainAdds(NamedTuple):
    """A log element that is nothing but adds of a loc and a lastmod, all by one source ("": by none)."""

    appended: int
    source: str
    locs: Sequence[str]
    lastmods: Sequence[str]


def plain_adds(element: bytes) -> PlainAdds | None:
    """What a bulk load's element says, column by column at C speed; None for any other element."""
    text = element.decode()
    _, several, source = text.rpartition("\n")[2].partition(_TO_SOURCE)
    if several:
        end = f"{several}{source}\n"
        whole = text + "\n"
        if not source or "\t" in source or whole.count(end) != text.count("\n"):
            return None
        text = whole.replace(end, "\n").removesuffix("\n")
    head, *records = text.split("\na")
    count = len(records)
    if not count or text.count("\n") != count or text.count("\t") != count:
        return None
    locs, tabs, lastmods = zip(*map(_AT_TAB, records), strict=True)
    if not all(tabs):
        return None  # there are as many tabs as records, but not one in each
    return PlainAdds(int(head), source, locs, lastmods)


def count_events(elements: Iterable[bytes]) -> int:
    """How many events a log's elements hold."""
    return sum(element.count(b"\n") for element in elements)


def read_log(elements: Iterable[bytes]) -> Iterator[Logged]:
    """The events of a log's elements, oldest first.

    One that says to be of later than its append, by more than clocks differ, counts as of its append:
    otherwise a producer whose clock is years ahead would win every race.
    """
    for element in elements:
        head, *records = element.decode().split("\n")
        appended = int(head)
        for record in records:
            event = decode(record)
            if event.at is not None and event.at > appended + FUTURE_MS:
                event = event._replace(at=appended)
            yield tuple.__new__(Logged, (event, appended))

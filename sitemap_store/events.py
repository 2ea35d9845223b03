"""URL events and the text in which a shard's log keeps them.

A log element is what one append gave one shard: its first line is the time of the append in epoch
milliseconds, each further line is one record::

    <op><loc> TAB <lastmod> TAB <changefreq> TAB <priority> TAB <at> TAB <source> TAB <ext>

Empty fields at the end are left out. In an update a lone ``=`` stands for "keep what is there".
No field can hold a tab or a line feed: locs are percent-encoded, ``ext`` is JSON, and the other
fields are checked before they get here (`sitemap_store.wire`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

Op = Literal["add", "update", "delete"]

KEEP = "="
"""In a record: the producer said nothing about this field of an update."""

_OP_CODES: dict[str, str] = {"add": "a", "update": "u", "delete": "d"}
_CODE_OPS: dict[str, Op] = {"a": "add", "u": "update", "d": "delete", "x": "delete"}
_URGENT_DELETE = "x"


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
    urgent: bool = False
    """A delete that skips the shard's `min_interval`."""


class Logged(NamedTuple):
    """An event as read back from a log, with the time of its append in epoch milliseconds."""

    event: Event
    appended: int


def encode(event: Event) -> str:
    """The record line of an event."""
    op, loc, lastmod, changefreq, priority, at, source, ext, urgent = event
    code = _URGENT_DELETE if urgent and op == "delete" else _OP_CODES[op]
    if op == "update":
        lastmod = KEEP if lastmod is None else lastmod
        changefreq = KEEP if changefreq is None else changefreq
        priority = KEEP if priority is None else priority
        ext = KEEP if ext is None else ext
    return (
        f"{code}{loc}\t{lastmod or ''}\t{changefreq or ''}\t{priority or ''}"
        f"\t{'' if at is None else at}\t{source or ''}\t{ext or ''}"
    ).rstrip("\t")


def decode(record: str) -> Event:
    """The event of a record line that `encode` wrote."""
    code = record[0]
    fields = record[1:].split("\t")
    fields += [""] * (7 - len(fields))
    loc, lastmod, changefreq, priority, at, source, ext = fields
    when = int(at) if at else None
    op = _CODE_OPS[code]
    if op == "update":
        return Event(
            op,
            loc,
            None if lastmod == KEEP else lastmod,
            None if changefreq == KEEP else changefreq,
            None if priority == KEEP else priority,
            when,
            source or None,
            None if ext == KEEP else ext,
        )
    return Event(op, loc, lastmod, changefreq, priority, when, source or None, ext, code == _URGENT_DELETE)


def read_log(elements: Iterable[bytes]) -> Iterator[Logged]:
    """The events of a log's elements, oldest first."""
    for element in elements:
        head, *records = element.decode().split("\n")
        appended = int(head)
        for record in records:
            yield Logged(decode(record), appended)

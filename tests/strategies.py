"""Hypothesis strategies for what the core works on: legal locs, entries, events, snapshots."""

from __future__ import annotations

from hypothesis import strategies as st

from sitemap_store.entries import Entry, Tombstone
from sitemap_store.events import Event, Logged
from sitemap_store.protocol import CHANGEFREQS
from sitemap_store.snapshot import Snapshot
from sitemap_store.wire import canonical
from tests.world import BASE, START

_CHARACTERS = "abcXYZ019-._~!$&'()*+,;=:@/?"
_PIECES = st.one_of(
    st.sampled_from(_CHARACTERS),
    st.integers(0x80, 0xFF).map(lambda byte: f"%{byte:02X}"),
    st.sampled_from(["%20", "%22", "%25", "%2F", "%3C", "%3E", "&amp;", "&#38;", "]]%3E", "'", "a=1&b=2"]),
)

locs = st.lists(_PIECES, max_size=40).map(lambda pieces: BASE + "".join(pieces))
"""Any loc in its normal form under `BASE`: every legal character, ampersands and apostrophes often."""

_days = st.dates().map(lambda day: day.isoformat())
_zones = st.sampled_from(["Z", "+01:00", "-11:30", "+14:00"])
_fractions = st.sampled_from(["", ".5", ".123", ".000000001"])
_instants = st.tuples(st.datetimes(), _fractions, _zones).map(
    lambda parts: f"{parts[0].replace(microsecond=0).isoformat()}{parts[1]}{parts[2]}"
)
lastmods = st.one_of(_days, _instants)
"""Every form in which a lastmod is written."""

changefreqs = st.sampled_from(CHANGEFREQS)
priorities = st.integers(0, 10).map(lambda tenths: f"{tenths / 10:.1f}")
sources = st.sampled_from(["", "cms", "watch:pages", "db.main-1"])
times = st.integers(START - 10_000, START + 10_000)
exts = st.dictionaries(
    st.sampled_from(["image", "news", "x-own"]),
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.just([{"loc": "é<&>"}])),
    max_size=2,
).map(canonical)
"""Extensions as the log, the snapshot and the renderer hold them."""

maybe_lastmods = st.one_of(st.just(""), lastmods)
maybe_changefreqs = st.one_of(st.just(""), changefreqs)
maybe_priorities = st.one_of(st.just(""), priorities)

entries = st.builds(
    Entry, locs, maybe_lastmods, maybe_changefreqs, maybe_priorities, st.integers(0, 2**53), sources, exts
)
plain_entries = st.builds(Entry, locs, maybe_lastmods, maybe_changefreqs, maybe_priorities)
"""Entries without extensions."""

tombstones = st.builds(Tombstone, locs, st.integers(0, 2**53), st.integers(0, 2**53), sources)


def _shard(rows: list[Entry], graves: list[Tombstone]) -> Snapshot:
    return Snapshot(
        {row.loc: row for row in sorted(rows)},
        {grave.loc: grave for grave in graves if all(grave.loc != row.loc for row in rows)},
    )


snapshots = st.builds(
    _shard,
    st.lists(entries, max_size=12, unique_by=lambda row: row.loc),
    st.lists(tombstones, max_size=6, unique_by=lambda grave: grave.loc),
)
"""What a shard may hold."""

_given = st.none
adds = st.builds(
    Event,
    st.just("add"),
    locs,
    maybe_lastmods,
    maybe_changefreqs,
    maybe_priorities,
    st.one_of(_given(), times),
    st.one_of(_given(), sources.filter(bool)),
    exts,
)
updates = st.builds(
    Event,
    st.just("update"),
    locs,
    st.one_of(_given(), maybe_lastmods),
    st.one_of(_given(), maybe_changefreqs),
    st.one_of(_given(), maybe_priorities),
    st.one_of(_given(), times),
    st.one_of(_given(), sources.filter(bool)),
    st.one_of(_given(), exts),
)
deletes = st.builds(
    lambda loc, at, source, urgent: Event("delete", loc, at=at, source=source, urgent=urgent),
    locs,
    st.one_of(_given(), times),
    st.one_of(_given(), sources.filter(bool)),
    st.booleans(),
)
events = st.one_of(adds, updates, deletes)
"""Any event that passed the wire's check."""


_few_events = st.builds(
    Event,
    st.sampled_from(["add", "update", "delete"]),
    st.just(""),
    st.sampled_from([None, "", "2026-01-01", "2026-02-02"]),
    st.none(),
    st.sampled_from([None, "", "0.5"]),
    st.one_of(st.none(), st.integers(START - 5, START + 15)),
    st.sampled_from([None, "a", "b"]),
)


def logs(paths: int = 3, size: int = 12) -> st.SearchStrategy[list[Logged]]:
    """Logs about few URLs, so that events meet: with and without `at`, of several sources."""
    few = st.sampled_from([f"{BASE}{n}" for n in range(paths)])
    met = st.tuples(few, _few_events).map(lambda pair: pair[1]._replace(loc=pair[0]))
    return st.lists(met, max_size=size).map(
        lambda found: [Logged(event, START + place) for place, event in enumerate(found)]
    )

"""Hypothesis strategies for what the core works on: legal locs, entries, events, snapshots."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from sitemap_store.model.entries import Entry, Tombstone
from sitemap_store.model.events import Event, Logged, Op
from sitemap_store.model.extensions import canonical, canonical_update, read_extensions
from sitemap_store.model.extensions.page import Page
from sitemap_store.model.protocol import CHANGEFREQS
from sitemap_store.model.urls import UrlRules, normalise
from sitemap_store.shards.snapshot import Snapshot
from tests.world import BASE, START

_CHARACTERS = "abcXYZ019-._~!$&'()*+,;=:@/?"
_SPECIAL = [
    *("", "%20", "%22", "%25", "%2F", "%3C", "%3E", "%C3%A9", "%FF", "%5D%5D%3E", "&amp;", "&lt;"),
    *("'", "&", "&&'", "a=1&b=2", "?", "?q='x'&y", "//"),
]
_RULES = UrlRules(base=BASE)

locs = st.tuples(
    st.text(_CHARACTERS, max_size=20), st.sampled_from(_SPECIAL), st.text(_CHARACTERS, max_size=6)
).map(lambda parts: normalise(BASE + "".join(parts), _RULES).loc)
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

_words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
_addresses = st.one_of(locs, locs.map(lambda loc: loc.replace(BASE, "http://cdn.example.net:8080/", 1)))
_yes_no = st.sampled_from([True, False, "yes", "No"])
_dates = st.one_of(_days, _instants)
_videos = st.fixed_dictionaries(
    {"thumbnail_loc": _addresses, "title": _words, "description": _words, "content_loc": _addresses},
    optional={
        "player_loc": _addresses,
        "duration": st.integers(0, 28_801),
        "expiration_date": _dates,
        "rating": st.floats(0, 5).map(lambda rating: round(rating, 2)),
        "view_count": st.integers(0, 10**17),
        "publication_date": _dates,
        "tag": st.lists(_words, max_size=3),
        "family_friendly": _yes_no,
        "restriction": st.fixed_dictionaries(
            {
                "relationship": st.sampled_from(["allow", "deny", "x"]),
                "countries": st.sampled_from(["de", "AT UK"]),
            }
        ),
        "requires_subscription": _yes_no,
        "uploader": st.one_of(_words, st.fixed_dictionaries({"name": _words, "info": _addresses})),
        "platform": st.fixed_dictionaries(
            {"relationship": st.just("deny"), "platforms": st.sampled_from([["tv"], ["web", "mobile"]])}
        ),
        "live": _yes_no,
    },
)
_news = st.fixed_dictionaries(
    {
        "publication": st.fixed_dictionaries(
            {"name": _words, "language": st.sampled_from(["en", "ZH-cn", "fil"])}
        ),
        "publication_date": st.sampled_from(["2026-09-21", "2026-09-20T10:00:00.5+02:00"]),
        "title": _words,
    }
)
_links = st.lists(
    st.fixed_dictionaries(
        {"hreflang": st.sampled_from(["de", "en-GB", "x-default", "zh-Hant-TW"]), "href": _addresses}
    ),
    max_size=3,
)
raw_exts = st.fixed_dictionaries(
    {},
    optional={
        "alternates": _links,
        "images": st.lists(_addresses, max_size=3),
        "videos": st.lists(_videos, max_size=2),
        "news": _news,
    },
)
"""Extensions as an event may have them; most of it is right."""


def checked_ext(loc: str, raw: object) -> str:
    """Extensions of a URL as the log, the snapshot and the renderer hold them."""
    page = Page(loc=loc, now=START, lang="fr", title_max=100)
    return canonical(read_extensions(raw, page))


exts = raw_exts.map(lambda raw: checked_ext(f"{BASE}a", raw))

maybe_lastmods = st.one_of(st.just(""), lastmods)
maybe_changefreqs = st.one_of(st.just(""), changefreqs)
maybe_priorities = st.one_of(st.just(""), priorities)

entries = st.builds(
    lambda raw, *fields: Entry._make([*fields, checked_ext(fields[0], raw)]),
    raw_exts,
    locs,
    maybe_lastmods,
    maybe_changefreqs,
    maybe_priorities,
    st.integers(0, 2**53),
    sources,
)
plain_entries = st.tuples(locs, maybe_lastmods, maybe_changefreqs, maybe_priorities).map(
    lambda fields: Entry(*fields)
)
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
    lambda *fields: Event("add", *fields),
    locs,
    maybe_lastmods,
    maybe_changefreqs,
    maybe_priorities,
    st.one_of(_given(), times),
    st.one_of(_given(), sources.filter(bool)),
    exts,
)
plain_adds = st.builds(
    lambda loc, lastmod, source: Event("add", loc, lastmod, source=source),
    locs,
    lastmods,
    st.one_of(_given(), sources.filter(bool)),
)
updates = st.builds(
    lambda *fields: Event("update", *fields),
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


def logs(paths: int = 3, size: int = 12) -> st.SearchStrategy[list[Logged]]:
    """Logs about few URLs, so that events meet: with and without `at`, of several sources, extended."""
    ops: list[Op] = ["add", "update", "delete"]
    met = st.tuples(
        st.sampled_from(ops),
        st.sampled_from([f"{BASE}{n}" for n in range(paths)]),
        st.sampled_from([None, "", "2026-01-01", "2026-02-02"]),
        st.none(),
        st.sampled_from([None, "", "0.5"]),
        st.one_of(st.none(), st.integers(START - 5, START + 15)),
        st.sampled_from([None, "a", "b"]),
        st.fixed_dictionaries(
            {},
            optional={
                "images": st.sampled_from([None, ["https://x.example/1"], ["https://x.example/2"]]),
                "news": st.sampled_from([None, {"publication_date": "2026-09-21"}]),
            },
        ),
    )

    def event(fields: tuple[Any, ...]) -> Event:
        *said, ext = fields
        text = canonical_update(ext) if said[0] == "update" else canonical(ext)
        return Event._make([*said, text, False])

    return st.lists(met.map(event), max_size=size).map(
        lambda found: [Logged(event, START + place) for place, event in enumerate(found)]
    )

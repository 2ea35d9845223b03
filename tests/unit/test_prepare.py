"""Events on their way to the append script."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.model.entries import DIGEST_BYTES, digest
from sitemap_store.model.events import Event, decode
from sitemap_store.model.site import Site
from sitemap_store.redis.prepare import prepare
from tests import strategies
from tests.world import BASE, make_site

SITES = [
    make_site(sections=sections, partitions=partitions)
    for sections in (None, {"a": "/a**", "b": "/*b/**", "c": "/c"})
    for partitions in (1, 3)
]
_events = st.lists(
    st.builds(
        Event,
        st.sampled_from(["add", "delete"]),
        strategies.locs,
        lastmod=st.just(""),
        changefreq=st.just(""),
        priority=st.just(""),
        source=st.sampled_from([None, "cms"]),
        ext=st.just(""),
        at=st.none(),
        urgent=st.just(False),
    ),
    min_size=1,
    max_size=20,
)


@given(st.sampled_from(SITES), _events)
def test_each_event_goes_to_its_partition_and_section(site: Site, events: list[Event]) -> None:
    """Beside its digest, and in the order of the events of its section."""
    found: list[tuple[int, str, bytes, str]] = []
    for number, (sections, _, _, *pairs) in prepare(site, events):
        for line, digests, records in zip(str(sections).split("\n"), pairs[::2], pairs[1::2], strict=True):
            count, section = line.split(" ")
            assert isinstance(digests, bytes)
            keys = [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]
            locs = [decode(record).loc for record in str(records).split("\n")]
            assert int(count) == len(keys) == len(locs)
            found += [(number, section, *each) for each in zip(keys, locs, strict=True)]
    assert sorted(found) == sorted(
        (site.partition(key), site.sections.find(event.loc), key, event.loc)
        for event, key in ((event, digest(event.loc)) for event in events)
    )
    for place in {each[:2] for each in found}:
        its = [loc for *where, _, loc in found if tuple(where) == place]
        assert its == [
            event.loc
            for event in events
            if (site.partition(digest(event.loc)), site.sections.find(event.loc)) == place
        ]


@given(st.sampled_from(SITES), _events, st.booleans())
def test_what_the_counters_want_to_know_stands_beside_them(
    site: Site, events: list[Event], urgent: bool
) -> None:
    """How many of which op and source, and whether a delete is urgent."""
    if urgent:
        events = [*events, Event("delete", BASE + "x", urgent=True)]
    packed = [packed for _, packed in prepare(site, events)]
    lines = chain.from_iterable(str(each[1]).split("\n") for each in packed)
    assert sum(int(line.split(" ")[0]) for line in lines) == len(events)
    assert any(each[2] == "1" for each in packed) == urgent


@pytest.mark.parametrize("site", SITES)
def test_nothing_is_made_of_nothing(site: Site) -> None:
    """No partition gets an empty append."""
    assert prepare(site, []) == []

"""What a site no longer covers, told quickly: always what `covers` says of each URL."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.errors import Refused
from sitemap_store.model.protocol import STRICT
from sitemap_store.model.scope import covers, uncovered
from sitemap_store.model.urls import UrlRules, normalise
from tests.world import make_site

BASE = "https://example.com/"
RULES = UrlRules(base=BASE)
PIECES = ["a", "a[]", "a%5B%5D", "é", "b", "=", "&", "?", "%41", "", "ab", "shop/", "%C3%A9", "=1", "."]


@given(
    st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), max_size=6),
    st.frozensets(st.sampled_from(["a", "a[]", "é", "", "ab", "A", "."])),
    st.sampled_from([BASE, BASE + "shop/", "https://www.example.com/", "https://a.example/"]),
    st.booleans(),
    st.integers(24, 40),
    st.integers(0, 24),
)
def test_the_quick_way_finds_what_covers_finds(
    tails: list[str], names: frozenset[str], base: str, cross: bool, longest: int, shortest: int
) -> None:
    """Whatever was listed under other settings, and whatever the settings are now."""
    locs = set()
    for tail in tails:
        try:
            locs.add(normalise(BASE + tail, RULES).loc)
        except Refused:
            continue
    limits = dataclasses.replace(STRICT, loc_max=max(longest, len(base)), loc_min=shortest)
    rules = UrlRules(base=base, strip_query=names, cross_submission=cross, limits=limits)
    listed = sorted(locs)
    assert uncovered(listed, rules) == [loc for loc in listed if not covers(loc, rules)]


@pytest.mark.parametrize(
    "rules",
    [
        UrlRules(base=BASE + "shop/"),
        UrlRules(base=BASE, cross_submission=True),
        UrlRules(base=BASE, strip_query=frozenset({"ref"})),
    ],
)
def test_what_changes_the_scope_has_the_site_rendered_again(rules: UrlRules) -> None:
    """Else nobody would count what is no longer covered."""
    site = make_site()
    assert dataclasses.replace(site, rules=rules).looks != site.looks

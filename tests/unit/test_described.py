"""A site's description says all that a producer needs."""

from __future__ import annotations

import json

from sitemap_store.model.described import describe, site_of
from sitemap_store.model.protocol import CURRENT
from sitemap_store.model.sections import SectionRule, Sections
from sitemap_store.model.site import Site
from sitemap_store.model.urls import UrlRules

SITE = Site(
    name="shop",
    rules=UrlRules(
        base="https://example.com/shop/",
        cross_submission=True,
        strip_query=frozenset({"utm_source", "ref"}),
        limits=CURRENT,
    ),
    sections=Sections([SectionRule(name="blog", patterns=("/shop/blog/**", "/shop/a*"))], "rest"),
    limits=CURRENT,
    shard_size=17,
    index_size=5,
    gzip=True,
    min_interval=2.5,
    partitions=3,
    assume_timezone="+01:00",
)


def test_site_comes_back_from_its_description() -> None:
    """Every setting that appending depends on is the same, the sections of URLs too."""
    again = site_of("shop", describe(SITE))
    assert describe(again) == describe(SITE)
    assert (again.rules, again.limits, again.partitions) == (SITE.rules, SITE.limits, SITE.partitions)
    for url in (
        "https://example.com/shop/blog/x",
        "https://example.com/shop/abc",
        "https://example.com/shop/",
    ):
        assert again.sections.find(url) == SITE.sections.find(url)


def test_description_leaves_no_setting_out() -> None:
    """A setting that a site gets later must be described, or be told to be the workers' own."""
    described = set(json.loads(describe(SITE)))
    own = {"name", "styles", "rules", "compact_below"}
    assert set(Site.__dataclass_fields__) - own <= described
    rules = {"base", "cross_submission", "strip_query", "limits"}
    assert {name for name, field in UrlRules.__dataclass_fields__.items() if field.init} == rules <= described

"""What a producer must know of a site, as text: so that an app needs no configuration file of ours.

The workers write it into the state when they start; `producers.push` reads it there. Styles are left
out: they are the workers' own.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from sitemap_store.model.protocol import Limits
from sitemap_store.model.sections import SectionRule, Sections
from sitemap_store.model.site import Site
from sitemap_store.model.urls import UrlRules


def describe(site: Site) -> str:
    """A site as JSON."""
    rules = site.rules
    return json.dumps(
        {
            "base": rules.base,
            "cross_submission": rules.cross_submission,
            "strip_query": sorted(rules.strip_query),
            "limits": asdict(site.limits),
            "sections": [[rule.name, list(rule.patterns)] for rule in site.sections.rules],
            "default_section": site.sections.default,
            "shard_size": site.shard_size,
            "index_size": site.index_size,
            "gzip": site.gzip,
            "min_interval": site.min_interval,
            "partitions": site.partitions,
            "assume_timezone": site.assume_timezone,
        },
        separators=(",", ":"),
    )


def site_of(name: str, text: str | bytes) -> Site:
    """The site that `describe` wrote."""
    known = json.loads(text)
    limits = Limits(**known["limits"])
    return Site(
        name=name,
        rules=UrlRules(
            base=known["base"],
            cross_submission=known["cross_submission"],
            strip_query=frozenset(known["strip_query"]),
            limits=limits,
        ),
        sections=Sections(
            [SectionRule(name=section, patterns=tuple(patterns)) for section, patterns in known["sections"]],
            known["default_section"],
        ),
        limits=limits,
        shard_size=known["shard_size"],
        index_size=known["index_size"],
        gzip=known["gzip"],
        min_interval=known["min_interval"],
        partitions=known["partitions"],
        assume_timezone=known["assume_timezone"],
    )

"""Which listed URLs the site no longer covers, since `base_url`, `strip_query` or a limit has changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from sitemap_store.errors import Refused
from sitemap_store.model.urls import UrlRules, normalise


def covers(loc: str, rules: UrlRules) -> bool:
    """Whether an add of a listed URL would list that URL today."""
    try:
        return normalise(loc, rules).loc == loc
    except Refused:
        return False


def uncovered(locs: Sequence[str], rules: UrlRules) -> list[str]:
    """Those of some listed URLs, sorted, that `covers` says no of.

    Every rewrite of a shard asks, so what can't be uncovered is told without `covers`: between two URLs that
    begin with the base, all do; and `strip_query` takes only parameters that it names.
    """
    if not locs:
        return []
    limits = rules.limits
    inside = rules.cross_submission or (locs[0].startswith(rules.base) and locs[-1].startswith(rules.base))
    if not inside or len(max(locs, key=len)) > limits.loc_max or len(min(locs, key=len)) < limits.loc_min:
        return [loc for loc in locs if not covers(loc, rules)]
    if not rules.strip_query:
        return []
    named = _parameter(rules.strip_query).search
    return [loc for loc in locs if (at := loc.find("?")) >= 0 and named(loc, at) and not covers(loc, rules)]


@lru_cache(maxsize=256)
def _parameter(names: frozenset[str]) -> re.Pattern[str]:
    """Finds a parameter with one of the names, or with a percent-encoded name, which may be one of them."""
    plain = "|".join(map(re.escape, sorted(names)))
    return re.compile(rf"[?&](?:(?:{plain})(?=[=&]|\Z)|[^=&]*%)")

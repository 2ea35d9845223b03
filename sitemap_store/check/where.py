"""What the checks of one file need to know: where it is published, and where findings go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from sitemap_store.check.findings import Findings
from sitemap_store.check.robots import Robots
from sitemap_store.errors import Refused
from sitemap_store.model.protocol import CURRENT, SITEMAP_NS
from sitemap_store.model.urls import UrlRules, normalise


@dataclass(kw_only=True)
class Where:
    """One file, for the checks of what stands in it."""

    findings: Findings
    file: str
    """The name that findings give it."""
    base: str
    """The address of the folder that it is published at, in its normal form, ending in "/"."""
    proven: frozenset[str] = frozenset()
    """Origins whose robots.txt lists the file, so that it may list their URLs (cross-submission)."""
    robots: Mapping[str, Robots] = field(default_factory=dict)
    """The robots.txt of each origin that has one."""
    now_ms: int
    namespace: str = SITEMAP_NS
    """That of the root element, right or wrong."""

    @cached_property
    def origin(self) -> str:
        """Scheme, host and port that the file is published at."""
        return origin_of(self.base)

    def add(self, code: str, line: int, value: str = "", detail: str = "") -> None:
        """Note a finding in this file."""
        self.findings.add(code, self.file, line, value, detail)


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL in its normal form."""
    return url[: url.index("/", 8)]


def normal_form(url: str) -> str:
    """The normal form of any absolute URL, on any host. Raises Refused as `normalise` does."""
    return normalise(url, _anywhere()).loc


@lru_cache(maxsize=1)
def _anywhere() -> UrlRules:
    return UrlRules(base="https://example.com/", cross_submission=True, limits=CURRENT)


def invalid_url(url: str) -> str | None:
    """Why a text is no absolute http or https URL; None for one that is."""
    try:
        normal_form(url)
    except Refused as refused:
        return None if refused.rule == "too-short" else refused.detail
    return None

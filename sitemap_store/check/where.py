"""What the checks of one file need to know: where it is published, and where findings go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sitemap_store.check.address import origin_of
from sitemap_store.check.findings import Findings
from sitemap_store.check.robots import Robots
from sitemap_store.model.protocol import SITEMAP_NS


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

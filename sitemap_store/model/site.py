"""One site as the store and the workers see it: settings that are checked and can't change."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sitemap_store.model.protocol import STRICT, Limits
from sitemap_store.model.sections import Sections
from sitemap_store.model.style import Style
from sitemap_store.model.urls import UrlRules

INDEX_NAME = "sitemap.xml"
SHARD_NAME = re.compile(r"sitemap-([a-z][a-z0-9_]*(?:-[a-z0-9_]+)*)-([1-9][0-9]*)\.xml(\.gz)?")
INDEX_FILE = re.compile(r"sitemap(?:-([2-9]|[1-9][0-9]+))?\.xml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One public origin with its own output and state."""

    name: str
    rules: UrlRules
    sections: Sections
    styles: Mapping[str, Style] = field(default_factory=dict)
    limits: Limits = STRICT
    shard_size: int = 1000
    """URLs per shard, 1 to the limits' URLs per file."""
    index_size: int = 1000
    """Shards per index file, 1 to the limits' sitemaps per index."""
    gzip: bool = False
    min_interval: float = 1.0
    """Seconds between two rewrites of one shard, at the least."""
    partitions: int = 1
    compact_below: float = 0.25
    """Where entries take less than this share of a section's shards, sparse ones are merged; 0: nowhere."""
    assume_timezone: str | None = None

    def style(self, section: str) -> Style:
        """How a section's entries are rendered."""
        return self.styles.get(section, _PLAIN)

    def partition(self, digest: bytes) -> int:
        """The partition that holds a URL."""
        return int.from_bytes(digest[-2:], "big") % self.partitions if self.partitions > 1 else 0

    def partition_of(self, number: int) -> int:
        """The partition of the shard with that number, from 1: the partitions take the numbers in turn."""
        return (number - 1) % self.partitions

    def shard_file(self, section: str, number: int) -> str:
        """The name of a shard's file in the output."""
        return f"sitemap-{section}-{number}.xml{'.gz' if self.gzip else ''}"

    @property
    def looks(self) -> str:
        """A digest of the settings that change how the same entries are published, or which are covered."""
        styles = sorted((name, style.changefreq, style.priority) for name, style in self.styles.items())
        rules = (self.rules.base, self.rules.cross_submission, sorted(self.rules.strip_query))
        text = repr((rules, self.gzip, self.limits, self.index_size, styles))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def address(self, file: str) -> str:
        """The public address of a file in the output."""
        return self.rules.base + file


def index_file(number: int) -> str:
    """The name of the index file with that number; the first is `sitemap.xml`."""
    return INDEX_NAME if number == 1 else f"sitemap-{number}.xml"


_PLAIN = Style()

"""The sitemap protocol's numbers and names (sitemaps.org protocol, FAQ and XSDs)."""

from dataclasses import dataclass
from typing import Final

SITEMAP_NS: Final = "http://www.sitemaps.org/schemas/sitemap/0.9"
IMAGE_NS: Final = "http://www.google.com/schemas/sitemap-image/1.1"
VIDEO_NS: Final = "http://www.google.com/schemas/sitemap-video/1.1"
NEWS_NS: Final = "http://www.google.com/schemas/sitemap-news/0.9"
XHTML_NS: Final = "http://www.w3.org/1999/xhtml"

CHANGEFREQS: Final = ("always", "hourly", "daily", "weekly", "monthly", "yearly", "never")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one file may hold.

    Bytes are counted after XML escaping and before compression; a loc's characters after
    percent-encoding and before XML escaping. All bounds are inclusive.
    """

    urls_per_file: int
    bytes_per_file: int
    sitemaps_per_index: int
    bytes_per_index: int
    loc_max: int = 2_047
    loc_min: int = 12
    video_title_max: int = 2_048
    """Characters of a video's title."""


STRICT: Final = Limits(
    urls_per_file=50_000,
    bytes_per_file=10_485_760,
    sitemaps_per_index=1_000,
    bytes_per_index=10_485_760,
    video_title_max=100,
)
"""Valid under the 2008 text as well as today's: the default."""

CURRENT: Final = Limits(
    urls_per_file=50_000,
    bytes_per_file=52_428_800,
    sitemaps_per_index=50_000,
    bytes_per_index=52_428_800,
)
"""What today's crawlers take."""

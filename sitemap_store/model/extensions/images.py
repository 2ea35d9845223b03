"""Images: the addresses of the pictures that a page shows (Google's image extension, 1.1)."""

from __future__ import annotations

from typing import Final

from sitemap_store.errors import Refused
from sitemap_store.model.extensions.page import Page, as_list, read_object, read_url
from sitemap_store.model.values import escape

MOST: Final = 1_000
"""Images of one URL."""
_IGNORED: Final = frozenset({"caption", "title", "geo_location", "license"})


def read_images(raw: object, page: Page) -> list[str]:
    """The images' addresses, each once, in the order in which they came; wrong ones are left out."""
    found: dict[str, None] = {}
    for item in as_list(raw):
        loc = item
        if isinstance(item, dict):
            loc = read_object(item, {"loc": lambda value, page: value}, _IGNORED, "images", page).get("loc")
        try:
            found[read_url(loc, page)] = None
        except Refused as refused:
            page.warn(f"images: one was left out: {refused.detail}")
    if len(found) > MOST:
        page.warn(f"images: the first {MOST:,} of {len(found):,} were taken; a URL has no more.")
    return list(found)[:MOST]


def write_images(images: list[str]) -> str:
    """The `<image:image>` elements."""
    return "".join(f"<image:image><image:loc>{escape(loc)}</image:loc></image:image>" for loc in images)

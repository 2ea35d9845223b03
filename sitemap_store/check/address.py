"""Addresses in their normal form, on any host."""

from __future__ import annotations

from typing import Final

from sitemap_store.errors import Refused
from sitemap_store.model.addresses import normalise_anywhere

UNKNOWN: Final = "https://unknown.invalid/"
"""Stands for the address of a folder whose files list no URL."""


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL in its normal form."""
    return url[: url.index("/", 8)]


def normal_form(url: str) -> str:
    """The normal form of any absolute URL, on any host. Raises Refused as `normalise` does."""
    return normalise_anywhere(url).loc


def invalid_url(url: str) -> str | None:
    """Why a text is no absolute http or https URL; None for one that is."""
    try:
        normal_form(url)
    except Refused as refused:
        return None if refused.rule == "too-short" else refused.detail
    return None

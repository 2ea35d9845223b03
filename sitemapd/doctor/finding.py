"""A finding: what was checked, whether it is right, and one sentence that says so or names the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sitemap_store.errors import SitemapdError


class Finding(NamedTuple):
    """The result of one check."""

    what: str
    fine: bool
    detail: str


def attempt(what: str, check: Callable[[], str]) -> Finding:
    """Run a check, which returns its sentence, or raises SitemapdError with what is wrong."""
    try:
        return Finding(what, True, check())
    except SitemapdError as error:
        return Finding(what, False, str(error))


def size(count: float) -> str:
    """A number of bytes for people, in powers of 1,024."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while abs(count) >= 1024 and len(units) > 1:
        count /= 1024
        del units[0]
    return f"{count:,.{0 if count >= 100 or units[0] == 'B' else 1}f} {units[0]}"

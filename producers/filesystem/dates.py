"""Dates as people write them in front matter, brought to the sitemap's form, or left out."""

from __future__ import annotations

import re
from datetime import date, datetime
from functools import lru_cache
from typing import Final

from sitemap_store.errors import Refused
from sitemap_store.model.dates import instant_ms, parse_lastmod

_WRITTEN: Final = re.compile(
    r"(?P<year>[0-9]{4})(?P<dash>[-/])(?P<month>[0-9]{1,2})(?P=dash)(?P<day>[0-9]{1,2})"
    r"(?:[Tt ]\s*(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})"
    r"(?P<fraction>\.[0-9]{1,9})?[0-9]*)?"
    r"\s*(?P<zone>[Zz]|UTC|GMT|(?P<sign>[+-])(?P<off>[0-9]{1,2}):?(?P<min>[0-9]{2})?)?)?"
)
_SHORT: Final = 64
"""Characters of a text that is worth remembering."""


def date_text(value: object, zone: str | None) -> str:
    """A lastmod for what a field holds; "" for what can't be told for certain, or is no date.

    Year first only: nobody can tell what 03/04/2021 means. A time without a zone is in `zone`
    ("Z" or "±hh:mm"); where none is set only its day is certain.
    """
    if isinstance(value, datetime | date):
        value = value.isoformat()
    if not isinstance(value, str):
        return ""
    return _read_again(value, zone) if len(value) <= _SHORT else _read(value, zone)


def _read(written: str, zone: str | None) -> str:
    match = _WRITTEN.fullmatch(written.strip())
    if match is None or match["year"] < "0002":  # 0001-01-01 is Go's way to say "not set"
        return ""
    text = f"{match['year']}-{match['month']:0>2}-{match['day']:0>2}"
    if match["hour"] is not None:
        offset = _offset(match, zone)
        if offset:
            text += f"T{match['hour']:0>2}:{match['minute']}:{match['second'] or '00'}"
            text += f"{match['fraction'] or ''}{offset}"
    try:
        return parse_lastmod(text).text or ""
    except Refused:
        return ""


_read_again: Final = lru_cache(maxsize=256)(_read)  # a page's date may be its lastmod and its beginning


def instant(value: object, zone: str | None) -> int:
    """When a field says that something begins or ends, in epoch milliseconds; 0 for no date.

    A day begins at its midnight in `zone`; where none is set, in UTC.
    """
    text = date_text(value, zone or "Z")
    if not text:
        return 0
    return written_ms(text if "T" in text else f"{text}T00:00:00{zone or 'Z'}")


written_ms: Final = lru_cache(maxsize=256)(instant_ms)
"""The epoch milliseconds of a lastmod, which several questions about one page ask for."""


def _offset(match: re.Match[str], zone: str | None) -> str | None:
    if match["zone"] is None:
        return zone
    if match["sign"] is None:
        return "Z"
    return f"{match['sign']}{match['off']:0>2}:{match['min'] or '00'}"

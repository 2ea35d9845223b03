"""Dates as people and databases write them → lastmod as a sitemap writes it, or none."""

from __future__ import annotations

import re
from datetime import date, datetime
from functools import lru_cache
from typing import Final, Literal

from sitemap_store.errors import Refused
from sitemap_store.model.dates import format_instant, instant_ms, parse_lastmod, zone_at

Kind = Literal["instant", "local", "day", "integer", "number", "text", "bytes", "none", "any"]
"""A column's. instant: with zone (or in UTC); local: without one; bytes: read as hex; none: has no text; any:
what the value itself looks like."""
Numbers = Literal["auto", "seconds", "milliseconds", "microseconds", "julian", "digits"]
"""What a number that is a date counts: since 1970 UTC, days of the Julian calendar, or its own digits."""

# Year first only: nobody can tell what 03/04/2021 means.
_WRITTEN: Final = re.compile(
    r"(?P<year>[0-9]{4})(?P<dash>[-/])(?P<month>[0-9]{1,2})(?P=dash)(?P<day>[0-9]{1,2})"
    r"(?:[Tt ]\s*(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})"
    r"(?:[.,](?P<fraction>[0-9]{1,9})[0-9]*)?)?"
    r"\s*(?:(?P<utc>[Zz]|UTC|GMT)|(?P<sign>[+-])(?P<off>[0-9]{1,2})(?::?(?P<min>[0-9]{2}))?)?)?"
)
_NUMBER: Final = re.compile(r"-?[0-9]{1,17}(?:\.[0-9]+)?")
_DIGITS: Final = re.compile(
    r"(?:19|20|21)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:(?:[01][0-9]|2[0-3])[0-5][0-9](?:[0-5][0-9])?)?"
)
"""YYYYMMDD, and hhmm or hhmmss behind it."""
_UTC_LENGTH: Final = len("2026-03-21 11:22:33+00")
_PER_SECOND: Final[dict[Numbers, int]] = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6}
_JULIAN_1970: Final = 2_440_587.5
_SHORT: Final = 64
"""Characters of a text that is worth remembering."""


class NoDate(Exception):
    """A value that gives no lastmod; says why in a few words."""


def lastmod_of_text(text: str, zone: str, *, or_day: bool = False) -> str:
    """The lastmod of a written date. Raises NoDate.

    An instant is kept exactly, fractions and all. `zone` is that of times without one, as for `zone_at`;
    where it is "", only their day is certain: that is the lastmod with `or_day`, and none without.
    """
    match = _WRITTEN.fullmatch(text.strip())
    if match is None or match["year"] < "0002":  # 0001-01-01 is Go's way to say "not set"
        raise NoDate(repr(text[:40]))
    written = day = f"{match['year']}-{match['month']:0>2}-{match['day']:0>2}"
    try:
        if match["hour"] is not None:
            fraction = (match["fraction"] or "").rstrip("0")
            time = f"{match['hour']:0>2}:{match['minute']}:{match['second'] or '00'}"
            time += f".{fraction}" if fraction else ""
            offset = _offset(match) or (zone and zone_at(day, time, zone))
            if offset:
                written = f"{day}T{time}{offset}"
            elif not or_day:
                raise NoDate(f"{text[:40]!r}, which has no zone, and no timezone is set")
        return parse_lastmod(written).text or ""
    except (ValueError, Refused) as error:
        raise NoDate(repr(text[:40])) from error


def date_text(value: object, zone: str | None) -> str:
    """A lastmod for what a front matter field holds; "" for what can't be told for certain, or is no date.

    A time without a zone is in `zone`; where none is set only its day is certain.
    """
    if isinstance(value, datetime | date):
        value = value.isoformat()
    if not isinstance(value, str):
        return ""
    return _read_again(value, zone) if len(value) <= _SHORT else _read(value, zone)


def _read(text: str, zone: str | None) -> str:
    try:
        return lastmod_of_text(text, zone or "", or_day=True)
    except NoDate:
        return ""


_read_again: Final = lru_cache(maxsize=256)(_read)  # a page's date may be its lastmod and its beginning


def instant(value: object, zone: str | None) -> int:
    """When a field says that something begins or ends, in epoch milliseconds; 0 for no date.

    A day begins at its midnight in `zone`; where none is set, in UTC.
    """
    text = date_text(value, zone or "Z")
    if not text:
        return 0
    return written_ms(text if "T" in text else date_text(f"{text}T00:00:00", zone or "Z"))


written_ms: Final = lru_cache(maxsize=256)(instant_ms)
"""The epoch milliseconds of a lastmod, which several questions about one page ask for."""


def lastmod_of(value: object, kind: Kind, zone: str, numbers: Numbers = "auto") -> str:
    """The lastmod of a column's value. Raises NoDate for NULL, zero dates, infinity and what is no date.

    `zone` is that of times without one ("": none is set); `numbers` says what numbers count.
    """
    if value is None:
        raise NoDate("NULL")
    if kind == "instant" and isinstance(value, str) and len(value) == _UTC_LENGTH and value.endswith("+00"):
        return f"{value[:10]}T{value[11:19]}Z"  # as PostgreSQL writes almost all of them
    if isinstance(value, int | float) or kind in ("integer", "number"):
        return _of_number(str(value), zone, numbers)
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if kind in ("text", "any") and _NUMBER.fullmatch(text):
        return _of_number(text, zone, numbers)
    return lastmod_of_text(text, "Z" if kind == "instant" else zone)


def _of_number(text: str, zone: str, numbers: Numbers) -> str:
    try:
        number = float(text)
        if numbers == "auto":
            numbers = _told_apart(number)
        if numbers == "digits":
            return _of_digits(str(int(number)), zone)
        if numbers == "julian":
            return format_instant(round((number - _JULIAN_1970) * 86_400_000))
        return format_instant(round(number / _PER_SECOND[numbers] * 1000))
    except (ValueError, OverflowError, Refused) as error:
        raise NoDate(repr(text[:40])) from error


def _told_apart(number: float) -> Numbers:
    """What a number counts, where no other reading is a date between 1970 and 2100. Raises NoDate."""
    if number == int(number) and _DIGITS.fullmatch(str(int(number))):
        return "digits"
    if 2_415_020 <= number < 2_488_434:  # 1900 to 2100
        return "julian"
    for numbers, scale in _PER_SECOND.items():
        if 10**8 <= number / scale < 4_102_444_800:  # 1973 to 2100
            return numbers
    raise NoDate(f"{number:g}, which may count anything: set lastmod_numbers")


def _of_digits(digits: str, zone: str) -> str:
    if not _DIGITS.fullmatch(digits):
        raise NoDate(digits)
    day = f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}"
    clock = digits[8:].ljust(6, "0")
    written = day if len(digits) == 8 else f"{day} {clock[:2]}:{clock[2:4]}:{clock[4:]}"
    return lastmod_of_text(written, zone)


def _offset(match: re.Match[str]) -> str:
    """The zone that is written: "Z" or "±hh:mm"; "" for none."""
    if match["sign"] is None:
        return "Z" if match["utc"] else ""
    offset = f"{match['sign']}{match['off']:0>2}:{match['min'] or '00'}"
    return "Z" if offset == "+00:00" else offset

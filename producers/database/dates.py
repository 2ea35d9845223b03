"""Dates as databases hold them → lastmod as a sitemap writes it."""

from __future__ import annotations

import re
from typing import Final, Literal

from sitemap_store.errors import Refused
from sitemap_store.model.dates import format_instant, parse_lastmod, zone_at

Kind = Literal["instant", "local", "day", "integer", "number", "text", "bytes", "none", "any"]
"""instant: with zone (or in UTC); local: without one; bytes: read as hex; none: has no text; any: what the
value itself looks like."""
Numbers = Literal["auto", "seconds", "milliseconds", "microseconds", "julian", "digits"]
"""What a number that is a date counts: since 1970 UTC, days of the Julian calendar, or its own digits."""

_TEXT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[ T]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9})[0-9]*)?)?"
    r" ?(Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_NUMBER: Final = re.compile(r"-?[0-9]{1,17}(?:\.[0-9]+)?")
_DIGITS: Final = re.compile(
    r"(?:19|20|21)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:(?:[01][0-9]|2[0-3])[0-5][0-9](?:[0-5][0-9])?)?"
)
"""YYYYMMDD, and hhmm or hhmmss behind it."""
_UTC_LENGTH: Final = len("2026-03-21 11:22:33+00")
_PER_SECOND: Final[dict[Numbers, int]] = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6}
_JULIAN_1970: Final = 2_440_587.5


class NoDate(Exception):
    """A value that gives no lastmod; says why in a few words."""


def lastmod_of(value: object, kind: Kind, zone: str, numbers: Numbers = "auto") -> str:
    """The lastmod of a column's value. Raises NoDate for NULL, zero dates, infinity and what is no date.

    An instant is kept exactly, fractions and all. `zone` is that of times without one ("": none is set);
    `numbers` says what numbers count.
    """
    if value is None:
        raise NoDate("NULL")
    if kind == "instant" and isinstance(value, str) and len(value) == _UTC_LENGTH and value.endswith("+00"):
        return f"{value[:10]}T{value[11:19]}Z"  # as PostgreSQL writes almost all of them
    if isinstance(value, int | float) or kind in ("integer", "number"):
        return _of_number(str(value), zone, numbers)
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    match = _TEXT.fullmatch(text)
    if match is None:
        if kind in ("text", "any") and _NUMBER.fullmatch(text):
            return _of_number(text, zone, numbers)
        raise NoDate(repr(text[:40]))
    day, clock, second, fraction, offset = match.groups()
    if clock is None:
        written = day
    else:
        fraction = (fraction or "").rstrip("0")
        time = f"{clock}:{second or '00'}{'.' + fraction if fraction else ''}"
        if offset is not None:
            written = f"{day}T{time}{_offset(offset)}"
        elif kind == "instant":
            written = f"{day}T{time}Z"
        elif zone:
            try:
                written = f"{day}T{time}{zone_at(day, time, zone)}"
            except (ValueError, Refused) as error:
                raise NoDate(repr(text[:40])) from error
        else:
            raise NoDate(f"{text[:40]!r}, which has no zone, and no timezone is set")
    try:
        return parse_lastmod(written).text or ""
    except Refused as refused:
        raise NoDate(repr(text[:40])) from refused


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
    if len(digits) == 8:
        return lastmod_of(day, "day", zone)
    clock = digits[8:].ljust(6, "0")
    return lastmod_of(f"{day} {clock[:2]}:{clock[2:4]}:{clock[4:]}", "local", zone)


def _offset(text: str) -> str:
    if text in ("Z", "UTC", "+00", "+00:00", "+0000"):
        return "Z"
    hours, minutes = text[:3], text[3:].lstrip(":")
    return f"{hours}:{minutes or '00'}"

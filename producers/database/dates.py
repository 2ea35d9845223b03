"""Dates as databases hold them → lastmod as a sitemap writes it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sitemap_store.errors import Refused
from sitemap_store.w3c import format_instant, parse_lastmod

Kind = Literal["instant", "local", "day", "integer", "number", "text", "bytes", "none", "any"]
"""instant: with zone (or in UTC); local: without one; bytes: read as hex; none: has no text; any: what the
value itself looks like."""

_TEXT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[ T]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9})[0-9]*)?)?"
    r" ?(Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_OFFSET: Final = re.compile(r"[+-](?:0[0-9]|1[0-4]):[0-5][0-9]")
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]+)?")
_UTC_LENGTH: Final = len("2026-03-21 11:22:33+00")
_MILLISECONDS: Final = 10**11
"""From here on a number counts milliseconds: in seconds it would be after the year 5000."""


class NoDate(Exception):
    """A value that gives no lastmod; says why in a few words."""


class Zone:
    """The zone of times that are stored without one: a name, "Z", "UTC" or "±hh:mm". Raises ValueError."""

    def __init__(self, name: str) -> None:
        self._fixed = "Z" if name in ("Z", "UTC") else name if _OFFSET.fullmatch(name) else ""
        if not self._fixed:
            try:
                self._zone = ZoneInfo(name)
            except (ZoneInfoNotFoundError, ValueError, OSError) as error:
                raise ValueError(f"{name!r} is no time zone that this machine knows.") from error

    def placed(self, day: str, time: str) -> str:
        """A local day and time with this zone's offset. An hour that comes twice is the first of them."""
        if self._fixed:
            return f"{day}T{time}{self._fixed}"
        offset = datetime.fromisoformat(f"{day}T{time[:8]}").replace(tzinfo=self._zone).utcoffset()
        assert offset is not None
        minutes, odd = divmod(offset, timedelta(minutes=1))
        if odd:  # before there were time zones; no sitemap can say it
            raise NoDate(f"{day} {time} has an offset with seconds")
        sign = "-" if minutes < 0 else "+"
        return f"{day}T{time}{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def lastmod_of(value: object, kind: Kind, zone: Zone | None) -> str:
    """The lastmod of a column's value. Raises NoDate for NULL, zero dates, infinity and what is no date.

    An instant is kept exactly, fractions and all. Numbers are seconds (or milliseconds) since 1970 UTC.
    """
    if value is None:
        raise NoDate("NULL")
    if kind == "instant" and isinstance(value, str) and len(value) == _UTC_LENGTH and value.endswith("+00"):
        return f"{value[:10]}T{value[11:19]}Z"  # as PostgreSQL writes almost all of them
    if isinstance(value, int | float) or kind in ("integer", "number"):
        return _of_number(str(value))
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    match = _TEXT.fullmatch(text)
    if match is None:
        if kind in ("text", "any") and _NUMBER.fullmatch(text):
            return _of_number(text)
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
        elif zone is not None:
            try:
                written = zone.placed(day, time)
            except ValueError as error:
                raise NoDate(repr(text[:40])) from error
        else:
            raise NoDate(f"{text[:40]!r}, which has no zone, and no timezone is set")
    try:
        return parse_lastmod(written).text or ""
    except Refused as refused:
        raise NoDate(repr(text[:40])) from refused


def _of_number(text: str) -> str:
    try:
        number = float(text)
        ms = number if abs(number) >= _MILLISECONDS else number * 1000
        return format_instant(round(ms))
    except (ValueError, OverflowError, Refused) as error:
        raise NoDate(repr(text[:40])) from error


def _offset(text: str) -> str:
    if text in ("Z", "UTC", "+00", "+00:00", "+0000"):
        return "Z"
    hours, minutes = text[:3], text[3:].lstrip(":")
    return f"{hours}:{minutes or '00'}"

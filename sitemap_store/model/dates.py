"""Dates as a sitemap writes them (W3C NOTE-datetime, narrowed to what the sitemap XSD takes)."""

import re
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sitemap_store.errors import BadSetting, Refused

_TIME: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?"
_ZONE: Final = r"(?:Z|[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00))"
# The 29th of February alone needs a calendar.
_DAY: Final = (
    r"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_SURE: Final = re.compile(rf"(?!0000)[0-9]{{4}}-{_DAY}(?:T{_TIME}{_ZONE})?")
_ANY: Final = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})"
    r"(?:T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(\.[0-9]{1,9})?)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})?)?)?)?"
)
_ZONE_ONLY: Final = re.compile(_ZONE)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MIDNIGHT: Final = "T00:00:00Z"


class ParsedDate(NamedTuple):
    """A lastmod as it is written (None: left out), and a sentence when something was lost."""

    text: str | None
    warning: str | None


def parse_lastmod(text: object, *, assume_zone: str | None = None) -> ParsedDate:
    """Return the lastmod to write for `text`: a date, or a dateTime with seconds and a zone.

    Years 0001 to 9999, seconds 00 to 59, fractions of 1 to 9 digits kept as given, zones "Z" or
    up to 14 hours from UTC. Missing seconds are completed. A year or a month alone is W3C but not
    XSD: no text, and a warning. A time without a zone takes `assume_zone` (as `zone_at` reads it).
    Raises Refused ("lastmod") for anything else, and BadSetting when `assume_zone` is no zone.
    Source: W3C NOTE-datetime; XSD dateTime and date as used by sitemap.xsd's tLastmod.
    """
    if isinstance(text, str) and _SURE.fullmatch(text):
        return tuple.__new__(ParsedDate, (text, None))  # half the time of ParsedDate(text, None)
    day, time, zone = _read(text)
    if day is None:
        warning = f"lastmod {text!r} names no day, which a sitemap needs; lastmod was left out."
        return ParsedDate(None, warning)
    if time and zone is None:
        if assume_zone is None:
            raise _refused(text, "has a time without a zone; add Z or +hh:mm, or set assume_timezone")
        zone = zone_at(day, time, assume_zone)
    return ParsedDate(f"{day}{time}{zone or ''}", None)


def is_full(text: str) -> bool:
    """Whether a lastmod needs nothing added and nothing checked."""
    return _SURE.fullmatch(text) is not None


def format_instant(ms: int, *, always_milliseconds: bool = False) -> str:
    """Write milliseconds since 1970 UTC as `YYYY-MM-DDThh:mm:ssZ`, with `.mmm` unless it is 000.

    With `always_milliseconds` it is there in any case, so that such texts sort as their times do.
    Raises Refused ("lastmod") outside the years 0001 to 9999.
    """
    try:
        moment = _EPOCH + ms * _MILLISECOND
    except OverflowError as error:
        detail = f"{ms} ms since 1970 is outside the years 0001 to 9999."
        raise Refused(loc="", rule="lastmod", detail=detail) from error
    text = moment.isoformat(timespec="milliseconds" if always_milliseconds or ms % 1_000 else "seconds")
    return text.removesuffix("+00:00") + "Z"


def zone_at(day: str, time: str, zone: str) -> str:
    """Return what a local time (`YYYY-MM-DD`, `[T]hh:mm:ss…`) has for a zone: "Z" or "±hh:mm".

    `zone` is that itself, "UTC", or a name such as Europe/Berlin. An hour that comes twice in autumn is the
    first of the two; one that spring leaves out has the offset from before it. Raises BadSetting when `zone`
    is none, and Refused ("lastmod") for an offset that a sitemap can't say (seconds, before about 1900).
    """
    if _ZONE_ONLY.fullmatch(zone):
        return zone
    offset = (
        datetime.fromisoformat(f"{day}T{time.removeprefix('T')[:8]}").replace(tzinfo=_named(zone)).utcoffset()
    )
    assert offset is not None
    minutes, odd = divmod(offset, timedelta(minutes=1))
    if odd:
        raise _refused(f"{day} {time}", "has an offset with seconds in its zone")
    if not minutes:
        return "Z"
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


@cache
def _named(zone: str) -> ZoneInfo:
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        detail = f"{zone!r} is no time zone that this machine knows."
        hint = 'Write a name such as "Europe/Berlin", "Z" or "+01:00".'
        raise BadSetting(setting="assume_timezone", detail=detail, hint=hint) from error


def instant_ms(text: object) -> int:
    """Return the milliseconds since 1970 UTC of a date (its midnight UTC) or a dateTime.

    Takes what `parse_lastmod` takes and returns; digits of a fraction after the third are cut.
    Raises Refused ("lastmod") for anything else, such as a year alone or a time without a zone.
    """
    written = parse_lastmod(text).text
    if written is None:
        raise _refused(text, "names no day, so it is no instant")
    # Only of what was parsed: alone it would take weeks, and times without a zone.
    moment = datetime.fromisoformat(written + _MIDNIGHT if len(written) == 10 else written)
    return (moment - _EPOCH) // _MILLISECOND


def _read(text: object) -> tuple[str | None, str, str | None]:
    """Return day, time with seconds ("": none) and zone; no day for a year or a month alone."""
    match = _ANY.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise _refused(text, "is not written as YYYY-MM-DD or YYYY-MM-DDThh:mm:ss+hh:mm")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        date(int(year), int(month or 1), int(day or 1))
    except ValueError as error:
        raise _refused(text, "names a day that no calendar has") from error
    if day is None:
        return None, "", None
    written = f"{year}-{month}-{day}"
    if hour is None:
        return written, "", None
    second = second or "00"
    if hour > "23" or minute > "59" or second > "59":
        raise _refused(text, "names a time outside 00:00:00 to 23:59:59")
    if zone and not _ZONE_ONLY.fullmatch(zone):
        raise _refused(text, "has a zone outside -14:00 to +14:00")
    return written, f"T{hour}:{minute}:{second}{fraction or ''}", zone


def _refused(text: object, wrong: str) -> Refused:
    if not isinstance(text, str):
        shown = f"of type {type(text).__name__}"
    else:
        shown = repr(text if len(text) <= 60 else text[:60] + "…")
    return Refused(loc="", rule="lastmod", detail=f"lastmod {shown} {wrong}.")

"""What a request's conditions come to: RFC 9110, sections 8.8 and 13 (preconditions) and 14 (ranges)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Literal, NamedTuple

_TAG = re.compile(r'\s*((?:W/)?"[^"]*")\s*(?:,|$)')
_RANGE = re.compile(r"bytes=\s*(\d{0,18})-(\d{0,18})\s*", re.IGNORECASE)
_QUALITY = re.compile(r"q=([01](?:\.\d{0,3})?)", re.IGNORECASE)


class Span(NamedTuple):
    """The bytes of a range, the last one included."""

    first: int
    last: int


def precondition(headers: Mapping[str, str], etag: str, modified: int) -> Literal[200, 304, 412]:
    """What a GET's or HEAD's preconditions make of it, in the order that RFC 9110, 13.2.2 gives.

    `etag` is the representation's strong one, `modified` its date in epoch seconds.
    """
    if (tags := headers.get("if-match")) is not None:
        if tags.strip() != "*" and etag not in _tags(tags):
            return 412
    elif (date := _date(headers.get("if-unmodified-since"))) is not None and modified > date:
        return 412
    if (tags := headers.get("if-none-match")) is not None:
        known = tags.strip() == "*" or etag in {tag.removeprefix("W/") for tag in _tags(tags)}
        return 304 if known else 200
    date = _date(headers.get("if-modified-since"))
    return 304 if date is not None and modified <= date else 200


def span(headers: Mapping[str, str], etag: str, modified: int, size: int, now: float) -> Span | str | None:
    """The one range that is asked for; None when the whole is to be sent; "none" when it lies outside.

    Several ranges, and what is no range of bytes, are left out of account, as a server may. If-Range
    by date counts only once the file can't have changed twice in its second (RFC 9110, 8.8.2.2).
    """
    found = _RANGE.fullmatch(headers.get("range", ""))
    if found is None or (not found[1] and not found[2]):
        return None
    if (condition := headers.get("if-range")) is not None:
        date = _date(condition) if '"' not in condition else None
        same_date = date is not None and int(date) == modified and now - modified >= 1
        if condition.strip() != etag and not same_date:
            return None
    if not found[1]:
        first, last = max(0, size - int(found[2])), size - 1
        return Span(first, last) if int(found[2]) and size else "none"
    first, last = int(found[1]), int(found[2]) if found[2] else size - 1
    if found[2] and last < first:
        return None
    return Span(first, min(last, size - 1)) if first < size else "none"


def takes_gzip(accepts: str) -> bool:
    """Whether an Accept-Encoding header allows gzip (RFC 9110, 12.5.3)."""
    allowed: dict[str, bool] = {}
    for part in accepts.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        quality = next((match[1] for each in parameters if (match := _QUALITY.fullmatch(each))), "1")
        allowed[name] = float(quality) > 0
    return allowed.get("gzip", allowed.get("x-gzip", allowed.get("*", False)))


def _tags(header: str) -> list[str]:
    return _TAG.findall(header[:8192])


def _date(header: str | None) -> float | None:
    if header is None:
        return None
    try:
        return parsedate_to_datetime(header).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None

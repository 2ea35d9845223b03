"""Events as lines of NDJSON. Values that JSON has no form for are converted, or refused with a sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final, Union
from uuid import UUID

LINE_MAX: Final = 1024 * 1024
"""Bytes that sitemapd takes as one event."""

Item = Union[str, Mapping[str, Any]]
"""An event as the wire format has it, such as {"op": "delete", "loc": …}, or the URL of an add."""


def event_line(op: str, loc: str, **fields: Any) -> str:
    """An event as a line; a field that is None counts as not given. Raises TypeError, ValueError."""
    return item_line({"op": op, "loc": loc, **fields})


def item_line(item: Item) -> str:
    """An item as a line, without its line feed. Raises TypeError, ValueError."""
    event: Mapping[str, Any] = {"op": "add", "loc": item} if isinstance(item, str) else item
    if not isinstance(event, Mapping):
        raise TypeError(f"an event is a mapping or the text of a URL, and not {event!r:.80}")
    loc = event.get("loc")
    if not isinstance(loc, str):
        raise TypeError(f"loc is text, and not {loc!r:.80}")
    given = {name: value for name, value in event.items() if value is not None}
    try:
        line = json.dumps(given, default=_plain, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise ValueError(
            f"the event of {loc!r:.200} nests too deep: send a list or a mapping within another at most"
        ) from None
    except (TypeError, ValueError) as error:
        raise type(error)(f"the event of {loc!r:.200} can't be sent: {error}") from error
    if len(line) > LINE_MAX:
        raise ValueError(f"the event of {loc!r:.200} has {len(line)} bytes; sitemapd takes {LINE_MAX}")
    return line


def dated_line(line: str, called: float) -> str:
    """The line of an event with the time of its call (epoch seconds) as `at`, unless it has an `at`."""
    if '"at":' in line and "at" in json.loads(line):
        return line
    at = datetime.fromtimestamp(called, timezone.utc).isoformat(timespec="milliseconds")
    return f'{line[:-1]},"at":"{at}"}}'


def loc_of(line: str) -> str:
    """The URL of a line that `event_line` made."""
    return str(json.loads(line)["loc"])


def _plain(value: object) -> object:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r:.80} is a {type(value).__name__}, which has no form in JSON")

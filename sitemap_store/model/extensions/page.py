"""The page whose extensions are checked, and the values that several extensions share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sitemap_store.errors import Refused
from sitemap_store.model.addresses import normalise_anywhere
from sitemap_store.model.dates import parse_lastmod
from sitemap_store.model.protocol import CURRENT

WARNINGS: Final = 20
"""Sentences about one event's extensions; what is beyond is counted."""

# What XML 1.0 can't hold.
_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_SPACE: Final = re.compile("[ \t\r\n]+")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_YES_NO: Final[Mapping[object, str]] = {True: "yes", False: "no"}


@dataclass(slots=True, kw_only=True)
class Page:
    """What the extensions of one URL are checked against, and the warnings that come of it."""

    loc: str
    now: int
    """Epoch milliseconds."""
    lang: str | None = None
    """The hreflang of the page itself, where the event says it."""
    zone: str | None = None
    """The zone of times that name none; None: they are wrong."""
    title_max: int = CURRENT.video_title_max
    """Characters of a video's title."""
    _said: dict[str, None] = field(init=False, default_factory=dict)

    def warn(self, sentence: str) -> None:
        """Keep a warning; the same one once."""
        self._said[sentence] = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences in their order; of very many the first, and how many more there are."""
        said = tuple(self._said)
        more = len(said) - WARNINGS
        return said if more <= 0 else (*said[:WARNINGS], f"{more} more extension values were left out.")


Read = Callable[[Any, Page], Any]
"""Reads one field: its value in the form that is stored. Raises Refused for a wrong one."""


def as_list(value: object) -> list[object]:
    """A single value counts as a list of one."""
    return value if isinstance(value, list) else [value]


def read_object(
    value: Mapping[str, object],
    known: Mapping[str, Read],
    dropped: frozenset[str],
    name: str,
    page: Page,
) -> dict[str, Any]:
    """Read an object's fields in the order of `known`. A wrong one is left out with a warning, so is what
    search engines ignore (`dropped`) and what nobody knows."""
    for key in value:
        if key not in known:
            why = "search engines ignore it" if key in dropped else f"known are {', '.join(known)}"
            page.warn(f"{name}: the field {shown(key)} was left out: {why}.")
    found: dict[str, Any] = {}
    for key, read in known.items():
        if (raw := value.get(key)) is None:
            continue
        try:
            found[key] = read(raw, page)
        except Refused as refused:
            page.warn(f"{name}: {key} was left out: {refused.detail}")
    return found


def read_text(value: object, page: Page, most: int | None = None) -> str:
    """Text without white space around it, and with single spaces within. Raises Refused."""
    if not isinstance(value, str):
        raise wrong(value, "is no text")
    if found := _FORBIDDEN.search(value):
        raise wrong(value, f"holds U+{ord(found[0]):04X}, which XML can't; take it out")
    text = _SPACE.sub(" ", value).strip(" ")
    if not text.strip():
        raise wrong(value, "is empty")
    if most is not None and len(text) > most:
        raise wrong(value, f"has {len(text):,} characters; {most:,} are the most")
    return text


def read_url(value: object, page: Page) -> str:
    """An absolute http or https URL of any host in its normal form, without a fragment. Raises Refused."""
    if not isinstance(value, str):
        raise wrong(value, "is no URL as text")
    loc, warnings = normalise_anywhere(value)
    for warning in warnings:
        page.warn(warning)
    return loc


def read_count(value: object, least: int, most: int) -> int:
    """A whole number, as JSON's or as text. Raises Refused."""
    text = str(value) if type(value) is int and abs(value) < 10**18 else value
    if isinstance(text, str) and _NUMBER.fullmatch(text) and least <= int(text) <= most:
        return int(text)
    raise wrong(value, f"is no whole number from {least:,} to {most:,}")


def read_date(value: object, page: Page) -> str:
    """A date with a day, or with time and zone, as a lastmod is written. Raises Refused."""
    if not isinstance(value, str):
        raise wrong(value, "is no date as text, such as 2026-03-21")
    try:
        text = parse_lastmod(value, assume_zone=page.zone).text
    except Refused as refused:
        raise Refused(loc="", rule="ext", detail=refused.detail.removeprefix("lastmod ")) from refused
    if text is None:
        raise wrong(value, "names no day; write it as 2026-03-21")
    return text


def read_yes_no(value: object, page: Page) -> str:
    """`yes` or `no`, of true, false or these words in any case. Raises Refused."""
    text = _YES_NO[value] if isinstance(value, bool) else value.lower() if isinstance(value, str) else ""
    if text not in ("yes", "no"):
        raise wrong(value, "is neither yes nor no")
    return text


def wrong(value: object, rule: str) -> Refused:
    """The refusal of one value."""
    return Refused(loc="", rule="ext", detail=f"{shown(value)} {rule}.")


def shown(value: object) -> str:
    """A value as a sentence quotes it: ASCII, 80 characters at the most."""
    if isinstance(value, int) and abs(value) > 10**30:
        return "a number of more than 30 digits"  # Python writes no int of thousands of digits
    text = ascii(value[:80] if isinstance(value, str) else value)
    return text if len(text) <= 80 else text[:77] + "..."

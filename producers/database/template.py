"""The template of a row's address.

1. `{column}` is percent-encoded as one path segment, or as a part of one. `{column:raw}` keeps slashes,
   and loses a slash at its start where the template has one before it. `{column:encoded}` holds
   percent-encoded text already.
2. After a `?` the characters that part a query (`& = + ;`) are encoded too.
3. A value that is NULL makes no address, and neither does an empty one, unless it is raw.
4. Unlike values make unlike addresses (`ambiguity` finds templates that can't promise that), but for the
   few ways in which one value may be written (`spellings`). So rows are looked up by the values that the
   database wrote, and nothing is ever read off an address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from string import Formatter
from typing import Final, NamedTuple

from sitemap_store.errors import Refused
from sitemap_store.model.urls import quote_segment

FORMS: Final = ("", "raw", "encoded")
_LITERAL: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-F]{2})*")
_PARTING: Final = str.maketrans({"&": "%26", "=": "%3D", "+": "%2B", ";": "%3B"})
_DOTS: Final = re.compile(r"/\.\.?(?:/|\?|$)")
_TRIPLET: Final = re.compile(r"%[0-9A-Fa-f]{2}")


class Part(NamedTuple):
    """What comes before a placeholder, and the placeholder."""

    literal: str
    place: int
    """Which of the columns."""
    form: str
    """"", raw or encoded."""
    in_query: bool
    after_slash: bool


class Template:
    """A parsed template. Raises ValueError with a sentence."""

    def __init__(self, text: str) -> None:
        if not text.startswith("/"):
            raise ValueError(f"{text!r} must begin with a slash, such as /products/{{slug}}.")
        try:
            parsed = list(Formatter().parse(text))
        except ValueError as error:
            raise ValueError(f"{text!r} has a brace without its partner ({error}).") from error
        names: list[str] = []
        parts: list[Part] = []
        tail, in_query = "", False
        for literal, name, form, conversion in parsed:
            if not _LITERAL.fullmatch(literal):
                raise ValueError(f"{literal!r} in {text!r} has a character that must be percent-encoded.")
            in_query = in_query or "?" in literal
            if name is None:
                tail = literal
                continue
            if not name or conversion or form not in FORMS:
                known = "{column}, {column:raw} and {column:encoded}"
                raise ValueError(f"{text!r} has a placeholder that is none of {known}.")
            if name not in names:
                names.append(name)
            parts.append(Part(literal, names.index(name), form or "", in_query, literal.endswith("/")))
        if not parts:
            raise ValueError(f"{text!r} gives all rows one address; name a column, such as {{slug}}.")
        # The slash at the start is the end of the site's base.
        self.parts = (parts[0]._replace(literal=parts[0].literal[1:]), *parts[1:])
        self.columns = tuple(names)
        self._tail = tail
        self._loose = [
            part for part in self.parts if part.form == "encoded" or (part.form == "raw" and part.after_slash)
        ]

    def path(self, values: Sequence[object]) -> str | None:
        """The address below the base of a row with these values of `columns`; None: it has none.

        Raises Refused for one that would be another page's: a segment that is a dot or two.
        """
        found: list[str] = []
        for literal, place, form, in_query, after_slash in self.parts:
            value = values[place]
            if value is None:
                return None
            text = text_of(value)
            if form == "raw":
                text = "/".join(map(quote_segment, text.removeprefix("/" if after_slash else "").split("/")))
            elif not text:
                return None
            elif form == "encoded":
                text = _encoded(text)
            else:
                text = quote_segment(text)
            if in_query:
                text = text.translate(_PARTING)
            found += literal, text
        path = "".join(found) + self._tail
        if _DOTS.search("/" + path):
            detail = f"{path[:120]!r} has a segment of dots, which would be the address of another page."
            raise Refused(loc="", rule="dot-segment", detail=detail)
        return path

    def spellings(self, values: tuple[object, ...]) -> Iterator[tuple[object, ...]]:
        """These values, and others that make the same address: a raw value with and without its slash."""
        if not self._loose:
            return iter((values,))
        several = [[value] for value in values]
        for part in self._loose:
            value = values[part.place]
            if isinstance(value, str):
                several[part.place] += _spellings(value, part.form)
        return product(*several)

    def ambiguity(self, kinds: Mapping[str, str]) -> str:
        """A sentence on how two rows of unlike values make one address; empty when they can't.

        The values are read off an address from its left as long as what follows each can't be in it, and from
        its right likewise: at most one is left between. `kinds` (column → kind) tells numbers from text.
        """
        if len(self.columns) == 1:
            return ""
        first, last = 0, len(self.parts) - 1
        known: set[int] = set()
        while first < last and (self.parts[first].place in known or self._ends(first, first + 1, kinds)):
            known.add(self.parts[first].place)
            first += 1
        while last > first and (self.parts[last].place in known or self._ends(last, last, kinds)):
            known.add(self.parts[last].place)
            last -= 1
        if first == last:
            return ""
        one, other = (self.columns[self.parts[at].place] for at in (first, first + 1))
        return (
            f"lets two rows make one address: nothing tells where {{{one}}} ends and {{{other}}} begins. "
            "Put a slash between them, or let one column of the database hold both."
        )

    def _ends(self, at: int, literal: int, kinds: Mapping[str, str]) -> bool:
        """Whether the literal before a part has a character that the value of another can't have."""
        part, between = self.parts[at], self.parts[literal].literal
        kind = kinds.get(self.columns[part.place], "")
        if kind == "integer":  # a negative one would be odd enough to be left to the comparison
            return not between.isdigit() and bool(between)
        stops = "?" if part.form == "raw" else "/?"
        return kind == "uuid" or any(char in between for char in stops + "&=+;" * part.in_query)


def _encoded(text: str) -> str:
    """Percent-encoded text with its hex in capitals. Raises Refused where a % stands alone."""
    if "%" in _TRIPLET.sub("", text):
        raise Refused(
            loc="",
            rule="encoding",
            detail=f"{text[:120]!r} has a % that begins no %xx, and its column is :encoded.",
        )
    pieces = _TRIPLET.split(text)
    triplets = [triplet.upper() for triplet in _TRIPLET.findall(text)]
    return "".join(
        quote_segment(piece) + triplet for piece, triplet in zip(pieces, [*triplets, ""], strict=True)
    )


def _spellings(text: str, form: str) -> list[str]:
    if form == "raw":
        return [text[1:] if text.startswith("/") else "/" + text]
    upper = _TRIPLET.sub(lambda found: found[0].upper(), text)
    lower = _TRIPLET.sub(lambda found: found[0].lower(), text)
    return [each for each in dict.fromkeys((upper, lower)) if each != text]


def text_of(value: object) -> str:
    """A database value as it stands in an address. Raises Refused for bytes that are no UTF-8."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    text = str(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Refused(loc="", rule="not-utf-8", detail=f"{shown(value)} is no valid UTF-8.") from error
    return text


def shown(value: object) -> str:
    """A value for people, whatever it holds."""
    text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
    return text[:80].encode("utf-8", "backslashreplace").decode().replace("\\udc", "\\x")

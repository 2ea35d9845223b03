"""The template of a row's address, and the way back: which values make an address.

1. `{column}` is percent-encoded as one path segment, or as a part of one. `{column:raw}` keeps slashes,
   and loses a slash at its start where the template has one before it.
2. After a `?` the characters that part a query (`& = + ;`) are encoded too.
3. A value that is NULL makes no address, and neither does an empty one, unless it is raw.
4. Several rows may make one address: `{a}-{b}` with x, y-z and with x-y, z. So `values` gives every
   way to read an address.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from string import Formatter
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

from sitemap_store.errors import Refused
from sitemap_store.urls import UrlRules, quote_segment

MOST: Final = 64
"""Ways to read one address that are looked at."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@-]+")
_PLAIN_IN_QUERY: Final = re.compile(r"[A-Za-z0-9._~!$'()*,:@-]+")
_LITERAL: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-F]{2})*")
_PARTING: Final = str.maketrans({"&": "%26", "=": "%3D", "+": "%2B", ";": "%3B"})
_DOTS: Final = re.compile(r"/\.\.?(?:/|\?|$)")


class Part(NamedTuple):
    """What comes before a placeholder, and the placeholder."""

    literal: str
    place: int
    """Which of the columns."""
    raw: bool
    in_query: bool


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
            if not name or conversion or form not in ("", "raw"):
                raise ValueError(f"{text!r} has a placeholder that is neither {{column}} nor {{column:raw}}.")
            if name not in names:
                names.append(name)
            parts.append(Part(literal, names.index(name), form == "raw", in_query))
        if not parts:
            raise ValueError(f"{text!r} gives all rows one address; name a column, such as {{slug}}.")
        # The slash at the start is the end of the site's base.
        self.parts = (parts[0]._replace(literal=parts[0].literal[1:]), *parts[1:])
        self.columns = tuple(names)
        self._tail = tail
        stops = ("/", "?", "&")
        self.is_unambiguous = not any(part.raw for part in parts) and all(
            any(stop in part.literal for stop in stops) for part in parts
        )
        """Whether no two rows of unlike values make one address."""

    def path(self, values: Sequence[object]) -> str | None:
        """The address below the base of a row with these values of `columns`; None: it has none.

        Raises Refused for one that would be another page's: a segment that is a dot or two.
        """
        found = []
        for literal, place, raw, in_query in self.parts:
            value = values[place]
            if value is None:
                return None
            text = text_of(value)
            if raw:
                text = "/".join(map(quote_segment, self._relative(literal, place, text).split("/")))
            elif not text:
                return None
            elif not (_PLAIN_IN_QUERY if in_query else _PLAIN).fullmatch(text):
                text = quote_segment(text)
            if in_query:
                text = text.translate(_PARTING)
            found.append(literal)
            found.append(text)
        found.append(self._tail)
        path = "".join(found)
        if (path.startswith(".") or "/." in path) and _DOTS.search("/" + path):
            detail = f"{path[:120]!r} has a segment of dots, which would be the address of another page."
            raise Refused(loc="", rule="dot-segment", detail=detail)
        return path

    def quick(self, rules: UrlRules) -> Callable[[Sequence[object]], str | None]:
        """A function that gives the normalised URL of plain values, and None for all others.

        Almost all values are texts that need no encoding, and that make no segment of dots. What `path` and
        `normalise` find of the template with one such text holds for every other: their URLs are only joined.
        """
        width = len(self.columns)
        form = "%s".join(text.replace("%", "%%") for text in self._literals(rules.base))
        probe = form % (("x",) * len(self.parts))
        room = (rules.limits.loc_max - len(probe)) // width + 1
        once_each = [part.place for part in self.parts] == list(range(width))
        if not once_each or room < 1 or "/." in probe or not rules.is_plain(probe):
            return lambda values: None
        plain = re.compile("\n".join(_plain(part, room) for part in self.parts)).fullmatch
        if width > 1:

            def of_several(values: Sequence[Any]) -> str | None:
                found = tuple(values[:width])
                try:
                    return form % found if plain("\n".join(found)) else None
                except TypeError:  # NULL, a number
                    return None

            return of_several
        head, tail = self._literals(rules.base)

        def of_one(values: Sequence[object]) -> str | None:
            value = values[0]
            return f"{head}{value}{tail}" if isinstance(value, str) and plain(value) else None

        return of_one

    def _literals(self, base: str) -> list[str]:
        """What stands before, between and after the values."""
        first, *others = (part.literal for part in self.parts)
        return [base + first, *others, self._tail]

    def values(self, path: str) -> list[tuple[str, ...]]:
        """The values of `columns` that make this address below the base."""
        found: dict[tuple[str, ...], None] = {}
        for several in self._read(path, 0, {}):
            found.setdefault(tuple(several[place] for place in range(len(self.columns))))
            if len(found) >= MOST:
                break
        return list(found)

    def _relative(self, literal: str, place: int, text: str) -> str:
        follows_slash = literal.endswith("/") or (not literal and self.parts[0].place == place)
        return text.removeprefix("/") if follows_slash else text

    def _ends(self, rest: str, at: int, longest: int) -> Iterable[int]:
        """Where the value of a placeholder may end."""
        if at + 1 == len(self.parts):
            end = len(rest) - len(self._tail)
            return (end,) if end <= longest and rest.endswith(self._tail) else ()
        following = self.parts[at + 1].literal
        return (end for end in range(longest, -1, -1) if rest.startswith(following, end))

    def _read(self, rest: str, at: int, known: dict[int, str]) -> Iterator[dict[int, str]]:
        if at == len(self.parts):
            if rest == self._tail:
                yield known
            return
        literal, place, raw, in_query = self.parts[at]
        if not rest.startswith(literal):
            return
        rest = rest[len(literal) :]
        stops = "&" if in_query else "?" if raw else "/?"
        longest = min((rest.find(stop) for stop in stops if stop in rest), default=len(rest))
        for end in self._ends(rest, at, longest):
            if end < (0 if raw else 1):
                continue
            try:
                text = unquote_to_bytes(rest[:end]).decode()
            except UnicodeDecodeError:
                continue
            spellings = [text]
            if raw and self._relative(literal, place, "/") == "":
                spellings.append("/" + text)
            for spelling in spellings:
                if known.get(place, spelling) == spelling:
                    yield from self._read(rest[end:], at + 1, {**known, place: spelling})


def _plain(part: Part, longest: int) -> str:
    """The pattern of a value that stands in an address as it is, up to a length."""
    some = (_PLAIN_IN_QUERY if part.in_query else _PLAIN).pattern.strip("[]+")
    if part.raw:
        return rf"(?![./])(?!.*/\.)[/{some}]{{1,{longest}}}(?<!/)"
    return rf"(?!\.)[{some}]{{1,{longest}}}"


def text_of(value: object) -> str:
    """A database value as it stands in an address."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return str(value)

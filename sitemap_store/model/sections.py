"""Which section a URL belongs to: glob patterns over its path, the most specific one wins.

1. `*` is any run of characters within a segment, `**` any run across segments; both may be
   empty, so `/products/**` holds `/products/`. Every other character stands for itself, spelled
   as `normalise` spells URLs: `/über/` in a pattern is `/%C3%BCber/`.
2. A pattern with a `?` is matched against path, `?` and query, where its first `?` is the one
   that starts the query. A pattern without is matched against the path, whatever the query.
3. More literal characters win, then fewer `**`, then fewer `*`. Two patterns of different
   sections that are equal in all three and can match one path are a mistake in the settings.

All patterns become one regular expression, most specific first. Its wildcards give nothing back
once their following literal is found (the first place is always good enough, as for any glob),
so a URL made to be slow costs no more than its length times that of the patterns' pieces.
"""

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, combinations, groupby
from typing import Final, NamedTuple

from sitemap_store.errors import BadSetting, Refused
from sitemap_store.model.urls import UrlRules, normalise

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*(?:-[a-z0-9_]+)*")
_NAME_MAX: Final = 40
_WILDCARDS: Final = re.compile(r"(\*+)")
_ONE: Final = "*"
_ANY: Final = "**"
# Patterns are spelled by the same rules as URLs, in which "*" is an ordinary character.
_HOST: Final = "https://example.com"
_RULES: Final = UrlRules(base=_HOST + "/")


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionRule:
    """A section's name and the patterns of the URLs that it holds."""

    name: str
    patterns: tuple[str, ...]


class _Glob(NamedTuple):
    """One pattern: its section, its text, and its tokens (literal runs, `*`, `**`)."""

    section: str
    text: str
    path: tuple[str, ...]
    query: tuple[str, ...] | None

    def rank(self) -> tuple[int, int, int]:
        """Sort key; the smallest is the most specific."""
        tokens = self.path if self.query is None else (*self.path, "?", *self.query)
        literals = sum(len(token) for token in tokens if token not in (_ONE, _ANY))
        return -literals, tokens.count(_ANY), tokens.count(_ONE)


class Sections:
    """The sections of one site.

    Raises BadSetting (`sections.<name>.match`) for a name that is no section's name or over 40
    characters, a section without patterns other than `default`, a pattern that does not start
    with "/" or could stand in no URL, and patterns of two sections that are equal, or
    overlap while neither is more specific.
    """

    __slots__ = ("_match", "_sections", "default", "names", "rules")

    def __init__(self, rules: Iterable[SectionRule], default: str = "pages") -> None:
        rules = tuple(rules)
        self.rules: Final = rules
        self.default: Final = default
        self.names: Final = tuple(dict.fromkeys((*(rule.name for rule in rules), default)))
        for name in self.names:
            _check_name(name)
        for rule in rules:
            if not rule.patterns and rule.name != default:
                raise _bad(rule.name, "has no pattern.", 'Write one, such as "/products/**".')
        globs = sorted(
            {_glob(rule.name, pattern) for rule in rules for pattern in rule.patterns},
            key=lambda glob: (glob.rank(), glob),
        )
        _check_overlaps(globs)
        self._sections = (default, *(glob.section for glob in globs))
        # The empty group that ends an alternative tells by its number which one matched.
        expression = "|".join(f"{_expression(glob)}()" for glob in globs)
        self._match = re.compile(expression, re.DOTALL).match if globs else None

    def find(self, loc: str) -> str:
        """Return the name of the section that holds `loc`, a normal absolute URL."""
        if self._match is None:
            return self.default
        found = self._match(loc, loc.find("/", 8))
        return self._sections[found.lastindex or 0] if found else self.default


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _NAME_MAX:
        raise _bad(
            name,
            f"{name!r} is no section name.",
            f"Use at most {_NAME_MAX} of a-z, 0-9, _ and single dashes, beginning with a letter.",
        )


def _glob(section: str, pattern: str) -> _Glob:
    if not pattern.startswith("/"):
        hint = f'Write it from the root of the host, such as "/{pattern}".'
        raise _bad(section, f"the pattern {pattern!r} does not start with a slash.", hint)
    try:
        normal = normalise(_HOST + pattern.replace("#", "%23"), _RULES).loc
    except Refused as refused:
        hint = "Write it as it stands in a URL."
        raise _bad(section, f"the pattern {pattern!r} fits no URL.", hint) from refused
    path, mark, query = normal.removeprefix(_HOST).partition("?")
    return _Glob(section, pattern, _tokens(path), _tokens(query) if mark else None)


def _tokens(text: str) -> tuple[str, ...]:
    parts = _WILDCARDS.split(text)
    return tuple(_ANY if part.startswith(_ANY) else part for part in parts if part)


def _expression(glob: _Glob) -> str:
    if glob.query is not None:
        path = _piecewise(glob.path, within="[^/?]", across="[^?]", end=r"\?")
        return path + _piecewise(glob.query, within="[^/]", across=".", end=r"\Z")
    if glob.path[-1] == _ANY:
        # What follows is free, so it need not be read. No URL has a "?" before its path's end.
        return _piecewise(glob.path[:-1], within="[^/?]", across="[^?]", end="")
    return _piecewise(glob.path, within="[^/?]", across="[^?]", end=r"(?:\?|\Z)")


def _piecewise(tokens: tuple[str, ...], *, within: str, across: str, end: str) -> str:
    """Build the expression of `tokens` and `end`, atomic from each wildcard to what it waits for.

    A `*` waits for the literal after it; a `**` waits for all pieces up to the next `**`.
    """
    pieces: list[list[str]] = [[]]
    for token in tokens:
        if token == _ANY:
            pieces.append([])
        else:
            pieces[-1].append(token)
    written = [_piece(piece, within=within, end="") for piece in pieces[:-1]]
    written.append(_piece(pieces[-1], within=within, end=end))
    return written[0] + "".join(f"(?>{across}*?{piece})" for piece in written[1:])


def _piece(tokens: list[str], *, within: str, end: str) -> str:
    if _ONE not in tokens:
        return "".join(map(re.escape, tokens)) + end
    *_, last = tokens
    written = ""
    waiting = False
    for number, token in enumerate(tokens):
        if token == _ONE:
            waiting = True
            continue
        # Before the end the first place may be too early, so the end belongs to what is found.
        sought = re.escape(token) + (end if number == len(tokens) - 1 else "")
        written += f"(?>{within}*?{sought})" if waiting else sought
        waiting = False
    return written + (f"(?>{within}*?{end})" if last == _ONE else "")


def _check_overlaps(globs: list[_Glob]) -> None:
    """Refuse two patterns that could claim one path equally; `globs` are in order of rank."""
    equals = (combinations(group, 2) for _, group in groupby(globs, key=_Glob.rank))
    for one, other in chain.from_iterable(equals):
        if one.section == other.section:
            continue
        if (one.path, one.query) == (other.path, other.query):
            detail = f"the pattern {other.text!r} is also in section {one.section}."
            raise _bad(other.section, detail, "Leave it in one of them.")
        example = _shared(one.path, other.path)
        queries = [glob.query for glob in (one, other) if glob.query is not None]
        if example is not None and queries:
            query = _shared(queries[0], queries[-1])
            example = None if query is None else f"{example}?{query}"
        if example is not None:
            detail = (
                f"overlapping sections: {other.text!r} here and {one.text!r} in section "
                f"{one.section} are equally specific, and both match {example}"
            )
            raise _bad(other.section, detail, "Make one of them more specific.")


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> str | None:
    """Return a text that both token lists match, or None when there is none.

    Walks the pairs of positions in the two, where a wildcard either ends or takes the literal
    character that the other one needs next.
    """
    left, right = _units(one), _units(other)
    texts = {(0, 0): ""}
    waiting = deque(texts)
    while waiting:
        i, j = waiting.popleft()
        text = texts[i, j]
        if i == len(left) and j == len(right):
            return text
        a = left[i] if i < len(left) else ""
        b = right[j] if j < len(right) else ""
        steps: list[tuple[int, int, str]] = []
        if _is_wildcard(a):
            steps.append((i + 1, j, ""))
        if _is_wildcard(b):
            steps.append((i, j + 1, ""))
        if _takes(a, b):
            steps.append((i, j + 1, b))
        if _takes(b, a):
            steps.append((i + 1, j, a))
        if a and a == b and not _is_wildcard(a):
            steps.append((i + 1, j + 1, a))
        for to_i, to_j, character in steps:
            if (to_i, to_j) not in texts:
                texts[to_i, to_j] = text + character
                waiting.append((to_i, to_j))
    return None


def _units(tokens: tuple[str, ...]) -> list[str]:
    units: list[str] = []
    for token in tokens:
        units.extend([token] if token in (_ONE, _ANY) else token)
    return units


def _is_wildcard(unit: str) -> bool:
    return unit in (_ONE, _ANY)


def _takes(unit: str, character: str) -> bool:
    if not character or _is_wildcard(character):
        return False
    return unit == _ANY or (unit == _ONE and character != "/")


def _bad(section: str, detail: str, hint: str) -> BadSetting:
    return BadSetting(setting=f"sections.{section}.match", detail=detail, hint=hint)

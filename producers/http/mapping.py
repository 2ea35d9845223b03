"""Webhook mappings: rules that make events of another system's JSON.

A rule looks at the payload (`when`), picks what it is about (`each`, `match`) and fills templates::

    each = "/commits/*/added/*"        match = "content/(.+)[.]md"
    op = "add"                         loc = "/{1:path}/"

In a template `{/a/b}` is a JSON Pointer (RFC 6901) into the payload, `{.}` and `{./a}` into what `each`
picked, `{1}` a group of `match`. A value is one segment of the URL's path, unless `:path` stands behind.
What one element gives comes before what the next one does, whatever the order of the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urljoin

from sitemap_store.errors import Refused

MISSING: Final = object()
Pointer = tuple[str, ...]


def pointer(text: str) -> Pointer:
    """Read a pointer; "" is the whole. Raises ValueError."""
    if text and not text.startswith("/"):
        raise ValueError(f"{text!r} is no JSON Pointer: it begins with /")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])


def follow(value: Any, path: Pointer) -> Any:
    """What a pointer leads to; MISSING when there is nothing."""
    for part in path:
        if isinstance(value, dict):
            value = value.get(part, MISSING)
        elif isinstance(value, list) and part.isdecimal() and part.isascii() and len(part) < 10:
            value = value[int(part)] if int(part) < len(value) else MISSING
        else:
            return MISSING
    return value


def each(value: Any, path: Pointer) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Everything that a pointer with `*` leads to, with the places in the arrays on the way."""
    if "*" not in path:
        found = follow(value, path)
        if found is not MISSING:
            yield (), found
        return
    star = path.index("*")
    array = follow(value, path[:star])
    if isinstance(array, list):
        for place, element in enumerate(array):
            for places, found in each(element, path[star + 1 :]):
                yield (place, *places), found


EVENTS_MAX: Final = 10_000
"""Events of one webhook."""
ANY: Final = "*"
"""In `when`: whatever it is, if it is there."""

_PATH: Final = ":path"
_ENCODED_DOT: Final = re.compile("%2e", re.IGNORECASE)
_REFERENCE: Final = re.compile(r"\{([^{}]*)\}")


class Reference(NamedTuple):
    """One `{…}`: where it looks ("payload", "item", "group"), and what for."""

    where: str
    path: Pointer
    text: str
    is_path: bool = False
    """Whether its value may be several segments of a path: `{/slug:path}`."""


@dataclass(frozen=True, slots=True)
class Template:
    """Literal texts and references in turn."""

    parts: tuple[str | Reference, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Read a template. Raises ValueError."""
        literals = _REFERENCE.split(text)
        parts = [part if n % 2 == 0 else _reference(part) for n, part in enumerate(literals)]
        if any(isinstance(part, str) and ("{" in part or "}" in part) for part in parts):
            raise ValueError(f"{text!r} has a brace without its other half")
        return cls(tuple(part for part in parts if part != ""))

    @property
    def groups(self) -> int:
        """The highest group that it refers to."""
        numbers = [int(p.path[0]) for p in self.parts if isinstance(p, Reference) and p.where == "group"]
        return max(numbers, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How a part of a payload becomes events."""

    op: str
    loc: Template | None
    """None: a delete of all that the key has."""
    key: Template | None = None
    """What the sender calls the thing that the URL is of, whatever URL that has."""
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """JSON Pointer, or name of a header → the values that it may have."""
    each: Pointer = ()
    match: re.Pattern[str] | None = None
    others: Mapping[str, Template] = field(default_factory=dict)
    """Templates of lastmod, changefreq, priority, at."""


class _Scope(NamedTuple):
    payload: Any
    item: Any
    groups: tuple[str | None, ...]


def items(
    rules: tuple[Rule, ...], payload: Any, headers: Mapping[str, str], base: str
) -> list[dict[str, Any] | Refused]:
    """The wire events of a payload, or refusals where something that a URL needs is missing.

    A `loc` that begins with / is on the host of `base`. An event of a rule with a key has it as `key`, and
    one that deletes whatever the key has has no `loc`. At most EVENTS_MAX and one more are made.
    """
    found: list[tuple[int, int, tuple[int, ...], dict[str, Any] | Refused]] = []
    for number, rule in enumerate(rules):
        if not _holds(rule, payload, headers):
            continue
        for places, item in each(payload, rule.each):
            groups: tuple[str | None, ...] = ()
            if rule.match is not None:
                matched = rule.match.fullmatch(item) if isinstance(item, str) else None
                if matched is None:
                    continue
                groups = matched.groups()
            made = _event(rule, _Scope(payload, item, groups), base)
            found.append((places[0] if places else -1, number, places, made))
            if len(found) > EVENTS_MAX:
                break
    found.sort(key=lambda row: row[:3])
    return [made for *_, made in found]


def _holds(rule: Rule, payload: Any, headers: Mapping[str, str]) -> bool:
    for place, values in rule.when.items():
        value = follow(payload, pointer(place)) if place.startswith("/") else headers.get(place, MISSING)
        present = value is not MISSING and value is not None
        if not any(
            (present and wanted == ANY) or (type(value) is type(wanted) and value == wanted)
            for wanted in values
        ):
            return False
    return True


def _event(rule: Rule, scope: _Scope, base: str) -> dict[str, Any] | Refused:
    event: dict[str, Any] = {"op": rule.op}
    try:
        if rule.key is not None:
            event["key"] = _fill(rule.key, scope, encode=False)
        if rule.loc is not None:
            event["loc"] = _at(base, _fill(rule.loc, scope, encode=True))
    except Refused as refused:
        return refused.kept()
    for name, template in rule.others.items():
        if rule.op != "delete" or name == "at":
            try:
                event[name] = _fill(template, scope, encode=False)
            except Refused:
                continue  # a date that the payload doesn't give is a date that is not known
    return event


def _fill(template: Template, scope: _Scope, *, encode: bool) -> str:
    parts = [part if isinstance(part, str) else _value(part, scope) for part in template.parts]
    if not encode or len(parts) == 1:
        return "".join(parts)
    return "".join(
        text
        if isinstance(part, str)
        else quote(text, safe="/" if part.is_path else "", errors="surrogatepass")
        for part, text in zip(template.parts, parts, strict=True)
    )


def _at(base: str, loc: str) -> str:
    """A filled template as a URL. Raises Refused (rule "mapping") where a segment leads elsewhere."""
    path = re.split(r"[?#]", loc, maxsplit=1)[0]
    if any(_ENCODED_DOT.sub(".", segment) in (".", "..") for segment in re.split(r"[/\\]", path)):
        detail = "The URL would have . or .. as a segment of its path, which leads to another page."
        raise Refused(loc=loc, rule="mapping", detail=detail)
    return urljoin(base, loc) if loc.startswith("/") else loc


def _value(reference: Reference, scope: _Scope) -> str:
    value: Any
    if reference.where == "group":
        value = scope.groups[int(reference.path[0]) - 1]
    else:
        value = follow(scope.payload if reference.where == "payload" else scope.item, reference.path)
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    detail = f"The payload has no text at {{{reference.text}}}, which the mapping needs."
    raise Refused(loc="", rule="mapping", detail=detail)


def _reference(whole: str) -> Reference:
    text = whole.removesuffix(_PATH)
    found = _bare_reference(text)
    return found._replace(text=whole, is_path=text != whole)


def _bare_reference(text: str) -> Reference:
    if text.isdecimal() and text.isascii() and 1 <= int(text) <= 99:
        return Reference("group", (text,), text)
    if text == "." or text.startswith("./"):
        return Reference("item", pointer(text[1:]), text)
    if text.startswith("/"):
        return Reference("payload", pointer(text), text)
    raise ValueError(f"{{{text}}} is none of {{/pointer}}, {{./pointer}} and {{1}}")

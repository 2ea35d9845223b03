"""What a crawler may hold against a tree: functions of what was read that say what they found. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from lxml import etree

from tests.published import NS, SITEMAPINDEX, URLSET, parse
from tests.torture.model import Entry

MOST_URLS: Final = 50_000
MOST_BYTES: Final = 10_485_760
MOST_SITEMAPS: Final = 1_000
MOST_CHARACTERS: Final = 2_047


class Found(NamedTuple):
    """Something that must not be."""

    rule: str
    detail: str


class Shown(NamedTuple):
    """One listed file in a settled tree."""

    lastmod: str
    """What the index says of it."""
    digest: str
    """Of its bytes."""
    locs: frozenset[str]


class Bad(Exception):
    """A file that no crawler should get; the message says why."""


def read_index(data: bytes) -> dict[str, str]:
    """File name → lastmod of an index file. Raises Bad; the schema has no empty one, and none twice."""
    root = _parse(data, SITEMAPINDEX, "index")
    rows = [(row.findtext(f"{NS}loc") or "", row.findtext(f"{NS}lastmod") or "") for row in root]
    names = [loc.rpartition("/")[2] for loc, _ in rows]
    if len(rows) > MOST_SITEMAPS:
        raise Bad(f"the index lists {len(rows)} files")
    return dict(zip(names, (lastmod for _, lastmod in rows), strict=True))


def read_urls(data: bytes, most: int = MOST_URLS) -> dict[str, Entry]:
    """Loc → entry of a shard's file. Raises Bad; the schema has no empty one, and no loc twice."""
    if len(data) > MOST_BYTES:
        raise Bad(f"it has {len(data)} bytes")
    found: dict[str, Entry] = {}
    for row in _parse(data, URLSET, "urlset"):
        loc = row.findtext(f"{NS}loc") or ""
        if len(loc) > MOST_CHARACTERS:
            raise Bad(f"a loc has {len(loc)} characters")
        found[loc] = Entry(
            row.findtext(f"{NS}lastmod"), row.findtext(f"{NS}changefreq"), row.findtext(f"{NS}priority")
        )
    if len(found) > most:
        raise Bad(f"it has {len(found)} URLs")
    return found


def _parse(data: bytes, rules: etree.XMLSchema, what: str) -> etree._Element:
    try:
        return parse(data, rules)
    except (AssertionError, etree.XMLSyntaxError, etree.DocumentInvalid) as error:
        raise Bad(f"it is no {what}: {str(error)[:200]}; {len(data)} bytes") from error


def digest(data: bytes) -> str:
    """What tells two contents apart."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class Memory:
    """The lastmod of every file in the order in which an index showed it."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def see(self, index: Mapping[str, str]) -> list[Found]:
        """A lastmod that is older than one that was shown before."""
        found = [
            Found("lastmod goes back", f"{name}: {self._last[name]}, then {lastmod}")
            for name, lastmod in index.items()
            if lastmod < self._last.get(name, "")
        ]
        self._last.update(index)
        return found


def missing(name: str, before: Mapping[str, str], there: bool, after: Mapping[str, str]) -> list[Found]:
    """A file that was not there although the index named it before and after, with one lastmod."""
    if there or before.get(name) is None or before[name] != after.get(name):
        return []
    return [Found("no file", f"the index names {name} ({before[name]}), which is not there")]


def twice(tree: Mapping[str, Collection[str]]) -> list[Found]:
    """A URL that two files list."""
    where: dict[str, list[str]] = {}
    for name in sorted(tree):
        for loc in tree[name]:
            where.setdefault(loc, []).append(name)
    return [
        Found("listed twice", f"{loc} in {', '.join(names)}")
        for loc, names in where.items()
        if len(names) > 1
    ]


def lastmods(
    before: Mapping[str, Shown],
    after: Mapping[str, Shown],
    touched: Callable[[str], bool],
    altered: Collection[str] = (),
) -> list[Found]:
    """A lastmod that did not follow the bytes between two settled trees.

    `touched` says of a file's name whether an event was about a URL that is in it, or that was in it
    meanwhile: such a file may have changed and changed back. `altered` are the files that somebody else
    wrote to: readers had wrong bytes, so their lastmod must have moved.
    """
    found = []
    for name in sorted(before.keys() & after.keys()):
        old, new = before[name], after[name]
        if new.lastmod < old.lastmod:
            found.append(Found("lastmod goes back", f"{name}: {old.lastmod}, then {new.lastmod}"))
        if new.digest != old.digest and new.lastmod == old.lastmod:
            found.append(Found("lastmod stays", f"{name} has other bytes and still {old.lastmod}"))
        if name in altered:
            if new.lastmod == old.lastmod:
                found.append(
                    Found("lastmod stays", f"{name} was altered and repaired and still has {old.lastmod}")
                )
        elif new.digest == old.digest and new.lastmod != old.lastmod and not touched(name):
            found.append(
                Found(
                    "lastmod moves", f"{name} has the same bytes and went from {old.lastmod} to {new.lastmod}"
                )
            )
    return found


def restless(before: Mapping[str, Shown], after: Mapping[str, Shown]) -> list[Found]:
    """A settled tree that changes although nothing happens."""
    return [
        Found(
            "not at rest", f"{name}: {before.get(name, _NONE).lastmod}, then {after.get(name, _NONE).lastmod}"
        )
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def told(lines: Iterable[str], who: str) -> list[Found]:
    """A traceback in what a process said."""
    rows = list(lines)
    return [
        Found("traceback", f"{who}: {next((row for row in rows[place + 1 :] if row[:1].strip()), '')[:300]}")
        for place, line in enumerate(rows)
        if line.lstrip().startswith("Traceback")
    ]


def answered(
    sent: int, accepted: int, refusals: Collection[Mapping[str, object]], rules: Collection[str]
) -> list[Found]:
    """A batch of which something was neither accepted nor refused by a rule."""
    found = []
    if accepted + len(refusals) != sent:
        found.append(Found("unanswered", f"{sent} events, {accepted} accepted and {len(refusals)} refused"))
    found += [
        Found("no rule", f"refused by {refusal.get('rule')!r}: {str(refusal)[:300]}")
        for refusal in refusals
        if refusal.get("rule") not in rules
    ]
    return found


_NONE: Final = Shown("", "", frozenset())

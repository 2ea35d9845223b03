"""robots.txt: which listed URLs it forbids, and which sitemaps it lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from protego import Protego

from sitemap_store.check.address import normal_form
from sitemap_store.errors import Refused

AGENTS: Final = ("Googlebot", "Bingbot")
"""The crawlers that are asked for; each falls back to the group of `*`."""
READ_MAX: Final = 500 * 1024
"""Bytes of a robots.txt that crawlers read. Source: RFC 9309, 2.5."""

_LINE: Final = re.compile(r"[ \t]*([^:#]*?)[ \t]*:[ \t]*([^#]*)")


def read_robots(path: Path) -> str:
    """The text of a robots.txt, as far as crawlers read it. Raises OSError."""
    with path.open("rb") as file:
        return file.read(READ_MAX).decode("utf-8-sig", "replace")


class Robots:
    """The robots.txt of one origin; `name` is what findings call it."""

    def __init__(self, text: str, origin: str, name: str) -> None:
        self.name = name
        self._rules = Protego.parse(text)
        self.sitemaps = [(line, value) for line, name, value in _fields(text) if name == "sitemap"]
        """Line and value of each Sitemap line."""
        self.addresses = {address for _, value in self.sitemaps if (address := _normal(value))}
        """The sitemaps that it lists, in their normal form."""
        self.maybe = _maybe(text, origin)
        """Finds any URL that a rule may forbid, in normal URLs with a line for each; None: no rule."""

    def forbids(self, url: str) -> str | None:
        """The crawler that may not fetch a URL, or None."""
        if self.maybe is None:
            return None
        return next((agent for agent in AGENTS if not self._rules.can_fetch(url, agent)), None)


def _normal(value: str) -> str | None:
    try:
        return normal_form(value)
    except Refused:
        return None


def _fields(text: str) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if match := _LINE.match(line):
            yield number, match[1].lower(), match[2].strip()


def _maybe(text: str, origin: str) -> re.Pattern[bytes] | None:
    """Find more than Disallow lines do, never less: parsing each URL would take most of the time of a check.

    Each part of a rule between its `*` must stand in the URL in that order; of a part that may be written in
    several ways, only what stands before its first such character.
    """
    forms = set()
    for _, name, value in _fields(text):
        # Misspelt names of the field count as well.
        if name.startswith("d") and value:
            path = value if value.startswith("/") else f"*{value}"
            parts = (re.match(r"[A-Za-z0-9/._~=&,;-]*", part) for part in path.split("*"))
            forms.add(r"[^\n]*".join(re.escape(part[0]) if part else "" for part in parts))
    if not forms:
        return None
    return re.compile(f"^{re.escape(origin)}(?:{'|'.join(sorted(forms))})".encode(), re.MULTILINE)

"""The elements of index files: a rewrite changes one or a few of a thousand, so each is made once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sitemap_store.render import sitemap_xml
from sitemap_store.site import Site
from sitemap_store.state import listed
from sitemap_store.w3c import format_instant

KEPT: Final = 16
"""Index files whose elements are kept: about half a megabyte each."""


class Elements:
    """Remembers the elements of the last `KEPT` index files that were written."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._known: dict[tuple[int, int], dict[bytes, tuple[str, int, str]]] = {}

    def of(self, file: tuple[int, int], lines: Iterable[bytes]) -> list[str]:
        """The elements of an index file (its partition and number) in their order."""
        known = self._known.pop(file, {})
        found = {line: known.get(line) or self._made(line) for line in lines}
        self._known[file] = found
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return [xml for _section, _number, xml in sorted(found.values())]

    def _made(self, line: bytes) -> tuple[str, int, str]:
        section, number, lastmod, file = listed(line)
        when = format_instant(lastmod, always_milliseconds=True)
        return section, number, sitemap_xml(self._site.address(file), when)

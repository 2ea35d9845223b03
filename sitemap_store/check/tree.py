"""Checks what only several files together show: duplicates, index, robots.txt, links between languages."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from sitemap_store.check.address import invalid_url, normal_form
from sitemap_store.check.content import Content
from sitemap_store.check.file import Facts, LinkOwner, check_file, link_key, locate, url_key
from sitemap_store.check.findings import Findings
from sitemap_store.check.robots import Robots
from sitemap_store.check.spill import Spill
from sitemap_store.check.url import Checked
from sitemap_store.check.where import Where

FILES_MAX: Final = 100_000
"""Files of one tree that are checked."""
EQUAL_MIN: Final = 10
"""Fewer URLs may well have changed at once."""
_DAY_MS: Final = 86_400_000


class Tree:
    """The files of one tree: `add` each, then `finish` once, then `close`."""

    def __init__(self, findings: Findings, now_ms: int) -> None:
        self.findings = findings
        self.robots: dict[str, Robots] = {}
        """By origin."""
        self.files: list[Facts] = []
        self._now_ms = now_ms
        self._urls: Spill[int] = Spill()
        self._links: Spill[LinkOwner] = Spill()

    @property
    def urls(self) -> int:
        """URLs in the files so far."""
        return sum(facts.urls for facts in self.files)

    def close(self) -> None:
        """Remove the temporary files."""
        self._urls.close()
        self._links.close()

    def where(self, file: str, address: str, proven: frozenset[str] = frozenset()) -> Where:
        """What the checks of a file need, which is published at an address in its normal form."""
        return Where(
            findings=self.findings,
            file=file,
            base=address[: address.partition("?")[0].rindex("/") + 1],
            proven=proven,
            robots=self.robots,
            now_ms=self._now_ms,
        )

    def add(self, content: Content, file: str, address: str, proven: frozenset[str] = frozenset()) -> Facts:
        """Check one file."""
        facts = Facts(
            number=len(self.files), content=content, where=self.where(file, address, proven), address=address
        )
        self.files.append(facts)
        check_file(facts, self._urls, self._links)
        return facts

    def finish(self, absent: Collection[str], *, whole: bool) -> None:
        """Check the files together.

        `absent` are listed addresses at which no file is. In a `whole` tree all files were looked for, and
        not only those that an index lists: there, a file that nothing lists is a finding.
        """
        by_address = {facts.address: facts for facts in self.files}
        named = {item.loc for facts in self.files for item in facts.sitemaps}
        for facts in self.files:
            self._check_index(facts, by_address, absent)
        self._check_listed(named, whole=whole)
        self._check_robots(named, absent)
        self._check_lastmods()
        self._check_duplicates()
        self._check_links()

    def _check_index(self, index: Facts, by_address: dict[str, Facts], absent: Collection[str]) -> None:
        seen: set[str] = set()
        for item in index.sitemaps:
            if item.loc in seen:
                index.where.add("index-names-twice", item.line, item.loc)
                continue
            seen.add(item.loc)
            if item.loc in absent:
                index.where.add("index-names-absent", item.line, item.loc)
            elif facts := by_address.get(item.loc):
                if facts.kind == "sitemapindex":
                    index.where.add("index-in-index", item.line, item.loc)
                elif item.lastmod_ms and facts.newest_ms > _last_moment(item):
                    index.where.add("index-lastmod-old", item.line, item.lastmod, item.loc)

    def _check_listed(self, named: set[str], *, whole: bool) -> None:
        if whole and any(facts.sitemaps for facts in self.files):
            listed = named.union(*(robots.addresses for robots in self.robots.values()))
            for facts in self.files:
                if facts.kind in ("urlset", "text") and facts.address not in listed:
                    facts.where.add("orphan", 0, facts.address)

    def _check_robots(self, named: set[str], absent: Collection[str]) -> None:
        indexed = any(facts.sitemaps for facts in self.files)
        for facts in self.files:
            robots = self.robots.get(facts.where.origin)
            is_root = facts.kind == "sitemapindex" if indexed else facts.kind in ("urlset", "text")
            listed = robots is None or facts.address in robots.addresses
            if is_root and not listed and facts.address not in named and not facts.where.proven:
                facts.where.add("robots-does-not-list", 0, facts.address)
        for robots in self.robots.values():
            for line, value in robots.sitemaps:
                if (wrong := invalid_url(value)) is not None:
                    self.findings.add("robots-sitemap-invalid", robots.name, line, value, wrong)
                elif normal_form(value) in absent:
                    self.findings.add("robots-names-absent", robots.name, line, value)

    def _check_lastmods(self) -> None:
        files = [facts for facts in self.files if facts.urls and facts.kind == "urlset"]
        values = {value for facts in files for value in facts.lastmods}
        if len(values) == 1 and values != {""} and sum(facts.urls for facts in files) >= EQUAL_MIN:
            files[0].where.add("lastmod-all-equal", 0, values.pop())

    def _check_duplicates(self) -> None:
        found = self._urls.repeated(self.findings.room("duplicate-url"))
        reported = 0
        first: dict[int, str] = {}
        for number, keys in sorted(found.owners.items()):
            facts = self.files[number]
            for item, _ in locate(facts, keys):
                key = url_key(item.loc)
                place = f"{facts.where.file}:{item.line}"
                if key in first and self.findings.room("duplicate-url"):
                    facts.where.add("duplicate-url", item.line, item.loc, f"first in {first[key]}")
                    reported += 1
                first.setdefault(key, place)
        self.findings.add_uncited("duplicate-url", found.total - reported)

    def _check_links(self) -> None:
        origins = {facts.where.origin for facts in self.files} | self._listed_origins
        asked = {(facts.number, origin) for facts in self.files for origin in origins}
        found = self._links.unmatched(self.findings.room("hreflang-no-return"), asked)
        reported = 0
        for facts, item, link in self._link_places(found.owners):
            if self.findings.room("hreflang-no-return"):
                facts.where.add("hreflang-no-return", item.line, link, f"of {item.loc}")
                reported += 1
        self.findings.add_uncited("hreflang-no-return", found.total - reported)

    @property
    def _listed_origins(self) -> set[str]:
        return {origin for facts in self.files for origin in facts.where.proven}

    def _link_places(self, owners: dict[LinkOwner, set[int]]) -> Iterator[tuple[Facts, Checked, str]]:
        wanted: dict[int, set[int]] = {}
        for (number, _), keys in owners.items():
            wanted.setdefault(number, set()).update(keys)
        for number, keys in sorted(wanted.items()):
            for item, links in locate(self.files[number], keys):
                for link in links:
                    if link_key(item.loc, link) in keys:
                        yield self.files[number], item, link


def _last_moment(item: Checked) -> int:
    """The last moment that a lastmod may mean, since 1970 UTC."""
    return item.lastmod_ms + (_DAY_MS - 1 if len(item.lastmod) == 10 else 0)

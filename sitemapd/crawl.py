"""Checks the sitemaps at an address: from robots.txt or a sitemap on, through the index files."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from sitemap_store.check.address import normal_form, origin_of
from sitemap_store.check.content import Content
from sitemap_store.check.robots import Robots, read_robots
from sitemap_store.check.tree import FILES_MAX, Tree
from sitemapd.fetch import Answer, Fetcher, NotFetched

DEPTH: Final = 3
"""Index files below index files that are followed; each file is fetched once."""
_TYPES: Final = {
    ".gz": ("application/gzip", "application/x-gzip"),
    ".txt": ("text/plain",),
    ".xml": ("application/xml", "text/xml", "application/rss+xml", "application/atom+xml"),
}
_GONE: Final = frozenset({404, 410})


class _Next(NamedTuple):
    address: str
    by: str
    """What lists it: "index", "robots" or "command"."""
    depth: int
    proven: frozenset[str]


def crawl(tree: Tree, url: str, fetcher: Fetcher, done: Callable[[str], None] = lambda _: None) -> None:
    """Check what is published at a URL: of a robots.txt, of a sitemap, or of a site.

    For a site, robots.txt says which sitemaps there are; without one, /sitemap.xml is taken. `done` is called
    with the address of each file. Raises Refused for no URL, and NotFetched when nothing can be asked at all.
    """
    address = normal_form(url)
    fetcher.allow(address, named=True)
    crawler = _Crawler(tree, fetcher)
    origin = origin_of(address)
    crawler.read_robots(origin)
    if _is_file(address) and not address.endswith("/robots.txt"):
        crawler.todo.append(_Next(address, "command", 0, frozenset()))
    else:
        robots = tree.robots.get(origin)
        for each in sorted(robots.addresses) if robots else ():
            fetcher.allow(each)
            crawler.todo.append(_Next(each, "robots", 0, frozenset({origin})))
        if not crawler.todo:
            crawler.todo.append(_Next(f"{origin}/sitemap.xml", "command", 0, frozenset()))
    crawler.run(done)


class _Crawler:
    def __init__(self, tree: Tree, fetcher: Fetcher) -> None:
        self._tree = tree
        self._fetcher = fetcher
        self._absent: set[str] = set()
        self._asked: set[str] = set()
        self.todo: deque[_Next] = deque()

    def read_robots(self, origin: str) -> None:
        """Fetch the robots.txt of an origin, once; an origin without one allows all."""
        address = f"{origin}/robots.txt"
        if address in self._asked or not self._fetcher.allows(address):
            return
        self._asked.add(address)
        answer = self._fetch(address)
        if answer is not None and answer.status == 200:
            text = read_robots(answer.path)
            answer.path.unlink()
            self._tree.robots[origin] = Robots(text, origin, address)
        elif answer is not None and answer.status not in _GONE:
            self._tree.findings.add("http-status", address, 0, str(answer.status))

    def run(self, done: Callable[[str], None]) -> None:
        """Fetch and check what is to do, and what that lists."""
        while self.todo:
            each = self.todo.popleft()
            if each.address in self._asked:
                continue
            if len(self._tree.files) == FILES_MAX:
                self._tree.findings.add("too-many-files", each.address)
                break
            self._asked.add(each.address)
            self._check(each)
            done(each.address)
        self._tree.finish(self._absent, whole=False)

    def _check(self, each: _Next) -> None:
        findings, address = self._tree.findings, each.address
        self.read_robots(origin_of(address))
        answer = self._fetch(address)
        if answer is None:
            return
        if answer.status in _GONE and each.by != "command":
            self._absent.add(address)
            return
        if answer.status != 200:
            findings.add("http-status", address, 0, str(answer.status))
            return
        if answer.address != address:
            findings.add("redirected", address, 0, answer.address)
        facts = self._tree.add(Content(answer.path), address, address, each.proven)
        ending = ".gz" if facts.content.is_gzip else ".txt" if facts.kind == "text" else ".xml"
        if answer.content_type not in _TYPES[ending]:
            findings.add("content-type", address, 0, answer.content_type or "none")
        if answer.content_encoding not in ("", "identity") and urlsplit(address).path.endswith(".gz"):
            findings.add("content-encoding", address, 0, answer.content_encoding)
        for item in facts.sitemaps if each.depth < DEPTH else ():
            self.todo.append(_Next(item.loc, "index", each.depth + 1, each.proven))

    def _fetch(self, address: str) -> Answer | None:
        try:
            return self._fetcher.fetch(address)
        except NotFetched as failure:
            code = "not-fetched" if failure.is_refused else "fetch-failed"
            self._tree.findings.add(code, address, 0, "", str(failure))
            return None


def _is_file(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.query) or "." in parts.path.rpartition("/")[2]

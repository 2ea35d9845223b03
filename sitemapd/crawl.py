"""Finds the sitemaps at an address: from robots.txt or a sitemap on, through the index files."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple, Protocol
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


class Listed(NamedTuple):
    """A file to fetch."""

    address: str
    by: str
    """What lists it: "index", "robots" or "command"."""
    depth: int
    """Index files above it."""
    proven: frozenset[str]
    """Origins whose robots.txt leads here."""


class Visitor(Protocol):
    """What is done with the files that `follow` finds."""

    def robots(self, robots: Robots, origin: str) -> None:
        """Take a robots.txt."""

    def sitemap(self, listed: Listed, answer: Answer) -> Iterable[str]:
        """Take an answer of status 200, and give the addresses of the sitemaps that an index lists."""

    def absent(self, address: str) -> None:
        """Take note that an index or robots.txt lists an address at which no file is."""

    def failed(self, code: str, address: str, value: str, detail: str) -> None:
        """Take note of another failure: "http-status", "not-fetched", "fetch-failed" or "too-many-files"."""


def follow(
    visitor: Visitor, url: str, fetcher: Fetcher, done: Callable[[str], None] = lambda _: None
) -> None:
    """Visit what is published at a URL: of a robots.txt, of a sitemap, or of a site.

    For a site, robots.txt says which sitemaps there are; without one, /sitemap.xml is taken. `done` is called
    with the address of each file. Raises Refused for no URL, and NotFetched when nothing can be asked at all.
    """
    address = normal_form(url)
    fetcher.allow(address, named=True)
    crawler = _Crawler(visitor, fetcher)
    origin = origin_of(address)
    listed = crawler.read_robots(origin)
    if _is_file(address) and not address.endswith("/robots.txt"):
        crawler.add(Listed(address, "command", 0, frozenset()))
    else:
        for each in sorted(listed):
            fetcher.allow(each)
            crawler.add(Listed(each, "robots", 0, frozenset({origin})))
        if not listed:
            crawler.add(Listed(f"{origin}/sitemap.xml", "command", 0, frozenset()))
    crawler.run(done)


def crawl(tree: Tree, url: str, fetcher: Fetcher, done: Callable[[str], None] = lambda _: None) -> None:
    """Check what is published at a URL, as `follow` finds it."""
    checker = _Checker(tree)
    follow(checker, url, fetcher, done)
    tree.finish(checker.gone, whole=False)


class _Crawler:
    def __init__(self, visitor: Visitor, fetcher: Fetcher) -> None:
        self._visitor = visitor
        self._fetcher = fetcher
        self._asked: set[str] = set()
        """The addresses of robots.txt that were fetched."""
        self._added: set[str] = set()
        self._todo: deque[Listed] = deque()

    def add(self, listed: Listed) -> bool:
        """Have a file visited, once; False where no further one may be."""
        if listed.address not in self._added:
            if len(self._added) == FILES_MAX:
                self._visitor.failed("too-many-files", listed.address, "", "")
                return False
            self._added.add(listed.address)
            self._todo.append(listed)
        return True

    def read_robots(self, origin: str) -> Collection[str]:
        """Fetch the robots.txt of an origin, once, and return the sitemaps that it lists."""
        address = f"{origin}/robots.txt"
        if address in self._asked or not self._fetcher.allows(address):
            return ()
        self._asked.add(address)
        answer = self._fetch(address)
        if answer is not None and answer.status == 200:
            robots = Robots(read_robots(answer.path), origin, address)
            answer.path.unlink()
            self._visitor.robots(robots, origin)
            return robots.addresses
        if answer is not None and answer.status not in _GONE:
            self._visitor.failed("http-status", address, str(answer.status), "")
        return ()

    def run(self, done: Callable[[str], None]) -> None:
        """Visit what was added, and what that lists."""
        while self._todo:
            each = self._todo.popleft()
            self._visit(each)
            done(each.address)

    def _visit(self, each: Listed) -> None:
        address = each.address
        self.read_robots(origin_of(address))
        answer = self._fetch(address)
        if answer is None:
            return
        if answer.status in _GONE and each.by != "command":
            self._visitor.absent(address)
        elif answer.status != 200:
            self._visitor.failed("http-status", address, str(answer.status), "")
        else:
            listed = self._visitor.sitemap(each, answer)
            for loc in listed if each.depth < DEPTH else ():
                if not self.add(Listed(loc, "index", each.depth + 1, each.proven)):
                    break

    def _fetch(self, address: str) -> Answer | None:
        try:
            return self._fetcher.fetch(address)
        except NotFetched as failure:
            code = "not-fetched" if failure.is_refused else "fetch-failed"
            self._visitor.failed(code, address, "", str(failure))
            return None


class _Checker:
    """Checks what `follow` finds."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.gone: set[str] = set()

    def robots(self, robots: Robots, origin: str) -> None:
        self._tree.robots[origin] = robots

    def sitemap(self, listed: Listed, answer: Answer) -> Iterable[str]:
        findings, address = self._tree.findings, listed.address
        if answer.address != address:
            findings.add("redirected", address, 0, answer.address)
        facts = self._tree.add(Content(answer.path), address, address, listed.proven)
        ending = ".gz" if facts.content.is_gzip else ".txt" if facts.kind == "text" else ".xml"
        if answer.content_type not in _TYPES[ending]:
            findings.add("content-type", address, 0, answer.content_type or "none")
        if answer.content_encoding not in ("", "identity") and urlsplit(address).path.endswith(".gz"):
            findings.add("content-encoding", address, 0, answer.content_encoding)
        return [item.loc for item in facts.sitemaps]

    def absent(self, address: str) -> None:
        self.gone.add(address)

    def failed(self, code: str, address: str, value: str, detail: str) -> None:
        self._tree.findings.add(code, address, 0, value, detail)


def _is_file(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.query) or "." in parts.path.rpartition("/")[2]

"""Asks a site for pages that its sitemap lists, and finds those that search engines would not list.

1. Requests are at least `1 / rate` seconds apart on each host, and as far as its robots.txt asks with a
   Crawl-delay. No URL is asked for that robots.txt forbids to "sitemapd". Where robots.txt can't be read for
   an error of the server, nothing is asked (RFC 9309, 2.3.1.4).
2. A page is asked for with HEAD. GET follows where the page is HTML, of which the head is read, or where HEAD
   was no success: some servers answer it wrongly.
3. A redirect is a finding and is not followed. A busy server (429, 503) is asked again after the time that it
   names, once; after that nothing more is asked of its host.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from email.message import Message
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import urljoin

from protego import Protego

from producers.filesystem.html_head import HEAD_BYTES, read_head, words
from sitemap_store.check.address import normal_form, origin_of
from sitemap_store.check.robots import read_robots
from sitemap_store.errors import Refused
from sitemapd.fetch import WAIT_MAX_S, Answer, Fetcher, NotFetched
from sitemapd.printable import printable

AGENT: Final = "sitemapd"
DETAIL_MAX: Final = 2_048
"""Characters of what a server said that are kept."""
PROBLEMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gone": "The page is gone (404 or 410)",
        "client-error": "The server refuses the page",
        "server-error": "The server fails",
        "redirect": "The URL redirects",
        "noindex": "The page forbids its indexing",
        "canonical": "The page names another URL as canonical",
        "content-type": "The content is of a type that is no page, or of none",
        "robots": "robots.txt forbids the URL to sitemapd, or cannot be read, so it was not verified",
        "not-fetched": "The host was not asked: it has no public address, or leads to another host",
        "fetch-failed": "No whole answer came",
        "busy": "The server is busy, so its other URLs were not verified",
    }
)
"""What is wrong with a listed URL, by code."""

_GONE: Final = frozenset({404, 410})
_BUSY: Final = frozenset({429, 503})
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_NO_PAGE: Final = frozenset({"", "application/json", "application/octet-stream"})
_LINK: Final = re.compile(r'<([^<>]*)>[^<>,]*;\s*rel="?[^",;]*\bcanonical\b', re.IGNORECASE)
_FOR: Final = re.compile(r"\s*((?!max-)[a-z*-]+)\s*:\s*(?=[a-z])", re.IGNORECASE)
_CRAWLERS: Final = frozenset({"*", "googlebot", "bingbot"})
_INDEXING: Final = ("noindex", "none")


class Problem(NamedTuple):
    """What is wrong with a listed URL."""

    code: str
    loc: str
    detail: str
    """What the server said: a status, an address, a header; without control characters."""


class _Host:
    """What the robots.txt of an origin says, and when it was asked last."""

    def __init__(self, rules: Protego | None, pause_s: float, detail: str = "") -> None:
        self.rules = rules
        """None: nothing may be asked."""
        self.detail = detail
        """Why robots.txt cannot be read."""
        self.pause_s = pause_s
        self.is_busy = False
        self._next = 0.0

    def wait(self) -> None:
        """Wait for the turn of the next request."""
        now = time.monotonic()
        if now < self._next:
            time.sleep(self._next - now)
            now = self._next
        self._next = now + self.pause_s


class Verifier:
    """Asks with a fetcher, at most `rate` requests a second on each host."""

    def __init__(self, fetcher: Fetcher, *, rate: float) -> None:
        self.asked = 0
        """URLs that were asked for."""
        self._fetcher = fetcher
        self._rate = rate
        self._hosts: dict[str, _Host] = {}

    def verify(self, locs: Iterable[str]) -> Iterator[Problem | None]:
        """For each URL in its normal form: what is wrong with it, or None."""
        for loc in locs:
            try:
                problem = self._verify(loc)
                yield problem and problem._replace(detail=printable(problem.detail[:DETAIL_MAX]))
            except NotFetched as failure:
                yield Problem("not-fetched" if failure.is_refused else "fetch-failed", loc, str(failure))

    def _verify(self, loc: str) -> Problem | None:
        self._fetcher.allow(loc)
        host = self._host(origin_of(loc))
        if host.is_busy:
            return Problem("busy", loc, "")
        if host.rules is None or not host.rules.can_fetch(loc, AGENT):
            return Problem("robots", loc, host.detail)
        self.asked += 1
        answer = self._ask(host, loc, head=True)
        if answer.status not in _BUSY and (answer.status != 200 or answer.content_type in _HTML):
            answer = self._ask(host, loc, head=False)
        try:
            return _judge(answer, loc)
        finally:
            answer.path.unlink(missing_ok=True)

    def _host(self, origin: str) -> _Host:
        found = self._hosts.get(origin)
        if found is None:
            found = self._hosts[origin] = self._read_host(origin)
        return found

    def _read_host(self, origin: str) -> _Host:
        pause_s = 1 / self._rate
        try:
            answer = self._fetcher.fetch(f"{origin}/robots.txt")
        except NotFetched as failure:
            if failure.is_refused:
                raise
            return _Host(None, pause_s, str(failure))
        if answer.status >= 500 or answer.status == 429:
            return _Host(None, pause_s, str(answer.status))
        rules = Protego.parse("")
        if answer.status == 200:
            rules = Protego.parse(read_robots(answer.path))
            answer.path.unlink()
        return _Host(rules, max(pause_s, float(rules.crawl_delay(AGENT) or 0)))

    def _ask(self, host: _Host, loc: str, *, head: bool) -> Answer:
        for attempt in (1, 2):
            host.wait()
            answer, wait_s = self._fetcher.ask(loc, method="HEAD" if head else "GET", most=HEAD_BYTES)
            if answer.status not in _BUSY:
                break
            if attempt == 2 or wait_s is None or wait_s > WAIT_MAX_S:
                host.is_busy = True
                break
            time.sleep(wait_s)
        return answer


def _judge(answer: Answer, loc: str) -> Problem | None:
    status = answer.status
    if status in _BUSY:
        return Problem("busy", loc, str(status))
    if status in _GONE:
        return Problem("gone", loc, str(status))
    if 300 <= status < 400:
        target = _joined(loc, answer.headers.get("Location", ""))
        return Problem("redirect", loc, f"{status} to {target}")
    if status != 200:
        return Problem("server-error" if status >= 500 else "client-error", loc, str(status))
    if answer.content_type in _NO_PAGE:
        return Problem("content-type", loc, answer.content_type or "none")
    if (header := _noindex(answer.headers)) is not None:
        return Problem("noindex", loc, f"X-Robots-Tag: {header}")
    found = read_head(answer.path.read_bytes()) if answer.content_type in _HTML else None
    if found is not None and found.noindex:
        return Problem("noindex", loc, "meta robots")
    link = _LINK.search(", ".join(answer.headers.get_all("Link", [])))
    base = _joined(loc, found.base) if found is not None and found.base else loc
    for href in (link[1] if link else "", found.canonical if found is not None else ""):
        if href and (canonical := _joined(base, href)) != loc and _is_other(canonical, loc):
            return Problem("canonical", loc, canonical)
    return None


def _noindex(headers: Message) -> str | None:
    """The X-Robots-Tag that forbids the crawlers to index. Source: Google, robots meta tag specifications."""
    for value in map(str, headers.get_all("X-Robots-Tag", [])):
        agent = _FOR.match(value)
        name = agent[1].lower() if agent else "*"
        if name in _CRAWLERS and not words(value[agent.end() :] if agent else value).isdisjoint(_INDEXING):
            return value
    return None


def _is_other(address: str, loc: str) -> bool:
    try:
        return normal_form(address) != loc
    except Refused:
        return False  # crawlers pass over what is no URL


def _joined(base: str, href: str) -> str:
    try:
        return urljoin(base, href.strip())
    except ValueError:
        return href

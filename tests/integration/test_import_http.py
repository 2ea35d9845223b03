"""`sitemapd import URL`: what it reads from a real server, whom it asks, and what it reports."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import closing
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from sitemap_store.model.sections import Sections
from sitemap_store.model.site import Site
from sitemap_store.model.urls import UrlRules
from sitemapd.fetch import Fetcher
from sitemapd.importing.collected import Collected
from sitemapd.importing.importer import Importer
from sitemapd.importing.report import Report
from sitemapd.importing.walk import import_url
from tests.check_trees import BASE, NOW, index, url, urlset
from tests.site_server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """Give a server on the loopback."""
    with closing(Server()) as server:
        yield server


class Importing:
    """Imports from a server into a site of the server's address."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self.report = Report()

    def __call__(self, address: str, *, same_site: bool = False) -> list[str]:
        """Import from an address; the paths of the URLs."""
        base = self._server.base
        site = Site(name="shop", rules=UrlRules(base=base), sections=Sections(()))
        with Collected("") as collected:
            importer = Importer(site, NOW, collected, self.report)
            import_url(importer, address, Fetcher(self._folder), same_site=same_site)
            return [event.loc.removeprefix(base) for event in collected.events("")]

    @property
    def reasons(self) -> dict[str, list[str]]:
        """The examples by reason, of which none is missing here."""
        assert all(count == len(self.report.examples(code)) for code, _, count in self.report.found())
        return {code: self.report.examples(code) for code, _, _ in self.report.found()}


@pytest.fixture
def importer(server: Server, tmp_path: Path) -> Importing:
    """Give an importer from the server."""
    return Importing(server, tmp_path)


def test_a_site_is_read_from_robots_txt_on(server: Server, importer: Importing, tmp_path: Path) -> None:
    """Redirects, Content-Encoding, gzip by content, text, a feed; each once; nothing is left on the disk."""
    server.put(
        "/robots.txt", f"Sitemap: {BASE}index.php?page=1\nSitemap: {BASE}feed\n", Content_Type="text/plain"
    )
    server.put(
        "/index.php?page=1", index("moved.xml", "packed", "odd.xml", "c.txt", "c.txt", "index.php?page=1")
    )
    server.put("/moved.xml", b"", status=301, Location="/here.xml")
    server.put("/here.xml", urlset(url("a")))
    packed = gzip.compress(urlset(url("b")).replace(BASE, server.base).encode())
    server.put("/packed", packed, Content_Encoding="gzip")
    server.put("/odd.xml", gzip.compress(urlset(url("d")).replace(BASE, server.base).encode()))
    server.put("/c.txt", f"{BASE}c\n")
    server.put("/feed", f"<rss><channel><item><link>{BASE}news</link></item></channel></rss>")
    assert importer(server.base) == ["news", "a", "b", "d", "c"]
    assert importer.reasons == {"gzip-name": [f"{server.base}odd.xml (gzip)"]}
    assert len(server.asked) == len(set(server.asked))
    (agent,) = server.agents
    assert agent.startswith("sitemapd/")
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_come_is_reported_and_the_rest_is_read(server: Server, importer: Importing) -> None:
    """404, 500, an error page with status 200, a foreign host, a cut-off answer, no URL at all."""
    server.put(
        "/sitemap.xml",
        index("absent.xml", "broken.xml", "page.xml", "cut.xml", "good.xml", "loop.xml").replace(
            "</sitemapindex>",
            "<sitemap><loc>http://other.example/s.xml</loc></sitemap>"
            "<sitemap><loc>/relative.xml</loc></sitemap></sitemapindex>",
        ),
    )
    server.put("/broken.xml", b"", status=500)
    server.put("/page.xml", "<!DOCTYPE html><html></html>", Content_Type="text/html")
    server.put("/loop.xml", b"", status=302, Location="/loop.xml")
    server.put("/good.xml", urlset(url("a")))

    def cut(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(urlset(url("b")).encode())

    server.pages["/cut.xml"] = cut
    assert importer(f"{server.base}sitemap.xml") == ["a"]
    at = server.base
    assert importer.reasons == {
        "no-sitemap": [f"{at}page.xml:1 (html)"],
        "absent": ["/relative.xml", f"{at}absent.xml"],
        "http-status": [f"{at}broken.xml (500)"],
        "fetch-failed": [
            f"{at}cut.xml (the answer was cut off)",
            f"{at}loop.xml (more than 5 redirects)",
        ],
        "not-fetched": [
            "http://other.example/s.xml (http://other.example/s.xml is on a host that was not named)"
        ],
    }


def test_a_busy_server_is_asked_again_when_it_says(server: Server, importer: Importing) -> None:
    """Retry-After as an HTTP date; one that is too far away ends in the report."""
    answers: dict[str, list[str]] = {
        "/a.xml": [formatdate(0, usegmt=True)],
        "/b.xml": [formatdate(2**32, usegmt=True)] * 2,
    }

    def busy(handler: BaseHTTPRequestHandler) -> None:
        waits = answers[handler.path]
        body = b"" if waits else urlset(url("a")).replace(BASE, server.base).encode()
        handler.send_response(503 if waits else 200)
        if waits:
            handler.send_header("Retry-After", waits.pop())
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    server.put("/sitemap.xml", index("a.xml", "b.xml"))
    server.pages |= {"/a.xml": busy, "/b.xml": busy}
    assert importer(f"{server.base}sitemap.xml") == ["a"]
    assert importer.reasons == {"http-status": [f"{server.base}b.xml (503)"]}
    assert server.asked.count("/a.xml") == 2
    assert server.asked.count("/b.xml") == 1


def test_an_index_in_an_index_is_followed_to_a_depth_of_three(server: Server, importer: Importing) -> None:
    """Deeper files are named by the index that lists them."""
    for depth in range(5):
        server.put(f"/{depth}.xml", index(f"{depth + 1}.xml", f"{depth}-urls.xml"))
        server.put(f"/{depth}-urls.xml", urlset(url(str(depth))))
    assert importer(f"{server.base}0.xml") == ["0", "1", "2"]
    assert importer.reasons == {
        "index-in-index": [f"{server.base}{depth}.xml" for depth in (1, 2, 3)],
        "too-deep": [f"{server.base}3.xml"],
    }


def test_www_may_be_asked_where_both_are_one_site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A redirect to www leads on with --same-site, and to nowhere without."""
    allowed: list[set[str]] = []

    def follow(_visitor: Any, _url: str, fetcher: Fetcher, _done: Any) -> None:
        hosts = ("example.com", "www.example.com", "other.example.com")
        allowed.append({host for host in hosts if fetcher.allows(f"https://{host}/")})

    monkeypatch.setattr("sitemapd.importing.walk.follow", follow)
    site = Site(name="shop", rules=UrlRules(base="https://example.com/"), sections=Sections(()))
    with Collected("") as collected:
        importer = Importer(site, NOW, collected, Report())
        for address in ("https://example.com/", "https://www.example.com/"):
            for same_site in (False, True):
                import_url(importer, address, Fetcher(tmp_path), same_site=same_site)
    assert allowed == [set(), {"www.example.com"}, set(), {"example.com"}]

"""`sitemapd verify` against a real server: what it asks, how politely, and what it finds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from sitemapd.fetch import Fetcher
from sitemapd.verify import PROBLEMS, Verifier
from tests import markdown
from tests.check_trees import BASE
from tests.site_server import Server

PAGE = "<!DOCTYPE html><html><head><title>Tea</title>{}</head><body><p>Tea</p></body></html>"
HTML = "text/html; charset=utf-8"


@pytest.fixture
def server() -> Iterator[Server]:
    """Give a server on the loopback."""
    with closing(Server()) as server:
        yield server


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give the waits between requests, of which none takes time, as the clock stands still."""
    found: list[float] = []
    monkeypatch.setattr("sitemapd.verify.time.sleep", found.append)
    monkeypatch.setattr("sitemapd.verify.time.monotonic", lambda: 1000.0)
    return found


def verify(server: Server, folder: Path, *paths: str, rate: float = 10) -> list[tuple[str, str, str] | None]:
    """What is wrong with paths of the server: code, path and detail."""
    fetcher = Fetcher(folder)
    fetcher.allow(server.base, named=True)
    found = Verifier(fetcher, rate=rate).verify([server.base + path for path in paths])
    return [
        (each.code, each.loc.removeprefix(server.base), each.detail.replace(server.base, BASE))
        if each is not None
        else None
        for each in found
    ]


def put(server: Server, path: str, head: str = "", status: int = 200, **headers: str) -> None:
    """Publish a page with something in its head."""
    server.put(path, PAGE.format(head), status, **{"Content_Type": HTML, **headers})


def test_a_page_that_answers_and_may_be_listed_is_fine(
    server: Server, tmp_path: Path, slept: list[float]
) -> None:
    """HEAD, then GET for its head; of what is no HTML only HEAD. Nothing is left on the disk."""
    put(server, "/a", f'<link rel="canonical" href="{BASE}a"><meta name="robots" content="index, nofollow">')
    server.put("/b.pdf", b"%PDF", Content_Type="application/pdf", X_Robots_Tag="otherbot: noindex")
    assert verify(server, tmp_path, "a", "b.pdf") == [None, None]
    assert server.asked == ["/robots.txt", "HEAD /a", "/a", "HEAD /b.pdf"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "detail", "head", "answer"),
    [
        ("gone", "404", "", {"status": 404}),
        ("gone", "410", "", {"status": 410}),
        ("client-error", "403", "", {"status": 403}),
        ("server-error", "500", "", {"status": 500}),
        ("redirect", f"301 to {BASE}b", "", {"status": 301, "Location": "/b"}),
        (
            "redirect",
            "302 to https://other.example/",
            "",
            {"status": 302, "Location": "https://other.example/"},
        ),
        ("redirect", f"301 to {BASE}\\x1b[2J", "", {"status": 301, "Location": "/\x1b[2J"}),
        ("noindex", "meta robots", '<meta name="ROBOTS" content="NoIndex">', {}),
        ("noindex", "X-Robots-Tag: noindex", "", {"X_Robots_Tag": "noindex"}),
        ("noindex", "X-Robots-Tag: googlebot: none", "", {"X_Robots_Tag": "googlebot: none"}),
        ("noindex", "X-Robots-Tag: max-snippet: 5, noindex", "", {"X_Robots_Tag": "max-snippet: 5, noindex"}),
        ("canonical", f"{BASE}b", '<base href="/x/"><link href="../b" rel="canonical">', {}),
        ("canonical", f"{BASE}b", "", {"Link": '<style.css>; rel=preload, </b>; rel="canonical"'}),
        ("content-type", "application/json", "", {"Content_Type": "application/json"}),
        ("busy", "503", "", {"status": 503}),
    ],
)
def test_a_page_that_is_none_is_found(
    server: Server,
    tmp_path: Path,
    slept: list[float],
    code: str,
    detail: str,
    head: str,
    answer: dict[str, Any],
) -> None:
    """Each by its code and with what the server said; another page stays fine."""
    put(server, "/fine")
    put(server, "/a", head, **answer)
    assert verify(server, tmp_path, "fine", "a") == [None, (code, "a", detail)]


def test_robots_txt_is_obeyed(server: Server, tmp_path: Path, slept: list[float]) -> None:
    """What is forbidden to sitemapd is not asked for, and the Crawl-delay is kept."""
    server.put("/robots.txt", "User-agent: sitemapd\nDisallow: /private\nCrawl-delay: 3\n")
    put(server, "/a")
    assert verify(server, tmp_path, "private/x", "a", rate=1) == [("robots", "private/x", ""), None]
    assert server.asked == ["/robots.txt", "HEAD /a", "/a"]
    assert slept == [3]


def test_nothing_is_asked_where_robots_txt_fails(server: Server, tmp_path: Path) -> None:
    """An error of the server is no permission."""
    server.put("/robots.txt", "", status=500)
    assert verify(server, tmp_path, "a", "b") == [("robots", "a", "500"), ("robots", "b", "500")]
    assert server.asked == ["/robots.txt"]


def test_requests_are_apart_as_the_rate_says(server: Server, tmp_path: Path, slept: list[float]) -> None:
    """The second and each further request waits for its turn."""
    for path in ("/a", "/b"):
        put(server, path)
    assert verify(server, tmp_path, "a", "b", rate=2) == [None, None]
    assert slept == [0.5, 1.0, 1.5]  # of a clock that stands still


def test_a_busy_server_is_left_alone(server: Server, tmp_path: Path, slept: list[float]) -> None:
    """It is asked again once after the time that it names, and then no more."""
    put(server, "/a", status=429, Retry_After="7")
    put(server, "/b")
    assert verify(server, tmp_path, "a", "b") == [("busy", "a", "429"), ("busy", "b", "")]
    assert server.asked == ["/robots.txt", "HEAD /a", "HEAD /a"]
    assert 7 in slept


def test_a_long_page_is_read_as_far_as_its_head(server: Server, tmp_path: Path, slept: list[float]) -> None:
    """A body without an end does not hold the command up."""

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", HTML)
        handler.end_headers()
        try:
            while handler.command == "GET":
                handler.wfile.write(PAGE.format("").encode() * 1000)
        except OSError:
            pass

    server.pages["/a"] = endless
    assert verify(server, tmp_path, "a") == [None]


def test_a_host_that_may_not_be_asked_is_not(tmp_path: Path, server: Server) -> None:
    """A listed URL leads to no private address, unless that is allowed."""
    port = server.base.rstrip("/").rpartition(":")[2]
    (problem,) = Verifier(Fetcher(tmp_path), rate=10).verify([f"http://127.0.0.1:{port}/a"])
    assert problem is not None
    assert problem.code == "not-fetched"
    assert server.asked == []


def test_the_page_has_every_problem() -> None:
    """docs/verify.md has each problem once, in order, with its words."""
    rows = markdown.table(markdown.doc("verify.md"), "code")
    assert [(markdown.plain(code), what) for code, what, _ in rows] == list(PROBLEMS.items())

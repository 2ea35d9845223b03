"""`sitemapd check URL`: what it fetches from a real server, what it refuses, and what it finds in answers."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from sitemap_store.check.findings import Finding, Findings
from sitemap_store.check.tree import Tree
from sitemapd import fetch
from sitemapd.crawl import crawl
from sitemapd.fetch import Fetcher, NotFetched, is_public
from tests.check_trees import BASE, NOW, index, url, urlset
from tests.site_server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """Give a server on the loopback."""
    with closing(Server()) as server:
        yield server


@pytest.fixture
def fetcher(tmp_path: Path) -> Fetcher:
    """Give a fetcher with a folder."""
    return Fetcher(tmp_path)


def check(fetcher: Fetcher, address: str) -> list[Finding]:
    """What a check of an address finds."""
    findings = Findings(100)
    with closing(Tree(findings, NOW)) as tree:
        crawl(tree, address, fetcher)
    return list(findings)


def codes(found: list[Finding]) -> list[str]:
    """The codes of findings, sorted."""
    return sorted(each.code for each in found)


def test_a_site_is_followed_from_robots_txt(server: Server, fetcher: Fetcher) -> None:
    """robots.txt, the index, gzip and text: each once, without a finding, as `sitemapd/version`."""
    server.put("/robots.txt", f"Sitemap: {BASE}sitemap.xml\n", Content_Type="text/plain")
    server.put("/sitemap.xml", index("a.xml", "b.xml.gz", "c.txt"))
    server.put("/a.xml", urlset(url("a")))
    packed = gzip.compress(urlset(url("b")).replace(BASE, server.base).encode())
    server.put("/b.xml.gz", packed, Content_Type="application/gzip")
    server.put("/c.txt", f"{BASE}c\n", Content_Type="text/plain; charset=utf-8")
    assert check(fetcher, server.base) == []
    assert sorted(server.asked) == ["/a.xml", "/b.xml.gz", "/c.txt", "/robots.txt", "/sitemap.xml"]
    (agent,) = server.agents
    assert agent.startswith("sitemapd/")


def test_without_robots_txt_the_usual_name_is_asked(server: Server, fetcher: Fetcher) -> None:
    """A site with a sitemap alone is right too."""
    server.put("/sitemap.xml", urlset(url("a")))
    assert check(fetcher, server.base.removesuffix("/")) == []


@pytest.mark.parametrize(
    ("code", "wrong", "right"),
    [
        ("content-type", {"Content_Type": "text/html"}, {"Content_Type": "text/xml"}),
        ("http-status", {"status": 500}, {}),
        ("redirected", {"status": 301, "Location": f"{BASE}other.xml"}, {}),
        ("redirected", {"status": 308, "Location": "/other.xml"}, {}),
        ("fetch-failed", {"status": 302, "Location": "/sitemap.xml"}, {}),
        ("fetch-failed", {"status": 302, "Location": "ftp://other.example/"}, {}),
        ("not-fetched", {"status": 302, "Location": "http://other.example/s.xml"}, {}),
        ("fetch-failed", {"Content_Encoding": "gzip"}, {}),
    ],
)
def test_an_answer_breaks_a_rule(
    server: Server, fetcher: Fetcher, code: str, wrong: dict[str, Any], right: dict[str, Any]
) -> None:
    """One finding for the wrong answer, none for the right one."""
    server.put("/other.xml", urlset(url("a")))
    server.put("/sitemap.xml", urlset(url("a")), **wrong)
    assert codes(check(fetcher, f"{server.base}sitemap.xml")) == [code]
    server.put("/sitemap.xml", urlset(url("a")), **right)
    assert check(fetcher, f"{server.base}sitemap.xml") == []


def test_gzip_in_transit_is_no_gzip_file(server: Server, fetcher: Fetcher) -> None:
    """A `.xml` with a Content-Encoding is plain; a `.xml.gz` with one is a finding, and is read."""
    packed = gzip.compress(urlset(url("a")).replace(BASE, server.base).encode())
    server.put("/a.xml", packed, Content_Encoding="gzip")
    assert check(fetcher, f"{server.base}a.xml") == []
    server.put("/a.xml.gz", packed, Content_Encoding="gzip", Content_Type="application/x-gzip")
    assert codes(check(fetcher, f"{server.base}a.xml.gz")) == ["content-encoding"]
    server.put("/a.xml.gz", packed, Content_Type="application/x-gzip")
    assert check(fetcher, f"{server.base}a.xml.gz") == []


def test_what_is_gone_is_said_where_it_is_listed(server: Server, fetcher: Fetcher) -> None:
    """By the index and by robots.txt, at its line; not so a file that the command names."""
    server.put("/robots.txt", f"User-agent: *\nSitemap: {BASE}sitemap.xml\nSitemap: {BASE}old.xml\n")
    server.put("/sitemap.xml", index("a.xml", "gone.xml"))
    server.put("/a.xml", urlset(url("a")))
    server.put("/gone.xml", "", status=410)
    assert {
        (each.code, each.file.removeprefix(server.base), each.line) for each in check(fetcher, server.base)
    } == {
        ("index-names-absent", "sitemap.xml", 4),
        ("robots-names-absent", "robots.txt", 3),
    }
    assert codes(check(fetcher, f"{server.base}gone.xml")) == ["http-status"]


def test_robots_txt_of_the_host_counts(server: Server, fetcher: Fetcher) -> None:
    """For what it forbids and what it does not list."""
    server.put("/robots.txt", "User-agent: *\nDisallow: /a")
    server.put("/sitemap.xml", urlset(url("a"), url("b")))
    assert codes(check(fetcher, f"{server.base}sitemap.xml")) == ["robots-does-not-list", "robots-forbids"]


def test_index_files_are_followed_to_a_depth_of_3(server: Server, fetcher: Fetcher) -> None:
    """Each file once, however often it is listed; what is deeper stays unread."""
    for number in range(6):
        server.put(f"/{number}.xml", index(f"{number + 1}.xml", "0.xml"))
    check(fetcher, f"{server.base}0.xml")
    assert server.asked == ["/robots.txt", "/0.xml", "/1.xml", "/2.xml", "/3.xml"]


def test_other_hosts_are_not_asked(server: Server, fetcher: Fetcher) -> None:
    """A host that only an index names gets no request; its URL is a finding."""
    with closing(Server()) as other:
        server.put(
            "/sitemap.xml", index("a.xml", "b.xml").replace(f"{BASE}b.xml", "http://localhost:1/b.xml")
        )
        server.put("/a.xml", urlset(url("a")))
        assert codes(check(fetcher, f"{server.base}sitemap.xml")) == ["not-fetched", "other-host"]
        assert other.asked == []


def test_hosts_of_robots_txt_are_asked_and_may_list_the_site(
    server: Server, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cross-submission: a sitemap on another host, which robots.txt of the site lists, may list its URLs."""
    monkeypatch.setattr(fetch, "is_public", lambda _: True)
    elsewhere = server.base.replace("127.0.0.1", "localhost")
    server.put("/robots.txt", f"Sitemap: {elsewhere}cdn.xml")
    server.put("/cdn.xml", urlset(url("a")))
    assert check(fetcher, server.base) == []
    assert "other-host" in codes(check(fetcher, f"{elsewhere}cdn.xml"))


def test_private_addresses_are_refused(server: Server, tmp_path: Path) -> None:
    """Unless the URL itself names one, or all are allowed: robots.txt must not lead into the network."""
    server.put("/robots.txt", f"Sitemap: {server.base.replace('127.0.0.1', 'localhost')}sitemap.xml")
    server.put("/sitemap.xml", urlset(url("a")))
    for refused in check(Fetcher(tmp_path), server.base):
        assert refused.code == "not-fetched"
        assert "--allow-private" in refused.detail
    assert server.asked == ["/robots.txt"]
    check(Fetcher(tmp_path, allow_private=True), server.base)
    assert "/sitemap.xml" in server.asked


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1"),
        *("224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1"),
        *("::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::1", "2001:0:7f00:1::1"),
    ],
)
def test_what_is_no_public_address(address: str) -> None:
    """Private, loopback, link-local, shared, multicast, and IPv6 addresses that stand for such a one."""
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34"])
def test_what_is_a_public_address(address: str) -> None:
    """An address of the internet, also when written as IPv6."""
    assert is_public(ip_address(address))


def test_the_checked_address_is_the_one_that_is_asked(
    server: Server, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that changes its address after the check leads nowhere else."""
    resolved: list[str] = []
    real = socket.getaddrinfo

    def rebinding(host: str, *rest: Any, **more: Any) -> Any:
        if host == "rebind.example":
            resolved.append(host)
            # The first answer, which `allow` sees, is public; the second is not.
            host = "93.184.216.34" if len(resolved) == 1 else "127.0.0.1"
        return real(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    found = check(fetcher, server.base.replace("127.0.0.1", "rebind.example"))
    assert set(codes(found)) == {"not-fetched"}
    assert server.asked == []


def test_a_slow_answer_ends(server: Server, tmp_path: Path) -> None:
    """A server that sends a byte now and then holds nobody longer than the time of one fetch."""
    released = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        try:
            while not released.wait(0.02):
                handler.wfile.write(b"H")
        except OSError:
            pass

    server.pages["/sitemap.xml"] = drip
    try:
        found = check(Fetcher(tmp_path, seconds=0.5), f"{server.base}sitemap.xml")
    finally:
        released.set()
    assert [(each.code, each.detail) for each in found] == [("fetch-failed", "no whole answer within 0.5 s")]


def test_a_large_answer_ends(server: Server, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent as it is, or packed: not more than the bound goes to the disk."""
    monkeypatch.setattr(fetch, "BYTES_MAX", 100_000)
    for name, body, encoding in (
        ("a", b" " * 100_001, "identity"),
        ("b", gzip.compress(b" " * 100_001), "gzip"),
    ):
        server.put(f"/{name}.xml", body, Content_Encoding=encoding)
        (found,) = check(fetcher, f"{server.base}{name}.xml")
        assert (found.code, found.detail) == ("fetch-failed", "the answer is larger than 100,000 bytes")


def test_an_answer_that_is_cut_off_is_no_file(server: Server, fetcher: Fetcher) -> None:
    """Fewer bytes than the server announced."""

    def cut(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(
            b"HTTP/1.0 200 OK\r\nContent-Type: text/xml\r\nContent-Length: 99\r\n\r\n<urlset>"
        )

    server.pages["/sitemap.xml"] = cut
    assert codes(check(fetcher, f"{server.base}sitemap.xml")) == ["fetch-failed"]


def test_a_busy_server_is_asked_again(
    server: Server, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time that it names, once; not when that is too long."""
    slept: list[float] = []
    server.put("/sitemap.xml", "", status=503, Retry_After="7")

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        server.put("/sitemap.xml", urlset(url("a")))

    monkeypatch.setattr("sitemapd.fetch.time.sleep", sleep)
    assert check(fetcher, f"{server.base}sitemap.xml") == []
    assert slept == [7]
    server.put("/sitemap.xml", "", status=429, Retry_After="61")
    assert codes(check(fetcher, f"{server.base}sitemap.xml")) == ["http-status"]
    assert slept == [7]


def test_a_host_without_an_address_fails(fetcher: Fetcher) -> None:
    """The command ends with a sentence."""
    with pytest.raises(NotFetched, match="has no address"):
        check(fetcher, "https://nowhere.invalid/")

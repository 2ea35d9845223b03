"""The published files over HTTP, as `sitemapd serve` and `sitemapd run` give them to crawlers."""

from __future__ import annotations

import gzip
import http.client
from collections.abc import Iterator
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.acceptance.place import BASE, Place, add, settings
from tests.redis_server import RedisServer

INDEX = "/sitemap.xml"
SHARD = "/sitemap-pages-1.xml.gz"


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Web:
    """The server, asked exactly as written: no client of ours tidies a path up."""

    def __init__(self, address: str, output: Path) -> None:
        self._host = urlsplit(address).netloc
        self.output = output

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """The answer to one request."""
        connection = http.client.HTTPConnection(self._host, timeout=10)
        try:
            connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, any_redis: RedisServer) -> Iterator[Web]:
    """Give a server of a small published tree, with a file of another's in the output folder."""
    any_redis.flush()
    place = Place(tmp_path_factory.mktemp("http"))
    try:
        place.configure(settings(any_redis.url, gzip=True))
        worker = place.worker()
        place.events(*[add(f"page-{n}") for n in range(20)])
        place.wait()
        assert worker.stop() == 0
        (place.output / "private.xml").write_text("<secret/>")
        (place.folder / "sitemap.xml").write_text("<secret/>")
        (place.folder / "sitemap-x-1.xml").write_text("<secret/>")
        said = place.service("serve", "--port", "0").says("Serving at ")
        yield Web(said[said.index("http://") :].split()[0], place.output)
    finally:
        place.close()


def test_index_and_shards_are_served_as_published(web: Web) -> None:
    """The index is XML, a .gz shard is a gzip file and not an encoding; both bytes are the files'."""
    index, shard = web.ask(INDEX), web.ask(SHARD)
    assert index.status == shard.status == 200
    assert index.headers["Content-Type"].startswith("application/xml")
    assert shard.headers["Content-Type"] == "application/gzip"
    assert index.headers["Content-Encoding"] is shard.headers["Content-Encoding"] is None
    assert index.body == (web.output / "sitemap.xml").read_bytes()
    assert shard.body == (web.output / SHARD[1:]).read_bytes()
    assert f"<loc>{BASE}page-7</loc>".encode() in gzip.decompress(shard.body)


@pytest.mark.parametrize("path", [INDEX, SHARD])
def test_head_is_get_without_a_body(web: Web, path: str) -> None:
    """HEAD has the headers of GET, its length too, and no body."""
    got, head = web.ask(path), web.ask(path, "HEAD")
    assert (head.status, head.body) == (200, b"")
    for name in ("Content-Type", "Content-Length", "ETag", "Last-Modified"):
        assert head.headers[name] == got.headers[name] is not None, name


@pytest.mark.parametrize("path", [INDEX, SHARD])
def test_unchanged_file_is_not_sent_again(web: Web, path: str) -> None:
    """A matching ETag, or a date that is not older than the file's, gets 304; others get 200."""
    got = web.ask(path)
    etag, date = got.headers["ETag"], got.headers["Last-Modified"]
    for tag in (etag, f'"other", {etag}', f"W/{etag}", "*"):
        answer = web.ask(path, If_None_Match=tag)
        assert (answer.status, answer.body) == (304, b""), tag
        assert answer.headers["ETag"] == etag
    assert web.ask(path, If_Modified_Since=date).status == 304

    day_before = parsedate_to_datetime(date).replace(year=parsedate_to_datetime(date).year - 1)
    assert web.ask(path, If_Modified_Since=format_datetime(day_before, usegmt=True)).status == 200
    assert web.ask(path, If_Modified_Since="yesterday").status == 200
    assert web.ask(path, If_None_Match='"other"').status == 200
    assert web.ask(path, If_None_Match='"other"', If_Modified_Since=date).status == 200, "the ETag decides"


@pytest.mark.parametrize(
    "path",
    [
        "/private.xml",
        "/.sitemapd",
        "/%2esitemapd",
        "/../sitemap.xml",
        "/..%2fsitemap.xml",
        "/..%2Fsitemap-x-1.xml",
        "/%2e%2e/sitemap-x-1.xml",
        "/sitemap-x-1.xml/../",
        "/sitemap-x-1.xml",
        "/sitemap-pages-1.xml.gz/",
        "/sitemap-pages-1.xml.gz%00",
        "/sitemap-pages-1.xml",
        "/sitemap-pages-01.xml.gz",
        "//sitemap.xml",
        "/public/sitemap.xml",
        "/main/sitemap.xml",
        "/sitemap.xml%0a",
    ],
)
def test_nothing_else_is_served(web: Web, path: str) -> None:
    """Whatever is not the name of a published file is 404, wherever it may lead."""
    answer = web.ask(path)
    assert answer.status == 404
    assert b"secret" not in answer.body
    assert b"<urlset" not in answer.body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_only_reading_is_allowed(web: Web, method: str) -> None:
    """Other methods are 405, and the file stays."""
    answer = web.ask(INDEX, method)
    assert answer.status == 405
    assert "GET" in answer.headers["Allow"]
    assert web.ask(INDEX).status == 200


def test_health_and_home(web: Web) -> None:
    """/readyz is 200 with Redis there; / names the index."""
    assert web.ask("/readyz").status == 200
    assert web.ask("/").body.decode().strip().endswith("/sitemap.xml")

"""The published files over HTTP: types, encodings, validators, ranges, and what must not be served."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest
import redis

from sitemap_store.model.events import Event
from tests.integration.web_site import KEY, Web, add, publish, served_site, serving
from tests.redis_server import RedisServer
from tests.world import BASE, World, make_site

INDEX = "/sitemap.xml"
SHARD = "/sitemap-pages-1.xml"
PACKED = "/sitemap-pages-1.xml.gz"


@pytest.fixture(scope="module")
def client(any_redis: RedisServer) -> Iterator[redis.Redis]:
    """Give a client of an emptied server."""
    any_redis.flush()
    with any_redis.client() as client:
        yield client


@pytest.fixture(scope="module")
def world(client: redis.Redis, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Give a published site of 40 URLs in one plain shard."""
    world = World(client, make_site(shard_size=50), tmp_path_factory.mktemp("plain"))
    publish(world, *(add(f"page-{n}") for n in range(40)))
    return world


@pytest.fixture(scope="module")
def web(world: World) -> Iterator[Web]:
    """Give its server."""
    with serving({"shop": served_site(world)}) as web:
        yield web


@pytest.fixture(scope="module")
def packed(client: redis.Redis, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Give a published site whose shards are .xml.gz."""
    site = make_site(name="packed", gzip=True, shard_size=50)
    world = World(client, site, tmp_path_factory.mktemp("packed"))
    publish(world, *(add(f"page-{n}") for n in range(40)))
    return world


@pytest.fixture(scope="module")
def packed_web(packed: World) -> Iterator[Web]:
    """Give its server."""
    with serving({"packed": served_site(packed)}) as web:
        yield web


def test_the_etag_is_the_digest_that_the_state_has(
    world: World, web: Web, packed: World, packed_web: Web
) -> None:
    """A shard's ETag is strong and the state's digest of the uncompressed bytes, packed or not."""
    for site, server, path in ((world, web, SHARD), (packed, packed_web, PACKED)):
        known = site.client.hget(site.store.partitions[0].keys.shard(1), "petag")
        assert isinstance(known, bytes)
        assert server.ask(path).headers["ETag"] == f'"{known.decode()}"'
    index = world.client.hget(world.store.partitions[0].keys.index(1), "petag")
    assert isinstance(index, bytes)
    assert web.ask(INDEX).headers["ETag"] == f'"{index.decode()}"'


def test_a_new_version_has_another_etag(world: World, web: Web) -> None:
    """After a rewrite the old ETag gets the new bytes, and the other file keeps its own."""
    before = web.ask(SHARD)
    publish(world, Event("update", f"{BASE}page-3", "2026-04-01"))
    after = web.ask(SHARD, If_None_Match=before.headers["ETag"])
    assert after.status == 200
    assert after.headers["ETag"] != before.headers["ETag"]
    assert b"2026-04-01" in after.body


def test_every_answer_has_its_headers(web: Web, packed_web: Web) -> None:
    """Files are revalidated each time, are no search results, and are not guessed at; a 404 neither."""
    for server, path in ((web, INDEX), (web, SHARD), (packed_web, PACKED)):
        headers = server.ask(path).headers
        assert headers["Cache-Control"] == "no-cache"
        assert headers["Accept-Ranges"] == "bytes"
        assert headers["X-Robots-Tag"] == "noindex"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Server"] is None
    assert web.ask("/sitemap-gone-1.xml").headers["X-Robots-Tag"] == "noindex"


def test_types_say_what_the_bytes_are(web: Web, packed_web: Web) -> None:
    """XML is application/xml without a charset, a .gz is application/gzip, and neither is encoded."""
    assert web.ask(SHARD).headers["Content-Type"] == "application/xml"
    answer = packed_web.ask(PACKED, Accept_Encoding="gzip")
    assert answer.headers["Content-Type"] == "application/gzip"
    assert answer.headers["Content-Encoding"] is answer.headers["Vary"] is None
    assert b"<urlset" in gzip.decompress(answer.body)


@pytest.mark.parametrize(
    ("accepts", "packed"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("x-gzip", True),
        ("*", True),
        ("gzip;q=0", False),
        ("*;q=0, gzip;q=0.001", True),
        ("gzip;q=0, *", False),
        ("identity, br", False),
        ("", False),
        ("gzip;q=nonsense", True),
    ],
)
def test_xml_is_compressed_for_who_takes_it(web: Web, accepts: str, packed: bool) -> None:
    """A .xml comes gzipped when Accept-Encoding allows it: same content, weak ETag, Vary either way."""
    plain = web.ask(SHARD)
    answer = web.ask(SHARD, Accept_Encoding=accepts)
    assert answer.status == 200
    assert answer.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
    if packed:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert answer.headers["ETag"] == f"W/{plain.headers['ETag']}"
        assert gzip.decompress(answer.body) == plain.body
        assert len(answer.body) < len(plain.body)
    else:
        assert answer.headers["Content-Encoding"] is None
        assert answer.headers["ETag"] == plain.headers["ETag"]
        assert answer.body == plain.body


def test_what_was_compressed_is_not_sent_again(web: Web) -> None:
    """The weak ETag of a compressed answer gets 304, with either encoding, with the ETag of that encoding."""
    weak = web.ask(SHARD, Accept_Encoding="gzip").headers["ETag"]
    assert weak.startswith('W/"')
    for accepts, etag in (("gzip", weak), ("identity", weak.removeprefix("W/"))):
        answer = web.ask(SHARD, If_None_Match=weak, Accept_Encoding=accepts)
        assert (answer.status, answer.body, answer.headers["ETag"]) == (304, b"", etag)
        assert answer.headers["Vary"] == "Accept-Encoding"


def test_head_of_a_compressed_file_says_so(web: Web) -> None:
    """HEAD tells the encoding that GET would use, and sends nothing."""
    answer = web.ask(SHARD, "HEAD", Accept_Encoding="gzip")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["ETag"].startswith("W/")


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [("bytes=0-9", 0, 10), ("bytes=10-", 10, None), ("bytes=-7", -7, None), ("bytes=5-999999999", 5, None)],
)
@pytest.mark.parametrize("accepts", ["identity", "gzip"])
def test_a_range_is_sent_plain(web: Web, asked: str, start: int, end: int | None, accepts: str) -> None:
    """One range gets 206 with its place in the plain bytes, whatever encodings the client takes."""
    whole = web.ask(SHARD)
    answer = web.ask(SHARD, Range=asked, Accept_Encoding=accepts)
    assert (answer.status, answer.body) == (206, whole.body[start:end])
    first = start if start >= 0 else len(whole.body) + start
    last = first + len(answer.body) - 1
    assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{len(whole.body)}"
    assert int(answer.headers["Content-Length"]) == len(answer.body)
    assert answer.headers["ETag"] == whole.headers["ETag"]
    assert answer.headers["Content-Encoding"] is None


def test_a_range_of_a_packed_file_is_of_its_own_bytes(packed_web: Web) -> None:
    """A broken download of a .gz goes on where it stopped."""
    whole = packed_web.ask(PACKED).body
    rest = packed_web.ask(PACKED, Range="bytes=100-").body
    assert whole[:100] + rest == whole


@pytest.mark.parametrize("asked", ["bytes=999999-", "bytes=-0"])
def test_a_range_outside_is_416(web: Web, asked: str) -> None:
    """A range that begins after the end is refused, with the size."""
    size = len(web.ask(SHARD).body)
    answer = web.ask(SHARD, Range=asked)
    assert (answer.status, answer.body) == (416, b"")
    assert answer.headers["Content-Range"] == f"bytes */{size}"


@pytest.mark.parametrize(
    "asked", ["bytes=0-1,5-6", "bytes=9-3", "bytes=", "bytes=-", "lines=0-1", "bytes=a-"]
)
def test_what_is_no_single_range_gets_the_whole(web: Web, asked: str) -> None:
    """Several ranges, and nonsense, are left out of account."""
    answer = web.ask(SHARD, Range=asked)
    assert (answer.status, answer.body) == (200, web.ask(SHARD).body)


def test_if_range_guards_against_another_version(world: World, web: Web) -> None:
    """The range is sent when If-Range is the strong ETag or the date of a file at rest, else the whole."""
    os.utime(world.folder / SHARD[1:], (1_700_000_000, 1_700_000_000))
    whole = web.ask(SHARD)
    etag, date = whole.headers["ETag"], whole.headers["Last-Modified"]
    for condition, status in (
        (etag, 206),
        (date, 206),
        (f"W/{etag}", 200),
        ('"other"', 200),
        (formatdate(1_700_000_001, usegmt=True), 200),
        ("nonsense", 200),
    ):
        assert web.ask(SHARD, Range="bytes=0-4", If_Range=condition).status == status, condition
    os.utime(world.folder / SHARD[1:], (time.time() + 5, time.time() + 5))
    fresh = web.ask(SHARD).headers["Last-Modified"]
    assert web.ask(SHARD, Range="bytes=0-4", If_Range=fresh).status == 200, "it may change again this second"


def test_head_knows_no_ranges(web: Web) -> None:
    """A Range in a HEAD is left out of account."""
    answer = web.ask(SHARD, "HEAD", Range="bytes=0-4")
    assert answer.status == 200
    assert int(answer.headers["Content-Length"]) == len(web.ask(SHARD).body)


def test_preconditions_are_kept(web: Web) -> None:
    """If-Match and If-Unmodified-Since that do not hold get 412."""
    etag = web.ask(SHARD).headers["ETag"]
    assert web.ask(SHARD, If_Match='"other"').status == 412
    assert web.ask(SHARD, If_Match=f"W/{etag}").status == 412, "a weak one matches nothing"
    assert web.ask(SHARD, If_Match=f'"other", {etag}').status == 200
    assert web.ask(SHARD, If_Match="*").status == 200
    assert web.ask(SHARD, If_Unmodified_Since=formatdate(0, usegmt=True)).status == 412


def test_a_symlink_is_not_followed(world: World, web: Web, tmp_path: Path) -> None:
    """A symlink, a folder or a pipe under a published file's name is not there; the server goes on."""
    secret = tmp_path / "secret"
    secret.write_text("<secret/>")
    (world.folder / "sitemap-link-1.xml").symlink_to(secret)
    (world.folder / "sitemap-link-2.xml").symlink_to(world.folder / SHARD[1:])
    (world.folder / "sitemap-folder-1.xml").mkdir()
    os.mkfifo(world.folder / "sitemap-pipe-1.xml")
    for name in ("link-1", "link-2", "folder-1", "pipe-1"):
        answer = web.ask(f"/sitemap-{name}.xml")
        assert answer.status == 404, name
        assert b"secret" not in answer.body
    assert web.ask(SHARD).status == 200


def test_the_indexnow_key_is_served(web: Web) -> None:
    """/KEY.txt holds the key, and no other .txt is there."""
    answer = web.ask(f"/{KEY}.txt")
    assert (answer.status, answer.text) == (200, KEY)
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert web.ask("/0123456789abcdef.txt").status == 404
    assert web.ask(f"/{KEY.upper()}.txt").status == 404


def test_robots_lines_name_the_index_files(client: redis.Redis, tmp_path: Path, web: Web) -> None:
    """/robots.txt has a Sitemap line with the public address of each index file."""
    assert web.ask("/robots.txt").text == f"Sitemap: {BASE}sitemap.xml\n"
    world = World(client, make_site(name="wide", shard_size=1, index_size=2), tmp_path)
    publish(world, *(add(f"page-{n}") for n in range(3)))
    with serving({"wide": served_site(world)}) as wide:
        assert wide.ask("/robots.txt").text == f"Sitemap: {BASE}sitemap.xml\nSitemap: {BASE}sitemap-2.xml\n"


def test_with_several_sites_each_is_in_its_folder(world: World, packed: World) -> None:
    """Files, robots.txt and key are under /SITE/; a site may be named as the page's own folders are."""
    sites = {"static": served_site(world), "sites": served_site(packed)}
    with serving(sites) as web:
        assert b"<urlset" in web.ask(f"/static{SHARD}").body
        assert web.ask(f"/sites{PACKED}").status == 200
        assert web.ask("/static/style.css").headers["Content-Type"].startswith("text/css")
        assert web.ask("/static/robots.txt").text == f"Sitemap: {BASE}sitemap.xml\n"
        assert web.ask(f"/sites/{KEY}.txt").text == KEY
        assert web.ask(SHARD).status == web.ask(f"/other{SHARD}").status == 404
        assert web.ask("/").text.splitlines() == [
            f"{web.address}static/sitemap.xml",
            f"{web.address}sites/sitemap.xml",
        ]

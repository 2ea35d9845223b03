"""deploy/nginx.conf on a real nginx: what it serves, with which headers, and what it hides."""

import gzip
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests import needs

ROOT = Path(__file__).parents[2]
START_SECONDS: Final = 20.0
INDEX: Final = b'<?xml version="1.0" encoding="UTF-8"?>\n<sitemapindex>' + b"<!-- x -->" * 100
SHARD: Final = gzip.compress(b"<urlset/>" * 100, mtime=0)
FILES: Final = {
    "sitemap.xml": INDEX,
    "sitemap-pages-1.xml.gz": SHARD,
    "robots.txt": b"Sitemap: http://127.0.0.1/sitemap.xml\n",
    "0123456789abcdef.txt": b"0123456789abcdef",
    "short.txt": b"not a key",
    ".sitemap.xml": b"half a file",
    ".sitemap-pages-1.xml.gz": b"half a file",
    ".state/sitemap.xml": b"hidden",
    "notes.md": b"not ours",
    "sitemap.xml.tmp": b"half a file",
    "more/sitemap-2.xml": b"<sitemapindex/>",
}


def configuration(prefix: Path, port: int) -> Path:
    """Write the configuration with the three things changed that depend on the machine."""
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    for old, new in {
        "listen 8080;": f"listen 127.0.0.1:{port};",
        "/tmp/nginx": str(prefix / "run"),
        "/srv/sitemaps": str(prefix / "public"),
    }.items():
        assert old in text
        text = text.replace(old, new)
    path = prefix / "nginx.conf"
    path.write_text(text)
    return path


def command(prefix: Path, port: int) -> list[str]:
    """Return the command that runs nginx on the configuration, as the user who runs the tests."""
    nginx = needs.program("nginx", package="nginx-light")
    directives = "daemon off;" + (" user root;" if os.geteuid() == 0 else "")
    path = configuration(prefix, port)
    return [nginx, "-p", str(prefix), "-c", str(path), "-e", "stderr", "-g", directives]


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with published files in `public` and room for what nginx writes."""
    folder = tmp_path_factory.mktemp("nginx")
    (folder / "run").mkdir()
    for name, content in FILES.items():
        path = folder / "public" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (folder / "secret").write_text("<secret/>")
    (folder / "public" / "sitemap-link-1.xml").symlink_to(folder / "secret")
    (folder / "public" / "out").symlink_to(folder)
    (folder / "secret.xml").write_text("<secret/>")
    return folder


@pytest.fixture(scope="module")
def web(prefix: Path) -> Iterator[httpx.Client]:
    """Give a client of a running nginx."""
    port = free_port()
    log_path = prefix / "log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(command(prefix, port), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"Accept-Encoding": "identity"}
        ) as client:
            deadline = time.monotonic() + START_SECONDS
            while True:
                assert process.poll() is None, log_path.read_text()
                assert time.monotonic() < deadline, log_path.read_text()
                try:
                    client.get("/healthz")
                except httpx.TransportError:
                    time.sleep(0.01)
                else:
                    break
            yield client
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def test_nginx_takes_the_configuration(prefix: Path) -> None:
    """`nginx -t` has neither an error nor a warning."""
    done = subprocess.run([*command(prefix, free_port()), "-t"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "[warn]" not in done.stderr


def test_it_answers_the_health_check(web: httpx.Client) -> None:
    """/healthz says ok even while nothing is published."""
    answer = web.get("/healthz")
    assert (answer.status_code, answer.text) == (200, "ok\n")


def test_an_xml_file_is_served_as_xml(web: httpx.Client) -> None:
    """A .xml is application/xml, not encoded where the client did not ask for it."""
    answer = web.get("/sitemap.xml")
    assert (answer.status_code, answer.content) == (200, INDEX)
    assert answer.headers["Content-Type"] == "application/xml"
    assert "Content-Encoding" not in answer.headers


def test_an_xml_file_is_compressed_in_transit(web: httpx.Client) -> None:
    """To a client that takes gzip, a .xml comes with Content-Encoding and stays application/xml."""
    answer = web.get("/sitemap.xml", headers={"Accept-Encoding": "gzip"})
    assert (answer.status_code, answer.content) == (200, INDEX)
    assert answer.headers["Content-Type"] == "application/xml"
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize("accepts", ["identity", "gzip", "gzip, br, zstd"])
def test_a_gzip_file_is_served_as_the_file_that_it_is(web: httpx.Client, accepts: str) -> None:
    """A .xml.gz is application/gzip and not encoded, byte for byte, whatever the client takes."""
    answer = web.get("/sitemap-pages-1.xml.gz", headers={"Accept-Encoding": accepts})
    assert (answer.status_code, answer.content) == (200, SHARD)
    assert answer.headers["Content-Type"] == "application/gzip"
    assert "Content-Encoding" not in answer.headers


def test_robots_txt_is_served_as_text(web: httpx.Client) -> None:
    """robots.txt is text/plain in UTF-8."""
    answer = web.get("/robots.txt")
    assert (answer.status_code, answer.content) == (200, FILES["robots.txt"])
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"


def test_files_in_folders_are_served(web: httpx.Client) -> None:
    """A sitemap in a folder of the output is found under that folder."""
    assert web.get("/more/sitemap-2.xml").content == FILES["more/sitemap-2.xml"]


@pytest.mark.parametrize("path", ["/sitemap.xml", "/sitemap-pages-1.xml.gz"])
@pytest.mark.parametrize("accepts", ["identity", "gzip"])
def test_what_a_crawler_has_is_not_sent_again(web: httpx.Client, path: str, accepts: str) -> None:
    """The ETag or the date of the first answer gets a 304 without a body."""
    headers = {"Accept-Encoding": accepts}
    first = web.get(path, headers=headers)
    assert first.headers["Cache-Control"] == "no-cache"
    for condition in (
        {"If-None-Match": first.headers["ETag"]},
        {"If-Modified-Since": first.headers["Last-Modified"]},
    ):
        again = web.get(path, headers=headers | condition)
        assert (again.status_code, again.content) == (304, b"")


def test_a_changed_file_is_sent_again(web: httpx.Client, prefix: Path) -> None:
    """Once the file is another, the old ETag and the old date get the new bytes."""
    path = prefix / "public" / "sitemap-changing-1.xml"
    path.write_bytes(b"<old/>")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    first = web.get(f"/{path.name}")
    path.write_bytes(b"<new/>")
    os.utime(path, (1_700_000_001, 1_700_000_001))

    for condition in (
        {"If-None-Match": first.headers["ETag"]},
        {"If-Modified-Since": first.headers["Last-Modified"]},
    ):
        again = web.get(f"/{path.name}", headers=condition)
        assert (again.status_code, again.content) == (200, b"<new/>")


@pytest.mark.parametrize(
    "path", ["/sitemap.xml", "/sitemap-pages-1.xml.gz", "/robots.txt", "/sitemap-gone.xml", "/"]
)
def test_no_answer_is_a_search_result(web: httpx.Client, path: str) -> None:
    """Every answer, a 404 included, asks not to be listed, and none tells nginx's version."""
    answer = web.get(path)
    assert answer.headers["X-Robots-Tag"] == "noindex"
    assert answer.headers["Server"] == "nginx"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/more/",
        "/notes.md",
        "/sitemap.xml.tmp",
        "/.sitemap.xml",
        "/%2Esitemap.xml",
        "/.sitemap-pages-1.xml.gz",
        "/.state/sitemap.xml",
        "/sitemap-gone-1.xml",
        "/sitemap-gone-1.xml.gz",
        "/short.txt",
        "/sitemap-link-1.xml",
        "/out/secret.xml",
        "/out/public/sitemap.xml",
    ],
)
def test_nothing_else_is_found(web: httpx.Client, path: str) -> None:
    """Hidden files, files being written, other files, symbolic links and folder listings are all 404."""
    answer = web.get(path)
    assert answer.status_code == 404
    assert answer.headers["X-Robots-Tag"] == "noindex"
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.xml",
        "/%2e%2e/secret.xml",
        "/..%2fsecret.xml",
        "/%2e%2e%2fsecret.xml",
        "/more/../../secret.xml",
        "/sitemap.xml%00.xml",
    ],
)
def test_no_path_leads_out(web: httpx.Client, path: str) -> None:
    """A path that climbs out of the folder, or holds a NUL, is refused as it is."""
    with socket.create_connection((web.base_url.host, web.base_url.port or 80), timeout=10) as wire:
        wire.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while more := wire.recv(65536):
            answer += more
    assert answer.split(b" ")[1] in (b"400", b"404")
    assert b"secret/" not in answer


def test_an_indexnow_key_is_served(web: httpx.Client) -> None:
    """The file of an IndexNow key is text, named after the key."""
    answer = web.get("/0123456789abcdef.txt")
    assert (answer.status_code, answer.text) == (200, "0123456789abcdef")
    assert answer.headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("path", ["/sitemap.xml", "/sitemap-pages-1.xml.gz"])
def test_a_range_is_of_the_plain_bytes(web: httpx.Client, path: str) -> None:
    """A part of a file is 206 with its place, guarded by If-Range; one outside is 416."""
    whole = web.get(path)
    part = web.get(path, headers={"Range": "bytes=10-19", "If-Range": whole.headers["ETag"]})
    assert (part.status_code, part.content) == (206, whole.content[10:20])
    assert part.headers["Content-Range"] == f"bytes 10-19/{len(whole.content)}"
    changed = web.get(path, headers={"Range": "bytes=10-19", "If-Range": '"other"'})
    assert (changed.status_code, changed.content) == (200, whole.content)
    assert web.get(path, headers={"Range": "bytes=9999999-"}).status_code == 416


def test_what_was_compressed_has_a_weak_etag(web: httpx.Client) -> None:
    """The ETag of a file compressed on the way is weak, as with sitemapd's own server."""
    assert web.get("/sitemap.xml", headers={"Accept-Encoding": "gzip"}).headers["ETag"].startswith('W/"')
    assert web.get("/sitemap.xml").headers["ETag"].startswith('"')


def test_head_tells_the_headers_alone(web: httpx.Client) -> None:
    """HEAD has the length of the file and no body."""
    answer = web.head("/sitemap.xml")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["Content-Length"]) == len(INDEX)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
@pytest.mark.parametrize("path", ["/sitemap.xml", "/sitemap-new.xml", "/healthz", "/.sitemap.xml"])
def test_only_reading_is_allowed(web: httpx.Client, method: str, path: str) -> None:
    """Any other method is 405, and says which methods are allowed."""
    answer = web.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["Allow"] == "GET, HEAD"

"""Each check of `sitemapd doctor` in its good and its bad state."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from producers.filesystem.source import FilesystemSource
from sitemap_store.errors import SitemapdError
from sitemap_store.redis import observed
from sitemap_store.redis.observed import failed_writes
from sitemapd.build import Parts, build
from sitemapd.doctor import access, machine, server
from sitemapd.doctor.directories import inotify
from sitemapd.doctor.finding import Finding, size
from sitemapd.settings import Settings
from tests import needs
from tests.acceptance.until import until
from tests.redis_server import RedisServer, any_kind


def parts(redis_url: str, output: Path, *, base: str = "https://shop.example.com/") -> Parts:
    """The parts of one site."""
    site = {"base_url": base, "output": str(output)}
    return build(Settings.model_validate({"redis_url": redis_url, "sites": {"shop": site}}))


def test_versions_within_the_bounds_are_named() -> None:
    """Those of sitemapd, Python and the libraries that matter most."""
    said = machine.versions()
    assert said.startswith("sitemapd ")
    assert " redis " in said


@pytest.mark.parametrize(
    ("requires", "said"),
    [
        ("redis<5,>=4", r"package redis is version [\d.]+, and <5,>=4 is needed"),
        ("redis>=99", r"package redis is version [\d.]+, and >=99 is needed"),
        ("no-such-thing>=1", "package no-such-thing is not installed"),
    ],
)
def test_a_version_outside_the_bounds_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requires: str, said: str
) -> None:
    """A distribution that asks for what is not there: each library is named with the way out."""
    info = tmp_path / "asking-1.0.dist-info"
    info.mkdir()
    extra = 'Requires-Dist: also-missing>=1; extra == "more"\nRequires-Dist: lxml[html]>=1\n'
    text = f"Metadata-Version: 2.1\nName: asking\nVersion: 1.0\nRequires-Dist: {requires}\n{extra}"
    (info / "METADATA").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SitemapdError, match=said) as caught:
        machine.versions("asking")
    assert "pip install --upgrade asking" in str(caught.value)
    assert "also-missing" not in str(caught.value)


def test_a_package_that_hides_ours_is_named(tmp_path: Path) -> None:
    """Another `worker` first on the path is wrong; alone, ours is fine."""
    assert "no other package" in machine.packages()
    (tmp_path / "worker").mkdir()
    (tmp_path / "worker" / "__init__.py").write_text("")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom sitemapd.doctor import machine\n"
    done = subprocess.run(
        [sys.executable, "-c", script + "machine.packages()"], capture_output=True, text=True, check=False
    )
    assert f"another package named worker hides ours: {tmp_path}" in done.stderr


def _on_small_disk(script: str, options: str) -> str:
    """What a check of the machine says of /mnt, on which a small disk is mounted for it alone."""
    line = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mounting = f"mount -t tmpfs -o {options} none /mnt"
    allowed = subprocess.run([*line, mounting], capture_output=True, check=False)
    needs.require(allowed.returncode == 0, f"no disk may be mounted here: {allowed.stderr.decode()}")
    code = (
        "from pathlib import Path\nfrom sitemapd.doctor import machine\n"
        "from sitemapd.doctor.finding import attempt\n"
        "print(*attempt('disk', lambda: machine.disk(Path('/mnt/not/there/yet'))))"
    )
    command = f'{mounting} && {script} && exec "$0" -c "$1"'
    done = subprocess.run(
        [*line, command, sys.executable, code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return done.stdout


def test_a_disk_that_is_nearly_full_is_wrong() -> None:
    """A small disk with room is fine; with 4 % or 30 names left it is wrong, and the way out is named."""
    assert _on_small_disk("true", "size=1m").startswith("disk True 1.0 MiB of 1.0 MiB are left at /mnt/not")
    full = _on_small_disk("head -c 1008000 /dev/zero > /mnt/file", "size=1m")
    assert full.startswith("disk False only ")
    assert "remove files from this disk" in full
    names = _on_small_disk("true", "size=1m,nr_inodes=30")
    assert names.startswith("disk False /mnt/not/there/yet has room for only ")


def test_the_disk_here_is_measured(tmp_path: Path) -> None:
    """In units that people read."""
    assert "are left at" in machine.disk(tmp_path)
    assert [size(1000), size(1536), size(200 << 20), size(5 << 40)] == [
        "1,000 B",
        "1.5 KiB",
        "200 MiB",
        "5.0 TiB",
    ]


@pytest.fixture
def limits(tmp_path: Path) -> Callable[[int, int], Path]:
    """Make a folder with limits as the kernel has them."""

    def made(watches: int, instances: int) -> Path:
        folder = tmp_path / "limits"
        folder.mkdir(exist_ok=True)
        (folder / "max_user_watches").write_text(f"{watches}\n")
        (folder / "max_user_instances").write_text(f"{instances}\n")
        return folder

    return made


def _content(folder: Path, **options: Any) -> FilesystemSource:
    """A source of a content directory with three folders and one that is excluded."""
    for name in ("a", "b", "left-out"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return FilesystemSource.of("pages", {"directory": folder, "exclude": ["/left-out/"], **options})


def test_inotify_has_a_watch_for_each_folder(tmp_path: Path, limits: Callable[[int, int], Path]) -> None:
    """Folders that are left out need none; one too few is wrong, and the way out is named."""
    source = _content(tmp_path / "content")
    assert inotify([source], limits(3, 1)) == "3 of 3 watches are needed, 1 of 1 instances"
    with pytest.raises(SitemapdError, match=r"than the 2 inotify watches .* raise fs\.inotify\.max_user_wat"):
        inotify([source], limits(2, 1))
    with pytest.raises(SitemapdError, match=r"raise fs\.inotify\.max_user_instances"):
        inotify([source, _content(tmp_path / "other")], limits(9, 1))
    polled = _content(tmp_path / "content", polling="always")
    assert inotify([polled], limits(0, 0)).startswith("0 of 0 watches")
    assert "are polled" in inotify([source], tmp_path / "none")
    assert "watches are needed" in inotify([source])
    with pytest.raises(SitemapdError, match="can't be listed"):
        inotify([_content(tmp_path / "content").replace(directory=tmp_path / "gone")], limits(9, 9))


def test_redis_memory_left_is_told(any_redis: RedisServer) -> None:
    """Of maxmemory, or else of the machine; with less than a tenth left it is wrong."""
    with any_redis.client() as client:
        try:
            client.config_set("maxmemory", 0)
            assert "the memory of its machine" in server.memory(client)
            client.config_set("maxmemory", 10 << 30)
            assert "of 10.0 GiB are left (maxmemory)" in server.memory(client)
            client.config_set("maxmemory", int(client.info("memory")["used_memory"] * 1.05))
            with pytest.raises(SitemapdError, match="raise maxmemory, since a full Redis refuses"):
                server.memory(client)
        finally:
            client.config_set("maxmemory", 0)


def test_a_redis_that_cannot_write_to_its_disk_is_wrong() -> None:
    """Its folder is gone when it saves a snapshot: `doctor` and the page name the write that failed."""
    running = RedisServer(any_kind())
    try:
        running.start()
        with running.client() as client:
            assert "went well" in server.disk(client)
            shutil.rmtree(running.folder)
            client.bgsave()
            until(lambda: not observed.server(client).safe, what="the snapshot failed")
            with pytest.raises(SitemapdError, match="could not save its last snapshot"):
                server.disk(client)
    finally:
        running.close()


@pytest.mark.parametrize(
    ("info", "said"),
    [
        ({"aof_last_write_status": "err"}, "append-only file"),
        ({"rdb_last_bgsave_status": "err"}, "last snapshot"),
        ({"aof_last_write_status": "ok", "rdb_last_bgsave_status": "ok"}, ""),
    ],
)
def test_each_failed_write_has_a_sentence(info: dict[str, str], said: str) -> None:
    """One for each, with the way out."""
    failed = failed_writes(info)
    assert len(failed) == bool(said)
    assert all(said in each and "free space" in each for each in failed)


def test_memory_that_may_not_be_asked_for_is_said(any_redis: RedisServer) -> None:
    """It can't be checked: that is not the same as fine."""
    with any_redis.client() as client:
        client.execute_command("ACL", "SETUSER", "plain", "on", ">secret", "~*", "+@all", "-info")
        try:
            plain = any_redis.client()
            plain.connection_pool.connection_kwargs |= {"username": "plain", "password": "secret"}
            assert "can't be checked" in server.memory(plain)
        finally:
            client.execute_command("ACL", "DELUSER", "plain")


@pytest.mark.parametrize(("off", "said"), [(3600, "3,600.0 s ahead of Redis"), (-7, "7.0 s behind Redis")])
def test_clocks_that_differ_are_wrong(any_redis: RedisServer, off: int, said: str) -> None:
    """By how much, and which is ahead; the same clock is fine."""
    any_redis.start()
    with any_redis.client() as client:
        assert "agree within 2 s" in server.clock(client, time.time)
        with pytest.raises(SitemapdError, match=said) as caught:
            server.clock(client, lambda: time.time() + off)
        assert "NTP" in str(caught.value)


def test_the_version_of_redis_is_told(redis_url: str, tmp_path: Path) -> None:
    """Beside what its settings mean; one that is away is wrong."""
    said = server.settings(parts(redis_url, tmp_path))
    assert said.startswith("version ")
    assert said.endswith("stores data safely")
    with pytest.raises(SitemapdError, match="Start it, or correct the address"):
        server.settings(parts(f"unix://{tmp_path}/none.sock", tmp_path))


@contextmanager
def web_server(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """A web server on this machine, and its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}/"
        finally:
            http.shutdown()
            thread.join()


def _text(text: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        address = f"http://{handler.headers['Host']}/"
        body = text.replace("BASE", address).encode()
        handler.send_response(200 if handler.path == "/robots.txt" else 404)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def _robots(redis_url: str, output: Path, base: str, **given: float) -> str:
    try:
        return access.robots(parts(redis_url, output, base=base), "shop", **given)
    except SitemapdError as error:
        return f"WRONG {error}"


def test_robots_txt_that_lists_the_index_is_fine(redis_url: str, tmp_path: Path) -> None:
    """Whatever the case and the comments; of a site below a folder the host's robots.txt counts."""
    with web_server(_text("\ufeffUser-agent: *\r\nsitemap :BASEsitemap.xml # ours\r\n")) as base:
        assert _robots(redis_url, tmp_path, base) == f"{base}robots.txt lists every index file"
    with web_server(_text("Sitemap: BASEmaps/sitemap.xml")) as base:
        assert _robots(redis_url, tmp_path, f"{base}maps/") == f"{base}robots.txt lists every index file"


def test_robots_txt_without_the_index_is_wrong(redis_url: str, tmp_path: Path) -> None:
    """The missing line is named; behind 500 KiB crawlers read none."""
    for text in ("Sitemap: BASEother.xml", "#" * 600_000 + "\nSitemap: BASEsitemap.xml"):
        with web_server(_text(text)) as base:
            said = _robots(redis_url, tmp_path, base)
            assert said == (
                f"WRONG {base}robots.txt does not list {base}sitemap.xml: add the lines that "
                "`sitemapd robots` prints"
            )


def test_robots_txt_that_is_not_there_is_wrong(redis_url: str, tmp_path: Path) -> None:
    """A status, no server, and one that never finishes are each one sentence."""

    def status(code: int, handler: BaseHTTPRequestHandler) -> None:
        handler.send_error(code)

    ends = threading.Event()

    def never(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not ends.wait(0.05):
            handler.wfile.write(b"#")

    with web_server(partial(status, 404)) as base:
        assert "answers 404: write one" in _robots(redis_url, tmp_path, base)
    with web_server(partial(status, 503)) as base:
        assert "answers 503" in _robots(redis_url, tmp_path, base)
    assert "see whether this machine reaches" in _robots(redis_url, tmp_path, base)
    with web_server(never) as base:
        assert "no whole answer within 0.3 s" in _robots(redis_url, tmp_path, base, seconds=0.3)
        ends.set()


def test_robots_txt_is_fetched_from_the_sites_host_alone(redis_url: str, tmp_path: Path) -> None:
    """A redirect on the host is followed; one to another host is wrong, and that host gets no request."""
    asked: list[str] = []

    def elsewhere(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        _text("Sitemap: BASEsitemap.xml")(handler)

    def redirect(to: str, handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/robots.txt":
            handler.send_response(302)
            handler.send_header("Location", to)
            handler.end_headers()
        else:
            handler.path = "/robots.txt"
            _text("Sitemap: BASEsitemap.xml")(handler)

    with web_server(partial(redirect, "/real.txt")) as base:
        assert "lists every index file" in _robots(redis_url, tmp_path, base)
    with web_server(elsewhere) as other:
        to = other.replace("127.0.0.1", "localhost") + "robots.txt"
        with web_server(partial(redirect, to)) as base:
            assert "which is another host" in _robots(redis_url, tmp_path, base)
    assert not asked


def test_a_finding_is_json(redis_url: str) -> None:
    """With what was checked, whether it is right, and the sentence."""
    assert json.loads(json.dumps(Finding("clock", True, "right")._asdict())) == {
        "what": "clock",
        "fine": True,
        "detail": "right",
    }

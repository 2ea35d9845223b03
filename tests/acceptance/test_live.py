"""`tail`, `top` and `completion` as a user runs them."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.acceptance.place import BASE, Place, Service, settings
from tests.acceptance.until import PATIENCE, until
from tests.redis_server import RedisServer

COMMAND = [sys.executable, "-c", "from sitemapd.cli import main; main()"]


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Whoever starts the tests in the background has them, and what they start, ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(service: Service) -> int:
    """Press Ctrl-C; the exit code."""
    service.signal(signal.SIGINT)
    return service.ended()


@pytest.fixture
def shop(place: Place, any_redis: RedisServer) -> Place:
    """Give a configured site without a worker."""
    any_redis.flush()
    place.configure(settings(any_redis.url, shard_size=10))
    return place


def test_tail_follows_what_comes_and_goes(shop: Place) -> None:
    """Accepted, published and refused, each once; Ctrl-C ends it with 0."""
    worker = shop.worker()
    shop.ok("push", "add", f"{BASE}before")
    shop.wait()
    tail, rows = shop.service("tail", "--json"), shop.service("tail", "--lines", "0")
    until(lambda: "published" in tail.out, what="the past is told")
    time.sleep(1)  # so that the other has begun, which says nothing of the past
    assert shop.command("push", "add", f"{BASE}a", f"{BASE}b", "https://else.example/").code == 1
    shop.wait()
    until(lambda: "refused" in rows.out and "published" in rows.out and "accepted" in rows.out, what="told")
    until(lambda: tail.out.count("refused") == 1, what="told as JSON")
    told = [json.loads(line) for line in tail.out.splitlines()]
    assert [row["events"] for row in told if row["what"] == "accepted"] == [2]
    assert [(row["rule"], row["loc"]) for row in told if row["what"] == "refused"] == [
        ("location", "https://else.example/")
    ]
    assert [row["file"] for row in told if row["what"] == "published"] == ["sitemap-pages-1.xml"] * 2
    lines = rows.out.splitlines()
    assert sum("accepted 2 add" in line for line in lines) == 1
    assert not any("before" in line for line in lines)
    for service in (tail, rows):
        assert interrupted(service) == 0
        assert "Traceback" not in service.log
    assert worker.stop() == 0


def test_tail_waits_for_redis(shop: Place, any_redis: RedisServer) -> None:
    """It says once that Redis is away, and goes on when it is back."""
    tail = shop.service("tail", "--lines", "0")
    time.sleep(1)
    any_redis.stop()
    until(lambda: "trying again" in tail.log, what="Redis' absence is told")
    any_redis.start()
    shop.ok("push", "add", f"{BASE}a")
    until(lambda: "accepted 1 add" in tail.out, what="it goes on")
    assert tail.log.count("trying again") == 1
    assert interrupted(tail) == 0


def test_top_prints_once_without_a_terminal(shop: Place) -> None:
    """A pipe gets one table."""
    shop.ok("push", "add", f"{BASE}a")
    said = shop.ok("top").out
    assert said.count("main") == said.count("URLs") == 1
    assert len(said.splitlines()) < 12


def test_top_shows_itself_anew_on_a_terminal(shop: Place) -> None:
    """Until Ctrl-C, which ends it with 0."""
    main, other = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "top", "--interval", "0.2"], cwd=shop.folder, env={**os.environ, "TERM": "xterm"},
        stdin=other, stdout=other, stderr=other, start_new_session=True,
    )  # fmt: skip
    os.close(other)
    try:
        said, deadline = b"", time.monotonic() + PATIENCE
        while said.count(b"main") < 3 and time.monotonic() < deadline:
            if select.select([main], [], [], 1)[0]:
                said += os.read(main, 65536)
        assert said.count(b"main") >= 3
        process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + PATIENCE
        while select.select([main], [], [], 0.5)[0] and time.monotonic() < deadline:
            try:
                said += os.read(main, 65536)
            except OSError:
                break
        assert process.wait(30) == 0
        assert b"Traceback" not in said
    finally:
        process.kill()
        process.wait(10)
        os.close(main)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_what_the_shell_evaluates(shop: Place, shell: str) -> None:
    """The script names the command; bash takes it, and completes by it."""
    script = shop.ok("completion", shell).out
    assert "sitemapd" in script
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0
        words = {"COMP_WORDS": "sitemapd comp", "COMP_CWORD": "1", "_SITEMAPD_COMPLETE": "bash_complete"}
        done = subprocess.run(
            COMMAND, cwd=shop.folder, env={**os.environ, **words}, capture_output=True, text=True
        )
        assert done.stdout.split() == ["plain,compact", "plain,completion"]

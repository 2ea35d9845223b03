"""Redis may come back a second younger: what sources told it is told again, and no lastmod goes back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

from tests.acceptance.place import BASE, Place, add, settings
from tests.acceptance.until import until
from tests.published import listed, published
from tests.redis_server import RedisServer, any_kind

SOON = 30.0


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """Give a Redis of this test's own, whose files may be exchanged."""
    found = RedisServer(any_kind())
    found.start()
    yield found
    found.close()


def test_a_watcher_tells_again_what_redis_lost(place: Place, server: RedisServer) -> None:
    """Its append-only file ends a second before the crash: the watcher compares and all is listed again."""
    content = place.folder / "content"
    content.mkdir()
    (content / "early.html").write_text("<p>early")
    watch = f"[sites.main.watch.pages]\ndirectory = {json.dumps(str(content))}\n"
    place.configure(settings(server.url, shard_size=2) + watch)
    service = place.worker()
    watcher = place.service("watch")
    early, late = BASE + "early.html", BASE + "late.html"
    until(lambda: early in published(place.output), within=SOON, what="the first page is published")
    place.events(add("pushed"))
    place.wait()
    kept = server.folder.with_name(server.folder.name + "-kept")
    shutil.copytree(server.folder, kept, ignore=shutil.ignore_patterns("*.sock"))
    try:
        (content / "late.html").write_text("<p>late")
        until(lambda: late in published(place.output), within=SOON, what="the second page is published")
        place.wait()
        shown = listed(place.output)
        server.stop(kill=True)
        shutil.rmtree(server.folder / "appendonlydir", ignore_errors=True)
        shutil.copytree(kept, server.folder, dirs_exist_ok=True)
        server.start()
        watcher.says("Redis was restarted", within=SOON)

        def told_again() -> bool:
            now = listed(place.output)
            assert all(now[name] >= lastmod for name, lastmod in shown.items() if name in now)
            return published(place.output).keys() == {early, late, BASE + "pushed"}

        until(told_again, within=SOON, what="all is listed again")
        place.wait()
        assert told_again()
        place.ok("show", late)
        assert service.alive()
    finally:
        shutil.rmtree(kept, ignore_errors=True)

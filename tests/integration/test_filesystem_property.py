"""Whatever is done to a tree, the state ends up as a plain look at the tree says."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests import needs
from tests.acceptance.place import Place
from tests.acceptance.until import until
from tests.examples import examples
from tests.integration.filesystem_world import BASE, World, plain_look
from tests.published import published
from tests.redis_server import RedisServer

NAMES: Final = [
    "a.html", "b.html", "index.html", "a.md", "index.md", "_index.md", "c d.md", "x.txt", "é.html",
]  # fmt: skip
FOLDERS: Final = ["", "a", "b", "a/c", "a.html", "b/c/d"]
TEXTS: Final = ["text", "other text", "---\ndraft: true\n---\n", "---\ndraft: false\n---\n"]
CASCADES: Final = ["---\ncascade: {draft: true}\n---\n", "---\ncascade: {draft: false}\n---\n"]

CONFIGURATION: Final = f"""
data_dir = "data"
[sites.main]
base_url = "{BASE}"
output = "public"
shard_size = 100
min_interval = 0.05
[sites.main.watch.pages]
directory = "content"
debounce = 0.05
max_delete = 1.0
"""

files = st.builds("/".join, st.tuples(st.sampled_from(FOLDERS), st.sampled_from(NAMES))).map(
    lambda path: path.lstrip("/")
)
folders = st.sampled_from([folder for folder in FOLDERS if folder])


class Watched(Protocol):
    """A tree that is watched, in one way or another."""

    home: Path
    content: Path

    def begin(self) -> None:
        """Begin with an empty tree, `content` being a link to a release."""

    def restart(self) -> None:
        """End the watcher and start it again."""

    def settle(self) -> None:
        """Wait until everything is as a plain look at the tree says."""

    def end(self) -> None:
        """End this run."""


class InThisProcess:
    """A watcher in this process; what counts is the state in Redis."""

    def __init__(self, home: Path, server: RedisServer, polling: str, generator: str) -> None:
        self.home, self.content = home, home / "content"
        self._server = server
        self._options: dict[str, Any] = {"polling": polling, "generator": generator, "max_delete": 1.0}

    def begin(self) -> None:
        self._server.flush()
        shutil.rmtree(self.home, ignore_errors=True)
        self._world = World(self.home, self._server.url)
        self.content.rmdir()
        (self.home / "release-0").mkdir()
        self.content.symlink_to("release-0")
        self._world.watch(**self._options)

    def restart(self) -> None:
        assert self._world.watchers.pop().stop()
        self._world.watch(**self._options)

    def settle(self) -> None:
        self._world.settle()

    def end(self) -> None:
        self._world.close()


class InProcesses:
    """`sitemapd run` with its workers; what counts is what a crawler finds."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._restarted = False
        self.home, self.content = place.folder, place.folder / "content"
        self._output = place.folder / "public"
        (self.home / "release-0").mkdir()
        self.content.symlink_to("release-0")
        place.configure(CONFIGURATION)
        self._start()

    def begin(self) -> None:
        self._restarted = False
        for name in os.listdir(self.content):
            path = self.content / name
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for name in os.listdir(self.home):
            if name.startswith("release-") and name != os.readlink(self.content):
                shutil.rmtree(self.home / name)
        self.settle()

    def _start(self) -> None:
        self.service = self._place.service("run", "--port", "0")
        self.service.says("Serving at ")

    def restart(self) -> None:
        if not self._restarted:  # takes seconds, so once a run is enough
            self._restarted = True
            assert self.service.stop() == 0
            self._start()

    def settle(self) -> None:
        def found() -> set[str]:
            if not (self._output / "sitemap.xml").exists():
                return set()
            return {loc.removeprefix(BASE) for loc in published(self._output)}

        until(
            lambda: found() == plain_look(self.content),
            within=60,
            what="the published URLs are those of the tree",
        )

    def end(self) -> None:
        pass


class Tree(RuleBasedStateMachine):
    """A person, an editor, git and a deploy at work on one tree, while it is watched."""

    watched: Watched

    @initialize()
    def begin(self) -> None:
        self.home, self.content = self.watched.home, self.watched.content
        self.releases = 0
        self.watched.begin()

    def path(self, path: str) -> Path:
        """A path in the tree, its folders made; a file that is in the way stays in the way."""
        found = self.content / path
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            found.parent.mkdir(parents=True, exist_ok=True)
        return found

    @rule(path=files, text=st.sampled_from(TEXTS))
    def write(self, path: str, text: str) -> None:
        with contextlib.suppress(OSError):
            self.path(path).write_text(text)

    @rule(folder=folders | st.just(""), text=st.sampled_from(CASCADES), atomically=st.booleans())
    def write_cascade(self, folder: str, text: str, atomically: bool) -> None:
        (self.save_atomically if atomically else self.write)(f"{folder}/_index.md".lstrip("/"), text)

    @rule(path=files, text=st.sampled_from(TEXTS))
    def save_atomically(self, path: str, text: str) -> None:
        with contextlib.suppress(OSError):
            target = self.path(path)
            temporary = target.with_name(f".{target.name}.Ab12Cd")
            temporary.write_text(text)
            temporary.rename(target)

    @rule(path=files)
    def delete(self, path: str) -> None:
        with contextlib.suppress(OSError):
            (self.content / path).unlink()

    @rule(one=files | folders, other=files | folders)
    def move(self, one: str, other: str) -> None:
        with contextlib.suppress(OSError):
            (self.content / one).rename(self.path(other))

    @rule(folder=folders)
    def make_folder(self, folder: str) -> None:
        with contextlib.suppress(OSError):
            (self.content / folder).mkdir(parents=True)

    @rule(folder=folders)
    def remove_folder(self, folder: str) -> None:
        with contextlib.suppress(OSError):
            shutil.rmtree(self.content / folder)

    @rule(folder=folders)
    def move_out(self, folder: str) -> None:
        with contextlib.suppress(OSError):
            shutil.rmtree(self.home / "out", ignore_errors=True)
            (self.content / folder).rename(self.home / "out")

    @rule(folder=folders)
    def move_in(self, folder: str) -> None:
        with contextlib.suppress(OSError):
            (self.home / "out").rename(self.path(folder))

    @rule(path=files)
    def link(self, path: str) -> None:
        with contextlib.suppress(OSError):
            self.path(path).symlink_to(self.content / "a.html")

    @rule(path=files, mode=st.sampled_from([0o600, 0o644]), back=st.booleans())
    def touch(self, path: str, mode: int, back: bool) -> None:
        with contextlib.suppress(OSError):
            (self.content / path).chmod(mode)
            if back:
                os.utime(self.content / path, (1_500_000_000, 1_500_000_000))

    @rule(copy=st.booleans())
    def swap_release(self, copy: bool) -> None:
        self.releases += 1
        release = self.home / f"release-{self.releases}"
        if release.name == os.readlink(self.content):
            return
        shutil.rmtree(release, ignore_errors=True)
        if copy:
            shutil.copytree(self.content.resolve(), release, symlinks=True)
        else:
            release.mkdir()
            (release / "a.html").write_text("new")
        (self.home / "next").symlink_to(release.name)
        os.replace(self.home / "next", self.content)

    @rule(count=st.sampled_from([10, 300]))
    def burst(self, count: int) -> None:
        with contextlib.suppress(OSError):
            for number in range(count):
                self.path(f"burst/{number % 9}/{number}.html").write_text("")

    @rule()
    def restart(self) -> None:
        self.watched.restart()

    @rule()
    def settle(self) -> None:
        self.watched.settle()

    def teardown(self) -> None:
        self.watched.settle()
        self.watched.end()


def check(watched: Watched, *, count: int, steps: int) -> None:
    """Run the machine on a watched tree."""
    run_state_machine_as_test(
        type("WatchedTree", (Tree,), {"watched": watched}),
        settings=settings(
            max_examples=examples(count),
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("generator", ["", "hugo"])
@pytest.mark.parametrize("polling", ["never", "always"])
def test_the_state_follows_the_tree(
    tmp_path: Path, any_redis: RedisServer, polling: str, generator: str
) -> None:
    """Random writes, saves, renames, moves in and out, cascades, links, deploys, bursts and restarts."""
    check(InThisProcess(tmp_path / "home", any_redis, polling, generator), count=8, steps=25)


def test_the_published_sitemaps_follow_the_tree(tmp_path: Path) -> None:
    """The same with real processes: what a crawler finds is what a plain look at the tree finds."""
    place = Place(tmp_path)
    try:
        check(InProcesses(place), count=3, steps=20)
    finally:
        place.close()


def test_a_burst_that_overflows_the_kernels_queue_is_published(tmp_path: Path) -> None:
    """While the watching process is stopped, more happens than the kernel keeps."""
    size = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    needs.require(size <= 65_536, f"a queue of {size} events takes too long to overflow")
    place = Place(tmp_path)
    try:
        watched = InProcesses(place)
        watched.begin()
        for number in range(50):
            (watched.content / f"{number}").mkdir()
        (watched.content / "first.html").write_text("")
        watched.settle()
        watched.service.signal(signal.SIGSTOP)
        for number in range(size // 2 + 1000):
            (watched.content / f"{number % 50}" / f"{number}.html").write_text("")
        shutil.rmtree(watched.content / "0")
        watched.service.signal(signal.SIGCONT)
        watched.service.says("events_lost")
        watched.settle()
        (watched.content / "last.html").write_text("")
        watched.settle()
        assert watched.service.count("events_lost") == 1
    finally:
        place.close()

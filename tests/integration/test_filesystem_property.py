"""Whatever is done to a tree, the state ends up as a plain look at the tree says."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.integration.filesystem_world import World
from tests.redis_server import RedisServer

NAMES: Final = ["a.html", "b.html", "index.html", "a.md", "index.md", "c d.md", "x.txt", "é.html"]
FOLDERS: Final = ["", "a", "b", "a/c", "a.html", "b/c/d"]
TEXTS: Final = ["text", "other text", "---\ndraft: true\n---\n", "---\ndraft: false\n---\n"]

files = st.builds("/".join, st.tuples(st.sampled_from(FOLDERS), st.sampled_from(NAMES))).map(
    lambda path: path.lstrip("/")
)
folders = st.sampled_from([folder for folder in FOLDERS if folder])


class Tree(RuleBasedStateMachine):
    """A person, an editor, git and a deploy at work on one tree, while it is watched."""

    server: RedisServer
    polling: str

    @initialize()
    def begin(self) -> None:
        self.server.flush()
        self.home = Path(tempfile.mkdtemp(prefix="tree-"))
        self.world = World(self.home, self.server.url)
        self.releases = 0
        self.world.content.rmdir()
        (self.home / "release-0").mkdir()
        self.world.content.symlink_to("release-0")
        self.options = {"polling": self.polling, "max_delete": 1.0}
        self.world.watch(**self.options)

    def path(self, path: str) -> Path:
        """A path in the tree, its folders made; a file that is in the way stays in the way."""
        found = self.world.content / path
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            found.parent.mkdir(parents=True, exist_ok=True)
        return found

    @rule(path=files, text=st.sampled_from(TEXTS))
    def write(self, path: str, text: str) -> None:
        with contextlib.suppress(OSError):
            self.path(path).write_text(text)

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
            (self.world.content / path).unlink()

    @rule(one=files | folders, other=files | folders)
    def move(self, one: str, other: str) -> None:
        with contextlib.suppress(OSError):
            (self.world.content / one).rename(self.path(other))

    @rule(folder=folders)
    def make_folder(self, folder: str) -> None:
        with contextlib.suppress(OSError):
            (self.world.content / folder).mkdir(parents=True)

    @rule(folder=folders)
    def remove_folder(self, folder: str) -> None:
        with contextlib.suppress(OSError):
            shutil.rmtree(self.world.content / folder)

    @rule(folder=folders)
    def move_out(self, folder: str) -> None:
        with contextlib.suppress(OSError):
            shutil.rmtree(self.home / "out", ignore_errors=True)
            (self.world.content / folder).rename(self.home / "out")

    @rule(folder=folders)
    def move_in(self, folder: str) -> None:
        with contextlib.suppress(OSError):
            (self.home / "out").rename(self.path(folder))

    @rule(path=files)
    def link(self, path: str) -> None:
        with contextlib.suppress(OSError):
            self.path(path).symlink_to(self.world.content / "a.html")

    @rule(path=files, mode=st.sampled_from([0o600, 0o644]), back=st.booleans())
    def touch(self, path: str, mode: int, back: bool) -> None:
        with contextlib.suppress(OSError):
            (self.world.content / path).chmod(mode)
            if back:
                os.utime(self.world.content / path, (1_500_000_000, 1_500_000_000))

    @rule(copy=st.booleans())
    def swap_release(self, copy: bool) -> None:
        self.releases += 1
        release = self.home / f"release-{self.releases}"
        if copy:
            shutil.copytree(self.world.content.resolve(), release, symlinks=True)
        else:
            release.mkdir()
            (release / "a.html").write_text("new")
        (self.home / "next").symlink_to(release.name)
        os.replace(self.home / "next", self.world.content)

    @rule(count=st.sampled_from([10, 300]))
    def burst(self, count: int) -> None:
        with contextlib.suppress(OSError):
            for number in range(count):
                self.path(f"burst/{number % 9}/{number}.html").write_text("")

    @rule()
    def restart(self) -> None:
        assert self.world.watchers.pop().stop()
        self.world.watch(**self.options)

    @rule()
    def settle(self) -> None:
        self.world.settle()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            try:
                self.world.settle()
            finally:
                self.world.close()
                shutil.rmtree(self.home)


@pytest.mark.parametrize("polling", ["never", "always"])
def test_the_state_follows_the_tree(any_redis: RedisServer, polling: str) -> None:
    """Random writes, saves, renames, moves in and out, links, deploys, bursts and restarts."""
    machine = type("Watched", (Tree,), {"server": any_redis, "polling": polling})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

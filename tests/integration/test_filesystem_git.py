"""Dates from git are those of `git log -1 -- FILE`, whatever was done to the history."""

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from producers.filesystem.cache import Cache, Row
from producers.filesystem.git import GitDates, GitError
from producers.guard import Guard
from producers.runner import SourceState
from sitemap_store.redis.store import Store
from tests import needs
from tests.world import make_site


class Repository:
    """A real repository, and what is read of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.program = needs.program("git", package="git")
        self.when = 1_700_000_000
        self.cache = Cache(None)

    def git(self, *args: str, check: bool = True) -> str:
        """Run git, a minute later than the last time."""
        self.when += 60
        date = f"{self.when} +0200"
        mine = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "merge.conflictStyle=merge")
        done = subprocess.run(
            [self.program, "-C", str(self.folder), *mine, *args],
            check=check,
            capture_output=True,
            env=os.environ | {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "GIT_EDITOR": "true"},
        )
        return done.stdout.decode()

    def write(self, name: str, text: str) -> None:
        """Write a file of the work tree."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self, *names: str, text: str = "") -> None:
        """Change some files and commit them."""
        for name in names:
            self.write(name, text or f"{name} at {self.when}")
        self.git("add", "-A")
        self.git("commit", "--allow-empty", "-m", "change")

    def told(self, below: str = "") -> dict[str, int]:
        """What git itself says of each file of HEAD, in seconds."""
        place = self.folder / below
        names = subprocess.run(
            [self.program, "-C", str(place), "ls-tree", "-r", "--name-only", "HEAD"],
            check=True, capture_output=True,
        ).stdout.decode().splitlines()  # fmt: skip
        return {
            name: int(self.git("-C", str(place), "log", "-1", "--format=%ct", "--", name)) for name in names
        }

    def commits(self, below: str = "") -> GitDates:
        """What reads it."""
        root = os.fsencode(self.folder / below)
        guard = Guard(Store(redis.Redis(), make_site()), "pages", "watch")
        return GitDates(root, self.cache, SourceState(site="main", source="pages", guard=guard))

    def dates(self) -> dict[str, int]:
        """The dates that the cache holds, in seconds."""
        found = self.cache.db.execute("SELECT dir, name, at FROM commits").fetchall()
        return {os.fsdecode(os.path.join(folder, name)): at // 1000 for folder, name, at in found}

    def check(self) -> None:
        """Read what is new; it must be what git says."""
        self.commits().refresh()
        assert self.dates() == self.told()


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """Give an empty repository."""
    repository = Repository(tmp_path / "repository")
    repository.git("init", "-b", "main")
    yield repository
    repository.cache.close()


def test_an_amended_commit_gives_its_files_its_date(repository: Repository) -> None:
    """The commit before is not part of the history any more."""
    repository.commit("a", "b")
    repository.commit("a")
    repository.check()
    repository.git("commit", "--amend", "--no-edit")
    repository.check()
    repository.write("b", "amended")
    repository.git("commit", "-a", "--amend", "--no-edit")
    repository.check()
    repository.git("reset", "--hard", "HEAD^")
    repository.check()


def test_a_rebase_dates_what_it_made_anew(repository: Repository) -> None:
    """The commits of the branch are new ones; files that it did not touch keep their dates."""
    repository.commit("a", "b", "c")
    repository.git("checkout", "-b", "side")
    repository.commit("b")
    repository.check()
    repository.git("checkout", "main")
    repository.commit("c")
    repository.git("checkout", "side")
    repository.git("rebase", "main")
    repository.check()


@pytest.mark.parametrize("way", ["merge", "ours", "mixed", "old branch"])
def test_a_merge_is_a_change_of_what_it_mixed_alone(repository: Repository, way: str) -> None:
    """A file that came unchanged from one side has that side's date, and nothing goes back in time."""
    lines = "".join(f"{number}\n" for number in range(20))
    repository.commit("a", "b", "folder/c", text=lines)
    repository.git("checkout", "-b", "side")
    repository.commit("b", text=f"side\n{lines}")
    repository.commit("side")
    if way == "old branch":
        repository.git("checkout", "-b", "older", "main")
        repository.commit("old")
    repository.git("checkout", "main")
    repository.commit("a", text=f"main\n{lines}")
    if way != "merge":
        repository.commit("b", text=f"{lines}main\n")
    repository.check()
    if way == "ours":
        repository.git("merge", "-s", "ours", "--no-edit", "side")
    else:
        repository.git("merge", "--no-ff", "--no-edit", "side")
    repository.check()
    if way == "old branch":
        repository.git("merge", "--no-ff", "--no-edit", "older")
        repository.check()
    repository.commit("a")
    repository.check()


def test_a_shallow_clone_tells_nothing_of_what_is_older(
    repository: Repository, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Files at the end of its history keep the date that is known, or have none; the others have theirs."""
    repository.commit("a", "b")
    repository.commit("c")
    clone = Repository(tmp_path / "clone")
    url = repository.folder.as_uri()
    clone.git("clone", "--depth", "1", url, ".")
    dates = clone.commits()
    dates.changed()
    dates.changed()
    assert [getattr(record, "action", "") for record in caplog.records] == ["git_shallow"]
    assert clone.dates() == {"a": 0, "b": 0, "c": 0}
    clone.commit("a", text="new")
    clone.commits().refresh()
    assert clone.dates() == clone.told() | {"b": 0, "c": 0}
    clone.git("fetch", "--unshallow")
    clone.check()
    known = clone.dates()
    clone.git("fetch", "--depth", "1", "origin", "main")
    clone.git("reset", "--hard", "FETCH_HEAD")
    clone.commits().refresh()
    assert {name: clone.dates()[name] for name in "bc"} == {name: known[name] for name in "bc"}
    clone.cache.close()


@pytest.mark.parametrize("failing", ["rev-list", "diff-tree", "ls-tree"])
def test_a_failure_of_git_keeps_all_dates(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """Once git works again the dates go on from where they were."""
    repository.commit("a", "b")
    repository.check()
    known = repository.dates()
    repository.commit("a")
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *{failing}*) exit 128;; esac\nexec {repository.program} "$@"\n'
    )
    program.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        with pytest.raises(GitError):
            repository.commits().refresh()
    assert repository.dates() == known
    repository.check()


def test_only_the_watched_folder_counts(repository: Repository) -> None:
    """The directory may lie anywhere in its repository; names are relative to it."""
    repository.commit("a", "content/b", "content/deep/c")
    repository.commit("a", "content/deep/c")
    repository.commits("content").refresh()
    assert repository.dates() == repository.told("content")
    assert set(repository.dates()) == {"b", "deep/c"}


def test_files_whose_date_changed_are_named(repository: Repository) -> None:
    """Those that are known are looked at again: a date that moved, and one that is not there any more."""
    repository.commit("a", "b", "c")
    names = (b"a", b"b", b"c", b"untracked")
    repository.cache.put(
        Row(b"", name, 0, 0, 0, 0, b"", "", "", "", "", 0, "", "", 0, 0, 0) for name in names
    )
    assert sorted(repository.commits().refresh()) == [(b"", b"a"), (b"", b"b"), (b"", b"c")]
    repository.commit("a")
    assert repository.commits().refresh() == [(b"", b"a")]
    repository.git("rm", "--cached", "c")
    repository.git("commit", "-m", "c is not part of it any more")
    assert repository.commits().refresh() == [(b"", b"c")]


@pytest.mark.parametrize("seed", range(6))
def test_random_histories_are_read_as_git_reads_them(repository: Repository, seed: int) -> None:
    """Commits, branches, merges of all kinds, amendments, rebases, reverts and resets in any order."""
    dice = random.Random(seed)
    names = [f"{folder}{number}" for folder in ("", "x/", "x/y/") for number in range(3)]
    repository.commit(*names)
    branches = ["main"]
    for _ in range(25):
        act = dice.choice(
            ["commit", "commit", "branch", "switch", "merge", "amend", "rebase", "reset", "remove"]
        )
        if act == "commit":
            text = dice.choice(["", "one", "two"])
            repository.commit(*dice.sample(names, dice.randint(1, 3)), text=text)
        elif act == "branch":
            branches.append(f"branch-{len(branches)}")
            repository.git("checkout", "-b", branches[-1])
        elif act == "switch":
            repository.git("checkout", dice.choice(branches))
        elif act == "merge":
            how = dice.choice([("-s", "ours"), ("-X", "theirs"), ("-X", "ours")])
            repository.git("merge", "--no-ff", "--no-edit", *how, dice.choice(branches), check=False)
            repository.git("add", "-A")
            repository.git("commit", "--no-edit", "-m", "merged", check=False)
        elif act == "amend":
            repository.write(dice.choice(names), f"amended {repository.when}")
            repository.git("add", "-A")
            repository.git("commit", "--amend", "--no-edit", check=False)
        elif act == "rebase":
            repository.git("rebase", "-X", "theirs", dice.choice(branches), check=False)
            repository.git("rebase", "--abort", check=False)
        elif act == "reset":
            repository.git("reset", "--hard", "HEAD^", check=False)
        else:
            repository.git("rm", "-f", "--ignore-unmatch", dice.choice(names))
            repository.git("commit", "--allow-empty", "-m", "removed")
        if dice.random() < 0.5:
            repository.check()
    repository.check()

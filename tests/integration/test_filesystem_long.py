"""Minutes of random work on a tree of thousands of files: at the end the sitemaps say what the tree says.

In the environment TREE_FILES (3,000) and TREE_MINUTES (2) set its size and length, TREE_SEED what is done.
"""

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests import needs
from tests.acceptance.place import Place
from tests.acceptance.until import until
from tests.integration.filesystem_world import BASE, plain_pages
from tests.published import published

FILES: Final = int(os.environ.get("TREE_FILES", "3000"))
MINUTES: Final = float(os.environ.get("TREE_MINUTES", "2"))
SEED: Final = int(os.environ.get("TREE_SEED", time.time_ns() % 1_000_000))
CHECK_EVERY: Final = 20.0
"""Seconds of work between two comparisons."""
TEXTS: Final = (
    "text", "other text", "---\ndraft: true\n---\n", "---\ndraft: false\n---\n",
    "---\ncascade: {draft: true}\n---\n", "---\ncascade: {draft: false}\n---\n",
)  # fmt: skip
CONFIGURATION: Final = f"""
data_dir = "data"
[sites.main]
base_url = "{BASE}"
output = "public"
min_interval = 0.05
[sites.main.watch.pages]
directory = "content"
generator = "hugo"
lastmod = ["git"]
max_delete = 1.0
rescan_interval = 0
"""


class Crowd:
    """People, editors, git and deploys at work on one tree."""

    def __init__(self, home: Path, dice: random.Random) -> None:
        needs.program("git", package="git")
        self.home, self.content, self.dice = home, home / "content", dice
        self.releases = 0
        (home / "release-0").mkdir()
        self.content.symlink_to("release-0")
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "A")
        self.git("config", "user.email", "a@example.com")
        for number in range(FILES):
            self.write(self.content / f"{number % 60}" / f"page-{number}.md")
        self.commit()
        each: dict[Callable[[], None], int] = {
            self.edit: 400, self.create: 150, self.save_by_rename: 100, self.delete: 80, self.move: 80,
            self.chmod: 60, self.say_for_all_below: 40, self.move_folder: 20, self.delete_folder: 8,
            self.copy_folder: 8, self.commit: 20, self.check_out: 6, self.rebase: 4, self.swap_release: 2,
        }  # fmt: skip
        self.deeds, self.weights = list(each), list(each.values())

    def work(self, seconds: float) -> int:
        """Do something for that long, in bursts; returns how much was done."""
        done, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            for deed in self.dice.choices(self.deeds, self.weights, k=self.dice.choice((1, 5, 30, 200))):
                with suppress(OSError):
                    deed()
                done += 1
            time.sleep(self.dice.choice((0.0, 0.02, 0.2, 1.5)))
        return done

    def truth(self) -> dict[str, str | None]:
        """Every URL below the site, and the date that git gives its file; None where it has none."""
        dates: dict[bytes, str] = {}
        when = ""
        for line in self.git("log", "--format=@%ct", "--name-only", "--no-renames", "-z").split("\0"):
            for part in filter(None, line.split("\n")):
                if part.startswith("@"):
                    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(part[1:])))
                else:
                    dates.setdefault(part.encode(), when)
        kept = set(self.git("ls-tree", "-r", "-z", "--name-only", "HEAD").encode().split(b"\0"))
        found: dict[str, str | None] = {}
        for path, url in plain_pages(self.content, "hugo").items():
            date = dates[path] if path in kept else ""
            found[url] = max(found.get(url) or "", date) or None  # the newest of several files counts
        return found

    def git(self, *args: str) -> str:
        """Run git, whether it likes it or not; returns what it says."""
        when = f"{1_700_000_000 + time.monotonic_ns() % 10**7} +0000"
        env = os.environ | {"GIT_COMMITTER_DATE": when, "GIT_AUTHOR_DATE": when, "GIT_EDITOR": "true"}
        return subprocess.run(
            ["git", *args], cwd=self.content, env=env, capture_output=True, text=True, check=False
        ).stdout

    def folder(self) -> Path:
        """Some folder of the tree, often an old one and sometimes a new one."""
        top = self.content / str(self.dice.randrange(70))
        return top / f"sub-{self.dice.randrange(3)}" if self.dice.random() < 0.3 else top

    def file(self) -> Path:
        """Some file that is there, if its folder has any."""
        folder = self.folder()
        names = sorted(name for name in os.listdir(folder) if name.endswith((".md", ".html")))
        return folder / (self.dice.choice(names) if names else "new.md")

    def write(self, path: Path) -> None:
        """Write a file, making its folders."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.dice.choice(TEXTS[:4] if path.name != "_index.md" else TEXTS))

    def edit(self) -> None:
        """Write into a file that is there."""
        self.write(self.file())

    def create(self) -> None:
        """Make a page, or now and then a bundle."""
        name = f"page-{self.dice.randrange(10 * FILES)}.{self.dice.choice(('md', 'html'))}"
        self.write(self.folder() / (name if self.dice.random() < 0.95 else "index.md"))

    def save_by_rename(self) -> None:
        """Save as editors do."""
        path = self.file()
        temporary = path.with_name(f".{path.name}.Ab12Cd")
        self.write(temporary)
        temporary.rename(path)

    def say_for_all_below(self) -> None:
        """Write an `_index.md`, or take it away."""
        path = (self.content if self.dice.random() < 0.03 else self.folder()) / "_index.md"
        path.unlink(missing_ok=True) if self.dice.random() < 0.4 else self.write(path)

    def delete(self) -> None:
        """Delete a file."""
        self.file().unlink()

    def move(self) -> None:
        """Rename a file into a folder."""
        path, folder = self.file(), self.folder()
        folder.mkdir(parents=True, exist_ok=True)
        path.rename(folder / f"moved-{path.name}"[:80])

    def chmod(self) -> None:
        """Change a file's mode, which is no change of the page."""
        self.file().chmod(self.dice.choice((0o600, 0o644, 0o755)))

    def move_folder(self) -> None:
        """Rename a folder into another, or in place."""
        self.folder().rename(self.folder() / f"sub-{self.dice.randrange(3)}")

    def delete_folder(self) -> None:
        """Delete a folder of the second level."""
        shutil.rmtree(self.folder() / f"sub-{self.dice.randrange(3)}")

    def copy_folder(self) -> None:
        """Copy a folder with all that is in it."""
        target = self.content / str(self.dice.randrange(70))
        shutil.copytree(self.folder(), target / f"sub-{self.dice.randrange(3)}", dirs_exist_ok=True)

    def commit(self) -> None:
        """Commit all there is."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "work")

    def check_out(self) -> None:
        """Go to another branch, or begin one some commits ago."""
        self.commit()
        branch = f"branch-{self.dice.randrange(3)}"
        if self.dice.random() < 0.5:
            self.git("checkout", "-q", "-B", branch, f"HEAD~{self.dice.randrange(3)}")
        else:
            self.git("checkout", "-q", self.dice.choice((branch, "main")))

    def rebase(self) -> None:
        """Put this branch on top of another."""
        self.commit()
        self.git("rebase", "-q", "-X", "theirs", self.dice.choice(("main", "branch-0", "branch-1")))
        self.git("rebase", "--abort")

    def swap_release(self) -> None:
        """Deploy a copy in place of the tree."""
        self.releases += 1
        old = self.content.resolve()
        new = self.home / f"release-{self.releases}"
        shutil.copytree(old, new, symlinks=True)
        (self.home / "next").symlink_to(new.name)
        (self.home / "next").replace(self.content)
        shutil.rmtree(old)


@pytest.mark.long
def test_minutes_of_random_work_end_in_the_truth(
    tmp_path: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """Whatever came in between, the published URLs and their dates are those of the tree."""
    dice, place = random.Random(SEED), Place(tmp_path)
    try:
        crowd = Crowd(place.folder, dice)
        place.configure(CONFIGURATION)
        service = place.service("run", "--port", "0")
        service.says("Serving at ")
        done, end = 0, time.monotonic() + MINUTES * 60
        while time.monotonic() < end:
            done += crowd.work(min(CHECK_EVERY, end - time.monotonic()))
            compare(crowd, place.folder / "public")
        record_testsuite_property("deeds", done)
        assert service.stop() == 0
    finally:
        place.close()


def compare(crowd: Crowd, output: Path) -> None:
    """Wait until what is published is what the tree says."""
    truth = crowd.truth()

    def same() -> bool:
        now = {loc.removeprefix(BASE): lastmod for loc, (lastmod, *_) in published(output).items()}
        wrong = [url for url in truth.keys() | now.keys() if truth.get(url, 0) != now.get(url, 0)]
        assert not wrong, (len(wrong), [(url, truth.get(url, 0), now.get(url, 0)) for url in wrong[:20]])
        return True

    until(same, within=60, what=f"the sitemaps are as the tree (TREE_SEED={SEED})")

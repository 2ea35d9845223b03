"""One walk of a tree."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from producers.filesystem.problems import Problem
from producers.filesystem.selection import Selection
from producers.filesystem.source import FilesystemSource
from producers.filesystem.walk import FolderListing, Tree, WatchLimit


class Walk:
    """What one walk of a folder came to."""

    def __init__(self, folder: Path, watch: Callable[[bytes], None] | None = None, **options: Any) -> None:
        source = FilesystemSource(name="pages", directory=folder, **options)
        selection = Selection(source.include, source.left_out)
        self.problems: list[Problem] = []
        self.unread: list[bytes] = []
        tree = Tree(
            source, os.fsencode(folder), selection=selection, report=self.problems.append, watch=watch
        )
        self.listed: list[FolderListing] = list(tree.walk(b"", self.unread))


def test_a_folder_is_watched_before_it_is_listed(tmp_path: Path) -> None:
    """A file that comes right after the watch is listed; one that comes later makes an event."""
    (tmp_path / "sub").mkdir()
    watched = []

    def watch(folder: bytes) -> None:
        watched.append(folder)
        (tmp_path / os.fsdecode(folder) / "late.html").write_text("")

    found = Walk(tmp_path, watch).listed
    assert watched == [listed.folder for listed in found] == [b"", b"sub"]
    assert [[name for name, _ in listed.files] for listed in found] == [[b"late.html"]] * 2


def test_folders_that_are_left_out_are_neither_entered_nor_watched(tmp_path: Path) -> None:
    """A node_modules of a million files costs nothing."""
    for folder in ("out/deep", ".git", "in"):
        (tmp_path / folder).mkdir(parents=True)
    watched: list[bytes] = []
    Walk(tmp_path, watched.append, exclude=("out/",))
    assert watched == [b"", b"in"]


def test_a_folder_that_goes_before_it_is_listed_is_left_out(tmp_path: Path) -> None:
    """Gone is no error; the rest of the walk goes on."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    def watch(folder: bytes) -> None:
        if folder:
            (tmp_path / os.fsdecode(folder)).rmdir()

    found = Walk(tmp_path, watch).listed
    assert [listed.folder for listed in found] == [b""]


def test_a_full_watch_table_ends_the_walk(tmp_path: Path) -> None:
    """Half a tree is not watched in silence."""

    def watch(folder: bytes) -> None:
        raise WatchLimit(what="inotify", detail="is full")

    with pytest.raises(WatchLimit):
        Walk(tmp_path, watch)


def test_an_ignore_file_that_cannot_be_read_closes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its private pages would be listed otherwise; the folders beside it are looked at."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "page.html").write_text("text")
    (tmp_path / "a" / ".sitemapignore").write_text("page.html")

    def locked(*args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", locked)
    walk = Walk(tmp_path)
    assert [listed.folder for listed in walk.listed] == [b"", b"b"]
    assert [name for name, _ in walk.listed[1].files] == [b"page.html"]
    assert walk.unread == [b"a"]
    assert ".sitemapignore" in walk.problems[0].detail


@pytest.mark.parametrize("kind", ["folder", "link to nowhere", "link to itself", "pipe"])
def test_what_only_has_the_name_of_an_ignore_file_is_none(tmp_path: Path, kind: str) -> None:
    """A folder, a pipe or a broken link of that name holds no patterns and closes nothing."""
    place = tmp_path / ".sitemapignore"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("nothing" if kind == "link to nowhere" else ".sitemapignore")
    (tmp_path / "page.html").write_text("text")
    walk = Walk(tmp_path)
    assert [len(listed.files) for listed in walk.listed] == [1]
    assert walk.unread == []


def test_bad_lines_are_reported_with_their_file(tmp_path: Path) -> None:
    """Whoever reads the log finds the line."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".sitemapignore").write_text("old/\n!\n")
    assert [(each.path, each.detail.split(" is no")[0]) for each in Walk(tmp_path).problems] == [
        (b"a/.sitemapignore", "line 2, '!',")
    ]

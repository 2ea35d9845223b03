"""One walk of a tree."""

import os
from pathlib import Path

import pytest

from producers.filesystem.selection import Selection
from producers.filesystem.walk import WatchLimit, walk


def test_a_folder_is_watched_before_it_is_listed(tmp_path: Path) -> None:
    """A file that comes right after the watch is listed; one that comes later makes an event."""
    (tmp_path / "sub").mkdir()
    watched = []

    def watch(folder: bytes) -> None:
        watched.append(folder)
        (tmp_path / os.fsdecode(folder) / "late.html").write_text("")

    found = list(walk(os.fsencode(tmp_path), b"", Selection(("*.html",), ()), watch=watch))
    assert watched == [listed.folder for listed in found] == [b"", b"sub"]
    assert [[name for name, _ in listed.files] for listed in found] == [[b"late.html"]] * 2


def test_folders_that_are_left_out_are_neither_entered_nor_watched(tmp_path: Path) -> None:
    """A node_modules of a million files costs nothing."""
    for folder in ("out/deep", ".git", "in"):
        (tmp_path / folder).mkdir(parents=True)
    watched: list[bytes] = []
    selection = Selection(("*.html",), ("out/",))
    list(walk(os.fsencode(tmp_path), b"", selection, watch=watched.append))
    assert watched == [b"", b"in"]


def test_a_folder_that_goes_before_it_is_listed_is_left_out(tmp_path: Path) -> None:
    """Gone is no error; the rest of the walk goes on."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    def watch(folder: bytes) -> None:
        if folder:
            (tmp_path / os.fsdecode(folder)).rmdir()

    found = list(walk(os.fsencode(tmp_path), b"", Selection(("*",), ()), watch=watch))
    assert [listed.folder for listed in found] == [b""]


def test_a_full_watch_table_ends_the_walk(tmp_path: Path) -> None:
    """Half a tree is not watched in silence."""

    def watch(folder: bytes) -> None:
        raise WatchLimit(what="inotify", detail="is full")

    with pytest.raises(WatchLimit):
        list(walk(os.fsencode(tmp_path), b"", Selection(("*",), ()), watch=watch))

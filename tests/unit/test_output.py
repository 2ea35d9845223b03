"""The output folder: whole files, our own names only, and nothing else touched."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sitemap_store.errors import BadSetting, Unavailable
from sitemap_store.output import folder as output_module
from sitemap_store.output.folder import MARKER, Folder, NotOurs, Put

NAME = "sitemap-pages-1.xml"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """An empty output folder, with fsync as in real life."""
    found = Folder(tmp_path / "public")
    found.prepare()
    return found


def names(folder: Folder) -> set[str]:
    """What lies in the folder."""
    return set(os.listdir(folder.path))


def test_put_then_read(folder: Folder) -> None:
    """What was put is there, whole, under its name alone."""
    assert folder.put(NAME, b"<xml/>", "w1") is Put.NEW
    assert folder.read(NAME) == b"<xml/>"
    assert names(folder) == {NAME}
    modified = folder.modified(NAME)
    assert modified is not None
    assert modified == (folder.path / NAME).stat().st_mtime


def test_what_is_not_there_is_none(folder: Folder) -> None:
    """Reading a file that was never published is no error."""
    assert folder.read(NAME) is None
    assert folder.modified(NAME) is None
    assert folder.open(NAME) is None
    assert folder.marker() is None


def test_the_same_bytes_are_not_written_again(folder: Folder) -> None:
    """Neither mtime nor inode changes, so no ETag does."""
    folder.put(NAME, b"<xml/>", "w1")
    os.utime(folder.path / NAME, ns=(1, 1))
    before = (folder.path / NAME).stat()
    assert folder.put(NAME, b"<xml/>", "w2") is Put.SAME
    after = (folder.path / NAME).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("data", [b"<xmm/>", b"<xml/> ", b"", b"x" * 100_000])
def test_other_bytes_replace_the_file(folder: Folder, data: bytes) -> None:
    """The same length with one other byte counts as other."""
    folder.put(NAME, b"<xml/>", "w1")
    inode = (folder.path / NAME).stat().st_ino
    assert folder.put(NAME, data, "w1") is Put.OVER
    assert folder.read(NAME) == data
    assert (folder.path / NAME).stat().st_ino != inode


def test_a_reader_always_sees_a_whole_file(folder: Folder) -> None:
    """I3: through 300 rewrites, every look finds all of one version, old or new."""
    versions = [bytes([48 + n % 10]) * 200_000 for n in range(300)]
    whole, torn, ended = set(versions), [], threading.Event()
    seen: set[bytes] = set()
    folder.put(NAME, versions[0], "w1")

    def read() -> None:
        while not ended.is_set():
            data = (folder.path / NAME).read_bytes()
            seen.add(data[:1])
            if data not in whole:
                torn.append(len(data))

    quick = Folder(folder.path, sync=False)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        for version in versions:
            quick.put(NAME, version, "w1")
    finally:
        ended.set()
        reader.join()
    assert torn == []
    assert len(seen) > 1, "the reader saw nothing change, so it proves nothing"


def test_an_open_reader_keeps_the_version_that_it_opened(folder: Folder) -> None:
    """A slow download goes on with the old bytes, since a new file takes the name."""
    folder.put(NAME, b"old" * 1000, "w1")
    with (folder.path / NAME).open("rb") as slow:
        start = slow.read(10)
        folder.put(NAME, b"new" * 1000, "w1")
        assert start + slow.read() == b"old" * 1000


class FullDisk(io.FileIO):
    """A file that takes half of what it is given and then says that the disk is full."""

    def write(self, data: Any) -> int:
        super().write(bytes(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fill_disk(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Let the disk fill while a file is written, or when it is brought to the disk."""

    def fsync(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def opened(path: Path, _mode: str, *, opener: Any) -> FullDisk:
        return FullDisk(opener(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb")

    if when == "fsync":
        monkeypatch.setattr(os, "fsync", fsync)
    else:
        monkeypatch.setattr(output_module, "open", opened, raising=False)


@pytest.mark.parametrize("when", ["write", "fsync"])
def test_a_full_disk_leaves_no_new_file(folder: Folder, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """The first publish of a file fails as a whole: no half file, no temp file."""
    fill_disk(monkeypatch, when)
    with pytest.raises(Unavailable, match="the disk is full"):
        folder.put(NAME, b"x" * 1000, "w1")
    assert names(folder) == set()


@pytest.mark.parametrize("when", ["write", "fsync"])
def test_a_full_disk_leaves_the_old_file(folder: Folder, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """The old bytes stay whole, and the sentence says what is wrong and where."""
    folder.put(NAME, b"old", "w1")
    fill_disk(monkeypatch, when)
    with pytest.raises(Unavailable) as caught:
        folder.put(NAME, b"x" * 1000, "w1")
    assert str(folder.path) in caught.value.what
    assert caught.value.detail == f"{NAME}: the disk is full"
    assert folder.read(NAME) == b"old"
    assert names(folder) == {NAME}


@pytest.fixture
def small_files() -> Iterator[None]:
    """The kernel lets no file of this process grow over 100,000 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.usefixtures("small_files")
def test_a_write_that_the_kernel_cuts_short_leaves_the_old_file(folder: Folder) -> None:
    """A real partial write, not a simulated one."""
    folder.put(NAME, b"old", "w1")
    with pytest.raises(Unavailable, match="too large"):
        folder.put(NAME, b"x" * 200_000, "w1")
    assert folder.read(NAME) == b"old"
    assert names(folder) == {NAME}


def test_data_is_on_the_disk_before_it_has_its_name(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """fsync of the file, rename, fsync of the folder: a power cut leaves the old or the new."""
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(handle: int) -> None:
        steps.append("fsync folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "fsync file")
        fsync(handle)

    def note_replace(source: Path, target: Path) -> None:
        steps.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    folder.put(NAME, b"x", "w1")
    assert steps == ["fsync file", "rename"]
    folder.sync()
    assert steps[2:] == ["fsync folder"]
    folder.mark("shop", "abc")
    assert steps[3:] == ["fsync file", "rename", "fsync folder"]
    folder.remove(NAME)
    assert steps[6:] == ["fsync folder"]


def test_a_symlink_in_a_files_place_is_replaced_and_not_followed(folder: Folder, tmp_path: Path) -> None:
    """What it points to stays as it is, even when it holds the very same bytes."""
    precious = tmp_path / "precious"
    for content in (b"mine", b"<xml/>"):
        precious.write_bytes(content)
        (folder.path / NAME).unlink(missing_ok=True)
        (folder.path / NAME).symlink_to(precious)
        assert folder.put(NAME, b"<xml/>", "w1") is Put.OVER
        assert precious.read_bytes() == content
        assert not (folder.path / NAME).is_symlink()
        assert folder.read(NAME) == b"<xml/>"


def test_a_symlink_in_the_temp_files_place_is_not_followed(folder: Folder, tmp_path: Path) -> None:
    """Who may write to the folder can't make the worker write elsewhere."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine")
    (folder.path / f".sitemapd-w1@{NAME}.tmp").symlink_to(precious)
    with pytest.raises(Unavailable):
        folder.put(NAME, b"<xml/>", "w1")
    assert precious.read_bytes() == b"mine"
    assert folder.put(NAME, b"<xml/>", "w1") is Put.NEW
    assert precious.read_bytes() == b"mine"


def test_removing_a_symlink_leaves_its_target(folder: Folder, tmp_path: Path) -> None:
    """Only the name goes."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine")
    (folder.path / NAME).symlink_to(precious)
    folder.remove(NAME)
    assert precious.read_bytes() == b"mine"
    assert names(folder) == set()


def test_only_a_regular_file_is_opened_for_reading_out(folder: Folder, tmp_path: Path) -> None:
    """What a web server hands out is a published file, not what a link or a pipe leads to."""
    (tmp_path / "secret").write_bytes(b"secret")
    (folder.path / NAME).symlink_to(tmp_path / "secret")
    os.mkfifo(folder.path / "sitemap-pages-2.xml")
    (folder.path / "sitemap-pages-3.xml").mkdir()
    for n in (1, 2, 3):
        assert folder.open(f"sitemap-pages-{n}.xml") is None


@pytest.mark.parametrize(
    "name",
    [
        *("../sitemap.xml", "/etc/passwd", "sub/sitemap.xml", "", ".", "..", MARKER, "robots.txt"),
        *("index.html", "sitemap.xml.gz", "sitemap-1.xml", "sitemap-pages-1.xml\0", "sitemap-pages-1.xml/"),
        *("sitemap-../../x-1.xml", f".sitemapd-w1@{NAME}.tmp", "Sitemap.xml", "sitemap-pages-1.xml.tmp"),
    ],
)
def test_names_that_are_not_ours_are_refused(folder: Folder, name: str) -> None:
    """No caller can read, write or remove anything but a published file."""
    for touch in (
        lambda: folder.put(name, b"x", "w1"),
        lambda: folder.read(name),
        lambda: folder.open(name),
        lambda: folder.modified(name),
        lambda: folder.remove(name),
    ):
        with pytest.raises(NotOurs):
            touch()
    assert names(folder) == set()


def test_foreign_files_are_never_touched(folder: Folder) -> None:
    """Whatever is published, removed, marked or swept, the neighbours keep bytes, inode and mtime."""
    foreign = ["robots.txt", "index.html", "sitemap.xml.gz", "sitemap_old.xml", "sitemap-1.xml", ".htaccess"]
    foreign += [".sitemapd.bak", ".sitemapd-w1", "sitemap-pages-1.xml~", "sitemap-Pages-1.xml"]
    for name in foreign:
        (folder.path / name).write_text(f"mine: {name}")
    (folder.path / "blog").mkdir()
    before = {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.path.iterdir()}
    folder.prepare()
    folder.put("sitemap.xml", b"i", "w1")
    folder.put(NAME, b"x", "w1")
    folder.mark("shop", "abc")
    folder.sweep("w1")
    assert folder.published() == ["sitemap.xml", NAME]
    for name in folder.published():
        folder.remove(name)
    found = {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.path.iterdir()}
    found.pop(MARKER)
    before.pop("blog")
    found.pop("blog")
    assert found == before
    assert all((folder.path / name).read_text() == f"mine: {name}" for name in foreign)


def test_published_names_come_with_the_indexes_first(folder: Folder) -> None:
    """Who removes them in that order never leaves an index that names a missing file."""
    for name in ("sitemap-blog-1.xml.gz", "sitemap.xml", "sitemap-pages-12.xml", "sitemap-2.xml"):
        folder.put(name, b"x", "w1")
    assert folder.published() == [
        *("sitemap-2.xml", "sitemap.xml", "sitemap-blog-1.xml.gz", "sitemap-pages-12.xml")
    ]


def test_a_folder_that_is_gone_holds_nothing(folder: Folder) -> None:
    """Reading is no error; publishing is, until it is back."""
    folder.path.rmdir()
    assert folder.published() == []
    assert folder.read(NAME) is None
    with pytest.raises(Unavailable, match="No such file"):
        folder.put(NAME, b"x", "w1")


def test_removing_what_is_gone_is_fine(folder: Folder) -> None:
    """A remove that is repeated after a crash does no harm."""
    folder.put(NAME, b"x", "w1")
    folder.remove(NAME)
    folder.remove(NAME)
    assert names(folder) == set()


def test_a_dead_workers_temp_files_are_swept_and_no_others(folder: Folder) -> None:
    """What a kill -9 in the middle of a write left goes; a living worker's stays."""
    mine = [f".sitemapd-w1@{NAME}.tmp", ".sitemapd-w1@sitemap.xml.tmp"]
    others = [f".sitemapd-w12@{NAME}.tmp", f".sitemapd-w2@{NAME}.tmp", NAME, MARKER, "w1@x.tmp"]
    for name in mine + others:
        (folder.path / name).write_bytes(b"half")
    folder.sweep("w1")
    assert names(folder) == set(others)


def test_a_temp_file_of_an_earlier_life_is_written_over(folder: Folder) -> None:
    """A worker that gets the name of a dead one is not stopped by its half file."""
    (folder.path / f".sitemapd-w1@{NAME}.tmp").write_bytes(b"x" * 500)
    folder.put(NAME, b"new", "w1")
    assert folder.read(NAME) == b"new"
    assert names(folder) == {NAME}


def test_the_marker_names_site_and_state(folder: Folder) -> None:
    """It comes back as it was written, and a second one replaces it."""
    folder.mark("shop", "abc")
    folder.mark("shop", "def")
    assert folder.marker() == "def"
    assert json.loads((folder.path / MARKER).read_text()) == {"site": "shop", "state": "def"}
    assert names(folder) == {MARKER}


@pytest.mark.parametrize("content", [b"", b"hello", b"[]", b"{}", b"null", b"\xff", b'{"site": "shop"}'])
def test_a_marker_that_is_none_of_ours_is_said(folder: Folder, content: bytes) -> None:
    """A file of that name that can't be read is neither a marker nor no marker."""
    (folder.path / MARKER).write_bytes(content)
    with pytest.raises(NotOurs, match="not a marker of sitemapd"):
        folder.marker()


@pytest.mark.parametrize("when", ["write", "fsync"])
def test_a_full_disk_leaves_the_old_marker(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The marker is as atomic as the files."""
    fill_disk(monkeypatch, when)
    (folder.path / MARKER).write_text('{"site": "shop", "state": "old"}')
    with pytest.raises(Unavailable, match="the disk is full"):
        folder.mark("shop", "new")
    assert folder.marker() == "old"
    assert names(folder) == {MARKER}


def test_an_output_that_cannot_be_a_folder_is_a_bad_setting(tmp_path: Path) -> None:
    """One sentence that names the folder, before anything starts."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadSetting) as caught:
        Folder(tmp_path / "file" / "public").prepare()
    assert caught.value.setting == "output"
    assert str(tmp_path / "file" / "public") in caught.value.detail


def test_preparing_makes_the_folder_and_leaves_nothing_in_it(tmp_path: Path) -> None:
    """Missing parents too; the probe for writing is gone again."""
    folder = Folder(tmp_path / "a" / "b")
    folder.prepare()
    folder.prepare()
    assert names(folder) == set()


def test_a_published_file_can_be_read_by_a_web_server(folder: Folder) -> None:
    """Mode 644 less the umask: the server runs as another user."""
    umask = os.umask(0o022)
    try:
        folder.put(NAME, b"x", "w1")
    finally:
        os.umask(umask)
    assert (folder.path / NAME).stat().st_mode & 0o777 == 0o644


@pytest.fixture
def closed_umask() -> Iterator[None]:
    """Within the test the process makes files for its own user alone, as services with UMask=0077 do."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def mode(path: Path) -> str:
    """A file's or folder's permissions, as `chmod` takes them."""
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"


@pytest.mark.parametrize(
    ("file_mode", "file", "above"),
    [(0o644, "0644", "0755"), (0o640, "0640", "0750"), (0o600, "0600", "0700")],
)
@pytest.mark.usefixtures("closed_umask")
def test_modes_do_not_depend_on_the_umask(tmp_path: Path, file_mode: int, file: str, above: str) -> None:
    """Files have the mode that is set, and the folders that are made for them can be entered as widely."""
    folder = Folder(tmp_path / "a" / "public", file_mode=file_mode)
    folder.prepare()
    folder.put(NAME, b"<xml/>", "w1")
    folder.mark("shop", "id")
    assert {mode(folder.path / NAME), mode(folder.path / MARKER)} == {file}
    assert {mode(folder.path), mode(folder.path.parent)} == {above}


def test_a_file_of_an_earlier_run_gets_its_mode(folder: Folder) -> None:
    """Also when its bytes are right already; it is not written again."""
    folder.put(NAME, b"<xml/>", "w1")
    (folder.path / NAME).chmod(0o600)
    os.utime(folder.path / NAME, ns=(1, 1))
    assert folder.put(NAME, b"<xml/>", "w1") is Put.SAME
    assert mode(folder.path / NAME) == "0644"
    assert (folder.path / NAME).stat().st_mtime_ns == 1

"""What must not be believed, and what is in the way: empty disks, full tables, lost events, locked files."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from producers.filesystem import scan
from producers.filesystem.folder import WatchedFolder
from producers.filesystem.inotify import WatchTable
from tests import needs
from tests.integration.filesystem_world import World, until

CHILD: Final = Path(__file__).parent / "filesystem_child.py"
QUEUE: Final = Path("/proc/sys/fs/inotify/max_queued_events")


@pytest.fixture
def world(tmp_path: Path, redis_url: str) -> Iterator[World]:
    """Give a folder and a site; watchers end with the test."""
    world = World(tmp_path / "world", redis_url)
    yield world
    world.close()


def filled(world: World, pages: int) -> set[str]:
    """Make that many pages; returns their URLs."""
    for number in range(pages):
        world.write(f"{number % 10}/{number}.html")
    return {f"{number % 10}/{number}.html" for number in range(pages)}


def emptied(world: World) -> Path:
    """Put the content away, leaving an empty folder: a disk that isn't mounted."""
    away = world.folder / "away"
    world.content.rename(away)
    world.content.mkdir()
    return away


@pytest.mark.parametrize("polling", ["never", "always"])
@pytest.mark.parametrize("cold", [False, True])
def test_an_empty_folder_deletes_nothing(
    world: World, caplog: pytest.LogCaptureFixture, polling: str, cold: bool
) -> None:
    """A restart over an empty mount point keeps every URL, says so, and goes on when the files are back."""
    urls = filled(world, 150)
    world.watch(polling=polling).stop()
    away = emptied(world)
    if cold:
        shutil.rmtree(world.state_dir)
    watcher = world.watch(polling=polling)
    assert world.urls() == urls
    assert watcher.health()["held_deletes"] == 150
    assert "`sitemapd accept-deletes pages`" in caplog.text
    world.write("new.html")
    world.until_urls(*urls, "new.html")
    shutil.rmtree(world.content)
    away.rename(world.content)
    world.until_urls(*urls)
    until(lambda: watcher.health()["held_deletes"] == 0)
    # Without the cache nobody knows that a file which comes back is in the state already.
    assert world.events_of("0/0.html") == (["add", "add"] if cold else ["add"])


@pytest.mark.parametrize("polling", ["never", "always"])
@pytest.mark.parametrize("pages", [1, 2, 90])
def test_an_empty_folder_deletes_nothing_however_few_its_pages_were(
    world: World, polling: str, pages: int
) -> None:
    """A mount that is missing at the start is no reason to delete a small site either."""
    urls = filled(world, pages)
    world.watch(polling=polling).stop()
    away = emptied(world)
    watcher = world.watch(polling=polling)
    assert watcher.health()["held_deletes"] == pages
    assert world.urls() == urls
    world.content.rmdir()
    away.rename(world.content)
    until(lambda: watcher.health()["held_deletes"] == 0)
    assert world.urls() == urls
    watcher.stop()
    emptied(world)
    world.watch(polling=polling, accept_deletes=True)
    assert world.urls() == set()


def test_an_empty_folder_is_believed_where_the_setting_says_so(world: World) -> None:
    """`max_delete = 1` is for whoever wants no guard."""
    filled(world, 5)
    world.watch().stop()
    emptied(world)
    world.watch(max_delete=1.0)
    assert world.urls() == set()


def test_files_that_go_while_it_is_watched_are_deleted_to_the_last(world: World) -> None:
    """What events told of is believed: the last page of a site may be removed."""
    filled(world, 5)
    world.watch()
    for entry in world.content.iterdir():
        shutil.rmtree(entry)
    world.until_urls()


def test_a_poll_does_not_forget_what_a_comparison_held_back(world: World) -> None:
    """Without the cache a poll misses no file, yet the deletes are held until a comparison lets them go."""
    urls = filled(world, 150)
    world.watch(polling="always").stop()
    emptied(world)
    shutil.rmtree(world.state_dir)
    watcher = world.watch(polling="always")
    world.write("new.html")
    until(lambda: watcher.health().get("files_scanned") == 1)
    assert watcher.health()["held_deletes"] == 150
    world.until_urls(*urls, "new.html")


@pytest.mark.parametrize("polling", ["never", "always"])
def test_a_disk_that_goes_while_it_is_watched_deletes_nothing(world: World, polling: str) -> None:
    """The root is another directory all at once: its emptiness is not believed."""
    urls = filled(world, 150)
    watcher = world.watch(polling=polling)
    emptied(world)
    until(lambda: watcher.health()["held_deletes"] == 150)
    assert world.urls() == urls


def test_accepted_deletes_are_sent(world: World) -> None:
    """--accept-deletes lets the first comparison delete whatever is gone, and no later one."""
    filled(world, 150)
    world.watch().stop()
    emptied(world)
    watcher = world.watch(accept_deletes=True)
    assert world.urls() == set()
    assert watcher.health()["held_deletes"] == 0
    urls = filled(world, 150)
    world.until_urls(*urls)
    emptied_again = world.folder / "away2"
    world.content.rename(emptied_again)
    world.content.mkdir()
    until(lambda: watcher.health()["held_deletes"] == 150)


@pytest.mark.parametrize(
    ("pages", "gone", "share", "held"),
    [
        (101, 100, 0.2, 0),
        (100, 100, 0.2, 100),
        (600, 101, 0.2, 0),
        (500, 101, 0.2, 101),
        (150, 150, 1.0, 0),
        (150, 120, 0.0, 120),
    ],
)
def test_the_guard_counts_as_documented(world: World, pages: int, gone: int, share: float, held: int) -> None:
    """Over 100 and over the share of the URLs that were listed, or all of them."""
    filled(world, pages)
    world.watch(max_delete=share).stop()
    for number in range(gone):
        (world.content / str(number % 10) / f"{number}.html").unlink()
    watcher = world.watch(max_delete=share)
    assert watcher.health()["held_deletes"] == held
    assert len(world.urls()) == (pages if held else pages - gone)


def test_an_overflow_of_the_kernels_queue_loses_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A burst that the queue can't hold is found by a rescan, which doesn't set itself off again."""
    size = int(QUEUE.read_text())
    needs.require(size <= 65_536, f"a queue of {size} events takes too long to overflow")
    gate = threading.Event()
    gate.set()
    through = WatchTable.on_event

    def held_up(table: WatchTable, event: Any) -> None:
        gate.wait()
        through(table, event)

    monkeypatch.setattr(WatchTable, "on_event", held_up)
    watcher = world.watch(front_matter=False, html_head=False)
    for number in range(50):
        (world.content / str(number)).mkdir()
    world.write("first.html")
    until(lambda: "first.html" in world.urls())
    gate.clear()
    for number in range(size // 2 + 1000):
        world.write(f"{number % 50}/{number}.html", "")
    gate.set()
    until(lambda: "events_lost" in [getattr(record, "action", "") for record in caplog.records])
    world.settle()
    world.write("last.html")
    world.settle()
    actions = [getattr(record, "action", "") for record in caplog.records]
    assert actions.count("events_lost") == 1
    assert watcher.health()["mode"] == "events"


def test_more_dirty_paths_than_are_kept_lead_to_a_scan(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for pending paths is bounded."""
    monkeypatch.setattr("producers.filesystem.pending.MOST", 50)
    world.watch()
    filled(world, 500)
    world.settle()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_reader_thread_that_ends_is_replaced(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The watch's own health is watched."""
    through = WatchTable.on_event

    def ends(table: WatchTable, event: Any) -> None:
        monkeypatch.setattr(WatchTable, "on_event", through)
        raise SystemExit  # ends a thread quietly

    world.watch()
    monkeypatch.setattr(WatchTable, "on_event", ends)
    world.write("a.html")
    world.until_urls("a.html")
    assert "the thread that reads them ended" in caplog.text
    world.write("b.html")
    world.settle()


@pytest.mark.parametrize("step", ["changes", "_scan", "update_status"])
def test_a_fault_of_ours_is_told_and_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    """Whatever is raised, status says `failed`, the log has its traceback, and the source goes on."""
    broken = threading.Event()
    broken.set()
    through = getattr(WatchedFolder, step)

    def fails(folder: WatchedFolder, **options: bool) -> object:
        if broken.is_set():
            raise ZeroDivisionError("a fault")
        return through(folder, **options)

    world.write("a.html")
    monkeypatch.setattr(WatchedFolder, step, fails)
    watcher = world.watch(ready=False)
    until(lambda: watcher.health().get("state") == "failed", watcher.health)
    assert "ZeroDivisionError: a fault" in caplog.text
    broken.clear()
    world.until_urls("a.html")
    until(lambda: watcher.health()["problem"] is None)
    assert watcher.health()["state"] == "watching"


def test_a_folder_that_cannot_be_listed_keeps_its_pages(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning; what was known of it and of all below it stays, until it can be listed again."""
    world.write("open.html")
    world.write("locked/a.html")
    world.write("locked/deep/b.html")
    world.watch().stop()
    locked = os.fsencode(world.content / "locked")
    plain = os.scandir

    def scandir(path: Any) -> Any:
        if path == locked:
            raise PermissionError(13, "Permission denied")
        return plain(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        (world.content / "locked" / "a.html").unlink()
        watcher = world.watch()
        watcher.rescan()
        world.write("c.html")
        until(lambda: "c.html" in world.urls())
        assert world.urls() == {"open.html", "c.html", "locked/a.html", "locked/deep/b.html"}
    assert caplog.text.count("locked: can't be listed") == 1
    watcher.rescan()
    world.settle()


def test_a_rescan_finds_what_no_event_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """On demand (SIGHUP), and every rescan_interval."""
    monkeypatch.setattr(WatchTable, "on_event", lambda table, event: None)
    watcher = world.watch()
    world.write("a.html")
    watcher.rescan()
    world.settle()
    watcher.stop()
    world.watch(rescan_interval=1)
    world.write("b.html")
    world.settle()


def test_a_rescan_repairs_the_state(world: World) -> None:
    """What somebody else deleted or changed of this source's entries comes back."""
    world.write("a.html")
    watcher = world.watch()
    world.publisher.store.append([event._replace(op="delete") for event in world.publisher.events])
    assert world.urls() == set()
    watcher.rescan()
    world.until_urls("a.html")


def test_changes_during_a_long_scan_are_not_held_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rescan of many folders looks at ripe paths between two of them."""
    filled(world, 100)
    watcher = world.watch()
    gate, entered = threading.Event(), threading.Event()
    through = scan.Scanner._compare

    def slow(scanner: Any, *args: Any) -> Any:
        if scanner._visited is not None and len(scanner._visited) == 5:
            entered.set()
            gate.wait(20)
        return through(scanner, *args)

    monkeypatch.setattr(scan.Scanner, "_compare", slow)
    watcher.rescan()
    assert entered.wait(20)
    world.write("new/a.html")
    shutil.rmtree(world.content / "3")
    until(lambda: watcher.health()["waiting"] > 0)
    gate.set()
    world.settle()
    assert world.events_of("new/a.html") == ["add"]


def in_namespace(world: World, scenario: str, redis_url: str, *, flags: str) -> dict[str, Any]:
    """Run a scenario of filesystem_child.py in namespaces of its own; returns what it printed."""
    unshare = needs.program("unshare", package="util-linux")
    probe = subprocess.run([unshare, flags, "true"], capture_output=True)
    needs.require(probe.returncode == 0, "this system allows no user namespaces")
    return in_child(world, scenario, redis_url, unshare, flags)


def in_child(world: World, scenario: str, redis_url: str, *wrapper: str) -> dict[str, Any]:
    """Run a scenario of filesystem_child.py in a process of its own; returns what it printed."""
    done = subprocess.run(
        [*wrapper, sys.executable, str(CHILD), scenario, str(world.folder), redis_url],
        capture_output=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr.decode()
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result | {"log": done.stderr.decode()}


@pytest.mark.parametrize("limit", ["max_inotify_watches", "max_inotify_instances"])
def test_a_full_watch_table_is_told_and_polled(world: World, redis_url: str, limit: str) -> None:
    """At the start or midway: never a half-watched tree, and the sysctl is named."""
    filled(world, 50)
    world.client.close()
    found = in_namespace(world, limit, redis_url, flags="-Ur")
    assert found["mode"] == "polling"
    assert found["complete"]
    assert f"fs.inotify.{limit.replace('inotify', 'user')}" in found["problem"]
    assert found["log"].count("can't be watched as a whole") == 1
    assert found["mode_after_rescan"] == "events"


def test_a_limit_that_is_reached_later_is_told_and_polled(world: World, redis_url: str) -> None:
    """New folders may be one too many."""
    filled(world, 20)
    found = in_namespace(world, "later", redis_url, flags="-Ur")
    assert (found["mode_before"], found["mode"], found["complete"]) == ("events", "polling", True)


def test_an_unmounted_disk_deletes_nothing(world: World, redis_url: str) -> None:
    """A real mount that goes, at the root and below it, keeps its pages until it is back."""
    found = in_namespace(world, "unmount", redis_url, flags="-Urm")
    assert found["root_kept"]
    assert found["below_kept"]
    assert found["held"] == 150
    assert found["back"]


def test_what_cannot_be_read_keeps_what_was_known(world: World, redis_url: str) -> None:
    """A file and a folder without read permission keep their pages, and are looked at once they have it."""
    wrapper = []
    if os.geteuid() == 0:  # root reads everything, unless that is taken from it
        setpriv = needs.program("setpriv", package="util-linux")
        wrapper = [setpriv, "--bounding-set=-dac_override,-dac_read_search"]
    found = in_child(world, "locked", redis_url, *wrapper)
    assert found["kept"]
    assert found["below_kept"]
    assert found["found"]
    assert found["log"].count("secret.html: can't be read") == 1
    assert found["log"].count("locked: can't be listed") == 1


def test_a_folder_that_was_moved_out_gives_its_watches_back(tmp_path: Path) -> None:
    """Deploys move folders away all day, and the kernel has so many watches and no more."""
    content = tmp_path / "content"
    marked: list[bytes] = []
    (content / "a" / "b").mkdir(parents=True)
    table = WatchTable(
        os.fsencode(content), add=marked.append, matters=lambda *_: True, lost=lambda sentence: None
    )
    try:
        for folder in (b"", b"a", b"a/b"):
            table.watch(folder)
        (content / "a").rename(tmp_path / "outside")
        until(lambda: table.folders == 1)
        (tmp_path / "outside" / "b" / "c.html").write_text("nobody's business")
        (content / "d.html").write_text("text")
        until(lambda: b"d.html" in marked)
        assert set(marked) == {b"a", b"d.html"}
    finally:
        table.close()

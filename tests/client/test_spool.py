"""The spool: what was taken outlives its process, once at least, in order, within its bound."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sitemapd_client import Counts, Publisher, Unavailable
from sitemapd_client.pending import Full
from sitemapd_client.spool import SEGMENT_BYTES, Spool
from tests.acceptance.until import until
from tests.client.fake_server import FakeServer
from tests.client.processes import run, start

LOC = "https://shop.example.com/"
NOBODY = "http://127.0.0.1:9/"

PUSH = """
import os, signal, sys
from sitemapd_client import Publisher
sitemap = Publisher(sys.argv[1], spool=sys.argv[2], timeout=0.2)
for number in range(int(sys.argv[3])):
    sitemap.add(f"https://shop.example.com/{sys.argv[4]}-{number}")
print("taken", flush=True)
"""
AND_KILL = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give the folder of a spool."""
    return tmp_path / "spool"


def line(number: int, more: str = "") -> str:
    """An event as a line."""
    return json.dumps({"op": "add", "loc": f"{LOC}{number}{more}"})


def numbers(lines: list[str]) -> list[int]:
    """The numbers of lines."""
    return [int(json.loads(each)["loc"].removeprefix(LOC).rstrip("x")) for each in lines]


def paths(server: FakeServer) -> list[str]:
    """The paths of all events that came."""
    locs = (event["loc"] for request in server.received for event in request.events)
    return [loc.removeprefix(LOC) for loc in locs]


def open_spool(
    folder: Path, target: str = "shop", size_max: int = 64 * 1024 * 1024, *, fsync: bool = False
) -> Spool:
    """A spool that has taken over what was left."""
    spool = Spool(folder, target, size_max=size_max, fsync=fsync)
    spool.adopt(spool.find())
    return spool


def rest(spool: Spool) -> Iterator[int]:
    """The numbers of all lines, which are dropped."""
    while lines := spool.peek(500, 0.0):
        yield from numbers(lines)
        spool.drop(len(lines))


def test_lines_come_in_order_and_files_go(folder: Path) -> None:
    """Over many segments lines keep their order, and nothing is left when all is delivered."""
    spool = open_spool(folder)
    for number in range(5000):
        spool.put(line(number, "x" * 1000), 0.0)
    assert len(list(folder.glob("*.ndjson"))) == 5000 * 1080 // SEGMENT_BYTES + 1
    assert list(rest(spool)) == list(range(5000))
    assert len(spool) == 0
    assert len(list(folder.glob("*.ndjson"))) == 1
    spool.close()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("delivered", [0, 1, 700, 1500])
@pytest.mark.parametrize("fsync", [False, True])
def test_next_process_goes_on_where_the_last_stopped(folder: Path, delivered: int, fsync: bool) -> None:
    """What was dropped from the queue does not come again, and what was not does."""
    first = open_spool(folder, fsync=fsync)
    for number in range(1501 if not fsync else 20):
        first.put(line(number, "x" * 1000), 0.0)
    gone: list[int] = []
    delivered = min(delivered, 19) if fsync else delivered
    while len(gone) < delivered:
        lines = first.peek(delivered - len(gone), 0.0)
        gone += numbers(lines)
        first.drop(len(lines))
    os.close(first._logs[0]._lock)  # as a kill would
    second = open_spool(folder)
    assert [*gone, *rest(second)] == list(range(1501 if not fsync else 20))
    second.close()
    assert list(folder.iterdir()) == []


def test_living_process_keeps_its_log(folder: Path) -> None:
    """Two users of a folder see their own lines only, also in one process."""
    first, second = open_spool(folder), open_spool(folder)
    first.put(line(1), 0.0)
    second.put(line(2), 0.0)
    third = open_spool(folder)
    assert [len(spool) for spool in (first, second, third)] == [1, 1, 0]
    assert list(rest(second)) == [2]
    assert list(rest(first)) == [1]
    for spool in (first, second, third):
        spool.close()


def test_targets_are_kept_apart(folder: Path) -> None:
    """Events of another site or source are never delivered to this one."""
    first = open_spool(folder, "shop")
    first.put(line(1), 0.0)
    first.close()
    assert len(open_spool(folder, "blog")) == 0
    assert list(rest(open_spool(folder, "shop"))) == [1]


def test_size_is_bounded(folder: Path) -> None:
    """A full spool refuses lines, and takes them again when some are delivered."""
    spool = open_spool(folder, size_max=10_000)
    with suppress(Full):
        for number in range(1000):
            spool.put(line(number), 0.0)
    taken = len(spool)
    assert 50 < taken < 200
    assert sum(path.stat().st_size for path in folder.glob("*.ndjson")) <= 10_000
    for round_ in range(20):  # the bound is on what waits, not on what ever came
        assert len(list(rest(spool))) == (taken if round_ == 0 else 50)
        for number in range(50):
            spool.put(line(number), 0.0)
    spool.close()


def test_disk_that_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that could not be written whole was not taken, and the next one is whole."""
    spool = open_spool(folder)
    spool.put(line(1), 0.0)
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr("sitemapd_client.spool.os.write", lambda file, raw: write(file, raw[:7]))
        with pytest.raises(OSError, match="full"):
            spool.put(line(2), 0.0)
    spool.put(line(3), 0.0)
    assert list(rest(spool)) == [1, 3]
    spool.close()


@pytest.mark.parametrize("rubbish", [b'{"op":"add","loc":"https://shop.exa', b"\xff\xfe\n", b"\n\n"])
def test_torn_and_strange_lines(folder: Path, rubbish: bytes) -> None:
    """A line that a crash cut off was never taken; what is no event goes to sitemapd, which says so."""
    first = open_spool(folder)
    first.put(line(1), 0.0)
    (segment,) = folder.glob("*.ndjson")
    with segment.open("ab") as file:
        file.write(rubbish)
    first.close()
    second = open_spool(folder)
    lines = second.peek(9, 0.0)
    assert numbers(lines[:1]) == [1]
    assert len(lines) == 1 + rubbish.count(b"\n")
    second.drop(len(lines))
    second.close()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "place", [b"", b"rubbish", b"0000000000 999999999999\n", b"9999999999 000000000000\n", b"1"]
)
def test_place_that_can_not_be_read(folder: Path, place: bytes) -> None:
    """When the place is lost, all comes again: rather twice than never."""
    first = open_spool(folder)
    for number in range(3):
        first.put(line(number), 0.0)
    first.close()
    (lock,) = folder.glob("*.lock")
    lock.write_bytes(place)
    assert list(rest(open_spool(folder))) == [0, 1, 2]


def test_files_that_somebody_deletes(folder: Path) -> None:
    """What waits in the newest segment survives that its folder is emptied; older ones are lost."""
    spool = open_spool(folder)
    for number in range(3):
        spool.put(line(number), 0.0)
    for path in folder.iterdir():
        path.unlink()
    assert list(rest(spool)) == [0, 1, 2]
    for number in range(3000):
        spool.put(line(number, "x" * 1000), 0.0)
    for path in folder.glob("*.ndjson"):
        path.unlink()
    left = list(rest(spool))
    assert left == list(range(left[0], 3000))
    assert len(spool) == 0
    spool.close()


# Through a publisher


def test_nothing_is_lost_by_a_kill(server: FakeServer, folder: Path) -> None:
    """Whatever a process took before kill -9 is delivered by the next, with the time of its call."""
    victim = start(PUSH + AND_KILL, NOBODY, str(folder), "3000", "a")
    assert victim.communicate(timeout=60)[0] == "taken\n"
    assert victim.returncode == -signal.SIGKILL
    with Publisher(server.url, spool=folder, timeout=30) as sitemap:
        sitemap.add(LOC + "b-0")
        sitemap.flush()
        assert sitemap.counts() == Counts(taken=3001, delivered=3001, refused=0, dropped=0)
    assert paths(server) == [*(f"a-{number}" for number in range(3000)), "b-0"]
    assert all("at" in event for request in server.received for event in request.events)
    assert list(folder.iterdir()) == []


def test_kill_while_it_delivers(server: FakeServer, folder: Path) -> None:
    """Killed in the middle again and again, every event arrives, and only the last batches twice."""
    for number in range(5):
        victim = start(PUSH + "import time; time.sleep(60)", server.url, str(folder), "2000", f"v{number}")
        assert victim.stdout is not None
        assert victim.stdout.readline() == "taken\n"
        victim.kill()
        victim.communicate()
    with Publisher(server.url, spool=folder, timeout=30):
        pass
    expected = {f"v{number}-{each}" for number in range(5) for each in range(2000)}
    assert set(paths(server)) == expected
    assert len(paths(server)) <= len(expected) + 6 * 500
    assert list(folder.iterdir()) == []


def test_processes_share_a_folder(server: FakeServer, folder: Path) -> None:
    """Several processes at once, some of them killed: each event arrives, and those of the living once."""
    living = [start(PUSH + "sitemap.close(60)", server.url, str(folder), "500", f"l{n}") for n in range(3)]
    killed = [start(PUSH + AND_KILL, NOBODY, str(folder), "500", f"k{n}") for n in range(3)]
    for process in (*living, *killed):
        process.communicate(timeout=60)
    assert [process.returncode for process in living] == [0, 0, 0]
    with Publisher(server.url, spool=folder, timeout=30):
        pass
    found = paths(server)
    assert set(found) == {f"{kind}{n}-{each}" for kind in "lk" for n in range(3) for each in range(500)}
    assert len(found) == 3000
    assert list(folder.iterdir()) == []


def test_log_of_a_dead_neighbour_is_taken_over(
    server: FakeServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy process delivers what a killed neighbour left, without a restart."""
    monkeypatch.setattr("sitemapd_client.delivery.ADOPT_S", 0.0)
    with Publisher(server.url, spool=folder, timeout=30) as sitemap:
        victim = start(PUSH + AND_KILL, NOBODY, str(folder), "10", "k")
        victim.communicate(timeout=60)
        sitemap.add(LOC + "own")
        until(lambda: len(paths(server)) == 11, what="the neighbour's events come")


def test_child_of_a_fork_has_a_log_of_its_own(server: FakeServer, folder: Path) -> None:
    """After a fork parent and child spool apart, and a parent's log is free when the parent is gone."""
    code = """
import os, signal, sys
from sitemapd_client import Publisher
sitemap = Publisher("http://127.0.0.1:9/", spool=sys.argv[1], timeout=0.2)
sitemap.add("https://shop.example.com/parent")
if os.fork() == 0:
    sitemap.add("https://shop.example.com/child")
    print("forked", flush=True)
    signal.pause()
os.kill(os.getpid(), signal.SIGKILL)
"""
    parent = start(code, str(folder))
    assert parent.stdout is not None
    assert parent.stdout.readline() == "forked\n"
    parent.wait(30)
    with Publisher(server.url, spool=folder, timeout=30):
        until(lambda: paths(server) == ["parent"], what="the parent's event comes")
    (lock,) = folder.glob("*.lock")
    holder = next(int(pid) for pid in os.listdir("/proc") if pid.isdigit() and holds(int(pid), lock))
    os.kill(holder, signal.SIGKILL)
    until(lambda: is_free(lock), what="the child is gone")
    with Publisher(server.url, spool=folder, timeout=30):
        pass
    assert paths(server) == ["parent", "child"]
    parent.communicate()


def is_free(lock: Path) -> bool:
    """Whether nobody holds a lock. A killed process shows no open files a little before it gives them up."""
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def holds(pid: int, path: Path) -> bool:
    """Whether a process has a file open."""
    try:
        return any(
            os.path.realpath(f"/proc/{pid}/fd/{number}") == str(path)
            for number in os.listdir(f"/proc/{pid}/fd")
        )
    except OSError:
        return False


def test_close_leaves_in_the_spool_what_was_not_taken(server: FakeServer, folder: Path) -> None:
    """An app that ends during an outage loses nothing, and counts nothing as dropped."""
    sitemap = Publisher(NOBODY, spool=folder, timeout=0.2)
    sitemap.add(LOC + "a")
    with pytest.raises(Unavailable, match="1 events"):
        sitemap.close()
    assert sitemap.counts().dropped == 0
    with Publisher(server.url, spool=folder, timeout=30):
        pass
    assert paths(server) == ["a"]


def test_end_of_the_interpreter_leaves_the_spool(server: FakeServer, folder: Path) -> None:
    """So does a script that just ends."""
    run(PUSH, NOBODY, str(folder), "3", "a")
    run(PUSH, server.url, str(folder), "1", "b")
    assert sorted(paths(server)) == ["a-0", "a-1", "a-2", "b-0"]


def test_memory_is_bounded_by_the_files(folder: Path) -> None:
    """A full spool drops as a full memory does."""
    sitemap = Publisher(NOBODY, spool=folder, spool_max=5000, timeout=0.2)
    for number in range(1000):
        sitemap.add(f"{LOC}{number}")
    counts = sitemap.counts()
    assert counts.taken + counts.dropped == 1000
    assert 20 < counts.taken < 100
    with pytest.raises(Unavailable):
        sitemap.close()


def test_spool_that_can_not_be_made(tmp_path: Path) -> None:
    """A folder that can't be made is an error when the publisher is."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        Publisher(NOBODY, spool=tmp_path / "file" / "spool")

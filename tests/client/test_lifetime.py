"""Forks and ends: what a publisher took is delivered once, whichever way the process goes."""

from __future__ import annotations

import os

import pytest

from sitemapd_client import Publisher
from tests.client.fake_server import FakeServer, never
from tests.client.processes import run

LOC = "https://shop.example.com/"

SCRIPT = """
import sys
from sitemapd_client import Publisher
sitemap = Publisher(sys.argv[1], timeout=20)
"""


def paths(server: FakeServer) -> list[str]:
    """The paths of all events that came, sorted."""
    locs = (event["loc"] for request in server.received for event in request.events)
    return sorted(loc.removeprefix(LOC) for loc in locs)


def test_child_delivers_its_own(server: FakeServer) -> None:
    """After a fork in the middle of a delivery the child has nothing of its parent's, and both go on."""
    with Publisher(server.url, timeout=20, linger=0.5) as sitemap:
        sitemap.add(LOC + "parent")
        children = []
        for number in range(5):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    sitemap.add(f"{LOC}child-{number}")
                    sitemap.close()
                    status = 0
                finally:
                    os._exit(status)
            children.append(child)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 5
        sitemap.add(LOC + "parent-again")
    assert paths(server) == [*(f"child-{n}" for n in range(5)), "parent", "parent-again"]


def test_forks_while_threads_push(server: FakeServer) -> None:
    """A fork that comes while other threads hold the publisher's lock leaves no child hanging."""
    code = """
import os, threading
stop = threading.Event()
def push():
    number = 0
    while not stop.is_set():
        sitemap.add(f"https://shop.example.com/parent-{number}"); number += 1
        stop.wait(0.0005)
threads = [threading.Thread(target=push) for _ in range(4)]
for thread in threads: thread.start()
for number in range(20):
    child = os.fork()
    if child == 0:
        sitemap.add(f"https://shop.example.com/child-{number}")
        sitemap.close(20)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads: thread.join()
sitemap.close(20)
counts = sitemap.counts()
assert counts.taken == counts.delivered, counts
print(counts.taken)
"""
    out, _ = run(SCRIPT + code, server.url)
    found = paths(server)
    assert [path for path in found if path.startswith("child")] == sorted(f"child-{n}" for n in range(20))
    assert sum(path.startswith("parent") for path in found) == int(out)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing_deliver_at_their_end(server: FakeServer, method: str) -> None:
    """A pool's workers end without atexit; what they took is delivered all the same."""
    code = """
import multiprocessing, os, tempfile, textwrap
# A module of its own, since spawned workers import what they run.
folder = tempfile.mkdtemp()
with open(os.path.join(folder, "app.py"), "w") as file:
    file.write(textwrap.dedent('''
        import sys
        from sitemapd_client import Publisher
        sitemap = Publisher(%r, timeout=20, linger=5)
        def work(number):
            sitemap.add(f"https://shop.example.com/{number}")
    ''' % sys.argv[1]))
sys.path.insert(0, folder)
import app
context = multiprocessing.get_context(sys.argv[2])
workers = [context.Process(target=app.work, args=(number,)) for number in range(3)]
for worker in workers: worker.start()
for worker in workers: worker.join()
assert [worker.exitcode for worker in workers] == [0, 0, 0]
"""
    run(SCRIPT + code, server.url, method)
    assert paths(server) == ["0", "1", "2"]


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "import atexit; atexit.register(sitemap.add, LATE)"])
def test_end_of_the_interpreter_delivers(server: FakeServer, end: str) -> None:
    """A script that just ends has delivered everything, and was warned that it closed nothing."""
    code = f"""
LATE = "https://shop.example.com/late"
for number in range(50):
    sitemap.add(f"https://shop.example.com/{{number}}")
{end}
"""
    _, err = run(SCRIPT + code, server.url)
    late = ["late"] if "LATE" in end else []
    assert paths(server) == sorted([*(str(number) for number in range(50)), *late])
    assert "ResourceWarning: A Publisher was not closed" in err


def test_warning_that_is_an_error_loses_nothing(server: FakeServer) -> None:
    """Where warnings are errors, what was not closed is delivered all the same."""
    code = """
import warnings
warnings.simplefilter("error")
sitemap.add("https://shop.example.com/module")
forgotten = Publisher(sys.argv[1], linger=1)
forgotten.add("https://shop.example.com/forgotten")
del forgotten
"""
    _, err = run(SCRIPT + code, server.url)
    assert paths(server) == ["forgotten", "module"]
    assert err.count("\nResourceWarning: ") == 2


def test_end_of_the_interpreter_is_bounded(server: FakeServer) -> None:
    """When sitemapd hangs, the script ends all the same, and its log says how much is lost."""
    server.script.extend([never] * 9)
    code = """
import logging
logging.basicConfig()
others = [Publisher(sys.argv[1], timeout=0.5) for _ in range(5)]
for other in others:
    other.add("https://shop.example.com/")
"""
    _, err = run(SCRIPT + code, server.url)
    assert err.count("The process ends: sitemapd has not taken 1 events yet") == 5


def test_closed_publisher_does_not_warn(server: FakeServer) -> None:
    """Whoever closes it hears nothing at the end."""
    code = """
sitemap.add("https://shop.example.com/")
sitemap.close()
"""
    assert run(SCRIPT + code, server.url)[1] == ""

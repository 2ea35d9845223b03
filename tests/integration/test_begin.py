"""Start-up: what is in Redis and at the output decides what happens, and nothing is broken meanwhile."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
import redis

from sitemap_store.errors import BadSetting, SitemapdError
from sitemap_store.model.events import Event
from sitemapd.begin import begin
from sitemapd.build import Parts, build
from sitemapd.child import publishers
from sitemapd.restore import restore_tree
from sitemapd.settings import load
from sitemapd.turn import turn
from tests.published import listed, picture, published, valid_now
from worker.publish import SitePublisher
from worker.site import no_fault

BASE = "https://example.com/"
PAGES = [f"{BASE}p{n}" for n in range(30)]


class Start:
    """A site of 30 pages in 10 shards and 4 index files, and what starts on it."""

    def __init__(self, folder: Path, redis_url: str, more: str = "") -> None:
        self.output = folder / "public"
        self.config = folder / "sitemapd.toml"
        self.write(redis_url, more)

    def write(self, redis_url: str, more: str = "") -> None:
        """Write the configuration."""
        self.config.write_text(
            f'redis_url = "{redis_url}"\n[sites.main]\nbase_url = "{BASE}"\noutput = "public"\n'
            f"shard_size = 3\nindex_size = 3\nmin_interval = 0\n{more}"
        )

    def parts(self) -> Parts:
        """The parts, as a new process has them."""
        return build(load(self.config))

    def work(self, parts: Parts, *, watch: bool = False) -> None:
        """Run what is due, index files first, until nothing is; with `watch` look after each step."""
        hand: SitePublisher = publishers(
            parts, "hand", no_fault, {"main": [0] * parts.sites["main"].partitions}
        )["main"]
        store = parts.store("main")
        for _ in range(400):
            waiting = False
            for partition in store.partitions:
                members = partition.keep(lost_ms=0)[1].members
                for member in sorted(members, key=lambda member: not member.startswith("i")):
                    waiting = True
                    if member.startswith("i"):
                        hand.publish_index(partition.number, int(member[1:]))
                    else:
                        hand.rewrite_shard(partition.number, int(member))
                    if watch:
                        valid_now(self.output)
            if not waiting and not store.unsettled(2**52):
                return
        raise AssertionError("it does not settle")

    def publish(self) -> Parts:
        """Begin, add the pages and publish them."""
        parts = self.parts()
        begin(parts)
        parts.store("main").append([Event("add", loc, lastmod="2026-03-21") for loc in PAGES])
        self.work(parts)
        return parts


@pytest.fixture
def start(tmp_path: Path, redis_url: str) -> Start:
    """A site on an emptied Redis."""
    return Start(tmp_path, redis_url)


def test_an_emptied_output_is_filled_again_and_no_index_names_a_missing_file(start: Start) -> None:
    """I3 holds on the way back too, and every lastmod is the one it was, for the bytes are (I4)."""
    start.publish()
    before, lastmods = picture(start.output), listed(start.output)
    for path in start.output.iterdir():
        path.unlink()
    parts = start.parts()
    begin(parts)
    start.work(parts, watch=True)
    assert {name: row[0] for name, row in picture(start.output).items()} == {
        name: row[0] for name, row in before.items()
    }
    assert listed(start.output) == lastmods


def test_a_rebuild_brings_single_files_back_before_the_index_names_them(start: Start) -> None:
    """Files that somebody removed leave the index until they are there again."""
    parts = start.publish()
    everything = published(start.output)
    for number in (2, 5, 9):
        (start.output / f"sitemap-pages-{number}.xml").unlink()
    present = set(parts.folder("main").published())
    for partition in parts.store("main").partitions:
        partition.want_all(present)
    start.work(parts)
    assert published(start.output) == everything


def test_a_lost_marker_is_written_again_when_every_file_is_known(start: Start) -> None:
    """The state knows its files by name, so that they are not taken for another program's."""
    parts = start.publish()
    before = picture(start.output)
    (start.output / ".sitemapd").unlink()
    parts = start.parts()
    begin(parts)
    start.work(parts, watch=True)
    assert parts.folder("main").marker() == parts.store("main").partitions[0].state_id()
    assert picture(start.output) == before


def test_a_lost_marker_beside_an_unknown_file_is_no_leave_to_publish(start: Start) -> None:
    """One file that the state doesn't know is enough to stop."""
    start.publish()
    (start.output / ".sitemapd").unlink()
    (start.output / "sitemap-other-1.xml").write_text("<urlset/>")
    with pytest.raises(BadSetting, match="sitemapd did not write"):
        begin(start.parts())


def test_another_number_of_partitions_is_refused_at_start(start: Start, redis_url: str) -> None:
    """Every URL would be looked for in another partition."""
    start.publish()
    start.write(redis_url, "partitions = 2\n")
    with pytest.raises(BadSetting, match="made with 1"):
        begin(start.parts())


@pytest.mark.parametrize(("made", "now"), [(1, 2), (3, 2)])
def test_a_tree_of_another_number_of_partitions_is_not_restored(
    tmp_path: Path, redis_url: str, made: int, now: int
) -> None:
    """Nothing is taken into a partition where it would not be found."""
    start = Start(tmp_path, redis_url, f"partitions = {made}\n")
    start.publish()
    redis.Redis.from_url(redis_url).flushall()
    start.write(redis_url, f"partitions = {now}\n")
    parts = start.parts()
    with pytest.raises(SitemapdError, match="another number of partitions"):
        restore_tree(parts.store("main"), parts.folder("main"))


def test_settings_that_files_depend_on_take_effect_at_the_next_start(start: Start, redis_url: str) -> None:
    """A section's default priority shows in the files without anybody asking for a rebuild."""
    start.publish()
    start.write(redis_url, "[sites.main.sections.pages]\npriority = 0.8\n")
    parts = start.parts()
    begin(parts)
    start.work(parts, watch=True)
    assert {row[2] for row in published(start.output).values()} == {"0.8"}
    moved = picture(start.output)
    again = start.parts()
    begin(again)
    start.work(again)
    assert picture(start.output) == moved


def test_a_switch_to_gzip_replaces_every_file_and_leaves_none_behind(start: Start, redis_url: str) -> None:
    """The new file, then the index, then the old file goes."""
    start.publish()
    everything = published(start.output)
    start.write(redis_url, "gzip = true\n")
    parts = start.parts()
    begin(parts)
    start.work(parts, watch=True)
    assert published(start.output) == everything
    names = [name for name in os.listdir(start.output) if name.startswith("sitemap-p")]
    assert len(names) == 10
    assert all(name.endswith(".xml.gz") for name in names)


def test_events_that_a_cut_short_restore_held_back_come_in_at_the_next_start(
    start: Start, redis_url: str
) -> None:
    """I1: what was pushed while Redis was empty is published, whoever finishes the restore."""
    parts = start.publish()
    redis.Redis.from_url(redis_url).flushall()
    store, folder = parts.store("main"), parts.folder("main")
    store.append([Event("add", f"{BASE}meanwhile"), Event("delete", PAGES[0])])
    restore_tree(store, folder)
    folder.mark("main", "again")
    store.partitions[0].adopt("again")
    parts = start.parts()
    begin(parts)
    start.work(parts, watch=True)
    assert set(published(start.output)) == {*PAGES[1:], f"{BASE}meanwhile"}


def test_one_at_a_time_has_a_turn(tmp_path: Path, redis_url: str) -> None:
    """A second process waits until the first is done, and one that lost its turn is told."""
    store = Start(tmp_path, redis_url).parts().store("main")
    order: list[str] = []

    def second() -> None:
        with turn(store, lambda: order.append("waits")):
            order.append("second")

    with turn(store, lambda: order.append("never")) as alive:
        alive()
        other = threading.Thread(target=second)
        other.start()
        while not order:
            time.sleep(0.01)
        order.append("first")
    other.join(10)
    assert order == ["waits", "first", "second"]
    with turn(store, lambda: None) as alive:
        store.client.delete(store.partitions[0].keys.turn())
        with pytest.raises(SitemapdError, match="taken over"):
            alive()


def test_another_folder_is_refused_while_a_service_publishes_to_one(tmp_path: Path, redis_url: str) -> None:
    """Also for a configuration of another site of that name; and not when that service has ended."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first, second = Start(tmp_path / "one", redis_url), Start(tmp_path / "two", redis_url)
    part = first.publish().store("main").partitions[0]
    part.saw_marker("another-host/7/a", there=True, within_ms=20_000)
    for _ in range(2):
        with pytest.raises(BadSetting, match="process 7 on another-host"):
            begin(second.parts())
        assert not list(second.output.glob("*sitemap*"))
        begin(first.parts())  # the same folder is another matter
    part.saw_marker("another-host/7/a", there=False, within_ms=20_000)
    begin(second.parts())
    second.work(second.parts())
    assert len(published(second.output)) == len(PAGES)

"""Editors, git, rsync and deploys work on a watched folder: the state follows, and says no more than that."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from producers.filesystem import scan
from producers.filesystem.cache import Cache, Row
from producers.filesystem.examine import Examiner, Look
from sitemap_store.model.dates import instant_ms
from sitemap_store.model.events import Event
from tests import needs
from tests.integration.filesystem_world import BASE, World, until
from tests.redis_server import RedisServer


@pytest.fixture
def world(tmp_path: Path, redis_url: str) -> Iterator[World]:
    """Give a folder and a site; watchers end with the test."""
    world = World(tmp_path / "world", redis_url)
    yield world
    world.close()


@pytest.fixture(params=["never", "always"])
def polling(request: pytest.FixtureRequest) -> str:
    """Give both ways to notice changes."""
    return str(request.param)


def test_the_first_scan_lists_what_is_there(world: World) -> None:
    """Before it says that it is ready, every page of the folder is in the state, with its date."""
    for path in ("index.html", "about.html", "blog/index.md", "blog/a post.md", "style.css", ".x.md"):
        world.write(path)
    os.utime(world.content / "about.html", (1_600_000_000, 1_600_000_000))
    world.watch()
    assert world.urls() == {"", "about.html", "blog/", "blog/a%20post"}
    assert world.entries()["about.html"].lastmod == "2020-09-13T12:26:40Z"
    assert {entry.source for entry in world.entries().values()} == {"pages"}


def test_changes_are_seen_as_they_happen(world: World, polling: str) -> None:
    """New, changed, renamed and removed files, in folders old and new."""
    world.write("a.html")
    world.watch(polling=polling)
    world.write("b.html")
    world.settle()
    world.write("deep/er/and/deeper/c.md")
    world.settle()
    (world.content / "b.html").rename(world.content / "deep" / "b2.html")
    world.settle()
    (world.content / "a.html").unlink()
    world.settle()
    world.write("deep/b2.html", "---\ndraft: true\n---\n")
    world.settle()
    world.write("deep/b2.html", "no draft")
    world.settle()
    world.write("stays.html")  # so that the source is not empty
    world.settle()
    shutil.rmtree(world.content / "deep")
    world.settle()
    assert world.urls() == {"stays.html"}


def test_a_change_is_in_the_state_well_within_a_second(world: World) -> None:
    """With the debounce as it comes; the best of as many as a busy machine needs."""
    world.watch(debounce=0.1, debounce_max=1.0)
    paths: list[str] = []

    def is_quick() -> bool:
        started = time.monotonic()
        paths.append(f"{len(paths)}.html")
        world.write(paths[-1])
        world.until_urls(*paths)
        return time.monotonic() - started < 0.5

    until(is_quick, "each took half a second and more")


def test_a_restart_with_nothing_changed_sends_nothing(world: World) -> None:
    """With what it remembers, and without, when times of files are what they were."""
    for number in range(50):
        world.write(f"{number % 5}/{number}.md", f"---\nsitemap: {{priority: 0.{number % 9 + 1}}}\n---\n")
    world.watch().stop()
    sent = world.sent()
    world.watch().stop()
    shutil.rmtree(world.state_dir)
    world.watch()
    assert world.sent() == sent == 50


def test_what_happened_while_nobody_watched_is_found(world: World) -> None:
    """The difference, and nothing else, is sent after a restart."""
    for path in ("a.html", "b.html", "c.html"):
        world.write(path)
    world.watch().stop()
    before = world.sent()
    (world.content / "a.html").unlink()
    world.write("b.html", "longer than before")
    os.utime(world.content / "b.html", (1_700_000_000, 1_700_000_000))
    world.write("d/e.html")
    world.watch()
    assert sorted((event.op, event.loc) for event in world.publisher.events[before:]) == [
        ("add", BASE + "b.html"),
        ("add", BASE + "d/e.html"),
        ("delete", BASE + "a.html"),
    ]


def test_entries_of_others_are_left_alone(world: World) -> None:
    """A reconcile compares with this source's entries only."""
    world.publisher.send([Event("add", BASE + "from-elsewhere.html", source="cms")])
    world.write("a.html")
    world.watch()
    assert world.publisher.store.find(BASE + "from-elsewhere.html") is not None
    assert world.urls() == {"a.html"}


def test_only_the_final_state_of_a_file_counts(world: World) -> None:
    """Truncated, and written 20 ms later with content that keeps it out: one delete, no update."""
    file = world.write("a.html")
    world.watch(debounce=0.1)
    before = world.sent()
    with file.open("w") as out:
        out.flush()
        time.sleep(0.02)
        out.write("<meta name=robots content=noindex>")
    world.until_urls()
    assert [event.op for event in world.publisher.events[before:]] == ["delete"]


@pytest.mark.parametrize("way", ["rsync", "jetbrains", "vim", "emacs", "gedit"])
def test_an_atomic_save_is_one_update(world: World, way: str) -> None:
    """Each editor's way to replace a file ends in one update of its page, and no URL of a temporary."""
    file = world.write("p.html")
    os.utime(file, (1_600_000_000, 1_600_000_000))
    world.watch(debounce=0.1)
    before, folder = world.sent(), world.content
    if way == "rsync":
        (folder / ".p.html.Ab12Cd").write_text("new")
        (folder / ".p.html.Ab12Cd").rename(file)
    elif way == "jetbrains":
        (folder / "p.html___jb_tmp___").write_text("new")
        file.rename(folder / "p.html___jb_old___")
        (folder / "p.html___jb_tmp___").rename(file)
        (folder / "p.html___jb_old___").unlink()
    elif way == "vim":
        (folder / "4913").write_text("")
        (folder / "4913").unlink()
        file.rename(folder / "p.html~")
        file.write_text("new")
        (folder / "p.html~").unlink()
    elif way == "emacs":
        (folder / ".#p.html").symlink_to("user@host.123")
        file.rename(folder / "p.html~")
        file.write_text("new")
        (folder / ".#p.html").unlink()
    else:
        (folder / ".goutputstream-ABCDEF").write_text("new")
        (folder / ".goutputstream-ABCDEF").rename(file)
    until(lambda: world.sent() > before)
    world.settle()
    assert [(event.op, event.loc) for event in world.publisher.events[before:]] == [("add", BASE + "p.html")]


def test_a_folder_moved_out_takes_its_pages_along_and_no_others(world: World) -> None:
    """Everything under guide/ goes, nothing under guide-old/, guide.html stays."""
    for number in range(300):
        world.write(f"guide/{number % 7}/{number}.html")
    world.write("guide-old/a.html")
    world.write("guide.html")
    world.watch()
    (world.content / "guide").rename(world.folder / "elsewhere")
    world.until_urls("guide-old/a.html", "guide.html")
    with world.nothing_sent():
        (world.folder / "elsewhere" / "0" / "0.html").write_text("changed outside")
        (world.folder / "elsewhere" / "0" / "new.html").write_text("new outside")


def test_a_folder_moved_out_and_in_again_is_watched(world: World) -> None:
    """Under its new name, and what happens in it is seen."""
    world.write("a/b/c.html")
    world.write("x.html")
    world.watch()
    (world.content / "a").rename(world.folder / "outside")
    world.settle()
    (world.folder / "outside").rename(world.content / "z")
    world.settle()
    world.write("z/b/d.html")
    world.settle()
    assert world.urls() == {"x.html", "z/b/c.html", "z/b/d.html"}


def test_a_file_and_a_folder_may_take_each_others_place(world: World, polling: str) -> None:
    """What a path is now decides, not what it was."""
    world.write("a.html")
    world.watch(polling=polling)
    (world.content / "a.html").unlink()
    world.write("a.html/b.html")
    world.settle()
    assert world.urls() == {"a.html/b.html"}
    shutil.rmtree(world.content / "a.html")
    world.write("a.html")
    world.settle()
    assert world.urls() == {"a.html"}


def test_two_files_of_one_address(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The newer one speaks for it, there is a warning, and the URL stays until the last of them goes."""
    one = world.write("contacts.html")
    other = world.write("contacts/index.html")
    os.utime(one, (1_600_000_000, 1_600_000_000))
    os.utime(other, (1_500_000_000, 1_500_000_000))
    world.watch(url="/{path}/")
    assert world.entries()["contacts/"].lastmod == "2020-09-13T12:26:40Z"
    assert "contacts/index.html" in caplog.text
    one.unlink()
    until(lambda: world.entries()["contacts/"].lastmod == "2017-07-14T02:40:00Z")
    assert "delete" not in world.events_of("contacts/")
    other.unlink()
    world.until_urls()


def test_a_swap_of_two_files_leaves_both(world: World, polling: str) -> None:
    """Each URL is there before and after."""
    world.write("a.html", "---\nslug: one\n---\n")
    world.write("b.html", "---\nslug: two\n---\n")
    world.watch(polling=polling, url="/{path}/")
    assert world.urls() == {"one/", "two/"}
    (world.content / "a.html").rename(world.content / "tmp.txt")
    (world.content / "b.html").rename(world.content / "a.html")
    (world.content / "tmp.txt").rename(world.content / "b.html")
    world.write("c.html")
    world.until_urls("one/", "two/", "c/")


@pytest.mark.parametrize("polling", ["never", "always"])
def test_a_swapped_release_is_compared_and_the_site_is_not_wiped(world: World, polling: str) -> None:
    """`current` → `releases/2` by mv -T: what the new release lacks goes, the rest stays."""
    releases = world.folder / "releases"
    for release, pages in (("1", ("a", "b")), ("2", ("b", "c"))):
        for page in pages:
            (releases / release).mkdir(parents=True, exist_ok=True)
            (releases / release / f"{page}.html").write_text(page)
            os.utime(releases / release / f"{page}.html", (1_600_000_000, 1_600_000_000))
    current = world.folder / "current"
    current.symlink_to("releases/1")
    world.watch(directory=current, polling=polling)
    assert world.urls() == {"a.html", "b.html"}
    (world.folder / "next").symlink_to("releases/2")
    os.replace(world.folder / "next", current)
    world.until_urls("b.html", "c.html")
    assert world.events_of("b.html") == ["add"]
    (releases / "2" / "d.html").write_text("d")
    world.until_urls("b.html", "c.html", "d.html")
    shutil.rmtree(releases / "1")
    (releases / "2" / "e.html").write_text("e")
    world.until_urls("b.html", "c.html", "d.html", "e.html")


def test_a_root_that_is_made_anew_is_watched_anew(world: World) -> None:
    """While it is away nothing is deleted and the trouble is told; then only the difference is sent."""
    world.write("a.html")
    world.write("b.html")
    watcher = world.watch()
    world.content.rename(world.folder / "away")
    until(lambda: watcher.health()["state"] == "waiting")
    assert "No such file" in watcher.health()["problem"]
    assert world.urls() == {"a.html", "b.html"}
    world.write("b.html")
    world.write("c.html")
    world.until_urls("b.html", "c.html")
    until(lambda: watcher.health()["problem"] is None)
    world.write("d.html")
    world.settle()


@pytest.mark.parametrize("meanwhile", ["file", "link to nowhere", "link to a file"])
def test_what_is_no_folder_in_the_place_of_the_root_deletes_nothing(world: World, meanwhile: str) -> None:
    """It is waited for, as while there is nothing; the folder that comes then is compared."""
    world.write("a.html")
    watcher = world.watch()
    world.content.rename(world.folder / "away")
    if meanwhile == "file":
        world.content.write_text("no folder")
    else:
        world.content.symlink_to("nothing" if meanwhile == "link to nowhere" else "away/a.html")
    until(lambda: watcher.health()["state"] == "waiting", watcher.health)
    assert world.urls() == {"a.html"}
    world.content.unlink()
    world.write("b.html")
    world.until_urls("b.html")


@pytest.mark.parametrize("pages", [0, 1, 3])
def test_a_root_that_is_made_anew_under_the_same_inode_is_watched(world: World, pages: int) -> None:
    """ext4 and tmpfs give a new folder the number of the one that just went, which no watch tells of."""
    for number in range(pages):
        world.write(f"{number}.html")
    watcher = world.watch()
    inode = world.content.stat().st_ino
    for _ in range(200):
        shutil.rmtree(world.content)
        world.content.mkdir()
        if world.content.stat().st_ino == inode:
            break
    world.write("new.html")
    until(lambda: "new.html" in world.urls(), watcher.health)
    world.write("later.html")
    until(lambda: "later.html" in world.urls(), watcher.health)


def test_nothing_is_sent_of_a_root_that_is_another_by_now(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory goes while a path is looked at: what was seen is not sent."""
    through = Examiner.examine

    def examine(examiner: Examiner, look: Look) -> Row | None:
        row = through(examiner, look)
        if look.name == b"trigger.html":
            emptied = world.content.rename(world.folder / "away")
            world.content.mkdir()
            (world.content / "other.html").write_text(str(emptied))
        return row

    world.watch()
    monkeypatch.setattr(Examiner, "examine", examine)
    world.write("trigger.html")
    world.until_urls("other.html")
    assert world.events_of("trigger.html") == []


def test_a_directory_that_comes_later_is_waited_for(world: World) -> None:
    """One clear sentence with the setting's name, and no more than one, until it is there."""
    world.content.rmdir()
    watcher = world.watch(ready=False)
    until(lambda: watcher.health().get("problem"))
    assert watcher.health()["problem"].startswith("watch.pages.directory: ")
    world.write("a.html")
    until(watcher.ready.is_set)
    assert world.urls() == {"a.html"}


def test_a_sitemapignore_comes_and_goes(world: World, polling: str) -> None:
    """It takes pages out as soon as it is saved, and lets them in again when it is deleted."""
    world.write("drafts/a.html")
    world.write("drafts/b/c.html")
    world.write("d.html")
    world.watch(polling=polling)
    world.write(".sitemapignore", "drafts/\n")
    world.until_urls("d.html")
    world.write("drafts/e.html")
    world.write("f.html")
    world.until_urls("d.html", "f.html")
    (world.content / ".sitemapignore").unlink()
    world.settle()
    world.write("drafts/g.html")
    world.settle()


def test_names_of_any_bytes_reach_the_state(world: World) -> None:
    """Spaces, signs, newlines and bytes that are no UTF-8, found by the scan and as they come."""
    names = [b"+", b"%#+", b"a b", b"what?&'", b'"<>', b"two\nlines", b"ma\xf1ana", "错".encode()]
    for name in names:
        world.write(b"old/" + name + b".html")
    world.watch()
    for name in names:
        world.write(b"new/" + name + b".html")
    world.settle()
    assert len(world.urls()) == 2 * len(names)
    assert "new/ma%F1ana.html" in world.urls()
    assert "old/two%0Alines.html" in world.urls()


def test_links_are_followed_when_the_setting_says_so(world: World, polling: str) -> None:
    """A link to a file, to a folder, to nowhere, and round in a circle."""
    outside = world.folder / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "sub" / "a.html").write_text("a")
    (outside / "file.html").write_text("f")
    (outside / "sub" / "back").symlink_to(world.content)
    (world.content / "folder").symlink_to(outside / "sub")
    (world.content / "file.html").symlink_to(outside / "file.html")
    (world.content / "nowhere.html").symlink_to("nothing")
    (world.content / "loop").symlink_to(".")
    first = world.watch(polling=polling)
    assert world.urls() == set()
    first.stop()
    world.watch(follow_symlinks=True, polling=polling)
    assert world.urls() == {"folder/a.html", "file.html"}
    (outside / "sub" / "b.html").write_text("b")
    world.until_urls("folder/a.html", "file.html", "folder/b.html")


def test_each_real_folder_is_looked_at_once(
    world: World, polling: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Links to parents, to each other's trees and to what is there anyway neither grow nor list twice."""
    outside = world.folder / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "sub" / "a.html").write_text("a")
    world.write("real/b.html")
    world.write("hidden/c.html")
    for name, target in (
        ("a-sub", outside / "sub"), ("b-all", outside), ("c-again", outside), ("d-up", world.folder),
        ("e-real", world.content / "real"), ("f-hidden", world.content / "hidden"), ("g-root", Path("/")),
    ):  # fmt: skip
        (world.content / name).symlink_to(target)
    (outside / "up").symlink_to(world.folder)
    (outside / "sub" / "round").symlink_to(outside)
    wanted = {"a-sub/a.html", "real/b.html", "f-hidden/c.html"}
    watcher = world.watch(follow_symlinks=True, polling=polling, exclude=["/hidden/"])
    assert world.urls() == wanted
    for name in ("a-sub/round/sub", "b-all", "c-again", "d-up", "e-real", "g-root"):
        assert f"{name}: leads to" in caplog.text, name
    (world.content / "h-late").symlink_to(outside / "sub")
    (outside / "sub" / "d.html").write_text("d")
    world.until_urls(*wanted, "a-sub/d.html")
    (world.content / "a-sub").unlink()
    until(lambda: "a-sub/a.html" not in world.urls())
    watcher.rescan()
    world.until_urls("b-all/sub/a.html", "b-all/sub/d.html", "real/b.html", "f-hidden/c.html")


@pytest.mark.parametrize("where", ["", "deep/er/"])
def test_a_configmap_that_is_swapped_is_seen(world: World, polling: str, where: str) -> None:
    """Kubernetes changes a volume's files by swapping the link `..data`, through which they all lead."""
    texts = {
        "1": {"_index.md": "text", "a.md": "one", "b.md": "text"},
        "2": {"_index.md": "text", "a.md": "---\ndraft: true\n---\n", "b.md": "text"},
        "3": {
            "_index.md": "---\ncascade: {draft: true}\n---\n",
            "a.md": "---\ndraft: false\n---\n",
            "b.md": "",
        },
    }
    volume = world.content / where
    for version, files in texts.items():
        for name, text in files.items():
            world.write(f"{where}..{version}/{name}", text)
    (volume / "..data").symlink_to("..1")
    for name in texts["1"]:
        (volume / name).symlink_to(f"..data/{name}")
    world.watch(follow_symlinks=True, polling=polling, generator="hugo", max_delete=1.0)
    for version, urls in (("1", ["", "a", "b"]), ("2", ["", "b"]), ("3", ["a"]), ("1", ["", "a", "b"])):
        (volume / "..data_tmp").symlink_to(f"..{version}")
        os.replace(volume / "..data_tmp", volume / "..data")
        world.until_urls(*(where + url for url in urls))


def test_touching_is_no_update_when_content_decides(world: World) -> None:
    """touch, chmod, a restore with old times and a fresh clone: same bytes, no event."""
    world.write("a.html", "one")
    world.write("b/c.html", "two")
    world.watch(lastmod="content")
    with world.nothing_sent():
        (world.content / "a.html").touch()
        (world.content / "a.html").chmod(0o600)
        os.utime(world.content / "b" / "c.html", (1_400_000_000, 1_400_000_000))
    fresh = world.folder / "fresh"
    shutil.copytree(world.content, fresh)
    with world.nothing_sent():
        world.content.rename(world.folder / "old")
        fresh.rename(world.content)
    world.write("a.html", "other")
    until(lambda: world.events_of("a.html") == ["add", "add"])


def test_dates_by_content_outlive_the_cache(world: World) -> None:
    """The digest is in the entry, so a cache that is lost costs a scan and nothing else."""
    file = world.write("a.html", "one")
    os.utime(file, (1_500_000_000, 1_500_000_000))
    world.watch(lastmod="content").stop()
    shutil.rmtree(world.state_dir)
    file.touch()
    sent = world.sent()
    watcher = world.watch(lastmod="content")
    assert world.sent() == sent
    assert world.entries()["a.html"].lastmod == "2017-07-14T02:40:00Z"
    with world.nothing_sent():
        file.touch()
    watcher.stop()


def test_an_mtime_that_goes_back_is_no_update_without_the_cache_either(world: World) -> None:
    """The state remembers the newer date."""
    file = world.write("a.html", "one")
    world.watch().stop()
    shutil.rmtree(world.state_dir)
    os.utime(file, (1_500_000_000, 1_500_000_000))
    with world.nothing_sent():
        world.watch()


def test_dates_to_come_are_kept_without_any_event(world: World) -> None:
    """A page comes out, and goes, by the clock alone; the file isn't touched."""
    now = [instant_ms("2026-03-21T00:00:00Z") / 1000]
    world.write("a.md", "---\npublishDate: 2026-04-01\nexpiryDate: 2026-05-01\n---\n")
    world.write("b.md", "---\ndate: 2020-01-01\n---\n")
    world.watch(clock=lambda: now[0])
    assert world.urls() == {"b"}
    now[0] = instant_ms("2026-04-01T00:00:01Z") / 1000
    world.until_urls("a", "b")
    now[0] = instant_ms("2026-05-01T00:00:01Z") / 1000
    world.until_urls("b")


def test_it_sleeps_until_the_next_date(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """With many dates to come the rows are asked when one of them has come, and not at every look."""
    now = [instant_ms("2026-03-21T00:00:00Z") / 1000]
    for number in range(20):
        world.write(f"{number}.md", f"---\ndate: 2026-04-{number + 1:02}\n---\n")
    world.write("past.md", "---\ndate: 2020-01-01\nexpiryDate: 2021-01-01\n---\n")
    world.write("leaves.md", "---\nexpiryDate: 2026-04-02\n---\n")
    asked: list[int] = []
    turned, turn = Cache.turned, scan.Scanner.turn
    looks = [0]

    def counted(cache: Cache, when: int) -> list[Row]:
        asked.append(when)
        return turned(cache, when)

    def look(scanner: scan.Scanner, when: int) -> int:
        looks[0] += 1
        return turn(scanner, when)

    monkeypatch.setattr(Cache, "turned", counted)
    monkeypatch.setattr(scan.Scanner, "turn", look)
    world.watch(clock=lambda: now[0])
    world.until_urls("leaves")
    until(lambda: looks[0] > 2)
    before, seen = len(asked), looks[0]
    until(lambda: looks[0] > seen + 3)
    assert len(asked) == before
    now[0] = instant_ms("2026-04-01T00:00:00Z") / 1000
    world.until_urls("0", "leaves")
    now[0] = instant_ms("2026-04-03T00:00:00Z") / 1000
    world.until_urls("0", "1", "2")
    now[0] = instant_ms("2026-04-01T00:00:00Z") / 1000  # a clock that is put right
    world.write("20.md", "---\ndate: 2026-03-01\n---\n")
    until(lambda: "20" in world.urls())


def test_a_date_that_passed_while_nobody_watched_is_kept(world: World) -> None:
    """The file's times are the same as before, and yet the page is due."""
    now = [instant_ms("2026-03-21T00:00:00Z") / 1000]
    world.write("a.md", "---\npublishDate: 2026-04-01\n---\n")
    world.watch(clock=lambda: now[0]).stop()
    now[0] = instant_ms("2026-04-02T00:00:00Z") / 1000
    world.watch(clock=lambda: now[0])
    world.until_urls("a")


def test_a_refusal_is_reported_and_the_rest_goes_on(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A path of 2,295 characters is in the list of the refused, by its rule, once."""
    folder = "/".join(["错" * 85] * 3)
    world.write(f"{folder}/page.html")
    world.write("a.html")
    world.watch().stop()
    world.watch()
    assert world.urls() == {"a.html"}
    refused = world.publisher.store.rejected()
    assert [(each["rule"], each["source"]) for each in refused] == [("too-long", "pages")]
    assert caplog.text.count("2,047") == 1


def test_dates_come_from_git(world: World) -> None:
    """From commits, not from the checkout; a commit, and a branch that is switched, are seen."""
    git = needs.program("git", package="git")

    def run(*args: str, when: str = "2024-01-01T00:00:00Z") -> None:
        subprocess.run(
            [git, "-C", str(world.content), "-c", "user.name=a", "-c", "user.email=a@b", *args],
            check=True,
            capture_output=True,
            env=os.environ | {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when},
        )

    def dates() -> dict[str, str]:
        return {path: entry.lastmod for path, entry in world.entries().items()}

    run("init", "-b", "main")
    world.write("a.md")
    world.write("folder/two\nlines é.md")
    run("add", ".")
    run("commit", "-m", "one")
    os.utime(world.write("untracked.md"), (1_600_000_000, 1_600_000_000))
    world.watch(lastmod=("git", "mtime"))
    name = "folder/two%0Alines%20%C3%A9"
    first = "2024-01-01T00:00:00Z"
    assert dates() == {"a": first, name: first, "untracked": "2020-09-13T12:26:40Z"}
    run("checkout", "-b", "other")
    world.write("a.md", "changed")
    run("commit", "-am", "two", when="2025-02-02T00:00:00Z")
    until(lambda: dates().get("a") == "2025-02-02T00:00:00Z", dates)
    run("checkout", "main")
    until(lambda: dates().get("a") == first, dates)
    run("add", ".")
    run("commit", "-m", "three", when="2025-03-03T00:00:00Z")
    until(lambda: dates().get("untracked") == "2025-03-03T00:00:00Z", dates)
    assert dates()[name] == first


def test_no_repository_is_told_and_done_without(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """lastmod from git in a folder without history: one error, and the next choice decides."""
    os.utime(world.write("a.html"), (1_600_000_000, 1_600_000_000))
    world.watch(lastmod=("git", "mtime"))
    assert world.entries()["a.html"].lastmod == "2020-09-13T12:26:40Z"
    assert caplog.text.count("has no history that can be read") == 1


def test_redis_goes_away_and_nothing_is_lost(tmp_path: Path, any_redis: RedisServer) -> None:
    """What changes meanwhile is in the state once it is back, and the outage is told."""
    any_redis.flush()
    world = World(tmp_path / "world", any_redis.url)
    try:
        world.write("a.html")
        world.write("b.html")
        watcher = world.watch()
        any_redis.stop()
        world.write("c.html")
        (world.content / "a.html").unlink()
        until(lambda: watcher.health()["problem"], "the outage was never told")
        any_redis.start()
        world.until_urls("b.html", "c.html")
        until(lambda: watcher.health()["problem"] is None)
    finally:
        any_redis.start()
        world.close()


def test_a_state_that_was_lost_is_filled_again(world: World) -> None:
    """Redis comes up with another state than the one that was written to: everything is compared."""
    world.write("a.html")
    world.publisher.store.partitions[0].adopt("one")
    world.watch()
    world.write("b.html")
    world.settle()
    world.client.flushall()
    world.publisher.store.partitions[0].adopt("two")
    world.until_urls("a.html", "b.html")


def test_a_cache_that_is_damaged_is_made_anew(world: World) -> None:
    """It costs a scan and nothing else."""
    world.write("a.html")
    world.watch().stop()
    sent = world.sent()
    (file,) = world.state_dir.glob("*.sqlite")
    file.write_bytes(b"this is no database" * 1000)
    world.watch()
    assert world.sent() == sent
    world.write("b.html")
    world.settle()


def test_changed_settings_make_the_cache_start_anew(world: World) -> None:
    """Another template gives the same files other addresses."""
    world.write("a.md")
    world.watch().stop()
    world.watch(url="/{path}/")
    assert world.urls() == {"a/"}


def test_one_cache_is_not_used_by_two(world: World) -> None:
    """The second watcher of a source says so and waits; it goes on when the first has ended."""
    world.write("a.html")
    first = world.watch()
    second = world.watch(ready=False)
    until(lambda: "another sitemapd" in (second.health().get("problem") or ""))
    first.stop()
    until(second.ready.is_set)


def test_a_tree_that_is_mostly_unlisted_is_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Canonicals that name another host keep every page out: the log says so at the start."""
    for number in range(3):
        world.write(f"{number}.html", "<link rel=canonical href=https://www.example.org/>")
    world.watch()
    assert world.urls() == set()
    assert "are not listed: canonical 3 of 3" in caplog.text
    assert "mostly_unlisted" in [getattr(record, "action", "") for record in caplog.records]


@pytest.mark.parametrize("lastmod", [["mtime"], ["content"]])
def test_images_of_a_page_follow_its_file(world: World, lastmod: list[str]) -> None:
    """They come with the file and change with it, also beside a digest; a restart sends nothing."""
    world.write("a.md", "---\nimage: /a.jpg\n---\n")
    options: dict[str, Any] = {"images": "og", "lastmod": lastmod}
    world.watch(**options)

    def images() -> object:
        ext = world.entries()["a"].ext
        return json.loads(ext).get("images") if ext else None

    assert images() == [f"{BASE}a.jpg"]
    world.write("a.md", "---\nimages: [/b.jpg, /c.jpg]\n---\n")
    until(lambda: images() == [f"{BASE}b.jpg", f"{BASE}c.jpg"], "the images changed")
    world.close()
    with world.nothing_sent():
        world.watch(**options)
    world.write("a.md", "---\ntitle: A\n---\n")
    until(lambda: not images(), "the images are gone")

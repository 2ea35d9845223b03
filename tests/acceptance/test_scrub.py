"""The output is not trusted: what a deploy, a hand or a disk does to it is put right by real processes."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
import redis

from tests.acceptance.place import BASE, Place, add, settings
from tests.acceptance.until import until
from tests.published import index_files, listed, picture, published, shard_files


def bytes_of(folder: Path) -> dict[str, bytes]:
    """The published files' content."""
    return {name: data for name, (data, _, _) in picture(folder).items()}


def wipe(folder: Path) -> None:
    """What a deploy does that cleans its target."""
    for path in folder.iterdir():
        path.unlink()


@pytest.fixture
def filled(place: Place, redis_url: str) -> Place:
    """Give a place with six shards that were published by a worker which has ended."""
    place.configure(settings(redis_url, shard_size=2))
    service = place.worker()
    place.events(*(add(f"p{n}") for n in range(12)))
    place.wait()
    assert service.stop() == 0
    return place


def test_an_output_wiped_while_we_run_is_put_back_whole(filled: Place) -> None:
    """The same bytes within seconds, the shards before the index; `status` says what was found."""
    before = bytes_of(filled.output)
    service = filled.worker()
    for _ in range(2):
        wipe(filled.output)

        def back() -> bool:
            listed(filled.output)  # fails on an index that names a file which is not there
            return bytes_of(filled.output) == before

        until(back, what="the output is as it was")
    assert (filled.output / ".sitemapd").exists()
    service.says("was wiped", times=2)
    site = filled.ok("status", "--json").json["sites"]["main"]
    assert site["differed"]["gone"] >= 12
    filled.ok("check", "--state")


def test_an_output_wiped_between_two_runs_is_put_back_at_the_next_start(filled: Place) -> None:
    """Stopped in the regular way or killed: the start marks the folder and everything comes back."""
    before = bytes_of(filled.output)
    wipe(filled.output)
    service = filled.worker()
    until(lambda: bytes_of(filled.output) == before, what="the output is as it was")
    service.kill()
    wipe(filled.output)
    filled.worker()
    until(lambda: bytes_of(filled.output) == before, what="the output is as it was")


def test_a_file_that_was_edited_and_one_that_was_removed_come_back(filled: Place) -> None:
    """The edited one's lastmod moves; that of the removed one does not; nothing else is touched."""
    before, lastmods = picture(filled.output), listed(filled.output)
    filled.worker()
    edited, removed = shard_files(filled.output)[:2]
    right = edited.read_bytes()
    removed.unlink()
    edited.write_bytes(right.replace(BASE.encode(), b"https://evil.example/"))
    until(
        lambda: removed.exists() and edited.read_bytes() == right,
        what="both files are as they were",
    )
    filled.wait()
    now = listed(filled.output)
    assert {name for name in now if now[name] != lastmods[name]} == {edited.name}
    after = picture(filled.output)
    assert {name for name in after if after[name] != before[name]} == {
        edited.name,
        removed.name,
        "sitemap.xml",
    }


def test_check_state_names_what_differs_and_exits_1(filled: Place) -> None:
    """Without a worker nothing is put right, so the report can be read."""
    assert filled.ok("check", "--state", "--json").json["sites"]["main"] == {
        "same": 7,
        "gone": [],
        "altered": [],
        "strange": [],
    }
    gone, altered = shard_files(filled.output)[:2]
    gone.unlink()
    os.truncate(altered, 40)
    (filled.output / "sitemap-pages-99.xml").write_bytes(b"<urlset/>")
    result = filled.command("check", "--state")
    assert result.code == 1
    assert result.out.splitlines() == [
        "main: 5 files hold what was published",
        f"main: {gone.name} is not at the output",
        f"main: {altered.name} does not hold what was published",
        "main: sitemap-pages-99.xml is in sitemapd's names, and no shard has it",
    ]


def test_a_process_that_is_configured_to_another_folder_is_refused(filled: Place, redis_url: str) -> None:
    """While the first one runs; after its end the second may start, and publishes everything there."""
    service = filled.worker()
    with redis.Redis.from_url(redis_url) as client:
        until(lambda: client.zcard("sm:{main.0}:seen"), what="the first one saw its marker")
    refusal = filled.command("--config", str(other(filled, redis_url)), "worker").refusal()
    assert "is not the folder that process" in refusal
    assert not index_files(filled.folder / "elsewhere")
    assert service.stop() == 0
    filled.worker("--config", str(other(filled, redis_url)))
    until(lambda: len(listed(filled.folder / "elsewhere")) == 6, what="all is published there")


def other(place: Place, redis_url: str) -> Path:
    """The same site in another configuration, with another output."""
    return place.configure(settings(redis_url, shard_size=2, output="elsewhere"), name="other.toml")


def test_a_folder_that_is_away_is_waited_for(filled: Place) -> None:
    """An output that is not mounted is not made: nothing is written below its mount point."""
    before = bytes_of(filled.output)
    service = filled.worker()
    away = filled.output.with_name("away")
    filled.output.rename(away)
    filled.events(add("late"))
    service.says("publish_postponed")
    assert not filled.output.exists()
    away.rename(filled.output)
    filled.wait()
    assert published(filled.output).keys() == {BASE + f"p{n}" for n in range(12)} | {BASE + "late"}
    assert bytes_of(filled.output).keys() == before.keys() | {"sitemap-pages-7.xml"}


def test_a_worker_that_writes_late_and_dies_leaves_no_old_bytes(filled: Place, redis_url: str) -> None:
    """What it wrote after it lost its lease, nobody reports: the scrubber of another process finds it."""
    service = filled.worker()
    name = shard_files(filled.output)[0]
    old = name.read_bytes()
    filled.events({"op": "update", "loc": BASE + "p0", "priority": 0.3})
    filled.wait()
    new = name.read_bytes()
    assert new != old
    temp = name.with_name("late")
    temp.write_bytes(old)
    shutil.move(temp, name)
    until(lambda: name.read_bytes() == new, what="the new bytes are back")
    service.signal(signal.SIGTERM)
    assert service.ended() == 0

"""The commands beside a running worker: what they print, what they return, and what they leave."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from tests.acceptance.place import BASE, Place, add, delete, ndjson, settings, update
from tests.acceptance.until import until
from tests.published import listed, picture, published, urls_of
from tests.redis_server import RedisServer

SECTIONS = '[sites.main.sections.blog]\nmatch = "/blog/**"\nchangefreq = "weekly"\npriority = 0.8\n'


@pytest.fixture
def shop(place: Place, each_redis_url: str) -> Place:
    """Give a configured site without a worker, on Redis and on Valkey."""
    place.configure(settings(each_redis_url, shard_size=10) + SECTIONS)
    return place


@pytest.fixture
def plain(place: Place, redis_url: str) -> Place:
    """Give a configured site without a worker, on whichever server there is."""
    place.configure(settings(redis_url, shard_size=10) + SECTIONS)
    return place


def locs(place: Place) -> set[str]:
    """The paths of the published URLs."""
    return {loc.removeprefix(BASE) for loc in published(place.output)}


def is_published(place: Place, path: str) -> bool:
    """Whether a path's URL is."""
    return path in locs(place)


def main_status(place: Place) -> Any:
    """What `status --json` says of the site."""
    return place.ok("status", "--json").json["sites"]["main"]


def test_an_urls_life_by_hand(shop: Place) -> None:
    """add, update, show, delete: each is published when `wait` returns, and `show` says what is known."""
    worker = shop.worker()
    said = shop.ok("push", "add", f"{BASE}a", f"{BASE}blog/x", "--lastmod", "2026-03-21", "--priority", "0.5")
    assert said.out == "accepted 2, refused 0\n"
    shop.wait()
    assert published(shop.output) == {
        f"{BASE}a": ("2026-03-21", None, "0.5"),
        f"{BASE}blog/x": ("2026-03-21", "weekly", "0.5"),
    }

    shop.ok("push", "update", f"{BASE}blog/x", "--changefreq", "daily")
    shop.wait()
    assert published(shop.output)[f"{BASE}blog/x"] == ("2026-03-21", "daily", "0.5")
    row = shop.ok("show", f"{BASE}blog/x", "--json").json
    assert (row["loc"], row["lastmod"], row["changefreq"]) == (f"{BASE}blog/x", "2026-03-21", "daily")
    assert (row["section"], row["source"]) == ("blog", None)
    assert f"{BASE}blog/x" in (shop.output / row["file"]).read_text()
    assert row["shard"] >= 1

    shop.ok("push", "delete", f"{BASE}a", "--urgent")
    shop.wait()
    assert locs(shop) == {"blog/x"}
    gone = shop.command("show", f"{BASE}a")
    assert (gone.code, gone.out) == (1, "")
    assert gone.err == f"sitemapd: {BASE}a is not listed; `sitemapd rejected` shows what was refused\n"
    assert shop.command("show", "https://elsewhere.example/").code == 1

    assert shop.ok("robots").out == f"Sitemap: {BASE}sitemap.xml\n"
    assert worker.stop() == 0


def test_push_waits_for_the_files(shop: Place) -> None:
    """With --wait it returns when all is published, and says so with its exit code."""
    shop.ok("push", "add", f"{BASE}a")
    late = shop.command("push", "add", f"{BASE}b", "--wait", "0.2")  # no worker yet
    assert late.code == 1
    assert late.out == "accepted 1, refused 0\n"
    assert "still wait" in late.err
    shop.worker()
    stdin = ndjson([*(add(f"p{n}") for n in range(500)), {"op": "add", "loc": "/outside"}])
    mixed = shop.command("push", "-", "--wait", "30", stdin=stdin)
    assert mixed.code == 1
    assert mixed.out == "accepted 500, refused 1\n"
    assert locs(shop) == {"a", "b", *(f"p{n}" for n in range(500))}


def test_lines_of_a_pipe_are_published_as_they_come(plain: Place) -> None:
    """`push -` at the end of a pipe that stays open does not wait for its end, and refuses at once."""
    plain.worker()
    with plain.pipe("push", "-", code=1) as (lines, said):
        for path in ("a", "b"):
            lines.write(ndjson([add(path)]))
            lines.flush()
            until(partial(is_published, plain, path), what=f"{path} is published")
        lines.write(b"nonsense\n")
        lines.flush()
        assert said.readline().startswith(b"line 3: : The line is not JSON")


def test_lines_without_an_op_are_refused_once(plain: Place) -> None:
    """However many they are, one refusal names the way out; lines with an op are accepted all the same."""
    rows = [{"loc": f"{BASE}p{n}"} for n in range(5000)]
    stdin = ndjson([add("a"), *rows, add("b")])
    result = plain.command("push", "-", stdin=stdin)
    assert (result.code, result.out) == (1, "accepted 2, refused 1\n")
    refusal, more = sorted(result.err.splitlines(), reverse=True)
    assert refusal.startswith(f"line 2: {BASE}p0: ")
    assert "push add -" in refusal
    assert more == "4999 more lines have no op either"


def test_push_add_takes_urls_and_objects_from_standard_input(plain: Place) -> None:
    """`push add -` takes plain URLs and objects without op, behind a byte order mark and with CRLF too."""
    stdin = f'\ufeff{BASE}a\r\n\r\n{{"loc":"{BASE}b","priority":0.8}}\r\n{BASE}c'.encode()
    result = plain.command("push", "add", "-", "--lastmod", "2026-03-21", stdin=stdin)
    assert (result.code, result.out) == (0, "accepted 3, refused 0\n")
    shown = [plain.ok("show", BASE + name, "--json").json for name in "abc"]
    assert [row["lastmod"] for row in shown] == ["2026-03-21"] * 3
    assert [row["priority"] for row in shown] == [None, "0.8", None]
    gone = plain.command("push", "delete", "-", stdin=f"{BASE}a\n/x\n".encode() + ndjson([add("b")]))
    assert (gone.code, gone.out) == (1, "accepted 1, refused 2\n")
    assert "[not-absolute]" in gone.err
    assert "[op]" in gone.err
    mixed = plain.command("push", "add", "-", BASE, stdin=b"")
    assert mixed.code == 2


def test_a_byte_order_mark_costs_no_line(plain: Place) -> None:
    """`push -` and `sync FILE` skip one before the first line, as Windows' editors write it."""
    assert plain.ok("push", "-", stdin=b"\xef\xbb\xbf" + ndjson([add("a")])).out == "accepted 1, refused 0\n"
    (plain.folder / "all.ndjson").write_bytes(b"\xef\xbb\xbf" + ndjson([{"loc": BASE + "z"}]))
    assert plain.ok("sync", "all.ndjson", "--source", "cms", "--json").json["added"] == 1


def test_bulk_push_refuses_line_by_line(plain: Place) -> None:
    """5,000 lines with bad ones among them: those are named by number, value and rule, the rest published."""
    lines = [json.dumps(add(f"p/{n}", lastmod="2026-03-21")).encode() for n in range(4990)]
    bad = {
        7: (b'{"op": "add", "loc": ', "json"),
        100: (json.dumps(add("x", lastmode="2026-03-21")).encode(), "field"),
        1999: (json.dumps(add("x", lastmod="2026-13-01")).encode(), "lastmod"),
        2000: (b'{"op": "add", "loc": "https://elsewhere.example/x"}', "location"),
        2001: (json.dumps(add("x" * (1024 * 1024))).encode(), "too-large"),
        3000: (b'["add"]', "event"),
        3001: (b'{"op": "upsert", "loc": "https://shop.example.com/x"}', "op"),
        4000: (b'{"op": "add", "loc": "/relative"}', ""),
        4001: (b"\xff\xfe", "json"),
        5000: (json.dumps(add("x", priority=1.5)).encode(), "priority"),
    }
    for number, (line, _rule) in bad.items():
        lines.insert(number - 1, line)
    stdin = b"\n".join(lines)
    assert len(lines) == 5000

    result = plain.command("push", "-", "--json", stdin=stdin)
    assert result.code == 1
    said = result.json
    assert (said["accepted"], said["refused"]) == (4990, 10)
    assert [row["line"] for row in said["refusals"]] == list(bad)
    for row in said["refusals"]:
        assert row["rule"]
        assert row["detail"].endswith((".", "?"))
        assert bad[row["line"]][1] in ("", row["rule"]), row

    again = plain.command("push", "-", stdin=stdin)
    assert (again.code, again.out) == (1, "accepted 4990, refused 10\n")
    assert [line.split(":")[0] for line in again.err.splitlines()] == [f"line {number}" for number in bad]
    assert again.err.splitlines()[2].endswith("[lastmod]")

    timed_out = plain.command("wait", "--timeout", "0.5")
    assert timed_out.code == 1, "no worker runs"
    assert "sitemapd: after 0.5 s" in timed_out.err
    assert not list(plain.output.glob("*")) if plain.output.exists() else True

    worker = plain.worker()
    plain.wait()
    assert locs(plain) == {f"p/{n}" for n in range(4990)}
    assert worker.stop() == 0

    rows = plain.ok("rejected", "--json", "--limit", "10").json
    assert {row["rule"] for row in rows} == {row["rule"] for row in said["refusals"]}
    assert "2026-13-01" in plain.ok("rejected").out


def test_status_tells_each_site_and_section(plain: Place) -> None:
    """The JSON has every number that a script would ask for, before and after publishing."""
    plain.events(*[add(f"p/{n}") for n in range(25)], *[add(f"blog/{n}") for n in range(3)])
    before = main_status(plain)
    assert before["unfolded_events"] == 28
    assert before["due_shards"] == 4
    assert (before["workers"], before["last_published"]) == (0, None)

    worker = plain.worker(processes=3)
    plain.wait()
    plain.events(add("bad", priority=2), code=1)
    until(lambda: main_status(plain)["workers"] == 3, what="three workers are alive")
    site = main_status(plain)
    assert (site["urls"], site["shards"], site["refused"]) == (28, 4, 1)
    assert (site["due_shards"], site["unfolded_events"], site["waiting_ms"]) == (0, 0, 0)
    assert site["last_published"] >= "2026"
    assert site["redis_bytes_per_url"] > 0
    assert {name: (row["urls"], row["shards"]) for name, row in site["sections"].items()} == {
        "blog": (3, 1),
        "pages": (25, 3),
    }
    assert all(row["last_published"] <= site["last_published"] for row in site["sections"].values())
    assert "28 URLs in 4 shards" in plain.ok("status").out
    assert worker.stop() == 0


def test_rebuild_repairs_what_was_tampered_with_and_nothing_else(plain: Place) -> None:
    """A changed, a lost and a cut file come back as they were; nothing but their lastmods moves in the index.

    That of the lost one stays: nobody can have read wrong bytes of it.
    """
    worker = plain.worker()
    plain.events(*[add(f"p/{n}") for n in range(60)])
    plain.wait()
    before, lastmods = picture(plain.output), listed(plain.output)
    changed, lost, cut = (plain.output / f"sitemap-pages-{n}.xml" for n in (1, 3, 5))
    changed.write_bytes(changed.read_bytes().replace(b"p/1<", b"p/evil<"))
    lost.unlink()
    cut.write_bytes(cut.read_bytes()[:100])

    assert "6 shards" in plain.ok("rebuild").out
    plain.wait()
    after = picture(plain.output)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name][0] != before[name][0]} == {"sitemap.xml"}
    touched = {name for name in after if after[name] != before[name]}
    assert touched == {changed.name, lost.name, cut.name, "sitemap.xml"}
    moved = {name for name, lastmod in listed(plain.output).items() if lastmod != lastmods[name]}
    assert moved == {changed.name, cut.name}
    assert worker.stop() == 0


def test_doctor_finds_what_is_wrong(plain: Place, redis_url: str) -> None:
    """Exit 1 without a worker, 0 with one; as JSON it is a list of findings."""
    alone = plain.command("doctor")
    assert alone.code == 1
    assert "WRONG workers of main" in alone.out
    worker = plain.worker()
    until(lambda: plain.command("doctor").code == 0, what="doctor finds nothing wrong")
    findings = plain.ok("doctor", "--json").json
    assert all(finding["fine"] for finding in findings)
    of_main = {"output of main", "disk of the output of main", "state of main", "workers of main"}
    everywhere = {"packages", "versions", "tokens", "proxy", "disk of data_dir"}
    redis = {"redis", "redis may lose", "redis memory", "redis disk", "clock"}
    assert {finding["what"] for finding in findings} == of_main | everywhere | redis
    plain.configure(settings(redis_url, shard_size=10, base_url="http://127.0.0.1:9/"))
    asked = plain.command("doctor", "--robots", "--web-user", "nobody-at-all")
    assert asked.code == 1
    assert "WRONG robots.txt of main: http://127.0.0.1:9/robots.txt can't be fetched" in asked.out
    assert "there is no user 'nobody-at-all'" in asked.out
    assert worker.stop() == 0


def test_everything_works_from_the_file_that_init_writes(place: Place) -> None:
    """`init`, then `run` and the others, with no edit in between; a second `init` overwrites nothing."""
    assert "Wrote sitemapd.toml" in place.ok("init", "--base-url", BASE).out
    assert "--force" in place.command("init", "--base-url", "https://other.example/").refusal()
    run = place.service("run", "--port", "0")
    run.says("Serving at ")
    place.ok("push", "add", f"{BASE}a")
    place.wait()
    assert locs(place) == {"a"}
    assert place.ok("status").out.startswith("main: 1 URLs in 1 shards")
    assert run.stop() == 0
    no_more = place.command("push", "add", f"{BASE}b")
    assert "start `sitemapd run`" in no_more.refusal()


class TestEmptiedRedis:
    """Redis comes up empty while the output is full."""

    def test_a_running_worker_publishes_nothing(self, plain: Place, any_redis: RedisServer) -> None:
        """An event changes no file; the log and `doctor` name `restore`, and after that all is there."""
        worker = plain.worker()
        plain.events(*[add(f"p/{n}", lastmod="2026-03-21") for n in range(35)], *[add("blog/a")])
        plain.wait()
        before = picture(plain.output)
        any_redis.flush()
        plain.events(add("p/new"), delete("p/3"))
        line = worker.says("[publish_postponed")
        assert "sitemapd restore" in line
        assert plain.command("wait", "--timeout", "1").code == 1
        assert picture(plain.output) == before
        assert "restore" in plain.command("doctor").out

        assert "Restored 36 URLs in 5 shards" in plain.ok("restore").out
        plain.wait()
        expected = {f"p/{n}" for n in range(35) if n != 3} | {"blog/a", "p/new"}
        assert locs(plain) == expected
        kept = {name for name, state in picture(plain.output).items() if before.get(name) == state}
        assert len(kept) >= 3, "shards without an event stay as they are"
        assert plain.command("restore").code == 1, "there is nothing to restore any more"
        assert worker.stop() == 0

    def test_a_worker_does_not_start(self, plain: Place, any_redis: RedisServer) -> None:
        """`worker` exits 2 and says how to go on; `restore` does, and the next start rewrites nothing."""
        worker = plain.worker()
        plain.events(*[add(f"p/{n}") for n in range(12)])
        plain.wait()
        assert worker.stop() == 0
        before = picture(plain.output)
        any_redis.flush()

        sentence = plain.command("worker").refusal()
        assert "sitemapd restore" in sentence
        assert "--discard" in sentence
        assert picture(plain.output) == before
        plain.ok("restore")
        worker = plain.worker()
        plain.wait()
        assert picture(plain.output) == before
        plain.events(update("p/3", lastmod="2026-03-21"))
        plain.wait()
        assert locs(plain) == {f"p/{n}" for n in range(12)}
        assert worker.stop() == 0

    def test_the_old_tree_may_go(self, plain: Place, any_redis: RedisServer) -> None:
        """`restore --discard` lets it go: what was pushed since is published in its place."""
        worker = plain.worker()
        plain.events(*[add(f"p/{n}") for n in range(12)])
        plain.wait()
        assert worker.stop() == 0
        any_redis.flush()
        plain.events(add("p/new"), add("p/3"))
        assert "restore" in plain.command("worker").refusal()
        assert "Removed 3 old files" in plain.ok("restore", "--discard").out
        worker = plain.worker()
        plain.wait()
        assert locs(plain) == {"p/new", "p/3"}
        assert worker.stop() == 0


def test_output_that_was_emptied_is_published_again(plain: Place) -> None:
    """With the state there and the output gone, a start renders everything again."""
    worker = plain.worker()
    plain.events(*[add(f"p/{n}") for n in range(12)])
    plain.wait()
    assert worker.stop() == 0
    shutil.rmtree(plain.output)
    worker = plain.worker()
    assert worker.count("was emptied or replaced: 2 shards are rendered again") == 1
    plain.wait()
    assert locs(plain) == {f"p/{n}" for n in range(12)}
    assert worker.stop() == 0


def test_usage_errors_exit_2(plain: Place) -> None:
    """A wrong option or operation is a usage error, without a traceback."""
    for command in (["push", "upsert", BASE], ["push", "add"], ["push", "-", BASE], ["nonsense"]):
        result = plain.command(*command)
        assert result.code == 2, command
        assert result.err


def uncovered(place: Place) -> dict[str, Any]:
    """What `sitemapd status` says of URLs that the site no longer covers."""
    row: dict[str, Any] = place.ok("status", "--json").json["sites"]["main"]["uncovered"]
    return row


def test_what_the_site_no_longer_covers_is_let_go(place: Place, redis_url: str) -> None:
    """After `base_url` and `strip_query` changed, one command deletes what they leave out."""
    place.configure(settings(redis_url))
    worker = place.worker(processes=1)
    place.events(add("shop/a"), add("shop/b?ref=x"), add("old/c"))
    place.wait()
    assert worker.stop() == 0
    place.configure(settings(redis_url, base_url=f"{BASE}shop/", strip_query=["ref"]))
    worker = place.worker(processes=1)
    until(lambda: uncovered(place)["urls"] == 2, what="both are counted")
    found = uncovered(place)
    assert set(found["examples"]) == {f"{BASE}shop/b?ref=x", f"{BASE}old/c"}
    assert "no longer cover 2 published URLs" in place.ok("status").out
    assert f"`{found['command']}`" in place.ok("status").out
    assert place.ok("show", f"{BASE}shop/b?ref=x", "--json").json["loc"] == f"{BASE}shop/b?ref=x"
    assert f"loc: {BASE}old/c\n" in place.ok("show", f"{BASE}old/c").out
    assert "outside" in place.command("show", f"{BASE}old/d").err
    assert place.ok("sync", "--leave-scope").out == "2 deleted\n"
    place.wait()
    assert uncovered(place)["urls"] == 0
    assert "no longer cover" not in place.ok("status").out
    assert set(published(place.output)) == {f"{BASE}shop/a"}
    assert place.ok("sync", "--leave-scope", "--json").json == {"deleted": 0}
    assert place.command("sync").code == 2
    assert worker.stop() == 0


@pytest.mark.long
def test_compact_merges_sparse_shards_beside_running_workers(plain: Place) -> None:
    """It says first what crawlers will fetch again; a reader of the index finds every URL all the while."""
    worker = plain.worker()
    pages = [f"{BASE}p{n:03}" for n in range(100)]
    plain.ok("push", "add", *pages, "--lastmod", "2026-03-21")
    plain.wait()
    plain.ok("push", "delete", *(page for n, page in enumerate(pages) if n % 5))
    plain.wait()
    live = {page for n, page in enumerate(pages) if n % 5 == 0}
    before = picture(plain.output)
    files = len(listed(plain.output))

    said = plain.ok("compact", "--dry-run").out
    row = plain.ok("compact", "pages", "--dry-run", "--json").json["sites"]["main"]["pages"]
    assert f"{row['shards']} shards become {row['files']}; crawlers fetch {row['files']} files" in said
    assert 0 < row["files"] < row["shards"] <= files
    assert picture(plain.output) == before

    plain.ok("compact")
    seen: list[set[str]] = []

    def merged() -> bool:
        index = listed(plain.output)
        with suppress(FileNotFoundError):  # it went after the index that still named it was read
            seen.append({url.loc for name in index for url in urls_of(plain.output / name)})
        return len(index) < files

    until(merged, what="the merged files are published")
    plain.wait()
    assert seen
    assert all(live <= each for each in seen)
    assert set(published(plain.output)) == live
    assert len(listed(plain.output)) == files - row["shards"] + row["files"]
    assert plain.ok("compact").out == "There is nothing to merge.\n"
    plain.ok("push", "update", pages[0], "--lastmod", "2026-04-01")
    plain.wait()
    assert published(plain.output)[pages[0]][0] == "2026-04-01"
    assert "no section 'pagse'" in plain.command("compact", "pagse").refusal()
    worker.stop()

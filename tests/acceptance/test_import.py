"""`sitemapd import` as a user runs it: the old tree is published, and the next scan changes what differs."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
import redis

from sitemap_store.redis.keys import Keys
from tests.acceptance.place import BASE, ROOT, Place, add, delete, settings
from tests.acceptance.until import until
from tests.check_trees import BASE as CHECKED
from tests.check_trees import HEAD, index, url, urlset
from tests.published import picture, published
from tests.redis_server import RedisServer
from tests.site_server import Server

TREES: Final = ROOT / "tests" / "fixtures" / "import"
MANY: Final = 50_000
WATCH: Final = """
[sites.main.watch.pages]
directory = "content"
url = "/{path}/"
"""
TABLE: Final = """
[sites.main.database.catalogue]
dsn = "sqlite:///shop.db"
table = "products"
url = "/{slug}"
lastmod = "changed"
triggers = "manual"
"""


def write_tree(folder: Path, *files: dict[str, str]) -> None:
    """Write one sitemap for each dictionary of paths and lastmods."""
    folder.mkdir()
    for number, pages in enumerate(files, 1):
        rows = "".join(
            f"<url><loc>{BASE}{path}</loc><lastmod>{lastmod}</lastmod></url>"
            for path, lastmod in pages.items()
        )
        (folder / f"sitemap-shop-{number}.xml").write_text(f"{HEAD}<urlset>{rows}</urlset>")


def bytes_of(place: Place) -> dict[str, bytes]:
    """The published sitemaps without the index, whose dates are its own."""
    return {name: state[0] for name, state in picture(place.output).items() if "-" in name}


def test_an_old_tree_is_published_as_it_was(place: Place, any_redis: RedisServer) -> None:
    """A dry run says the same and changes nothing; the import has each date; a second one changes nothing."""
    any_redis.flush()
    place.configure(settings(any_redis.url))
    write_tree(
        place.folder / "old", {"a": "2025-01-01", "b": "2025-02-01T10:00:00+01:00"}, {"c": "2024-12-31"}
    )
    place.worker()
    dry = place.ok("import", "old", "--dry-run")
    assert dry.out.splitlines()[-1].startswith("Would import 3 new URLs and 0 changed ones;")
    assert place.ok("status", "--json").json["sites"]["main"]["unfolded_events"] == 0
    done = place.ok("import", "old")
    assert done.out == dry.out.replace("Would import", "Imported")
    assert "Read 2 files with 3 URLs; 0 came again, 0 left out." in done.out
    place.wait()
    assert lastmods(place) == {
        "a": "2025-01-01",
        "b": "2025-02-01T10:00:00+01:00",
        "c": "2024-12-31",
    }
    before = picture(place.output)
    again = place.ok("import", "old", "--json").json
    assert (again["new"], again["unchanged"]) == (0, 3)
    place.wait()
    assert picture(place.output) == before


def test_what_is_left_out_ends_with_1_and_is_named(place: Place, any_redis: RedisServer) -> None:
    """The rest comes in all the same; wrong usage is one sentence and 2."""
    any_redis.flush()
    place.configure(settings(any_redis.url))
    shutil.copytree(TREES / "host-variants", place.folder / "old")
    done = place.command("import", "old")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0] == "URLs left out:"
    assert lines[1].startswith("  4 URLs with another scheme or www: --same-site takes them")
    assert lines[2] == "    old/sitemap.xml: http://shop.example.com/http"
    assert lines[-1].startswith("Imported 1 new URL and")
    result = place.command("import", "old", "--same-site", "--json").json
    assert (result["new"], result["unchanged"], result["skipped"]) == (4, 1, 2)
    for arguments, sentence in (
        (("nowhere",), "'nowhere' is no file, no folder and no URL"),
        (("old", "--source", "a b"), "The source 'a b' is wrong"),
        (("https://",), "'https://"),
    ):
        wrong = place.command("import", *arguments)
        assert (wrong.code, wrong.out) == (2, "")
        assert sentence in wrong.err
    (place.folder / "empty").mkdir()
    nothing = place.command("import", "empty")
    assert (nothing.code, nothing.out) == (1, "")
    assert nothing.err.startswith("sitemapd: empty has no sitemap")


def test_what_the_site_knows_already_stays(place: Place, any_redis: RedisServer) -> None:
    """An event before the import wins over it, a delete too, and so does each one after it."""
    any_redis.flush()
    place.configure(settings(any_redis.url))
    write_tree(place.folder / "old", dict.fromkeys(("known", "deleted", "later"), "2025-01-01"))
    place.worker()
    place.events(add("known", lastmod="2026-01-01"), add("deleted"))
    place.events(delete("deleted"))
    result = place.ok("import", "old", "--json").json
    assert result["kept"] == 1
    place.events(add("later", lastmod="2020-01-01", at="2020-01-01T00:00:00Z"))
    place.wait()
    assert lastmods(place) == {"known": "2026-01-01", "later": "2020-01-01"}


@pytest.mark.long
def test_an_import_that_is_killed_is_run_again(place: Place, any_redis: RedisServer) -> None:
    """kill -9 while it sends, and once more: the same files as of one that went through."""
    any_redis.flush()
    place.configure(settings(any_redis.url))
    (place.folder / "urls.txt").write_text("".join(f"{BASE}page/{number}\n" for number in range(MANY)))

    def publish() -> dict[str, bytes]:
        worker = place.worker()
        place.wait()
        assert worker.stop() == 0
        return bytes_of(place)

    place.ok("import", "urls.txt")
    whole = publish()
    any_redis.flush()
    shutil.rmtree(place.output)
    killed = place.service("import", "urls.txt")
    with redis.Redis.from_url(any_redis.url) as client:
        state = Keys("main", 0).state()
        until(lambda: client.hexists(state, "seats"), what="the first URLs are sent")
        client.client_pause(60_000, all=False)
        killed.kill()
        client.client_unpause()
        assert 0 < int(client.hget(state, "seats") or 0) < MANY
    rest = place.ok("import", "urls.txt", "--json").json
    assert rest["new"] + rest["unchanged"] == MANY
    assert 0 < rest["unchanged"] < MANY
    assert publish() == whole


def test_the_next_scan_of_a_folder_changes_only_what_differs(place: Place, any_redis: RedisServer) -> None:
    """With the folder as the source: its new page, new date and deleted page, each in its own file."""
    any_redis.flush()
    place.configure(settings(any_redis.url, shard_size=1) + WATCH)
    pages = {
        "same/": "2025-01-01",
        "differs/": "2025-01-01",
        "gone/": "2025-01-01",
        "also-same/": "2025-02-01",
    }
    write_tree(place.folder / "old", pages)
    dates = {"same": "2025-01-01", "differs": "2025-03-01", "also-same": "2025-02-01", "new": "2025-01-01"}
    (place.folder / "content").mkdir()
    for name, date in dates.items():
        (place.folder / "content" / f"{name}.md").write_text(f"---\ndate: {date}\n---\ntext\n")
    place.ok("import", "old", "--source", "pages")
    place.worker()
    place.wait()
    before = picture(place.output)
    watcher = place.service("watch")
    expected = {f"{name}/": date for name, date in dates.items()}
    until(lambda: lastmods(place) == expected, what="the scan is published")
    place.wait()
    after = picture(place.output)
    assert {name for name in before if before[name] == after.get(name)} == {
        "sitemap-pages-1.xml",
        "sitemap-pages-4.xml",
    }
    assert watcher.stop() == 0


def test_a_scan_takes_over_what_came_without_a_source(place: Place, any_redis: RedisServer) -> None:
    """The pages that it has are its own then, in the same bytes; the others stay."""
    any_redis.flush()
    place.configure(settings(any_redis.url) + WATCH)
    write_tree(place.folder / "old", {"same/": "2025-01-01", "other/": "2025-01-01"})
    (place.folder / "content").mkdir()
    (place.folder / "content" / "same.md").write_text("---\ndate: 2025-01-01\n---\ntext\n")
    place.ok("import", "old")
    place.worker()
    place.wait()
    before = picture(place.output)
    watcher = place.service("watch")
    until(
        lambda: place.ok("show", f"{BASE}same/", "--json").json["source"] == "pages",
        what="the scan takes the page over",
    )
    place.wait()
    assert picture(place.output) == before
    assert place.ok("show", f"{BASE}other/", "--json").json["source"] is None
    assert watcher.stop() == 0


def test_the_next_sync_of_a_table_changes_only_what_differs(place: Place, any_redis: RedisServer) -> None:
    """With the table as the source: one row more, one row less, one other date, and nothing else."""
    any_redis.flush()
    place.configure(settings(any_redis.url) + TABLE)
    write_tree(
        place.folder / "old",
        {"tea": "2025-01-01", "cup": "2025-01-01", "gone": "2025-01-01", "pot": "2025-01-02"},
    )
    with sqlite3.connect(place.folder / "shop.db") as shop:
        shop.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, slug TEXT UNIQUE, changed TEXT)")
        shop.executemany(
            "INSERT INTO products (slug, changed) VALUES (?, ?)",
            [("tea", "2025-01-01"), ("cup", "2025-02-01"), ("new", "2025-01-01"), ("pot", "2025-01-02")],
        )
    shop.close()
    place.ok("triggers", "install", "catalogue")
    place.ok("import", "old", "--source", "catalogue")
    result = place.ok("sync", "--source", "catalogue", "--json").json
    assert {name: result[name] for name in ("added", "updated", "deleted", "unchanged", "held")} == {
        "added": 1,
        "updated": 1,
        "deleted": 1,
        "unchanged": 2,
        "held": 0,
    }
    place.worker()
    place.wait()
    assert lastmods(place) == {
        "tea": "2025-01-01",
        "cup": "2025-02-01",
        "new": "2025-01-01",
        "pot": "2025-01-02",
    }


def test_a_live_site_is_imported(place: Place, any_redis: RedisServer) -> None:
    """From robots.txt on, as a user names it; what is absent is reported."""
    any_redis.flush()
    with closing(Server()) as server:
        place.configure(settings(any_redis.url, base_url=server.base))
        server.put("/robots.txt", f"Sitemap: {CHECKED}sitemap.xml\n", Content_Type="text/plain")
        server.put("/sitemap.xml", index("a.xml", "absent.xml"))
        server.put("/a.xml", urlset(url("a", "<lastmod>2025-01-01</lastmod>")))
        done = place.command("import", server.base, "--json")
        elsewhere = place.command("import", f"{server.base}robots.txt", "--dry-run", "--json")
    assert (done.code, done.json["new"], done.json["files"]) == (1, 1, 2)
    assert done.json["reasons"]["absent"]["examples"] == [f"{server.base}absent.xml"]
    assert elsewhere.json["unchanged"] == 1
    shown = place.ok("show", f"{server.base}a", "--json").json
    assert (shown["lastmod"], shown["at"]) == ("2025-01-01", "1970-01-01T00:00:00Z")


def test_files_become_sections(place: Place, any_redis: RedisServer) -> None:
    """Each keeps its URLs in files of its own, also when one of them changes later."""
    any_redis.flush()
    place.configure(settings(any_redis.url))
    shutil.copytree(TREES / "left-over", place.folder / "old")
    place.worker()
    result = place.command("import", "old", "--sections", "--json")
    assert result.json["sections"] == {"post": 2, "page": 1}
    place.wait()
    files = {"sitemap-post-1.xml", "sitemap-page-1.xml"}
    assert bytes_of(place).keys() == files
    place.events(add("post/a", lastmod="2026-01-01"))
    place.wait()
    assert bytes_of(place).keys() == files
    assert place.ok("show", f"{BASE}post/a", "--json").json["section"] == "post"
    place.ok("status")


def lastmods(place: Place) -> dict[str, str | None]:
    """The published dates by path."""
    return {loc.removeprefix(BASE): lastmod for loc, (lastmod, *_) in published(place.output).items()}

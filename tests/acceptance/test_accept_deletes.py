"""What the guard holds back: shown with number, examples and command, and let pass by that command."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.acceptance.place import BASE, Place, ndjson, settings
from tests.acceptance.until import until
from tests.published import published

WATCH = """
[sites.main.watch.pages]
directory = "content"
"""
TABLE = """
[sites.main.database.catalogue]
dsn = "sqlite:///shop.db"
table = "products"
url = "/p/{slug}"
triggers = "auto"
"""


def _fill(folder: Path, pages: int) -> set[str]:
    folder.mkdir(exist_ok=True)
    for number in range(pages):
        (folder / f"{number:03}.html").write_text("text")
    return {f"{BASE}{number:03}.html" for number in range(pages)}


def _lists(place: Place, urls: set[str]) -> None:
    until(lambda: set(published(place.output)) == urls, what=f"{len(urls)} URLs are listed")


def _published_once(place: Place, pages: int) -> set[str]:
    """Fill the folder, let a service publish it, and end that; the URLs."""
    urls = _fill(place.folder / "content", pages)
    service = place.service("run", "--port", "0")
    _lists(place, urls)
    assert service.stop() == 0
    return urls


def _held(place: Place, source: str, deletes: int) -> str:
    """Wait until that many are held; the command that `status` and `doctor` print beside five examples."""

    def held() -> bool:
        site = place.ok("status", "--json").json["sites"]["main"]
        return bool(site["held"].get(source, {}).get("deletes") == deletes)

    until(held, what=f"{deletes} deletes of {source} are held")
    command = f"sitemapd accept-deletes {source}"
    doctor = place.command("doctor")
    assert doctor.code == 1
    for said in (place.ok("status").out, doctor.out):
        (line,) = [line for line in said.splitlines() if "accept-deletes" in line]
        assert f"{deletes:,} " in line
        assert line.count(BASE) == min(deletes, 5)
        assert f"`{command}`" in line
    return command


def _run(place: Place, *words: str) -> str:
    """Run a command as it was printed."""
    assert words[0] == "sitemapd"
    return place.ok(*words[1:]).out


@pytest.mark.parametrize(("pages", "gone"), [(90, 90), pytest.param(300, 150, marks=pytest.mark.long)])
def test_files_that_are_missing_at_a_start_are_held_until_they_are_accepted(
    place: Place, redis_url: str, pages: int, gone: int
) -> None:
    """An empty root, and a half-mounted one: the command on the running service lets exactly those go."""
    place.configure(settings(redis_url) + WATCH)
    content, away = place.folder / "content", place.folder / "away"
    urls = _fill(content, pages)
    service = place.service("run", "--port", "0")
    _lists(place, urls)
    assert place.command("accept-deletes").refusal().startswith("SOURCE: nothing is held back")
    assert service.stop() == 0
    away.mkdir()
    for file in sorted(content.iterdir())[:gone]:
        file.rename(away / file.name)
    service = place.service("run", "--port", "0")
    command = _held(place, "pages", gone)
    assert service.count("deletes_held") == 1
    _lists(place, urls)
    assert f"{gone} URLs of pages are gone" in _run(place, *command.split())
    left = {BASE + file.name for file in content.iterdir()}
    _lists(place, left)
    assert place.ok("status", "--json").json["sites"]["main"]["held"] == {}
    assert service.stop() == 0


@pytest.mark.long
def test_what_goes_after_it_was_accepted_is_held_again(place: Place, redis_url: str) -> None:
    """Accepted are the 150 that were shown; of 300 that are missing then, the others stay listed."""
    place.configure(settings(redis_url) + WATCH)
    content = place.folder / "content"
    _published_once(place, 320)
    files = sorted(content.iterdir())
    for file in files[:150]:
        file.unlink()
    service = place.service("run", "--port", "0")
    _held(place, "pages", 150)
    assert service.stop() == 0
    assert "when a service next compares pages" in place.ok("accept-deletes", "pages").out
    for file in files[150:300]:
        file.unlink()
    service = place.service("run", "--port", "0")
    _held(place, "pages", 150)
    _lists(place, {BASE + file.name for file in files[150:]})
    assert service.stop() == 0


@pytest.mark.long
def test_another_template_moves_all_urls_or_none(place: Place, redis_url: str) -> None:
    """The same files under other addresses: said so, held as one thing, and passed as one."""
    place.configure(settings(redis_url) + WATCH)
    urls = _published_once(place, 300)
    place.configure(settings(redis_url) + WATCH + 'url = "/new/{path}"\n')
    for again in (False, True):  # a restart forgets nothing of it
        service = place.service("run", "--port", "0")
        command = _held(place, "pages", 300)
        assert "300 URLs of this source change their address" in place.ok("status").out
        _lists(place, urls)
        if not again:
            assert service.stop() == 0
    _run(place, *command.split())
    _lists(place, {url.replace(BASE, f"{BASE}new/") for url in urls})
    assert service.stop() == 0


@pytest.mark.parametrize("gone", [pytest.param(0, marks=pytest.mark.long), 150])
def test_a_renamed_source_keeps_its_urls(place: Place, redis_url: str, gone: int) -> None:
    """The same folder under another name: URLs change their owner; those that are gone are held as any."""
    place.configure(settings(redis_url) + WATCH)
    content = place.folder / "content"
    urls = _published_once(place, 300)
    for file in sorted(content.iterdir())[:gone]:
        file.unlink()
    place.configure(settings(redis_url) + WATCH.replace("pages", "articles"))
    left = {BASE + file.name for file in content.iterdir()}
    service = place.service("run", "--port", "0")
    if gone:
        command = _held(place, "articles", gone)
        _lists(place, urls)
        _run(place, *command.split())
    service.says("source_renamed")
    _lists(place, left)
    for url in sorted(left)[::70]:
        assert place.ok("show", url, "--json").json["source"] == "articles"
    assert place.ok("status", "--json").json["sites"]["main"]["held"] == {}
    assert service.stop() == 0


@pytest.mark.long
@pytest.mark.parametrize(
    "way", ["renamed and another template", pytest.param("base_url", marks=pytest.mark.long)]
)
def test_other_addresses_of_the_same_files_are_one_thing(place: Place, redis_url: str, way: str) -> None:
    """All move or none: under another name as well, and below another base_url."""
    place.configure(settings(redis_url) + WATCH)
    urls = _published_once(place, 300)
    source, configured = "pages", (settings(redis_url) + WATCH).replace(BASE, f"{BASE}new/")
    if way != "base_url":
        source = "articles"
        configured = settings(redis_url) + WATCH.replace("pages", source) + 'url = "/new/{path}"\n'
    place.configure(configured)
    for again in (False, True):  # a restart forgets nothing of it
        service = place.service("run", "--port", "0")
        command = _held(place, source, 300)
        assert "300 URLs of this source change their address" in place.ok("status").out
        assert set(published(place.output)) == urls
        if not again:
            assert service.stop() == 0
    _run(place, *command.split())
    _lists(place, {url.replace(BASE, f"{BASE}new/") for url in urls})
    assert service.stop() == 0


def test_rows_that_are_missing_are_held_until_they_are_accepted(place: Place, redis_url: str) -> None:
    """A table that was restored half, behind the triggers; then one under another template."""
    file = place.folder / "shop.db"
    place.configure(settings(redis_url) + TABLE)
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, slug TEXT UNIQUE)")
        connection.executemany("INSERT INTO products (slug) VALUES (?)", [(f"s{n}",) for n in range(400)])
    service = place.service("run", "--port", "0")
    _lists(place, {f"{BASE}p/s{n}" for n in range(400)})
    assert service.stop() == 0
    copy = place.folder / "copy.db"
    shutil.copy(file, copy)
    with sqlite3.connect(copy) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f'DROP TRIGGER "{name}"')
        connection.execute("DELETE FROM products WHERE id > 200")
    copy.rename(file)
    service = place.service("run", "--port", "0")
    command = _held(place, "catalogue", 200)
    _run(place, *command.split())
    left = {f"{BASE}p/s{n}" for n in range(200)}
    _lists(place, left)
    assert service.stop() == 0
    place.configure(settings(redis_url) + TABLE.replace("/p/", "/q/"))
    service = place.service("run", "--port", "0")
    command = _held(place, "catalogue", 200)
    assert "200 URLs of this source change their address" in place.ok("status").out
    _lists(place, left)
    _run(place, *command.split())
    _lists(place, {url.replace("/p/", "/q/") for url in left})
    assert service.stop() == 0


def test_a_list_that_is_held_passes_once_it_was_accepted(place: Place, redis_url: str) -> None:
    """`sync FILE`: accepted is what was missing, once; what is missing beside it is judged anew."""
    place.configure(settings(redis_url))
    rows = [{"loc": f"{BASE}{n}"} for n in range(400)]

    def sync(some: list[dict[str, str]], code: int) -> None:
        assert place.command("sync", "-", "--source", "cms", stdin=ndjson(some)).code == code

    sync(rows, 0)
    sync(rows[:200], 1)
    command = _held(place, "cms", 200)
    assert "send the list again" in _run(place, *command.split())
    sync(rows[:50], 1)
    command = _held(place, "cms", 350)
    _run(place, *command.split())
    sync(rows[:50], 0)
    assert place.ok("status", "--json").json["sites"]["main"]["held"] == {}
    sync([], 1)

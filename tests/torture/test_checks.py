"""Each check passes a good tree and fails a bad one: a check that can't fail proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.torture import checks
from tests.torture.checks import Bad, Found, Memory, Shown
from tests.torture.crawler import FolderReader, settled, whole_index
from tests.torture.model import Entry

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
BASE = "https://shop.example.com/"
OLD, NEW = "2026-03-21T00:00:00.001Z", "2026-03-21T00:00:00.002Z"


def urlset(*rows: str) -> bytes:
    """A urlset of those rows; a row that is no XML is a loc."""
    urls = "".join(row if row.startswith("<") else f"<url><loc>{row}</loc></url>" for row in rows)
    return f"{HEAD}<urlset {NAMESPACE}>{urls}</urlset>".encode()


def index(**files: str) -> bytes:
    """An index of section-number → lastmod."""
    rows = "".join(
        f"<sitemap><loc>{BASE}sitemap-pages-{number[1:]}.xml</loc><lastmod>{lastmod}</lastmod></sitemap>"
        for number, lastmod in files.items()
    )
    return f"{HEAD}<sitemapindex {NAMESPACE}>{rows}</sitemapindex>".encode()


def rules(found: list[Found]) -> set[str]:
    """Which rules were broken."""
    return {row.rule for row in found}


def test_good_files_are_read() -> None:
    """A valid urlset and index give what they say."""
    fields = "<lastmod>2026-03-21</lastmod><changefreq>daily</changefreq><priority>0.5</priority>"
    row = f"<url><loc>{BASE}a</loc>{fields}</url>"
    assert checks.read_urls(urlset(row, f"{BASE}b")) == {
        f"{BASE}a": Entry("2026-03-21", "daily", "0.5"),
        f"{BASE}b": Entry(),
    }
    assert checks.read_index(index(n1=OLD)) == {"sitemap-pages-1.xml": OLD}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        urlset(f"{BASE}a")[:-20],
        urlset(),
        urlset(f"{BASE}a", f"{BASE}a"),
        urlset("<url><lastmod>2026-03-21</lastmod></url>"),
        urlset(f"<url><loc>{BASE}a</loc><lastmod>soon</lastmod></url>"),
        urlset(f"<url><loc>{BASE}a</loc><priority>1.5</priority></url>"),
        urlset(BASE + "a" * 2048),
        urlset(f"{BASE}a").replace(b"</urlset>", b" " * checks.MOST_BYTES + b"</urlset>"),
        index(n1=OLD),
        b"<html></html>",
    ],
    ids=lambda data: data[-50:].decode(),
)
def test_a_bad_urlset_fails(data: bytes) -> None:
    """Torn, empty, doubled, invalid, too large, too long, or something else: Bad."""
    with pytest.raises(Bad):
        checks.read_urls(data)


def test_too_many_urls_fail() -> None:
    """One URL over the limit is Bad; as many as the limit are fine."""
    two = urlset(f"{BASE}a", f"{BASE}b")
    assert len(checks.read_urls(two, most=2)) == 2
    with pytest.raises(Bad):
        checks.read_urls(two, most=1)


@pytest.mark.parametrize(
    "data",
    [index(), index(n1=OLD)[:-9], urlset(f"{BASE}a"), index(n1=OLD).replace(OLD.encode(), b"now")],
)
def test_a_bad_index_fails(data: bytes) -> None:
    """Empty, torn, something else, or with a date that is none: Bad."""
    with pytest.raises(Bad):
        checks.read_index(data)


def test_an_index_that_names_a_file_twice_fails() -> None:
    """Two rows for one file are Bad, and so are more rows than an index may have."""
    whole = index(n1=OLD)
    row = whole[whole.index(b"<sitemap>") : whole.index(b"</sitemapindex>")]
    with pytest.raises(Bad, match="Duplicate"):
        checks.read_index(whole.replace(b"</sitemapindex>", row + b"</sitemapindex>"))
    many = index(**{f"n{number}": OLD for number in range(1, checks.MOST_SITEMAPS + 2)})
    with pytest.raises(Bad, match="lists 1001 files"):
        checks.read_index(many)


def test_a_lastmod_that_goes_back_is_found() -> None:
    """Forward and equal are fine; back is not, also when the file was away in between."""
    memory = Memory()
    assert memory.see({"a": OLD}) == []
    assert memory.see({"a": NEW, "b": OLD}) == []
    assert memory.see({"b": OLD}) == []
    assert rules(memory.see({"a": OLD, "b": OLD})) == {"lastmod goes back"}


@pytest.mark.parametrize(
    ("there", "after", "bad"),
    [
        (False, {"a": OLD}, True),
        (True, {"a": OLD}, False),
        (False, {}, False),
        (False, {"a": NEW}, False),
    ],
)
def test_a_listed_file_that_is_not_there_is_found(there: bool, after: dict[str, str], bad: bool) -> None:
    """It counts when the index named it, with one lastmod, before and after it was asked for."""
    assert bool(checks.missing("a", {"a": OLD}, there, after)) is bad


def test_a_url_in_two_files_is_found() -> None:
    """One loc in two files is a violation; different ones are not."""
    assert checks.twice({"a": ["x"], "b": ["y"]}) == []
    assert rules(checks.twice({"a": ["x"], "b": ["y", "x"]})) == {"listed twice"}


def shown(lastmod: str, content: str, *locs: str) -> dict[str, Shown]:
    """A tree of one file."""
    return {"a": Shown(lastmod, content, frozenset(locs or ("x",)))}


@pytest.mark.parametrize(
    ("before", "after", "touched", "altered", "rule"),
    [
        (shown(OLD, "1"), shown(OLD, "1"), "", "", None),
        (shown(OLD, "1"), shown(NEW, "2"), "a", "", None),
        (shown(OLD, "1"), shown(OLD, "2"), "a", "", "lastmod stays"),
        (shown(NEW, "1"), shown(OLD, "2"), "a", "", "lastmod goes back"),
        (shown(OLD, "1"), shown(NEW, "1"), "", "", "lastmod moves"),
        (shown(OLD, "1"), shown(NEW, "1"), "a", "", None),
        (shown(OLD, "1"), shown(NEW, "1"), "", "a", None),
        (shown(OLD, "1"), shown(OLD, "1"), "", "a", "lastmod stays"),
    ],
)
def test_a_lastmod_that_does_not_follow_the_bytes_is_found(
    before: dict[str, Shown], after: dict[str, Shown], touched: str, altered: str, rule: str | None
) -> None:
    """Bytes changed if and only if lastmod moved, and it moves forward."""
    found = checks.lastmods(before, after, set(touched).__contains__, set(altered))
    assert rules(found) == ({rule} if rule else set())


@pytest.mark.parametrize(
    "after",
    [{}, shown(NEW, "1"), shown(OLD, "2"), {**shown(OLD, "1"), "b": Shown(OLD, "1", frozenset())}],
)
def test_a_tree_that_does_not_rest_is_found(after: dict[str, Shown]) -> None:
    """A file more or less, other bytes, another lastmod."""
    assert checks.restless(shown(OLD, "1"), shown(OLD, "1")) == []
    assert rules(checks.restless(shown(OLD, "1"), after)) == {"not at rest"}


def test_a_traceback_is_found_with_its_error() -> None:
    """The line that names the error is what is reported."""
    log = ["all is well", "Traceback (most recent call last):", '  File "a.py"', "redis.ResponseError: BUSY"]
    assert checks.told(log[:1], "worker") == []
    assert checks.told(log, "worker") == [Found("traceback", "worker: redis.ResponseError: BUSY")]


@pytest.mark.parametrize(
    ("accepted", "refusals", "rule"),
    [
        (2, [{"rule": "json"}], None),
        (3, [], None),
        (2, [], "unanswered"),
        (3, [{"rule": "json"}], "unanswered"),
        (2, [{"rule": "because"}], "no rule"),
        (2, [{}], "no rule"),
    ],
)
def test_an_event_without_an_answer_is_found(
    accepted: int, refusals: list[dict[str, object]], rule: str | None
) -> None:
    """Each of three events is accepted, or refused by a rule that is documented."""
    found = checks.answered(3, accepted, refusals, {"json"})
    assert rules(found) == ({rule} if rule else set())


def _torn(folder: Path) -> None:
    (folder / "sitemap-pages-1.xml").write_bytes(urlset(f"{BASE}a")[:40])


def _gone(folder: Path) -> None:
    (folder / "sitemap-pages-1.xml").unlink()


def _torn_index(folder: Path) -> None:
    (folder / "sitemap.xml").write_bytes(index(n1=OLD)[:40])


@pytest.mark.parametrize("mutation", [_torn, _gone, _torn_index])
def test_a_settled_tree_is_whole(tmp_path: Path, mutation: Callable[[Path], None]) -> None:
    """A good tree is read; a torn file, a missing one and a torn index are named."""
    (tmp_path / "sitemap.xml").write_bytes(index(n1=OLD))
    (tmp_path / "sitemap-pages-1.xml").write_bytes(urlset(f"{BASE}a"))
    reader = FolderReader(tmp_path)
    tree, urls = settled(reader)
    assert tree["sitemap-pages-1.xml"].lastmod == OLD
    assert urls == {"sitemap-pages-1.xml": {f"{BASE}a": Entry()}}
    assert whole_index(reader) == {"sitemap-pages-1.xml": OLD}
    mutation(tmp_path)
    with pytest.raises(Bad, match="sitemap"):
        settled(reader)

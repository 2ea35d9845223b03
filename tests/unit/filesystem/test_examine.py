"""One file and its row."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import pytest

from producers.filesystem.cache import Cache, Row
from producers.filesystem.examine import LARGE, Examiner, Look
from producers.filesystem.problems import Problem
from producers.filesystem.source import FilesystemSource
from sitemap_store.model.dates import instant_ms
from sitemap_store.model.sections import Sections
from sitemap_store.model.site import Site
from sitemap_store.model.urls import UrlRules

NOW = instant_ms("2026-03-21T12:00:00Z")


class Desk:
    """A folder, and an examiner that looks at files in it."""

    def __init__(
        self, folder: Path, committed: Callable[[bytes, bytes], int] | None = None, **options: Any
    ) -> None:
        self.folder = folder
        self.problems: list[Problem] = []
        self.now = NOW
        site = Site(name="main", rules=UrlRules(base="https://example.com/"), sections=Sections(()))
        self.examiner = Examiner(
            FilesystemSource(name="pages", directory=folder, **options),
            site,
            settle_ns=0,
            report=self.problems.append,
            committed=committed,
        )

    def write(self, name: str, text: str | bytes, mtime: str = "2026-03-01T00:00:00Z") -> None:
        """Write a file with that modification time."""
        path = self.folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        self.touch(name, mtime)

    def touch(self, name: str, mtime: str) -> None:
        """Set a file's modification time."""
        ns = instant_ms(mtime) * 1_000_000
        os.utime(self.folder / name, ns=(ns, ns))

    def look(self, name: str, old: Row | None = None) -> Row:
        """The row of a file that is there."""
        row = self.maybe(name, old)
        assert row is not None
        return row

    def maybe(self, name: str, old: Row | None = None) -> Row | None:
        """The row of a file, or None."""
        found = os.stat(self.folder / name)
        return self.examiner.examine(
            Look(os.fsencode(self.folder), b"", os.fsencode(name), found, old, self.now)
        )


def test_a_plain_file_is_listed_with_its_mtime(tmp_path: Path) -> None:
    """Address from the path, date from the modification time in whole seconds, UTC."""
    desk = Desk(tmp_path)
    desk.write("hello.html", "<p>", "2026-03-01T10:20:30.9Z")
    row = desk.look("hello.html")
    assert (row.loc, row.lastmod) == ("https://example.com/hello.html", "2026-03-01T10:20:30Z")
    assert (row.why, row.live, row.lastmod_by) == ("", 1, "mtime")


def test_the_same_stat_is_unchanged(tmp_path: Path) -> None:
    """A file is read again when its size, times or inode differ."""
    desk = Desk(tmp_path)
    desk.write("a.html", "one")
    desk.now = os.stat(tmp_path / "a.html").st_ctime_ns // 1_000_000 + 1
    row = desk.look("a.html")
    assert desk.examiner.unchanged(row, os.stat(tmp_path / "a.html"))
    desk.write("a.html", "two")
    assert not desk.examiner.unchanged(row, os.stat(tmp_path / "a.html"))


def test_times_that_are_too_fresh_prove_nothing(tmp_path: Path) -> None:
    """A file that changed just now may change once more within the same tick of the clock."""
    desk = Desk(tmp_path)
    desk.examiner = Examiner(
        FilesystemSource(name="pages", directory=tmp_path),
        Site(name="main", rules=UrlRules(base="https://example.com/"), sections=Sections(())),
        settle_ns=100_000_000,
        report=desk.problems.append,
    )
    desk.write("a.html", "one")
    state = os.stat(tmp_path / "a.html")
    desk.now = state.st_ctime_ns // 1_000_000 + 50
    assert not desk.examiner.unchanged(desk.look("a.html"), state)
    desk.now += 100
    assert desk.examiner.unchanged(desk.look("a.html"), state)


def test_a_draft_is_known_and_not_listed(tmp_path: Path) -> None:
    """It keeps a row, so that it need not be read again, without an address."""
    desk = Desk(tmp_path)
    desk.write("a.md", "---\ndraft: true\n---\n")
    row = desk.look("a.md")
    assert (row.loc, row.why, row.live) == ("", "draft", 0)


def test_a_canonical_to_another_page_keeps_it_out(tmp_path: Path) -> None:
    """The head is judged against the page's own address, permalink included."""
    desk = Desk(tmp_path)
    desk.write("a.html", "<link rel=canonical href=/b.html>")
    assert desk.look("a.html").why == "canonical"
    desk.write("a.html", "---\npermalink: /b.html\n---\n<link rel=canonical href=/b.html>")
    assert desk.look("a.html").loc == "https://example.com/b.html"


def test_a_refused_address_is_reported_once(tmp_path: Path) -> None:
    """What may not be listed has a row that says so, and one report."""
    desk = Desk(tmp_path)
    desk.write("a.md", "---\nurl: https://other.example/\n---\n")
    row = desk.look("a.md")
    again = desk.look("a.md", row)
    assert (row.why, row.loc, again.why) == ("refused", "", "refused")
    assert [trouble.kind for trouble in desk.problems] == ["refused"]
    assert desk.problems[0].refused is not None
    assert desk.problems[0].refused.rule == "location"


def test_front_matter_that_cannot_be_read_keeps_the_row(tmp_path: Path) -> None:
    """A typo must neither publish a draft nor take a page away."""
    desk = Desk(tmp_path)
    desk.write("a.md", "---\ntitle: [\n---\n")
    assert desk.look("a.md").why == "front matter"
    desk.write("a.md", "---\ntitle: a\n---\n")
    good = desk.look("a.md")
    desk.write("a.md", "---\ntitle: [\n---\n")
    assert desk.look("a.md", good) is good
    assert not desk.examiner.unchanged(good, os.stat(tmp_path / "a.md"))


def test_an_unreadable_file_keeps_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permission denied is said, and what was known stays."""
    desk = Desk(tmp_path)
    desk.write("a.md", "text")
    good = desk.look("a.md")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert desk.look("a.md", good) is good
    assert desk.look("a.md").why == "unreadable"
    assert {trouble.kind for trouble in desk.problems} == {"unreadable"}


def test_a_file_that_is_gone_or_no_file_has_no_row(tmp_path: Path) -> None:
    """Between the listing and the reading a file may go, or become a pipe."""
    desk = Desk(tmp_path)
    desk.write("a.md", "text")
    state = os.stat(tmp_path / "a.md")
    (tmp_path / "a.md").unlink()

    def examine() -> Row | None:
        return desk.examiner.examine(Look(os.fsencode(tmp_path), b"", b"a.md", state, None, NOW))

    assert examine() is None
    os.mkfifo(tmp_path / "a.md")
    assert examine() is None


def test_dates_to_come_open_and_close_the_page(tmp_path: Path) -> None:
    """A row tells by itself whether it is live at a time."""
    desk = Desk(tmp_path)
    desk.write("a.md", "---\npublishDate: 2026-04-01\nexpiryDate: 2026-05-01\n---\n")
    row = desk.look("a.md")
    assert row.live == 0
    assert row.at(instant_ms("2026-04-01T00:00:00Z")).live == 1
    assert row.at(instant_ms("2026-04-30T23:59:59Z")).live == 1
    assert row.at(instant_ms("2026-05-01T00:00:00Z")).live == 0


def test_front_matter_gives_the_date_before_mtime(tmp_path: Path) -> None:
    """The first choice that has a date decides, and dates to come are passed over."""
    desk = Desk(tmp_path)
    desk.write("a.md", "---\nupdated: 2099-01-01\ndate: 2020-01-01\n---\n")
    row = desk.look("a.md")
    assert (row.lastmod, row.lastmod_by) == ("2020-01-01", "front-matter")


def test_the_order_of_lastmod_choices_is_kept(tmp_path: Path) -> None:
    """Git first, then the head's modified time, then nothing."""
    dates = {b"a.html": instant_ms("2024-05-06T07:08:09Z")}
    desk = Desk(
        tmp_path, committed=lambda _, name: dates.get(name, 0), lastmod=("git", "meta"), html_head=True
    )
    desk.write("a.html", "<meta property=article:modified_time content=2021-01-01>")
    desk.write("b.html", "<meta property=article:modified_time content=2021-01-01>")
    desk.write("c.html", "text")
    assert desk.look("a.html").lastmod == "2024-05-06T07:08:09Z"
    assert desk.look("b.html").lastmod == "2021-01-01"
    assert desk.look("c.html").lastmod == ""


def test_mtime_never_goes_back_for_the_same_bytes(tmp_path: Path) -> None:
    """A restore with older times is no change; a touch is one, and so is other content."""
    desk = Desk(tmp_path)
    desk.write("a.html", "one", "2026-03-10T00:00:00Z")
    row = desk.look("a.html")
    desk.touch("a.html", "2026-03-05T00:00:00Z")
    row = desk.look("a.html", row)
    assert row.lastmod == "2026-03-10T00:00:00Z"
    desk.touch("a.html", "2026-03-12T00:00:00Z")
    row = desk.look("a.html", row)
    assert row.lastmod == "2026-03-12T00:00:00Z"
    desk.write("a.html", "two", "2026-03-05T00:00:00Z")
    assert desk.look("a.html", row).lastmod == "2026-03-05T00:00:00Z"


@pytest.mark.parametrize("mtime", ["2026-03-05T00:00:00Z", "2026-03-20T00:00:00Z"])
def test_content_keeps_its_date_for_the_same_bytes(tmp_path: Path, mtime: str) -> None:
    """Touched, restored or cloned anew: with lastmod = "content" the same bytes keep their date."""
    desk = Desk(tmp_path, lastmod="content")
    desk.write("a.html", "one", "2026-03-10T00:00:00Z")
    row = desk.look("a.html")
    (tmp_path / "a.html").unlink()
    desk.write("a.html", "one", mtime)
    again = desk.look("a.html", row)
    assert (again.lastmod, again.digest) == (row.lastmod, row.digest)


def test_content_that_changed_moves_on_whatever_the_clock_says(tmp_path: Path) -> None:
    """Other bytes with an older mtime changed now, and never before the last change."""
    desk = Desk(tmp_path, lastmod="content")
    desk.write("a.html", "one", "2026-03-10T00:00:00Z")
    row = desk.look("a.html")
    desk.write("a.html", "two", "2026-03-05T00:00:00Z")
    row = desk.look("a.html", row)
    assert row.lastmod == "2026-03-21T12:00:00Z"
    desk.now -= 3600_000
    desk.write("a.html", "three", "2026-03-05T00:00:00Z")
    assert desk.look("a.html", row).lastmod == "2026-03-21T12:00:00Z"


def test_an_mtime_in_the_future_is_now(tmp_path: Path) -> None:
    """A page can't have changed after this moment."""
    desk = Desk(tmp_path)
    desk.write("a.html", "one", "2040-01-01T00:00:00Z")
    assert desk.look("a.html").lastmod == "2026-03-21T12:00:00Z"


def test_nothing_is_read_when_nothing_is_asked_of_the_content(tmp_path: Path) -> None:
    """Without front matter, head and content dates a file is not opened."""
    desk = Desk(tmp_path, front_matter=False, html_head=False)
    desk.write("a.html", "---\ndraft: true\n---\n<meta name=robots content=noindex>")
    row = desk.look("a.html")
    assert (row.why, row.digest) == ("", b"")


def test_twins_in_two_normal_forms_are_told(tmp_path: Path) -> None:
    """é in one character and in two are two files, and somebody should know."""
    desk = Desk(tmp_path)
    desk.write("é.html", "one")
    desk.look("é.html")
    assert desk.problems == []
    desk.write("e\u0301.html", "two")
    one, other = desk.look("é.html"), desk.look("e\u0301.html")
    assert one.loc != other.loc
    assert {trouble.kind for trouble in desk.problems} == {"twin"}
    assert len({trouble.path for trouble in desk.problems}) == 1


def test_a_large_file_is_digested_whole(tmp_path: Path) -> None:
    """A change beyond the part that is searched for a head is a change."""
    desk = Desk(tmp_path, lastmod="content")
    desk.write("a.html", b"x" * 3_000_000)
    row = desk.look("a.html")
    desk.write("a.html", b"x" * 2_999_999 + b"y")
    assert desk.look("a.html", row).digest != row.digest


@pytest.mark.parametrize("mtime", ["1970-01-01T00:00:00Z", "1980-01-01T00:00:00Z", "1985-10-26T08:15:00Z"])
def test_a_packages_placeholder_is_no_date(tmp_path: Path, mtime: str) -> None:
    """npm, zip and others put a fixed time on every file: nothing changed then."""
    desk = Desk(tmp_path)
    desk.write("a.html", "one", mtime)
    assert desk.look("a.html").lastmod == ""


@pytest.mark.parametrize("name", ["404.html", "google1234.html", "500.md"])
def test_service_pages_are_listed_when_the_setting_says_so(tmp_path: Path, name: str) -> None:
    """They are known and counted, and listed only on demand."""
    plain, asked = Desk(tmp_path), Desk(tmp_path, service_pages=True)
    plain.write(name, "text")
    assert (plain.look(name).why, plain.look(name).loc) == ("service page", "")
    assert asked.look(name).live == 1


@pytest.mark.parametrize("year", [1901, 1969, 2099, 2262, 2300, 2440])
def test_a_time_far_off_spoils_nothing(tmp_path: Path, year: int) -> None:
    """A file from the future, or from before 1970, is listed, remembered and known again."""
    desk = Desk(tmp_path)
    desk.write("a.html", "text")
    seconds = (year - 1970) * 31_556_952
    os.utime(tmp_path / "a.html", ns=(seconds * 10**9, seconds * 10**9))
    desk.now = NOW + 86_400_000
    row = desk.look("a.html")
    assert (row.live, desk.problems) == (1, [])
    assert row.lastmod == ("" if year < 1970 else "2026-03-22T12:00:00Z")
    cache = Cache(None)
    cache.put([row])
    assert cache.get(b"", b"a.html") == row
    cache.close()
    desk.now += 86_400_000
    assert desk.look("a.html", row).lastmod == row.lastmod


@pytest.mark.parametrize("times", [-(2**70), -1, 2**63 - 1, 2**63, 2**70])
def test_times_that_no_column_holds_are_remembered(tmp_path: Path, times: int) -> None:
    """File systems count from 1601, or to the year 10000 and beyond, in nanoseconds too."""
    desk = Desk(tmp_path, front_matter=False, html_head=False)
    desk.write("a.html", "text")
    state = os.stat(tmp_path / "a.html")
    found = os.stat_result(state[:10], {"st_mtime_ns": times, "st_ctime_ns": times})
    row = desk.examiner.examine(Look(os.fsencode(tmp_path), b"", b"a.html", found, None, NOW))
    assert row is not None
    assert row.live
    cache = Cache(None)
    cache.put([row])
    assert cache.get(b"", b"a.html") == row
    cache.close()


@pytest.mark.parametrize("inode", [2**63, 2**64 - 1, 2**63 + 5])
def test_an_inode_beyond_63_bits_is_remembered(tmp_path: Path, inode: int) -> None:
    """FUSE and overlays number their files so; they are known again, and told from others."""
    desk = Desk(tmp_path, front_matter=False, html_head=False)
    desk.write("a.html", "text")
    plain = os.stat(tmp_path / "a.html")
    found = os.stat_result((plain.st_mode, inode, *plain[2:]), {"st_mtime_ns": 1, "st_ctime_ns": 1})
    row = desk.examiner.examine(Look(os.fsencode(tmp_path), b"", b"a.html", found, None, NOW))
    assert row is not None
    cache = Cache(None)
    cache.put([row])
    assert cache.get(b"", b"a.html") == row
    cache.close()
    assert desk.examiner.unchanged(row, found)
    other = os.stat_result((plain.st_mode, inode ^ 2, *plain[2:]), {"st_mtime_ns": 1, "st_ctime_ns": 1})
    assert not desk.examiner.unchanged(row, other)


@pytest.mark.parametrize(
    "text",
    [
        '{"slug": "\\ud800"}',
        '{"permalink": "/a\\udfff/"}',
        "---\nslug: ..\n---\n",
        "---\npermalink: /%2e%2e/\n---\n",
    ],
)
def test_an_address_that_cannot_be_is_refused_and_reported(tmp_path: Path, text: str) -> None:
    """Half a character and dot segments keep that one page out, with a reason."""
    desk = Desk(tmp_path)
    desk.write("a.md", text)
    assert desk.look("a.md").why == "refused"
    assert [trouble.kind for trouble in desk.problems] == ["refused"]


@pytest.mark.parametrize(
    "name", [b"a\xed\xa0\x80b.html", b"\xed\xbf\xbf.html", b"\xff\xfe.html", b"\xf0\x9f.html"]
)
def test_a_name_with_half_a_character_has_an_address(tmp_path: Path, name: bytes) -> None:
    """The bytes of a lone surrogate in a name are encoded like any others."""
    desk = Desk(tmp_path, generator="hugo")
    (tmp_path / os.fsdecode(name)).write_text("text")
    row = desk.examiner.examine(
        Look(os.fsencode(tmp_path), b"", name, os.stat(tmp_path / os.fsdecode(name)), None, NOW)
    )
    assert row is not None
    assert row.loc == "https://example.com/" + quote_from_bytes(name)


def test_a_failure_of_ours_keeps_the_row_and_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever one file brings to light, it is that file's, with its traceback in the log."""
    desk = Desk(tmp_path)
    desk.write("a.html", "text")
    row = desk.look("a.html")

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("producers.filesystem.examine.read_page", fails)
    assert desk.look("a.html", row) is row
    assert desk.look("a.html").why == "failed"
    assert {trouble.kind for trouble in desk.problems} == {"failed"}
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("where", [0, LARGE * 4, 3 * 2**30])
def test_a_huge_file_is_read_at_its_ends_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: int
) -> None:
    """Of 3 GB no more than two pieces are read, and a change of its head or its end is seen."""
    desk = Desk(tmp_path)
    desk.write("a.html", "<head><meta name=robots content=noindex></head>")
    size = 3 * 2**30 + 100
    os.truncate(tmp_path / "a.html", size)
    read: list[int] = []

    def counted(plain: Callable[..., bytes]) -> Callable[..., bytes]:
        def counts(*args: int) -> bytes:
            data = plain(*args)
            read.append(len(data))
            return data

        return counts

    monkeypatch.setattr(os, "read", counted(os.read))
    monkeypatch.setattr(os, "pread", counted(os.pread))
    row = desk.look("a.html")
    assert row.why == "noindex"
    assert sum(read) <= 2 << 20
    with (tmp_path / "a.html").open("r+b") as file:
        file.seek(where)
        file.write(b" ")
    assert (desk.look("a.html").digest != row.digest) is (where != LARGE * 4)


@pytest.mark.parametrize(
    "head", [b"", b"<!-- ", b"<head><title>", b"\xff\xfe<\0h\0t\0m\0l\0>\0", b"<p>text", b"---\n"]
)
def test_a_huge_file_without_an_end_to_its_head_is_listed(tmp_path: Path, head: bytes) -> None:
    """Where no body begins within 3 GB, half a megabyte is searched for it and no more."""
    desk = Desk(tmp_path)
    desk.write("a.html", head)
    os.truncate(tmp_path / "a.html", 3 * 2**30)
    row = desk.look("a.html")
    assert (row.live, row.size, desk.problems) == (1, 3 * 2**30, [])


def test_extensions_of_a_page(tmp_path: Path) -> None:
    """The head's languages, and images where asked; addresses may be relative to the page or its base."""
    desk = Desk(tmp_path)
    head = (
        '<html><head><link rel="alternate" hreflang="en" href="/a.html">'
        '<link rel="alternate" hreflang="DE" href="de/a.html"><link rel="alternate" href="feed.xml">'
        '<meta property="og:image" content="img/a b.jpg"></head>'
    )
    desk.write("a.html", head)
    links = (
        '{"alternates":[{"hreflang":"de","href":"https://example.com/de/a.html"},'
        '{"hreflang":"en","href":"https://example.com/a.html"}]'
    )
    assert desk.look("a.html").ext == links + "}"
    asked = Desk(desk.folder, images="og", alternates=True)
    assert asked.look("a.html").ext == links + ',"images":["https://example.com/img/a%20b.jpg"]}'
    desk.write("b.html", head.replace("<head>", '<head><base href="https://cdn.example.net/x/">'))
    none = Desk(desk.folder, images="og", alternates=False)
    assert none.look("b.html").ext == '{"images":["https://cdn.example.net/x/img/a%20b.jpg"]}'


@pytest.mark.parametrize(
    ("front", "images"),
    [
        ("images: [/a.jpg, https://x.example/b.jpg]", ["/a.jpg", "https://x.example/b.jpg"]),
        ("image: a.jpg", ["/blog/a.jpg"]),
        ("image: {path: /a.jpg, alt: A}", ["/a.jpg"]),
        ("images:\n  - src: /a.jpg\n  - /b.jpg\n  - {alt: C}", ["/a.jpg", "/b.jpg"]),
        ("images: []\nimage: /a.jpg", ["/a.jpg"]),
        ("image: false", []),
    ],
)
def test_images_of_front_matter(tmp_path: Path, front: str, images: list[str]) -> None:
    """As generators write them: a text, a table, or a list of these."""
    desk = Desk(tmp_path)
    (desk.folder / "blog").mkdir()
    desk.write("blog/a.md", f"---\n{front}\n---\n")
    row = Desk(desk.folder, images="og").look("blog/a.md")
    found = json.loads(row.ext)["images"] if row.ext else []
    assert [image.removeprefix("https://example.com") for image in found] == images
    assert desk.look("blog/a.md").ext == ""


def test_a_wrong_extension_of_a_page_is_reported_once(tmp_path: Path) -> None:
    """The page is listed without it."""
    desk = Desk(tmp_path)
    desk.write("a.html", '<html><head><link rel="alternate" hreflang="en-UK" href="/b.html"></head>')
    row = desk.look("a.html")
    assert (row.live, row.ext) == (1, "")
    assert "en-GB" in desk.problems[0].detail
    count = len(desk.problems)
    desk.look("a.html", row)
    assert len(desk.problems) == count

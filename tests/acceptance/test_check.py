"""`sitemapd check` as a user runs it: the example site is right, and a wrong tree fails as documented."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import markdown
from tests.acceptance.place import ROOT, Place
from tests.acceptance.until import until
from tests.check_trees import BASE, index, url, urlset, write


@pytest.fixture
def wrong(place: Place) -> Place:
    """Give a place whose folder `site` has an error on line 4 of a file and a warning."""
    write(
        place.folder / "site",
        {
            "sitemap.xml": index("a.xml", "b.xml"),
            "a.xml": urlset(url("a"), url("b", "<lastmod>2026-02-29</lastmod>")),
            "b.xml": urlset(url("a")),
        },
    )
    return place


def test_the_example_site_has_no_finding(place: Place) -> None:
    """What `make run` publishes and serves: as a folder, a file, a URL and a site, also under --strict."""
    content = place.folder / "content"
    for number, page in enumerate(sorted((ROOT / "examples" / "site").rglob("*"))):
        if page.is_file():
            copy = content / page.relative_to(ROOT / "examples" / "site")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(page.read_bytes())
            # In a fresh clone all pages were written at once, which is a finding.
            os.utime(copy, (1_700_000_000 + number * 86_400,) * 2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    here = f"http://127.0.0.1:{port}/"
    service = place.service(
        *("run", "content", "--base-url", here, "--output", "public", "--data-dir", "data", "--port", port),
        env={"SITEMAPD_SITES__MAIN__WATCH__PAGES__IMAGES": "og"},
    )
    service.says("Serving at ")
    until((place.output / "sitemap.xml").exists, what="the index is published")
    place.ok("--config", "data/sitemapd.toml", "wait")
    file = (place.output / "sitemap-pages-1.xml").read_text()
    assert file.count("<image:loc>") == 3
    assert file.count('<xhtml:link rel="alternate" hreflang="de"') == 2
    pages = len(list(content.rglob("*.html"))) + len(list(content.rglob("*.md")))
    right = f"2 files, {pages} URLs: 0 errors, 0 warnings, 0 notes"
    for arguments in (
        ("--config", "data/sitemapd.toml", "check"),
        ("check", "public/sitemap.xml", "--base-url", here),
        ("check", here),
        ("check", f"{here}sitemap.xml"),
    ):
        assert place.ok(*arguments, "--strict").out.splitlines() == [right]
    assert place.ok("check", "public", "--strict").out.splitlines() == [
        f"The folder is taken for {here}; --base-url sets another address.",
        right,
    ]
    assert service.stop() == 0


def test_an_error_ends_with_1_and_names_its_place(wrong: Place) -> None:
    """File, line, severity, value, remedy, code; a count of all at the end."""
    result = wrong.command("check", "site")
    assert result.code == 1
    lines = result.out.splitlines()
    assert lines[0].startswith("site/a.xml:4: error: The lastmod is no date that exists")
    assert lines[0].endswith("Write YYYY-MM-DD or YYYY-MM-DDThh:mm:ss+hh:mm. [lastmod-invalid]")
    assert lines[1].startswith(
        "site/b.xml:3: warning: The URL is listed more than once: https://example.com/a"
    )
    assert lines[-1] == "3 files, 3 URLs: 1 error, 1 warning, 0 notes"
    assert result.err == ""


def test_json_has_all_of_each_finding(wrong: Place) -> None:
    """The counts, and each finding with its rule."""
    result = wrong.command("check", "site", "--json")
    assert result.code == 1
    report = result.json
    found = report.pop("findings")
    counts = {"duplicate-url": 1, "lastmod-invalid": 1}
    assert report == {"files": 3, "urls": 3, "errors": 1, "warnings": 1, "notes": 0, "counts": counts}
    assert found[1] == {
        "code": "duplicate-url",
        "severity": "warning",
        "file": "site/b.xml",
        "line": 3,
        "value": f"{BASE}a",
        "detail": "first in site/a.xml:3",
        "what": "The URL is listed more than once",
        "source": "Google, Build and submit a sitemap",
        "remedy": "List each URL once.",
    }


def test_strict_counts_warnings(wrong: Place) -> None:
    """A tree with warnings alone passes, and fails with --strict."""
    write(wrong.folder / "site", {"a.xml": urlset(url("a"))})
    assert wrong.command("check", "site").code == 0
    assert wrong.command("check", "site", "--strict").code == 1


def test_limit_bounds_what_is_printed(place: Place) -> None:
    """The rest is counted in one line for each code."""
    write(place.folder, {"sitemap.xml": urlset(*(url(f"é{number}") for number in range(30)))})
    lines = place.ok("check", ".", "--limit", "5").out.splitlines()
    assert sum("[not-normalised]" in line for line in lines) == 5
    assert "25 more of not-normalised; --limit prints more" in lines


def test_wrong_usage_ends_with_2(wrong: Place) -> None:
    """Nothing to check, a target that is none, options that do not go together."""
    for arguments in (
        (),
        ("nothing",),
        ("site", "--state"),
        ("https://example.com/", "--base-url", BASE),
        ("site", "--base-url", "example.com"),
        ("site", "--limit", "0"),
        ("http://",),
    ):
        result = wrong.command("check", *arguments)
        assert (result.code, result.out) == (2, ""), (arguments, result)


def test_a_folder_without_a_sitemap_ends_with_1(place: Place) -> None:
    """A CI job that checks the wrong folder must not pass."""
    (place.folder / "empty").mkdir()
    result = place.command("check", "empty")
    said = "sitemapd: empty has no sitemap: name the folder that has one, or its file.\n"
    assert (result.code, result.err) == (1, said)


def test_the_example_of_the_page_is_true(wrong: Place) -> None:
    """docs/check.md shows a line as the command prints it."""
    (example,) = markdown.blocks(markdown.doc("check.md"), "text")
    printed = wrong.command("check", "site").out.splitlines()[0]
    assert re.sub(r"^\S+:\d+", "", example.strip()) == re.sub(r"^\S+:\d+", "", printed)


def test_the_hook_of_the_page_runs(wrong: Place, tmp_path: Path) -> None:
    """The entry of the pre-commit hook, and the command of the GitHub Action, find the error."""
    commands = set(re.findall(r"(?:entry|run): sitemapd (check .*)", markdown.doc("check.md")))
    assert len(commands) == 2
    (wrong.folder / "site").rename(wrong.folder / "public")
    for command in commands:
        words = command.replace("https://shop.example.com/", BASE).split()
        result = wrong.command(*words)
        assert result.code == 1
        assert "[lastmod-invalid]" in result.out
    assert json.loads(wrong.command("check", "public", "--json").out)["errors"] == 1


def test_an_address_that_nothing_tells_is_not_made_up(place: Place) -> None:
    """Of a folder without any URL no address is told, since none was found."""
    write(place.folder, {"public/sitemap.xml": "<!DOCTYPE urlset []><urlset/>"})
    result = place.command("check", "public")
    assert result.code == 1
    assert "[doctype]" in result.out
    assert "is taken for" not in result.out


def test_a_server_that_is_not_there_is_told_in_words(place: Place) -> None:
    """Without the number of the system's error."""
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        result = place.command("check", f"http://127.0.0.1:{unheard.getsockname()[1]}/sitemap.xml")
    assert result.code == 1
    assert "Connection refused" in result.out
    assert "Errno" not in result.out


@pytest.mark.long
def test_a_large_tree_fits_into_little_memory(tmp_path: Path) -> None:
    """A million URLs, each listed twice: all are counted, and the process stays below 200 MB."""
    names = [f"sitemap-{number}.xml" for number in range(20)]
    write(tmp_path, {"sitemap.xml": index(*names)})
    for number, name in enumerate(names):
        start = number // 2 * 50_000
        write(tmp_path, {name: urlset(*(url(f"p{each}") for each in range(start, start + 50_000)))})
    code = (
        "import json, sys; from click.testing import CliRunner; from sitemapd.cli import cli;"
        "done = CliRunner().invoke(cli, ['check', sys.argv[1], '--json']);"
        # Not getrusage's: that begins with the peak of the process which started this one.
        "peak = int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]);"
        "print(json.dumps([json.loads(done.stdout)['counts'], peak]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    counts, peak_kib = json.loads(done.stdout)
    assert counts == {"duplicate-url": 500_000}
    assert peak_kib < 200 * 1024


def test_a_foreign_file_cannot_steer_the_terminal(place: Place) -> None:
    """Control characters in what is found are written as escapes."""
    write(place.folder / "site", {"sitemap.txt": f"{BASE}\x1b[2J\n"})
    result = place.command("check", "site")
    assert "\\x1b[2J" in result.out
    assert "\x1b" not in result.out

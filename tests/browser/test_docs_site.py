"""The pages of docs/ as a site: no warning, a search that finds, and no request to another host."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import Page as BrowserPage
from playwright.sync_api import expect

from tests.markdown import ROOT

PICTURES = sorted((ROOT / "docs" / "img").glob("*.svg"))


class Page(HTMLParser):
    """Collects what a page loads, where it links to, and its ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take an element's addresses and its id."""
        named = dict(attrs)
        self.ids.add(named.get("id") or "")
        if tag == "a":
            self.links.append(named.get("href") or "")
        elif tag == "link" and named.get("rel") not in {"canonical", "prev", "next"}:
            self.loads.append(named.get("href") or "")
        self.loads.append(named.get("src") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the built site; a warning, such as for a broken link, ends the build."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


class Files(SimpleHTTPRequestHandler):
    """Serves the built site and logs nothing."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Serve the built site: a page that is opened as a file cannot search."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    """Each link within the site names a file of it, and an id on that page."""
    pages = {path: Page(path.read_text("utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 20
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = unquote(link).partition("#")
            file = (path.parent / target).resolve() if target else path
            file = file / "index.html" if file.is_dir() else file
            assert file.exists(), f"{path.name}: {link}"
            if anchor:
                assert anchor in pages[file].ids, f"{path.name}: {link}"


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    """No script, style, picture or font has an address with a host."""
    for path in site.rglob("*.html"):
        for address in Page(path.read_text("utf-8")).loads:
            assert not re.match(r"([a-z]+:)?//", address), f"{path.name}: {address}"
    for path in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", path.read_text("utf-8")), path.name


def test_the_search_knows_every_page(site: Path) -> None:
    """The index of the search has the text of each page."""
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    found = {entry["location"].partition("#")[0] or "index.html" for entry in index["docs"]}
    pages = {str(path.relative_to(site)) for path in site.rglob("*.html")} - {"404.html"}
    assert found == pages


def test_the_search_finds_a_word(page: BrowserPage, address: str) -> None:
    """A reader who searches for a word gets the section about it, and no other host is asked."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    # By the address: the theme asks for it once the index is loaded, and keys that come before are lost.
    page.goto(f"{address}?q=scrubber")
    result = page.locator(".md-search-result__link[href*='#the-scrubber']").first
    expect(result).to_be_visible(timeout=30_000)
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_pictures_read_in_dark_and_light(picture: Path) -> None:
    """A drawing has a title and colours for both schemes, and loads nothing."""
    text = picture.read_text("utf-8")
    root = ET.fromstring(text)
    assert root.find("{http://www.w3.org/2000/svg}title") is not None
    assert "prefers-color-scheme: dark" in text
    assert "href" not in text

"""Headless Chromium, as Debian ships it, and a served site with a past."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests import needs
from tests.browser.busy_site import busy_site
from tests.integration.web_site import Web, served_site, serving
from tests.redis_server import RedisServer, any_kind
from tests.world import World

FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Give one browser for all tests."""
    program = needs.program("chromium", package="chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give the site, in a server of its own that no other test empties; tests may add to it."""
    server = RedisServer(any_kind())
    try:
        server.start()
        with server.client() as client:
            yield busy_site(client, tmp_path_factory.mktemp("busy"))
    finally:
        server.close()


@pytest.fixture(scope="session")
def web(world: World) -> Iterator[Web]:
    """Give its server, without tokens: this machine needs none."""
    with serving({"shop": served_site(world)}) as web:
        yield web


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Give a page whose errors fail the test: of scripts, of the security policy, of what can't be loaded."""
    context = browser.new_context(viewport={"width": 1100, "height": 800})
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    try:
        yield page
        assert not wrong, wrong
    finally:
        context.close()

"""Takes the pictures of docs/operations.md: `python -m tests.browser.screenshots docs/img`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, expect, sync_playwright

from tests import needs
from tests.browser.busy_site import busy_site
from tests.browser.conftest import FLAGS
from tests.integration.web_site import made_token, served_site, serving
from tests.redis_server import RedisServer, any_kind

SHOTS: Final[tuple[tuple[str, int, int, Literal["light", "dark"]], ...]] = (
    ("status-light", 1000, 1850, "light"),
    ("status-dark", 1000, 1850, "dark"),
    ("status-phone", 390, 1400, "light"),
)

PARTS: Final = (
    ("section?name=products", "section-light"),
    ("shard?section=products&number=2", "shard-light"),
    ("source?name=catalogue", "source-light"),
)


def take(browser: Browser, address: str, folder: Path) -> None:
    """Take each picture once the page is live."""
    for name, width, height, scheme in SHOTS:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        page = context.new_page()
        page.goto(address)
        expect(page.locator("#live")).to_have_text("Live")
        page.screenshot(path=folder / f"{name}.png")
        context.close()


def main() -> None:
    """Make the site, serve it, and look at it."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    server = RedisServer(any_kind())
    try:
        server.start()
        with server.client() as client, tempfile.TemporaryDirectory() as output, sync_playwright() as pw:
            world = busy_site(client, Path(output), products=12_000)
            program = needs.program("chromium", package="chromium")
            browser = pw.chromium.launch(executable_path=program, args=list(FLAGS))
            with serving({"shop": served_site(world)}) as web:
                take(browser, web.address, folder)
                page = browser.new_page(viewport={"width": 1000, "height": 800}, color_scheme="light")
                for part, name in PARTS:
                    page.goto(f"{web.address}sites/shop/{part}")
                    page.screenshot(path=folder / f"{name}.png")
            with serving({"shop": served_site(world, made_token()[1])}) as web:
                page = browser.new_page(extra_http_headers={"X-Forwarded-For": "203.0.113.9"})
                page.goto(f"{web.address}login")
                page.screenshot(path=folder / "login.png")
            browser.close()
    finally:
        server.close()


if __name__ == "__main__":
    main()

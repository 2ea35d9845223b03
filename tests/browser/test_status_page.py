"""The status page in a real browser: it follows along, works by keyboard and without a script, is legible."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from sitemap_store.model.events import Event
from sitemapd.web import Server, application, listen
from tests.acceptance.until import until
from tests.browser.busy_site import publish_now
from tests.integration.web_site import Web, add, made_token, served_site, serving
from tests.world import BASE, World

AXE: Final = Path(__file__).with_name("axe") / "axe.min.js"

CONTRAST = """
() => {
  const probe = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = (color) => {
    probe.clearRect(0, 0, 1, 1); probe.fillStyle = color; probe.fillRect(0, 0, 1, 1);
    return [...probe.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = rgb(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  const poor = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim()) continue;
    if (element.closest('.unseen, .skip, script, svg, noscript')) continue;
    if (!element.checkVisibility()) continue;
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push([texts.currentNode.textContent.trim(), ratio]);
  }
  return poor;
}
"""


def test_the_feed_is_live(page: Page, web: Web, world: World) -> None:
    """A rewrite appears at the top of the list, and the numbers change, without loading the page again."""
    page.goto(web.address)
    expect(page.locator("#live")).to_have_text("Live")
    urls = page.locator("[data-live=urls]").inner_text()
    publish_now(world, add("help/brand-new", "pages"))
    first = page.locator("#feed tbody tr").first
    expect(first).to_contain_text("sitemap-help-")
    expect(first.locator("td").nth(4)).to_have_text("1")
    expect(page.locator("[data-live=urls]")).not_to_have_text(urls)
    assert page.locator("#feed tbody tr").count() == 20


def test_pause_stops_what_moves(page: Page, web: Web, world: World) -> None:
    """Paused, nothing moves; going on, what was missed comes."""
    page.goto(web.address)
    expect(page.locator("#live")).to_have_text("Live")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#live")).to_have_text("Paused")
    top = page.locator("#feed tbody tr").first.inner_text()
    publish_now(world, Event("update", f"{BASE}blog/1", "2026-05-05"))
    page.wait_for_timeout(1500)
    assert page.locator("#feed tbody tr").first.inner_text() == top
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("#feed tbody tr").first).to_contain_text("sitemap-blog-1.xml")


def test_the_rest_is_fetched_again(page: Page, web: Web, world: World) -> None:
    """Plots, map and tables are replaced every half minute, and an open table stays open."""
    page.clock.install()
    page.goto(web.address)
    page.locator("#plots summary").click()
    before = page.locator("#plots figcaption").first.inner_text()
    # More than any minute has yet, so that the text changes whatever minute has gone meanwhile.
    publish_now(world, *[Event("update", f"{BASE}blog/2", f"2026-06-{day:02}") for day in range(1, 31)])
    page.evaluate("document.activeElement.blur()")  # what has the focus is left alone

    def replaced() -> bool:
        page.clock.run_for(31_000)  # it may fetch what the server has kept for a second
        return page.locator("#plots figcaption").first.inner_text() != before

    until(replaced, what="the plots are of what was published")
    expect(page.locator("#plots details")).to_have_attribute("open", "")


def test_it_works_without_a_script(browser: Browser, web: Web) -> None:
    """Without JavaScript everything is there, and a URL can be looked up."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(web.address)
    assert page.locator("#feed tbody tr").count() == 20
    assert page.locator("#map rect").count() > 100
    assert page.locator(".bar.events").count() > 30
    expect(page.locator("#pause")).to_be_hidden()
    page.get_by_label("URL", exact=True).fill(f"{BASE}products/item-7")
    page.get_by_role("button", name="Look up").click()
    expect(page.get_by_text("Listed, in shard")).to_be_visible()
    context.close()


def test_the_keyboard_is_enough(page: Page, web: Web) -> None:
    """From the first Tab on: skip the header, look a URL up, and see where one is."""
    page.goto(web.address)
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    expect(page.get_by_text("Skip to the content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "url":
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.type(f"{BASE}nowhere")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="is not listed")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(page: Page, web: Web, scheme: str) -> None:
    """Every text has a contrast of 4.5 to 1 at least, in the light and in the dark."""
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    page.goto(f"{web.address}?url={BASE}nowhere")
    page.locator("#plots summary").click()
    assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("width", [320, 390, 768])
def test_a_phone_is_wide_enough(page: Page, web: Web, width: int) -> None:
    """On narrow screens nothing makes the page scroll sideways, and buttons are large enough for a finger."""
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{web.address}?url={BASE}products/item-7")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for button in page.get_by_role("button").all():
        box = button.bounding_box()
        assert box is not None
        assert box["height"] >= 24


def test_everything_has_a_name(page: Page, web: Web) -> None:
    """Headings go down without a gap; inputs, pictures, tables and regions have names; ids are unique."""
    page.goto(web.address)
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    for selector, holds in (
        ("input", "e.labels.length || e.type === 'hidden'"),
        ("svg, [tabindex='0']", "e.getAttribute('aria-label')"),
        ("th", "e.scope"),
        ("[aria-labelledby]", "document.getElementById(e.getAttribute('aria-labelledby'))"),
    ):
        script = f"[...document.querySelectorAll(`{selector}`)].filter(e => !({holds})).map(e => e.outerHTML)"
        assert page.evaluate(script) == []
    assert page.evaluate("document.documentElement.lang") == "en"
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_one_logs_in_and_out(browser: Browser, world: World) -> None:
    """From outside: the form, a wrong token, the right one, the live feed with the cookie, and out again."""
    text, token = made_token()
    with serving({"shop": served_site(world, token)}) as web:
        context = browser.new_context(extra_http_headers={"X-Forwarded-For": "203.0.113.9"})
        page = context.new_page()
        page.goto(f"{web.address}sites/shop")
        expect(page.get_by_label("Token")).to_be_focused()
        page.get_by_label("Token").fill("smd_wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("not known")
        page.get_by_label("Token").fill(text)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("shop")
        assert page.url == f"{web.address}sites/shop"
        expect(page.locator("#live")).to_have_text("Live")
        assert page.evaluate("document.cookie") == "", "no script can read it"
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Token")).to_be_visible()
        page.goto(f"{web.address}sites/shop")
        expect(page.get_by_label("Token")).to_be_visible()
        context.close()


def test_a_form_on_another_site_can_not_log_out(browser: Browser, world: World) -> None:
    """A page of another origin that posts our forms changes nothing."""
    text, token = made_token()
    with serving({"shop": served_site(world, token)}) as web:
        context = browser.new_context(extra_http_headers={"X-Forwarded-For": "203.0.113.9"})
        page = context.new_page()
        page.goto(f"{web.address}login")
        page.get_by_label("Token").fill(text)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("shop")
        page.route("http://evil.example/", lambda route: route.fulfill(
            content_type="text/html",
            body=f'<form method="post" action="{web.address}logout"><button>Win a prize</button></form>',
        ))  # fmt: skip
        page.goto("http://evil.example/")
        page.get_by_role("button").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Not logged out")
        page.goto(web.address)
        expect(page.get_by_role("heading", level=1)).to_have_text("shop")
        context.close()


def test_a_restart_is_survived(browser: Browser, world: World) -> None:
    """When the server goes the page says so and tries again, and goes on when it is back."""
    page = browser.new_page()
    sites = {"shop": served_site(world)}

    def start() -> Server:
        server = Server(application(sites, lambda: (True, {})), listener)
        server.start()
        return server

    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        server = start()
        page.goto(server.address)
        expect(page.locator("#live")).to_have_text("Live")
        server.stop()
        expect(page.locator("#live")).to_have_text("Not connected, trying again")
    with listen("127.0.0.1", port) as listener:
        server = start()
        publish_now(world, Event("update", f"{BASE}help/1", "2026-07-07"))
        expect(page.locator("#feed tbody tr").first).to_contain_text("sitemap-help-", timeout=15_000)
        expect(page.locator("#live")).to_have_text("Live")
        server.stop()
    page.close()


def test_several_sites_are_one_click_away(page: Page, world: World) -> None:
    """The list of sites leads to each, and back."""
    with serving({"shop": served_site(world), "twin": served_site(world)}) as web:
        page.goto(web.address)
        expect(page.get_by_role("heading", level=1)).to_have_text("Sites")
        page.get_by_role("link", name="shop").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("shop")
        expect(page.locator("#live")).to_have_text("Live")
        page.get_by_role("link", name="All sites").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Sites")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "path",
    [
        "",
        "?url=https%3A%2F%2Fexample.com%2Fproducts%2Fitem-7",
        "?span=month",
        "sites/shop/section?name=products",
        "sites/shop/shard?id=2",
        "sites/shop/source?name=catalogue",
        "sites/shop/section?name=nothing",
    ],
)
def test_axe_finds_nothing(browser: Browser, web: Web, path: str, scheme: Literal["light", "dark"]) -> None:
    """Each page keeps the rules of WCAG 2.2 A and AA that axe-core checks, in the light and in the dark."""
    assert axe_violations(browser, web.address + path, scheme) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_the_other_pages(
    browser: Browser, world: World, scheme: Literal["light", "dark"]
) -> None:
    """The list of sites and the login form keep the same rules."""
    with serving({"shop": served_site(world), "twin": served_site(world, made_token()[1])}) as web:
        assert axe_violations(browser, web.address, scheme) == []
        assert axe_violations(browser, f"{web.address}login", scheme, X_Forwarded_For="203.0.113.9") == []


def axe_violations(
    browser: Browser, address: str, scheme: Literal["light", "dark"], **headers: str
) -> list[str]:
    """The rules that a page breaks, each with the elements that do."""
    context = browser.new_context(
        color_scheme=scheme,
        reduced_motion="reduce",
        bypass_csp=True,  # for axe alone: the page's policy lets no other script in
        extra_http_headers={name.replace("_", "-"): value for name, value in headers.items()},
    )
    try:
        page = context.new_page()
        page.goto(address)
        for summary in page.locator("summary").all():
            summary.click()
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})")
        assert found["passes"]
        return [
            f"{each['id']}: {node['html'][:150]}" for each in found["violations"] for node in each["nodes"]
        ]
    finally:
        context.close()


def test_times_are_in_the_readers_zone(browser: Browser, web: Web) -> None:
    """With JavaScript a moment is shown in the browser's zone, with the UTC one as its title."""
    context = browser.new_context(timezone_id="Asia/Kolkata")
    page = context.new_page()
    page.goto(f"{web.address}sites/shop/section?name=blog")
    time = page.locator("tbody time").first
    expect(time).to_contain_text("GMT+5:30")
    utc = datetime.fromisoformat(str(time.get_attribute("datetime")))
    assert time.inner_text().startswith(f"{utc + timedelta(hours=5.5):%Y-%m-%d %H:%M:%S}")
    assert time.get_attribute("title") == f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    context.close()


def test_one_gets_to_a_file_by_links_without_a_script(browser: Browser, web: Web) -> None:
    """Without JavaScript the links lead from the site to a section, a shard and its published file."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(web.address)
    page.locator("#by-section").get_by_role("link", name="blog").click()
    page.get_by_role("link", name="1", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Shard 1 of blog")
    expect(page.locator("td.url")).to_have_count(20)
    with page.expect_response("**/sitemap-blog-1.xml") as answer:
        page.get_by_role("link", name="sitemap-blog-1.xml").click()
    assert answer.value.status == 200
    context.close()


def test_no_request_leaves_the_machine(browser: Browser, web: Web) -> None:
    """Whatever page is shown, the browser asks this server alone."""
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for path in ("", "sites/shop/section?name=blog", "sites/shop/source?name=pages"):
        page.goto(web.address + path)
    assert [url for url in asked if not url.startswith(web.address)] == []
    assert len(asked) > 3
    page.close()

"""The status page as it comes from the server: what it says, who may see it, and how one logs in."""

from __future__ import annotations

import dataclasses
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote, urlencode

import pytest
import redis
from lxml import html
from starlette.requests import Request
from starlette.responses import Response

from sitemap_store.errors import Refused
from sitemap_store.model.events import Event
from sitemap_store.model.extensions import canonical
from sitemap_store.model.style import Style
from sitemap_store.redis import browse
from sitemap_store.redis.connection import connect
from sitemap_store.redis.observed import note_producer
from sitemapd.web.access import SESSION_S, Access
from sitemapd.web.views import ServedSite
from tests.integration.web_site import Answer, Web, add, made_token, publish, served_site, serving
from tests.redis_server import RedisServer
from tests.world import BASE, World, make_site

SECTIONS = {"products": "/products/**", "blog": "/blog/**"}


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    """Give a client of an emptied server."""
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def world(client: redis.Redis, tmp_path: Path) -> World:
    """Give a site with two sections, some refusals and a watcher, as of now."""
    world = World(client, make_site(sections=SECTIONS, shard_size=2), tmp_path)
    world.now = world.store.now()
    publish(
        world,
        *(add(f"products/{n}", "shop") for n in range(5)),
        *(add(f"blog/{n}") for n in range(3)),
        Event("delete", f"{BASE}blog/2"),
    )
    refused = Refused(loc="/<b>tea</b>", rule="not-absolute", detail="<i>No</i> & never.")
    world.store.reject([(refused, "cms")])
    note_producer(
        world.store, "pages", {"kind": "watch", "state": "watching", "problem": None, "overflows": 2}
    )
    for partition in world.store.partitions:
        partition.beat(["host.1"])
    world.now = 0  # the server's own clock from here on
    return world


@pytest.fixture
def web(world: World) -> Iterator[Web]:
    """Give a server of it without tokens."""
    with serving({"shop": served_site(world)}) as web:
        yield web


def seen(answer: Answer) -> str:
    """A page's text as a reader sees it, in one line."""
    root = html.fromstring(answer.body)
    return " ".join(html.tostring(root, method="text", encoding="unicode").split())


def test_the_page_says_how_the_site_stands(web: Web) -> None:
    """The headline, the sections, the last rewrites, refusals, watchers and Redis are on one page."""
    answer = web.page()
    assert answer.status == 200
    root = html.fromstring(answer.body)
    live = {each.get("data-live"): each.text for each in root.iter("dd") if each.get("data-live")}
    assert live["urls"] == "7"
    assert live["shards"] == "5"
    assert (live["refused"], live["workers"], live["due"], live["unfolded"]) == ("1", "1", "0", "0")
    assert live["p50"] not in ("–", "")
    said = seen(answer)
    for text in (BASE, "products", "sitemap-blog-1.xml", "not-absolute", "cms", "watching", "overflows 2"):
        assert text in said
    assert "noeviction" in said
    assert "Events per minute: 9 in all" in said


def test_what_others_sent_is_text(web: Web) -> None:
    """Markup in a refused URL, in its reason or in a question is shown and never becomes the page's."""
    body = web.page(f"/?url={quote('https://example.com/<script>alert(1)</script>')}").text
    assert "<b>tea</b>" not in body
    assert "/&lt;b&gt;tea&lt;/b&gt;" in body
    assert "<i>No</i>" not in body
    assert "<script>alert" not in body


def test_the_policy_lets_no_other_script_in(web: Web) -> None:
    """The Content-Security-Policy allows our files alone, and the page needs nothing else."""
    answer = web.page()
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Frame-Options"] == "DENY"
    root = html.fromstring(answer.body)
    for element in root.iter():
        assert not [name for name in map(str, element.attrib) if name.startswith("on") or name == "style"], (
            element
        )
    assert all(script.get("src") and not script.text for script in root.iter("script"))
    assert not list(root.iter("style"))
    for name in ("style.css", "page.js", "icon.svg"):
        assert web.ask(f"/static/{name}").status == 200
    assert web.ask("/static/page.html").status == web.ask("/static/..%2fpage.py").status == 404


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"{BASE}products/3", "in shard"),
        ("HTTPS://EXAMPLE.com:443/products/3", "in shard"),
        (f"{BASE}blog/2", "is not listed"),
        (f"{BASE}blog/nothing", "is not listed"),
        ("/products/3", "is not absolute"),
        ("https://other.example/", "other.example"),
        ("https://example.com/\x00", "U+0000"),
        ("https://example.com/" + "x" * 11_000, "longer than"),
    ],
)
def test_a_url_is_looked_up(web: Web, url: str, said: str) -> None:
    """The form finds a URL in any spelling, and says why one is not found or not even possible."""
    answer = web.page("/?" + urlencode({"url": url}))
    assert answer.status == 200
    assert said in seen(answer)


def test_a_browser_of_this_machine_needs_no_token(web: Web) -> None:
    """Loopback to a loopback name is let in; another name, or a proxy's word, is not."""
    assert web.page(Host="localhost:80").status == 200
    elsewhere = ({"Host": "a.example"}, {"X_Forwarded_For": "203.0.113.9"}, {"Forwarded": "for=1.2.3.4"})
    for header in elsewhere:
        answer = web.page(**header)
        assert answer.status == 403, header
        assert "sitemapd token" in seen(answer)
        assert web.ask("/metrics", **header).status == 401
        assert web.ask("/sites/shop/feed", **header).status == 403
        assert web.ask("/sitemap.xml", **header).status == 200, "files are for everybody"


def outside(web: Web, path: str, /, **headers: str) -> Answer:
    """Ask as a browser that comes in from outside."""
    return web.page(path, X_Forwarded_For="203.0.113.9", **headers)


def log_in(web: Web, token: str, /, **headers: str) -> Answer:
    """Send the login form from outside."""
    body = urlencode({"token": token, "next": "/sites/shop"}).encode()
    kind = {"Content_Type": "application/x-www-form-urlencoded", "X_Forwarded_For": "203.0.113.9"}
    return web.ask("/login", "POST", body, **kind, **headers)


def cookie_of(answer: Answer) -> str:
    """The cookie that an answer sets, as a browser sends it."""
    return answer.headers["Set-Cookie"].partition(";")[0]


@pytest.fixture
def held(world: World, tmp_path: Path) -> Iterator[tuple[Web, str, str]]:
    """Give a server of two sites with a token each."""
    (one, first), (two, second) = made_token(), made_token()
    other = World(world.client, make_site(name="docs"), tmp_path / "docs")
    with serving({"shop": served_site(world, first), "docs": served_site(other, second)}) as web:
        yield web, one, two


def test_one_logs_in_with_a_token(held: tuple[Web, str, str]) -> None:
    """From outside the page asks for a token; with it comes a cookie that shows that token's site alone."""
    web, token, _ = held
    asked = outside(web, "/sites/shop")
    assert (asked.status, asked.headers["Location"]) == (303, "/login?next=/sites/shop")
    assert outside(web, "/login?next=/sites/shop").status == 200

    answer = log_in(web, token)
    assert (answer.status, answer.headers["Location"]) == (303, "/sites/shop")
    set_cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in set_cookie
    assert "samesite=strict" in set_cookie.lower()
    assert token not in set_cookie

    cookie = cookie_of(answer)
    assert "shop" in seen(outside(web, "/sites/shop", Cookie=cookie))
    assert outside(web, "/sites/docs", Cookie=cookie).status == 404
    assert outside(web, "/sites/docs/feed", Cookie=cookie).status == 403
    metrics = outside(web, "/metrics", Cookie=cookie).text
    assert 'site="shop"' in metrics
    assert 'site="docs"' not in metrics


def test_the_cookie_is_secure_behind_tls(held: tuple[Web, str, str]) -> None:
    """When a proxy on this machine says that the browser came by https, the cookie is for https alone."""
    web, token, _ = held
    assert "Secure" in log_in(web, token, X_Forwarded_Proto="https").headers["Set-Cookie"]
    assert "Secure" not in log_in(web, token).headers["Set-Cookie"]


@pytest.mark.parametrize("wrong", ["", "smd_nothing", "é\x00", "x" * 3000])
def test_a_wrong_token_gets_no_cookie(held: tuple[Web, str, str], wrong: str) -> None:
    """What is no token gets the form again, with 401, and does not come back in the page."""
    answer = log_in(held[0], wrong)
    assert answer.status == 401
    assert answer.headers["Set-Cookie"] is None
    assert "not known" in seen(answer)
    assert not wrong or wrong not in answer.text


def test_a_form_of_another_site_is_refused(held: tuple[Web, str, str]) -> None:
    """Login and logout take no form that a browser says was another site's."""
    web, token, _ = held
    for header in ({"Origin": "https://evil.example"}, {"Sec_Fetch_Site": "cross-site"}, {"Origin": "null"}):
        answer = log_in(web, token, **header)
        assert answer.status == 403, header
        assert answer.headers["Set-Cookie"] is None
        assert web.ask("/logout", "POST", b"", **header).status == 403
    assert log_in(web, token, Origin=web.address.rstrip("/"), Sec_Fetch_Site="same-origin").status == 303
    assert web.ask("/logout").status == 404, "a link can't log anybody out"


def test_login_leads_to_our_own_pages_alone(held: tuple[Web, str, str]) -> None:
    """A `next` that leads elsewhere is left out of account."""
    web, token, _ = held
    for target in ("//evil.example", "https://evil.example/", "/\\evil.example", "/sites/shop\r\nX: y"):
        body = urlencode({"token": token, "next": target}).encode()
        assert web.ask("/login", "POST", body, X_Forwarded_For="203.0.113.9").headers["Location"] == "/"


def test_a_cookie_ends(held: tuple[Web, str, str], world: World) -> None:
    """A forged, altered or late cookie, and one whose token is gone from the settings, shows nothing."""
    web, token, _ = held
    name, _, value = cookie_of(log_in(web, token)).partition("=")
    ends, _, mac = value.partition(".")
    altered = (f"{int(ends) + 1}.{mac}", f"{ends}.{mac[:-1]}0{mac[-1]}", f"{ends}.", f"{'9' * 5000}.x")
    for wrong in ("", "x", *altered):
        assert outside(web, "/sites/shop", Cookie=f"{name}={wrong}").status == 303, wrong[:40]
    with serving({"shop": served_site(world, made_token()[1])}) as later:
        assert outside(later, "/", Cookie=f"{name}={value}").status == 303


def test_a_session_is_for_half_a_day(world: World) -> None:
    """The cookie is good until its time is over by the server's clock, not by the browser's."""
    now = [1_000_000.0]
    text, token = made_token()
    access = Access({"shop": (token,)}, clock=lambda: now[0])

    def request(cookie: str = "") -> Request:
        headers = [(b"host", b"shop.example.com"), (b"cookie", cookie.encode())]
        return Request({
            "type": "http", "method": "GET", "scheme": "http", "path": "/", "query_string": b"",
            "headers": headers, "client": ("203.0.113.9", 1), "server": ("x", 80),
        })  # fmt: skip

    response = Response()
    assert access.log_in(request(), response, text)
    cookie = response.headers["set-cookie"].partition(";")[0]
    assert access.sites(request(cookie)) == {"shop"}
    now[0] += SESSION_S + 1
    assert access.sites(request(cookie)) == frozenset()


def test_logout_forgets_the_cookie(held: tuple[Web, str, str]) -> None:
    """Logging out takes the cookie back."""
    web, token, _ = held
    cookie = cookie_of(log_in(web, token))
    assert "Log out" in seen(outside(web, "/sites/shop", Cookie=cookie))
    answer = web.ask("/logout", "POST", b"", Cookie=cookie, X_Forwarded_For="203.0.113.9")
    assert answer.status == 303
    assert "Max-Age=0" in answer.headers["Set-Cookie"]


def test_a_bearer_token_is_taken_too(held: tuple[Web, str, str]) -> None:
    """A program shows its token in the Authorization header; a wrong one is not better than none."""
    web, token, _ = held
    assert outside(web, "/metrics", Authorization=f"Bearer {token}").status == 200
    assert outside(web, "/metrics", Authorization="Bearer smd_wrong").status == 401
    assert outside(web, "/metrics").headers["WWW-Authenticate"].startswith("Bearer")


def test_several_sites_are_listed(held: tuple[Web, str, str]) -> None:
    """With several sites / lists those that one may see, with a link to each."""
    web, _, _ = held
    links = [each.get("href") for each in html.fromstring(web.page().body).iter("a")]
    assert "/sites/shop" in links
    assert "/sites/docs" in links
    assert web.page("/sites/shop").status == 200
    answer = web.page("/sites/nothing")
    assert answer.status == 404
    assert "no site" in seen(answer)


def events_of(wire: socket.socket, wanted: str) -> list[dict[str, object]]:
    """Read a stream until it holds an event of that kind; the data of all of that kind."""
    got = b""
    while not re.search(rb"event: " + wanted.encode() + rb"\n(?:id: .*\n)?data: .*\n\n", got):
        more = wire.recv(65536)
        assert more, got
        got += more
    return [
        json.loads(data)
        for data in re.findall(rf"event: {wanted}\n(?:id: .*\n)?data: (.*)\n\n", got.decode())
    ]


def test_the_feed_tells_what_is_published(world: World, web: Web) -> None:
    """The stream begins with the numbers, and tells of a rewrite after the cursor that it was given."""
    cursor = next(html.fromstring(web.page().body).iterfind(".//table[@id='feed']")).get("data-after")
    assert cursor
    with web.connect() as wire:
        wire.sendall(f"GET /sites/shop/feed?after={cursor} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        (numbers, *_) = events_of(wire, "numbers")
        assert numbers["urls"] == "7"
        publish_now(world, add("blog/new"))
        (entry, *_) = events_of(wire, "published")
    assert str(entry["file"]).startswith("sitemap-blog-")
    assert (entry["section"], entry["events"], entry["gone"]) == ("blog", 1, False)


def publish_now(world: World, *events: Event) -> None:
    """Append events and publish them by the server's own clock."""
    world.now = world.store.now()
    publish(world, *events)
    world.now = 0


def test_the_feed_goes_on_after_a_break(world: World, web: Web) -> None:
    """A browser that comes back with its last event's id misses nothing and sees nothing twice."""
    cursor = next(html.fromstring(web.page().body).iterfind(".//table[@id='feed']")).get("data-after")
    publish_now(world, add("products/new"))
    with web.connect() as wire:
        wire.sendall(
            f"GET /sites/shop/feed HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: {cursor}\r\n\r\n".encode()
        )
        entries = events_of(wire, "published")
    assert [entry["section"] for entry in entries] == ["products"]


def test_a_nonsense_cursor_is_no_harm(web: Web) -> None:
    """What is no cursor counts as none."""
    with web.connect() as wire:
        wire.sendall(b"GET /sites/shop/feed?after=x,%00- HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert events_of(wire, "published")


def test_the_page_outlives_redis(tmp_path: Path) -> None:
    """With Redis away files are served, the page says what is away with 503, and metrics say up is 0."""
    server = RedisServer("valkey")
    try:
        server.start()
        world = World(connect(server.url, timeout=2), make_site(), tmp_path)
        publish(world, add("page"))
        with serving({"shop": served_site(world)}) as web:
            assert web.page().status == 200
            server.stop()
            answer = web.page()
            assert answer.status == 503
            assert "Redis" in seen(answer)
            assert "Traceback" not in answer.text
            metrics = web.ask("/metrics")
            assert metrics.status == 200
            assert "sitemapd_redis_up 0.0" in metrics.text
            assert web.ask("/sitemap.xml").status == 200
            server.start()
            assert web.page().status == 200
    finally:
        server.close()


def test_sites_of_a_store_in_partitions_are_summed(client: redis.Redis, tmp_path: Path) -> None:
    """A site in several partitions shows one sum, one map and one feed."""
    world = World(client, make_site(name="wide", partitions=3, shard_size=2), tmp_path)
    world.now = world.store.now()
    publish(world, *(add(f"page-{n}") for n in range(12)))
    site: ServedSite = served_site(world)
    with serving({"wide": site}) as web:
        answer = web.page()
        said = seen(answer)
        cursor = next(html.fromstring(answer.body).iterfind(".//table[@id='feed']")).get("data-after")
    assert "Events per minute: 12 in all" in said
    assert str(cursor).count(",") == 2
    assert len(world.client.keys("sm:{wide.*}:feed")) == 3


def links(answer: Answer) -> set[str]:
    """Where a page leads to on this server."""
    found = {str(each.get("href")) for each in html.fromstring(answer.body).iter("a")}
    return {link.partition("#")[0] for link in found if link.startswith("/")}


def test_every_name_is_a_link(web: Web) -> None:
    """From the site one gets by links alone to each section, shard, published file, URL and source."""
    waiting, reached = ["/"], dict[str, Answer]()
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached[path] = web.page(path)
        assert reached[path].status == 200, path
        if not path.endswith(".xml"):
            waiting += links(reached[path])
    for path in (
        "/sites/shop/section?name=products",
        "/sitemap-products-3.xml",
        "/sites/shop/source?name=shop",
        "/sites/shop/source?name=cms",
        "/sites/shop?url=" + quote(f"{BASE}products/4", safe=""),
    ):
        assert any(unquote(path) == unquote(each) for each in reached), (path, sorted(reached))
    assert "Listed, in shard 3 of the section products" in seen(web.page(f"/?url={BASE}products/4"))
    (shard,) = {said for each in reached.values() if "Shard 3 of products" in (said := seen(each))}
    assert f"{BASE}products/4" in shard
    assert "not-absolute" in seen(reached["/sites/shop/source?name=cms"])


def test_a_source_is_shown_a_shard_at_a_time(web: Web) -> None:
    """Following "Next shard" shows each of a source's URLs once, and ends."""
    path, found = "/sites/shop/source?name=shop", list[str]()
    while path:
        root = html.fromstring(web.page(path).body)
        shown = [str(each.text) for each in root.iterfind(".//td[@class='url']/a")]
        assert len(shown) <= 2, "one shard has two URLs"
        found += shown
        path = next((str(a.get("href")) for a in root.iter("a") if a.text == "Next shard"), "")
    assert sorted(found) == [f"{BASE}products/{n}" for n in range(5)]


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_section_is_shown_a_page_at_a_time(
    client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    """One page reads few shards, however large the site is; all pages show each shard once."""
    monkeypatch.setattr(browse, "SLICE", 4)
    world = World(client, make_site(sections=SECTIONS, shard_size=2, partitions=partitions), tmp_path)
    for n in range(20):
        publish(world, *(add(f"{section}/{n}-{k}") for section in ("blog", "products") for k in range(3)))
    shards, after, pages = list[tuple[int, str]](), (0, 0), 0
    more = True
    while more:
        before = client.info("commandstats")["cmdstat_hmget"]["calls"]
        page = browse.section_page(world.store, "blog", after=after, limit=3)
        assert client.info("commandstats")["cmdstat_hmget"]["calls"] - before <= 4 * partitions
        shards += [(each.row.number, each.row.file) for each in page.shards]
        after, more, pages = page.at, page.more, pages + 1
    assert len(shards) == len(set(shards))
    assert {file for _, file in shards} == {file.name for file in world.folder.glob("sitemap-blog-*")}
    assert pages > 5


def test_a_large_shard_is_shown_a_page_at_a_time(client: redis.Redis, tmp_path: Path) -> None:
    """A page has 100 URLs, and the next ones follow."""
    world = World(client, make_site(shard_size=1000), tmp_path)
    publish(world, *(add(f"p{n:03}") for n in range(250)))
    with serving({"shop": served_site(world)}) as web:
        path, sizes = "/sites/shop/shard?id=1", list[int]()
        while path:
            root = html.fromstring(web.page(path).body)
            sizes.append(len(root.findall(".//td[@class='url']/a")))
            path = next((str(a.get("href")) for a in root.iter("a") if a.text == "Next URLs"), "")
    assert sizes == [100, 100, 50]


@pytest.mark.parametrize(
    "part",
    [
        "section?name=nothing",
        "shard?id=9",
        "shard?id=-1",
        "shard?partition=7&id=1",
        "shard",
        "source?name=x&after=99999999999999999999&partition=7",
        "nothing",
    ],
)
def test_what_is_not_there_is_no_error(web: Web, part: str) -> None:
    """A link to what has gone, or one that somebody made up, gets a page that names what is missing."""
    answer = web.page(f"/sites/shop/{part}")
    assert answer.status == (200 if part.startswith("source") else 404)
    assert "sitemapd" in seen(answer)


def test_the_parts_of_a_site_need_its_token(world: World) -> None:
    """Without a token no section, shard or source is shown, and the way leads to the login form."""
    text, token = made_token()
    with serving({"shop": served_site(world, token)}) as web:
        for part in ("section?name=blog", "shard?id=1", "source?name=shop"):
            answer = web.page(f"/sites/shop/{part}", X_Forwarded_For="203.0.113.9")
            assert answer.status == 303
            assert answer.headers["Location"] == "/login?next=/sites/shop"
            answer = web.page(
                f"/sites/shop/{part}", X_Forwarded_For="203.0.113.9", Authorization=f"Bearer {text}"
            )
            assert answer.status == 200


def test_the_reason_of_a_refused_url_is_found(world: World, web: Web) -> None:
    """A URL whose events were refused is looked up with the reason that the producer got."""
    url = f"{BASE}products/late"
    detail = "'2026-02-29' is a date that no calendar has."
    world.store.reject([(Refused(loc=url, rule="lastmod", detail=detail), "cms")])
    said = seen(web.page("/?" + urlencode({"url": url})))
    assert "is not listed" in said
    assert "Events of this URL were refused" in said
    assert detail in said


def test_what_is_published_says_which_value_is_a_default(client: redis.Redis, tmp_path: Path) -> None:
    """The look-up shows what the file says, and whether the event or the section's settings gave it."""
    site = dataclasses.replace(make_site(), styles={"pages": Style(changefreq="weekly", priority="0.4")})
    world = World(client, site, tmp_path)
    publish(world, Event("add", f"{BASE}a", "2026-03-21", priority="0.9"))
    with serving({"shop": served_site(world)}) as web:
        said = seen(web.page(f"/?url={BASE}a"))
    assert "2026-03-21 (from the event)" in said
    assert "weekly (default of the section)" in said
    assert "0.9 (from the event)" in said


def test_look_up_shows_extensions(client: redis.Redis, tmp_path: Path) -> None:
    """Each with how many there are, the first five, and text that is no markup."""
    world = World(client, make_site(), tmp_path)
    images = [f"https://x.example/{n}" for n in range(7)]
    news = {
        "publication": {"name": "N", "language": "en"},
        "publication_date": "2026-09-21",
        "title": "<b>T</b>",
    }
    links = [{"hreflang": "de", "href": f"{BASE}a"}]
    ext = canonical({"images": images, "news": news, "alternates": links})
    publish(world, Event("add", f"{BASE}a", ext=ext))
    with serving({"shop": served_site(world)}) as web:
        said = seen(web.page(f"/?url={BASE}a"))
    assert "7 https://x.example/0 " in said
    assert "https://x.example/4 …" in said
    assert "https://x.example/5" not in said
    assert "<b>T</b> (2026-09-21)" in said


def test_problems_come_first_with_what_mends_them(world: World) -> None:
    """Held deletes, a source that failed and refusals stand above the numbers, each with its command."""
    note_producer(world.store, "pages", {"kind": "watch", "state": "watching", "problem": "disk on fire"})
    held = {"sentence": "shop: 9 of its 10 URLs are gone.", "command": "sitemapd accept-deletes shop"}
    site = dataclasses.replace(served_site(world), held=lambda: {"shop": held})
    with serving({"shop": site}) as web:
        answer = web.page()
    root = html.fromstring(answer.body)
    assert root.findall(".//h2")[0].text == "Problems"
    commands = [each.text for each in root.iterfind(".//li[@class='problem']/code")]
    assert commands[-3:] == ["sitemapd accept-deletes shop", "sitemapd doctor", "sitemapd rejected"]
    assert "9 of its 10 URLs are gone" in seen(answer)
    assert "disk on fire" in seen(answer)


@pytest.mark.parametrize(("span", "ago"), [("hour", 59), ("day", 23 * 60), ("month", 30 * 24 * 60)])
def test_a_plot_goes_back_as_far_as_it_says(client: redis.Redis, tmp_path: Path, span: str, ago: int) -> None:
    """Events from almost an hour, a day and a month ago are in that plot, and not in the shorter ones."""
    world = World(client, make_site(), tmp_path)
    now = world.store.now()
    world.now = now - ago * 60_000
    publish(world, *(add(f"p{n}") for n in range(7)))
    world.now = 0
    with serving({"shop": served_site(world)}) as web:
        counts = [seen(web.page(f"/?span={each}")).count(": 7 in all") for each in ("hour", "day", "month")]
    assert counts == [int(each >= span_order(span)) for each in range(3)]


def span_order(span: str) -> int:
    """The place of a span among all, the shortest first."""
    return ("hour", "day", "month").index(span)

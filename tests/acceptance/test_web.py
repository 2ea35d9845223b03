"""The status page and the metrics of real processes: what `run` shows, and what `serve` asks a token for."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from urllib.parse import urlencode

from producers.http.auth import hash_of, new_token
from tests.acceptance.place import Place, Service, add, settings
from tests.acceptance.until import until

HTML = {"Accept": "text/html"}


def ask(address: str, headers: Mapping[str, str], body: bytes | None = None) -> tuple[int, str, str]:
    """Status, text and cookie of one answer; redirects are not followed."""

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    request = urllib.request.Request(address, body, dict(headers))
    try:
        with urllib.request.build_opener(Stay).open(request, timeout=10) as answer:
            return answer.status, answer.read().decode(), answer.headers.get("Set-Cookie", "")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), error.headers.get("Set-Cookie", "")


def address(service: Service) -> str:
    """Where a service says that it serves."""
    said = service.says("Serving at ")
    return said[said.index("http://") :].split()[0]


def test_run_shows_what_it_does(place: Place, redis_url: str) -> None:
    """Under `run` page and metrics show the watcher, the workers, the events and what was published."""
    (place.folder / "content").mkdir()
    (place.folder / "content" / "tea.html").write_text("<h1>Tea</h1>")
    place.configure(settings(redis_url) + '[sites.main.watch.pages]\ndirectory = "content"\n')
    service = place.service("run", "--port", "0")
    at = address(service)
    until((place.output / "sitemap.xml").exists, what="it is published")
    watched = 'sitemapd_producer_up{kind="watch",site="main",source="pages"} 1.0'
    until(lambda: watched in text_of(at), what="the watcher is reported")
    metrics = text_of(at)
    assert re.search(
        r'sitemapd_events_total\{op="add",result="accepted",site="main",source="pages"\} 1', metrics
    )
    assert 'sitemapd_workers{site="main"} 2.0' in metrics
    until(lambda: "watching" in ask(at, HTML)[1], what="the page says that it watches")
    status, page, _ = ask(at, HTML)
    assert status == 200
    assert "sitemap-pages-1.xml" in page
    assert service.stop() == 0
    status_of = place.ok("status", "--json").json["sites"]["main"]
    assert status_of["producers"]["pages"]["state"] == "stopped"


def text_of(at: str) -> str:
    """The metrics as they are now."""
    return ask(f"{at}metrics", {})[1]


def test_serve_asks_for_a_token_from_outside(place: Place, redis_url: str) -> None:
    """A request that came by a proxy is let in by the site's token alone, and the token is never logged."""
    place.secret = token = new_token()
    hashed = hash_of(token)
    place.configure(settings(redis_url) + f'[sites.main.tokens.ops]\nhash = "{hashed}"\n')
    worker = place.worker()
    place.events(add("page"))
    place.wait()
    assert worker.stop() == 0
    at = address(place.service("--log-level", "debug", "serve", "--port", "0"))
    outside = {**HTML, "X-Forwarded-For": "203.0.113.9", "Host": "status.example.com"}
    assert ask(at, outside)[0] == 303
    assert ask(f"{at}metrics", outside)[0] == 401
    assert ask(f"{at}metrics", {**outside, "Authorization": f"Bearer {token}"})[0] == 200
    assert ask(f"{at}sitemap.xml", outside)[0] == 200
    assert ask(f"{at}login", outside, urlencode({"token": "smd_wrong"}).encode())[0] == 401
    status, _, cookie = ask(f"{at}login", outside, urlencode({"token": token}).encode())
    assert status == 303
    status, page, _ = ask(at, {**outside, "Cookie": cookie.partition(";")[0]})
    assert status == 200
    assert "Log out" in page

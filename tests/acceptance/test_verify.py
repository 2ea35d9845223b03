"""`sitemapd verify` as a user runs it against a live site."""

from __future__ import annotations

from contextlib import closing

from tests.acceptance.place import Place, ndjson, settings
from tests.redis_server import RedisServer
from tests.site_server import Server


def test_listed_urls_that_are_no_pages_are_named(place: Place, any_redis: RedisServer) -> None:
    """One line for each, a count at the end, exit code 1; 0 where all are pages; 2 for a foreign URL."""
    any_redis.flush()
    with closing(Server()) as server:
        base = server.base
        place.configure(settings(any_redis.url, base_url=base))
        server.put("/tea", "<html><head></head></html>", Content_Type="text/html")
        server.put("/moved", b"", status=301, Location="/tea")
        place.ok(
            "push",
            "-",
            stdin=ndjson([{"op": "add", "loc": base + path} for path in ("tea", "moved", "gone")]),
        )
        all_of_them = place.command("verify", "--rate", "10")
        one = place.ok("verify", f"{base}x/../tea", "--rate", "10")
        some = place.command("verify", "--count", "2", "--rate", "10", "--json").json
        foreign = place.command("verify", "https://other.example/")
    *found, total = all_of_them.out.splitlines()
    assert all_of_them.code == 1
    assert sorted(found) == [
        f"{base}gone: The page is gone (404 or 410) (404) [gone]",
        f"{base}moved: The URL redirects (301 to {base}tea) [redirect]",
    ]
    assert total == "3 URLs, 3 asked for: 2 problems"
    assert one.out == "1 URL, 1 asked for: 0 problems\n"
    assert (some["urls"], some["asked"]) == (2, 2)
    assert (foreign.code, foreign.out) == (2, "")
    assert "https://other.example/" in foreign.err

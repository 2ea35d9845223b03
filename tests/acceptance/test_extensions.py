"""Images, videos, news and languages, from `push` to the published file, with real processes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from lxml import etree

from tests.acceptance.place import BASE, Place, add, ndjson, settings, update
from tests.published import content, listed, valid_now

VIDEO = {
    "content_loc": "https://cdn.example.net/v.mp4",
    "description": 'Tom & "Jerry" <3 😀',
    "title": "It's a kettle",
    "thumbnail_loc": "https://cdn.example.net/v.jpg",
    "duration": "600",
    "tag": ["tea", "water"],
    "restriction": {"relationship": "deny", "countries": ["DE"]},
}
LINKS = [{"hreflang": "en", "href": f"{BASE}a"}, {"hreflang": "de", "href": f"{BASE}de"}]


@pytest.fixture
def shop(place: Place, redis_url: str) -> Place:
    """Give a configured site without a worker."""
    place.configure(settings(redis_url))
    return place


def names(place: Place) -> dict[str, list[str]]:
    """Path → the names of the elements of each URL that is published."""
    found = {}
    for file in listed(place.output):
        for url in etree.fromstring(content(place.output / file)):
            loc, *children = url
            found[(loc.text or "").removeprefix(BASE)] = [etree.QName(child).localname for child in children]
    return found


def test_extensions_reach_the_file_that_check_finds_right(shop: Place) -> None:
    """Each is written in the schemas' order; an update changes what it names; `check` finds nothing."""
    shop.worker()
    news = {
        "title": "Kettle & Co.",
        "publication_date": datetime.now(UTC).isoformat(timespec="seconds"),
        "publication": {"name": "The Example", "language": "EN"},
    }
    ext = {"news": news, "videos": VIDEO, "images": ["https://cdn.example.net/a b.jpg"], "alternates": LINKS}
    events = [
        add("a", ext=ext),
        add("de", ext={"alternates": LINKS}),
        add("wrong", ext={"images": ["/a.jpg"]}),
        add("strict", ext={"images": ["/a.jpg"]}, strict=True),
    ]
    said = shop.command("push", "-", "--wait", "30", stdin=ndjson(events))
    assert said.code == 1
    assert said.err.count("'/a.jpg' is not absolute") == 2
    valid_now(shop.output)
    assert names(shop) == {
        "a": ["link", "link", "image", "video", "news"],
        "de": ["link", "link"],
        "wrong": [],
    }
    checked = shop.command("check", str(shop.output), "--json")
    assert (checked.code, checked.json["findings"]) == (0, [])

    shop.ok("push", "update", f"{BASE}wrong", "--image", "https://cdn.example.net/b.jpg")
    shop.ok("push", "-", "--wait", "30", stdin=ndjson([update("a", ext={"news": None})]))
    assert names(shop) == {
        "a": ["link", "link", "image", "video"],
        "de": ["link", "link"],
        "wrong": ["image"],
    }
    shown = shop.ok("show", f"{BASE}a", "--json").json["ext"]
    assert list(shown) == ["alternates", "images", "videos"]
    assert shown["videos"][0]["duration"] == 600
    assert "images: https://cdn.example.net/b.jpg" in shop.ok("show", f"{BASE}wrong").out
    refused = shop.command("push", "add", f"{BASE}x", "--ext", "[1]")
    assert refused.code == 2
    assert "--ext" in refused.err

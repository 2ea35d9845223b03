"""Webhooks that name a key: the service remembers which URLs a thing has, so that an id takes them down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from producers.http import webhooks
from producers.http.mapping import Rule, Template, pointer
from producers.http.webhooks import Webhook
from tests.integration.http_world import HttpWorld, token
from tests.world import BASE

KEY = Template.parse("{/id}")
HOOK = Webhook(
    source="cms",
    rules=(
        Rule(op="add", loc=Template.parse("/n/{/slug}"), key=KEY, when={"/slug": ("*",)}),
        Rule(op="add", loc=Template.parse("/n/{.}"), key=KEY, each=pointer("/more/*")),
        Rule(op="delete", loc=None, key=KEY, when={"/gone": (True,)}),
    ),
)


@pytest.fixture
def world(redis_url: str) -> Iterator[HttpWorld]:
    """Give a server with a webhook that has keys."""
    world = HttpWorld(redis_url, webhooks={"cms": HOOK})
    yield world
    world.close()


def deliver(world: HttpWorld, **payload: Any) -> httpx.Response:
    """Send a payload."""
    return world.client.post("v1/sites/shop/webhooks/cms", json=payload)


def test_an_id_is_enough_to_take_a_page_down(world: HttpWorld) -> None:
    """All URLs that a key had go, and no others; a key that is not known is nothing."""
    deliver(world, id=1, slug="a", more=["a-de", "a-fr"])
    deliver(world, id=2, slug="b")
    answer = deliver(world, id=1, gone=True)
    assert (answer.status_code, answer.json()["accepted"]) == (202, 3)
    assert world.locs() == {"n/b"}
    assert deliver(world, id=1, gone=True).json()["accepted"] == 0
    assert deliver(world, id=99, gone=True).json()["accepted"] == 0
    deliver(world, id=2, gone=True)
    assert world.locs() == set()
    assert world.redis.keys("*:hook:*") == [], "what is gone takes no memory"


def test_a_changed_url_deletes_the_older_one(world: HttpWorld) -> None:
    """The key's URLs are those of its last delivery, whatever the payload says of the older ones."""
    deliver(world, id=1, slug="a", more=["a-de"])
    assert deliver(world, id=1, slug="renamed", more=["a-de"]).json()["accepted"] == 3
    assert world.locs() == {"n/renamed", "n/a-de"}
    deliver(world, id=1, slug="renamed")
    assert world.locs() == {"n/renamed"}


def test_two_things_may_swap_their_urls(world: HttpWorld) -> None:
    """The second delivery does not delete what the first has just been given."""
    deliver(world, id=1, slug="a")
    deliver(world, id=2, slug="b")
    deliver(world, id=1, slug="b")
    deliver(world, id=2, slug="a")
    assert world.locs() == {"n/a", "n/b"}
    deliver(world, id=1, gone=True)
    assert world.locs() == {"n/a"}


def test_a_refused_url_leaves_what_the_key_has(world: HttpWorld) -> None:
    """Where the new URL is refused, the older one stays listed and remembered."""
    deliver(world, id=1, slug="a")
    assert deliver(world, id=1, slug="..").status_code == 422
    assert world.locs() == {"n/a"}
    deliver(world, id=1, gone=True)
    assert world.locs() == set()


def test_keys_have_a_bound(world: HttpWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key beyond the bound is stored and not remembered, and the answer says so; known ones go on."""
    monkeypatch.setattr(webhooks, "KEYS_MAX", 3)
    answers = [deliver(world, id=n, slug=f"p{n}") for n in range(4)]
    assert [len(answer.json().get("warnings", ())) for answer in answers] == [0, 0, 0, 1]
    assert len(world.locs()) == 4
    assert "warnings" not in deliver(world, id=0, slug="other").json()
    deliver(world, id=1, gone=True)
    deliver(world, id=3, slug="p3")
    deliver(world, id=3, gone=True)
    assert world.locs() == {"n/other", "n/p2"}


def test_a_key_takes_about_300_bytes(world: HttpWorld) -> None:
    """What docs/push.md says of the memory holds for URLs of 80 characters."""
    (name,) = [world.store.partitions[0].keys.webhook("cms")]
    urls = webhooks.KeyedUrls(world.store, "cms")
    now = {f"id-{n}": [BASE + f"{n}".rjust(80 - len(BASE), "p")] for n in range(2000)}
    urls.write({key: [] for key in now}, now)
    assert (world.redis.memory_usage(name, samples=0) or 0) / len(now) < 330


def test_only_its_own_source_is_deleted(redis_url: str) -> None:
    """A URL that another source took over stays when the key goes."""
    world = HttpWorld(redis_url, webhooks={"cms": HOOK}, tokens=(token(),))
    try:
        world.client.headers["Authorization"] = f"Bearer {'smd_of-the-tests-0123456789-0123456789'}"
        deliver(world, id=1, slug="a")
        assert world.post({"op": "add", "loc": BASE + "n/a", "source": "blog"}).status_code == 202
        deliver(world, id=1, gone=True)
        assert world.locs() == {"n/a"}
    finally:
        world.close()

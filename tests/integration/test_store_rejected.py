"""What is refused is refused to the caller's face, counted and kept, and its batch goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from producers.sink import EventSink
from sitemap_store.errors import Refused
from sitemap_store.model.site import Site
from sitemap_store.redis.state import REJECTED_MAX
from sitemap_store.redis.wake import Waker
from tests.integration.store_world import fields, settled
from tests.world import BASE, World, make_site

MakeWorld = Callable[[Site], World]

BAD: list[tuple[dict[str, Any], str]] = [
    ({"op": "add", "loc": "/relative"}, "not-absolute"),
    ({"op": "add", "loc": "ftp://example.com/a"}, "scheme"),
    ({"op": "add", "loc": "https://user:secret@example.com/"}, "user-info"),
    ({"op": "add", "loc": "https://exa\nmple.com/"}, "control-character"),
    ({"op": "add", "loc": BASE + "\ud800"}, "control-character"),
    ({"op": "add", "loc": BASE + "100%"}, "percent-encoding"),
    ({"op": "add", "loc": "https://other.example/"}, "location"),
    ({"op": "add", "loc": BASE + "x" * 2048}, "too-long"),
    ({"op": "add", "loc": BASE + "a", "lastmod": "2026-02-29"}, "lastmod"),
    ({"op": "add", "loc": BASE + "a", "changefreq": "Daily"}, "changefreq"),
    ({"op": "add", "loc": BASE + "a", "priority": 1.01}, "priority"),
    ({"op": "add", "loc": BASE + "a", "at": "yesterday"}, "at"),
    ({"op": "add", "loc": BASE + "a", "source": "no spaces"}, "source"),
    ({"op": "add", "loc": BASE + "a", "lastmd": "2026-01-01"}, "field"),
    ({"op": "remove", "loc": BASE + "a"}, "op"),
    ({"op": "add"}, "type"),
]


def sink(world: World) -> EventSink:
    """The way in, with real wake-ups."""
    return EventSink(world.store, Waker(world.client))


def test_each_refusal_has_its_loc_rule_and_sentence_and_the_rest_goes_on(make_world: MakeWorld) -> None:
    """I8: bad events between good ones: each is answered, counted and kept, the good ones published."""
    world = make_world(make_site())
    items: list[Any] = []
    for n, (bad, _) in enumerate(BAD):
        items += [{"op": "add", "loc": f"{BASE}good{n}"}, bad]
    outcome = sink(world).push(items, source="cms")
    assert outcome.accepted == len(BAD)
    assert [refusal.place for refusal in outcome.refused] == list(range(1, len(items), 2))
    assert [refusal.refused.rule for refusal in outcome.refused] == [rule for _, rule in BAD]
    settled(world, *(f"good{n}" for n in range(len(BAD))))
    kept = world.store.rejected()
    assert [row["rule"] for row in kept] == [rule for _, rule in reversed(BAD)]
    for row, refusal in zip(kept, reversed(outcome.refused), strict=True):
        assert row["detail"]
        assert row["source"] == "cms"
        assert abs(int(row["time"]) - world.store.now()) < 60_000
        assert row["loc"] == refusal.refused.loc.encode("utf-8", "backslashreplace").decode()[:2048]
    assert fields(world, "stats")["refused"] == str(len(BAD))


def test_an_item_may_come_refused(make_world: MakeWorld) -> None:
    """A line that could not even be decoded is kept like the others."""
    world = make_world(make_site())
    line = Refused(loc="", rule="json", detail="Line 3 is no JSON.")
    outcome = sink(world).push([{"op": "add", "loc": BASE + "a"}, line])
    assert (outcome.accepted, [refusal.refused for refusal in outcome.refused]) == (1, [line])
    assert [row["rule"] for row in world.store.rejected()] == ["json"]


def test_nothing_refused_keeps_nothing(make_world: MakeWorld) -> None:
    """A clean batch leaves no row and no count."""
    world = make_world(make_site())
    outcome = sink(world).push([{"op": "add", "loc": BASE + "a"}])
    assert (outcome.accepted, outcome.refused, outcome.warnings) == (1, (), ())
    assert world.store.rejected() == []
    assert "refused" not in fields(world, "stats")


def test_the_last_thousand_are_kept_and_all_are_counted(make_world: MakeWorld) -> None:
    """A producer that sends rubbish all day fills neither Redis nor the screen."""
    world = make_world(make_site())
    for n in range(30):
        world.store.reject([(Refused(loc=str(n), rule="op", detail="x"), "")] * 100)
    stream = world.store.partitions[0].keys.rejected()
    assert REJECTED_MAX <= world.client.xlen(stream) <= REJECTED_MAX + 200
    assert fields(world, "stats")["refused"] == "3000"
    newest = world.store.rejected(limit=150)
    assert [row["loc"] for row in newest] == ["29"] * 100 + ["28"] * 50


def test_one_call_with_more_refusals_than_are_kept_counts_them_all(make_world: MakeWorld) -> None:
    """Only the last ones are sent."""
    world = make_world(make_site())
    many = [(Refused(loc=str(n), rule="op", detail="x"), "") for n in range(REJECTED_MAX + 500)]
    world.store.reject(many)
    assert fields(world, "stats")["refused"] == str(len(many))
    assert world.store.rejected(limit=1)[0]["loc"] == str(len(many) - 1)


@pytest.mark.parametrize("loc", ["\ud800", "\0", "é" * 3000, "x" * 100_000, "\n\t"])
def test_whatever_was_refused_can_be_kept(make_world: MakeWorld, loc: str) -> None:
    """No lone surrogate reaches Redis, and no row is longer than a loc may be."""
    world = make_world(make_site())
    world.store.reject([(Refused(loc=loc, rule="loc", detail=loc), "a")])
    (row,) = world.store.rejected()
    assert len(row["loc"]) <= 2048
    assert row["loc"].startswith(loc[:100].encode("utf-8", "backslashreplace").decode())


def test_a_url_of_another_source_is_not_refused_but_loses(make_world: MakeWorld) -> None:
    """Ownership is no rule of the wire: the event is accepted, and the fold leaves the entry alone."""
    world = make_world(make_site())
    out = sink(world)
    out.push([{"op": "add", "loc": BASE + "a", "source": "cms"}])
    assert out.push([{"op": "delete", "loc": BASE + "a", "source": "watch"}]).accepted == 1
    settled(world, "a")

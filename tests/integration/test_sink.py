"""Events on their way in, batch by batch: what each came to is told in order, and not before it is stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from producers.sink import EventSink, Outcome
from sitemap_store.errors import Unavailable
from sitemap_store.model.events import Event
from sitemap_store.model.site import Site
from sitemap_store.redis.stream import AppendStream
from sitemap_store.redis.wake import Waker
from tests.integration.store_world import add, settled
from tests.world import BASE, World, make_site

MakeWorld = Callable[[Site], World]


def sink_of(world: World) -> EventSink:
    """The way in of a world's site."""
    return EventSink(world.store, Waker(world.client))


def item(path: str) -> dict[str, Any]:
    """An add on the wire."""
    return {"op": "add", "loc": BASE + path}


def test_outcomes_come_in_order_with_their_refusals(make_world: MakeWorld) -> None:
    """Also of batches of which nothing is accepted, and of more batches than may be under way."""
    world = make_world(make_site(shard_size=100))
    sink = sink_of(world)
    outcomes: list[Outcome] = []
    under_way: list[int] = []
    batches = [
        [item(f"p{n}")] if n % 3 else [item(f"p{n}"), item(f"q{n}") | {"op": "put"}, {"op": n}]
        for n in range(12)
    ] + [[{"op": 1}]]
    with sink.intake() as intake:
        for batch in batches:
            outcomes += intake.take(sink.check(batch))
            under_way.append(len(outcomes))
        outcomes += intake.settle()
        assert list(intake.settle()) == []
    assert [(each.accepted, [refusal.place for refusal in each.refused]) for each in outcomes] == [
        (
            sum(row.get("op") == "add" for row in batch),
            [n for n, row in enumerate(batch) if row["op"] != "add"],
        )
        for batch in batches
    ]
    assert under_way[-1] < len(batches), "none was ever under way"
    settled(world, *(f"p{n}" for n in range(12)))


def test_a_batch_is_told_of_once_it_is_stored(make_world: MakeWorld) -> None:
    """Its events are in the state then."""
    world = make_world(make_site(shard_size=100))
    sink, told = sink_of(world), 0
    with sink.intake() as intake:
        for n in range(20):
            for _ in intake.take(sink.check([item(f"p{n}")])):
                told += 1
                assert world.store.unfolded() >= told
        told += len(list(intake.settle()))
    assert told == world.store.unfolded() == 20


def test_a_piece_is_told_of_once_it_is_stored_and_the_next_begun(make_world: MakeWorld) -> None:
    """What is remembered of a piece can't be ahead of the state, and no more than two are held."""
    world = make_world(make_site(shard_size=100))
    asked: list[int] = []

    def pieces() -> Iterator[list[Event]]:
        for n in range(6):
            asked.append(n)
            yield [add(f"{n}-{k}") for k in range(n)]

    with closing(sink_of(world).send_pieces(pieces())) as stored:
        for n, count in enumerate(stored):
            assert count == n
            assert len(asked) == min(n + 2, 6)
            assert world.store.unfolded() >= sum(range(n + 1))
    settled(world, *(f"{n}-{k}" for n in range(6) for k in range(n)))


def test_pieces_that_nobody_wants_any_more_are_settled(make_world: MakeWorld) -> None:
    """Whoever gives up may begin anew at once: nothing of the first try comes after that."""
    world = make_world(make_site(shard_size=100))
    with closing(sink_of(world).send_pieces([add(f"p{n}")] for n in range(9))) as stored:
        assert next(stored) == 1
    assert world.store.unfolded() == 2
    assert world.store._left == []


def test_the_clock_is_asked_for_once_a_second(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question waits for the appends before it; what is between goes by the clock of the process."""
    world = make_world(make_site())
    sink, asked, seconds = sink_of(world), 0, 50.0

    def now() -> int:
        nonlocal asked
        asked += 1
        return 1_000_000

    monkeypatch.setattr(world.store, "now", now)
    monkeypatch.setattr(time, "monotonic", lambda: seconds)
    assert sink._now() == 1_000_000
    seconds += 0.7
    assert sink._now() == 1_000_700
    assert asked == 1
    seconds += 0.3
    assert sink._now() == 1_000_000
    assert asked == 2


def test_redis_away_is_told_and_nothing_counts(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No outcome of what may not be stored."""
    world = make_world(make_site())
    sink = sink_of(world)
    outcomes: list[Outcome] = []

    def fails(_stream: AppendStream, _count: int | None = None) -> list[Any]:
        raise Unavailable(what="Redis", detail="is away")

    with sink.intake() as intake:
        outcomes += intake.take(sink.check([item("a")]))
        with monkeypatch.context() as patch:
            patch.setattr(AppendStream, "settle", fails)
            with pytest.raises(Unavailable):
                outcomes += intake.settle()
        assert outcomes == []
        assert len(list(intake.settle())) == 1

"""Events on their way in, batch by batch: what each came to is told when it is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from producers.sink import WARNINGS, EventSink, Refusal
from sitemap_store.errors import Refused, Unavailable
from sitemap_store.model.events import Event
from sitemap_store.model.site import Site
from sitemap_store.redis import store as store_module
from sitemap_store.redis.claims import Wake
from sitemap_store.redis.prepare import Packed
from sitemap_store.redis.state import Partition
from sitemap_store.redis.store import BATCH
from sitemap_store.redis.wake import Waker
from tests.examples import examples
from tests.integration.store_world import add, consistent, delete, settled
from tests.published import published
from tests.redis_server import RedisServer
from tests.world import BASE, World, make_site

MakeWorld = Callable[[Site], World]


def sink_of(world: World) -> EventSink:
    """The way in of a world's site."""
    return EventSink(world.store, Waker(world.client))


def item(path: str) -> dict[str, Any]:
    """An add on the wire."""
    return {"op": "add", "loc": BASE + path}


@pytest.mark.parametrize("count", [1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH + 1])
def test_batches_end_between_events(make_world: MakeWorld, count: int) -> None:
    """None is lost or sent twice at their edges."""
    world = make_world(make_site(shard_size=1000))
    assert sink_of(world).send(add(f"p{n}") for n in range(count)) == count
    assert world.store.unfolded() == count
    settled(world, *(f"p{n}" for n in range(count)))


def test_an_outcome_names_what_was_refused(make_world: MakeWorld) -> None:
    """By its place in the batch; the others are stored, and the refusals kept."""
    world = make_world(make_site())
    sink = sink_of(world)
    unread = Refused(loc="", rule="json", detail="The line is not JSON.")
    outcome = sink.push([item("a"), {"op": "put", "loc": BASE}, unread, item("b"), 5], source="cms")
    assert outcome.accepted == 2
    assert [refusal.place for refusal in outcome.refused] == [1, 2, 4]
    assert outcome.refused[1] == Refusal(2, unread)
    for _, refused in outcome.refused:  # what leads to the whole of an event would keep it in memory
        assert (refused.__traceback__, refused.__context__, refused.__cause__) == (None,) * 3
    assert sorted(row["rule"] for row in world.store.rejected()) == ["event", "json", "op"]
    settled(world, "a", "b")
    assert sink.push([{"op": 1}]).accepted == 0


def test_warnings_are_bounded(make_world: MakeWorld) -> None:
    """However many events of a batch have one."""
    world = make_world(make_site())
    items = [item(f"p#{n}") for n in range(WARNINGS + 20)]
    assert len(sink_of(world).push(items).warnings) == WARNINGS


def test_redis_away_is_told_and_what_is_stored_is_woken(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches before the failure are durable: their workers know, and the caller sends the rest again."""
    world = make_world(make_site(shard_size=1000))
    append, given = Partition.begin_append, 0

    def fails(partition: Partition, packed: Packed, *, delay_ms: int = 0) -> Callable[[], Wake]:
        nonlocal given
        given += 1
        if given == 2:
            raise Unavailable(what="Redis", detail="is away")
        return append(partition, packed, delay_ms=delay_ms)

    woken: list[Wake] = []
    monkeypatch.setattr(Waker, "wake", lambda _self, _site, wakes: woken.extend(wakes))
    sink = sink_of(world)
    events = [add(f"p{n}") for n in range(BATCH + 5)]
    with monkeypatch.context() as patch:
        patch.setattr(Partition, "begin_append", fails)
        with pytest.raises(Unavailable):
            sink.send(events)
    assert world.store.unfolded() == BATCH
    assert len(woken) == 1
    sink.send(events)
    settled(world, *(f"p{n}" for n in range(BATCH + 5)))


_steps = st.lists(
    st.tuples(
        st.booleans(), st.integers(0, 9), st.sampled_from(["", "", "", "script", "connection", "both"])
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_steps, st.sampled_from([1, 2]), st.integers(1, 4))
def test_whatever_happens_the_last_word_on_a_url_counts(
    any_redis: RedisServer,
    make_world: MakeWorld,
    steps: list[tuple[bool, int, str]],
    parts: int,
    batch: int,
) -> None:
    """Scripts are forgotten and connections cut while appends are under way: the dict model holds."""
    any_redis.flush()
    world = make_world(make_site(shard_size=4, partitions=parts))
    for path in world.folder.glob("sitemap*"):
        path.unlink()
    other = any_redis.client()
    model: set[str] = set()

    def events() -> Iterator[Event]:
        for there, n, fault in steps:
            event = (add if there else delete)(f"p{n}")
            (model.add if there else model.discard)(event.loc)
            yield event
            if fault in ("script", "both"):
                other.script_flush()
            if fault in ("connection", "both"):
                other.client_kill_filter(_type="normal", skipme=True)

    with mock.patch.object(store_module, "BATCH", batch):
        assert sink_of(world).send(events()) == len(steps)
    world.settle()
    assert published(world.folder).keys() == model
    consistent(world)


def test_the_next_batch_is_made_while_redis_has_the_last(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the two would take turns at waiting; and no more than one is under way."""
    world = make_world(make_site(shard_size=1000))
    begin, log = Partition.begin_append, list[str]()

    def noted(partition: Partition, packed: Packed, *, delay_ms: int = 0) -> Callable[[], Wake]:
        log.append("begun")
        stored = begin(partition, packed, delay_ms=delay_ms)

        def answered() -> Wake:
            log.append("stored")
            return stored()

        return answered

    def events() -> Iterator[Event]:
        for n in range(3):
            log.append("made")
            for k in range(BATCH):
                yield add(f"p{n}-{k}")

    monkeypatch.setattr(Partition, "begin_append", noted)
    sink_of(world).send(events())
    assert log == ["made", "begun", "made", "stored", "begun", "made", "stored", "begun", "stored"]


def test_who_gives_up_in_the_middle_may_begin_again(make_world: MakeWorld) -> None:
    """What was under way is stored by then, and its answer is not taken for that of another command."""
    world = make_world(make_site(shard_size=1000))
    sink = sink_of(world)

    def events() -> Iterator[Event]:
        for n in range(BATCH):
            yield add(f"p{n}")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sink.send(events())
    assert world.store.unfolded() == BATCH
    for n in range(3):
        assert world.client.echo(f"{n}") == f"{n}".encode()
    sink.send([delete(f"p{n}") for n in range(BATCH)])
    world.settle()
    assert published(world.folder) == {}


def test_a_full_redis_says_so_and_keeps_what_it_answered(make_world: MakeWorld) -> None:
    """In the sentence of any other command."""
    world = make_world(make_site(shard_size=1000))
    sink = sink_of(world)
    sink.send([add("kept")])
    world.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(Unavailable, match=r"is full.*noeviction"):
            sink.send([add("refused")])
    finally:
        world.client.config_set("maxmemory", 0)
    settled(world, "kept")


def test_a_server_that_comes_back_gets_what_it_did_not_answer(
    any_redis: RedisServer, make_world: MakeWorld
) -> None:
    """kill -9 in the middle of a load: it goes on, and all of it is there."""
    world = make_world(make_site(shard_size=1000))
    world.client.config_set("appendfsync", "always")

    def events() -> Iterator[Event]:
        for n in range(3 * BATCH):
            yield add(f"p{n}")
            if n == BATCH + 1:
                any_redis.restart(kill=True)

    sink_of(world).send(events())
    settled(world, *(f"p{n}" for n in range(3 * BATCH)))


def test_a_server_that_is_away_is_named(any_redis: RedisServer, make_world: MakeWorld) -> None:
    """One sentence, as of any other command."""
    world = make_world(make_site())
    any_redis.stop()
    try:
        with pytest.raises(Unavailable, match="can't be reached"):
            sink_of(world).send([add("a")])
    finally:
        any_redis.start()

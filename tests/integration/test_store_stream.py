"""Appends sent ahead of their answers: nothing is lost and nothing changes its place, whatever Redis does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sitemap_store.errors import Unavailable
from sitemap_store.model.events import Event
from sitemap_store.model.site import Site
from sitemap_store.redis.claims import Wake
from sitemap_store.redis.state import Partition
from sitemap_store.redis.stream import AHEAD, AppendStream, Place
from tests.examples import examples
from tests.integration.store_world import add, consistent, delete, fields, settled
from tests.published import published
from tests.redis_server import RedisServer
from tests.world import BASE, World, make_site

MakeWorld = Callable[[Site], World]

_BUSY = """
local function now() local t = redis.call('TIME') return t[1] + t[2] / 1e6 end
local till = now() + ARGV[1]
repeat until now() > till
"""
FAULTS = ("nothing", "script", "connection", "both")
_steps = st.lists(
    st.tuples(
        st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=1, max_size=6), st.sampled_from(FAULTS)
    ),
    min_size=1,
    max_size=12,
)


def give(world: World, stream: AppendStream, events: Sequence[Event]) -> None:
    """Append through the stream and enqueue what it says."""
    for prepared in world.store.prepare(events):
        for wake in stream.send(prepared):
            world.enqueue(wake)


def give_each(world: World, stream: AppendStream, *paths: str) -> None:
    """Add URLs, each in an append of its own, and wait for each answer."""
    for path in paths:
        give(world, stream, [add(path)])
        settle(world, stream)


def settle(world: World, stream: AppendStream) -> None:
    """Wait for the answers."""
    for wake in stream.settle():
        world.enqueue(wake)


def break_it(world: World, fault: str) -> None:
    """What may happen to a server between two appends."""
    if fault in ("script", "both"):
        world.client.script_flush()
    if fault in ("connection", "both"):
        world.client.client_kill_filter(_type="normal", skipme=True)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_steps, st.sampled_from([1, 2]))
def test_whatever_happens_the_last_word_on_a_url_counts(
    any_redis: RedisServer, make_world: MakeWorld, steps: list[tuple[list[tuple[bool, int]], str]], parts: int
) -> None:
    """Scripts are forgotten and connections cut at any point: the state is the dict model's."""
    any_redis.flush()
    world = make_world(make_site(shard_size=4, partitions=parts))
    for path in world.folder.glob("sitemap*"):
        path.unlink()
    model: set[str] = set()
    sent = 0
    with world.store.stream() as stream:
        for changes, fault in steps:
            events = [(add if there else delete)(f"p{n}") for there, n in changes]
            for event in events:
                (model.add if event.op == "add" else model.discard)(event.loc)
            give(world, stream, events)
            sent += 1
            assert stream.sent - stream.answered <= AHEAD
            break_it(world, fault)
        settle(world, stream)
        assert stream.answered == stream.sent >= sent
    world.settle()
    assert published(world.folder).keys() == model
    consistent(world)


def test_an_append_is_on_its_way_before_the_last_one_is_answered(make_world: MakeWorld) -> None:
    """Else Redis and the producer would take turns at waiting for each other."""
    world = make_world(make_site(shard_size=100))
    world.store.append([add("first")])
    with held_up(world.client), world.store.stream() as stream:
        for n in range(AHEAD):
            give(world, stream, [add(f"p{n}")])
        assert (stream.sent, stream.answered) == (AHEAD, 0)
    # The context was left without waiting: what was sent is stored all the same, or not, and nothing else is.
    time.sleep(0.2)
    world.settle()
    assert {BASE + "first"} <= published(world.folder).keys() <= {
        BASE + "first", *(f"{BASE}p{n}" for n in range(AHEAD))
    }  # fmt: skip
    consistent(world)


def test_the_shards_that_are_due_are_told_with_the_answers(make_world: MakeWorld) -> None:
    """At the latest when all is settled."""
    world = make_world(make_site(sections={"blog": "/blog/**"}))
    with world.store.stream() as stream:
        woken = []
        for prepared in world.store.prepare([add("a"), add("blog/b")]):
            woken += stream.send(prepared, delay_ms=0)
        woken += stream.settle()
        assert stream.settle() == []
    assert sorted(member for wake in woken for member in wake.members) == ["1", "2"]


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=8),
)
def test_an_append_that_comes_twice_counts_once(
    any_redis: RedisServer,
    make_world: MakeWorld,
    changes: list[tuple[bool, int]],
    again: list[tuple[int, int]],
) -> None:
    """Those of a connection that was given up may reach the server at any time after they were sent again."""
    any_redis.flush()
    world = make_world(make_site(shard_size=4))
    for path in world.folder.glob("sitemap*"):
        path.unlink()
    place, model, sent = Place(), set[str](), []
    (partition,) = world.store.partitions
    for n, (there, page) in enumerate(changes):
        (prepared,) = world.store.prepare([(add if there else delete)(f"p{page}")])
        sent.append((prepared.packed[0][1], place.next()))
        (model.add if there else model.discard)(f"{BASE}p{page}")
        for late in (0, *(earlier for earlier, at in again if at == n and earlier < n)):
            packed, its = sent[n if late == 0 else late]
            world.enqueue(partition.append(packed, place=its))
    counted = fields(world, "stats")
    assert sum(int(counted.get(op, "0")) for op in ("add", "delete")) == len(changes)
    assert world.store.unfolded() == len(changes)
    world.settle()
    assert published(world.folder).keys() == model


def test_a_failed_producer_begins_anew_after_what_it_sent(make_world: MakeWorld) -> None:
    """Else what it sent before could undo what it sends when it does all of it again."""
    world = make_world(make_site(shard_size=100))
    world.store.append([add("first")])
    stream = world.store.stream()
    with held_up(world.client), suppress(ZeroDivisionError), stream:
        give(world, stream, [add("a")])
        give(world, stream, [add("b")])
        raise ZeroDivisionError
    assert stream.answered == 2


def test_what_a_lost_server_still_does_is_overtaken(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next stream goes on from the place of one that ended without answers; other places are over."""
    world = make_world(make_site(shard_size=100))
    world.store.append([add("first")])
    (partition,) = world.store.partitions

    def away(*_args: object, **_options: object) -> None:
        raise Unavailable(what="Redis", detail="is away")

    with world.store.stream() as stream:
        with held_up(world.client):
            give(world, stream, [add("a")])
            give(world, stream, [add("b")])
            stream._connection.disconnect()
        with monkeypatch.context() as patch:
            patch.setattr(Partition, "append", away)
            with pytest.raises(Unavailable):
                settle(world, stream)
    (_, late) = stream._under_way
    with world.store.stream() as stream:
        give_each(world, stream, "a")
        give(world, stream, [delete("b")])
        settle(world, stream)
    assert partition.append(late.packed, place=late.place).members == ()
    assert world.store._left == []
    settled(world, "first", "a")


def test_what_was_left_on_a_connection_can_t_come_in_between(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once its script is there again, the server may find the later append first: the order is kept."""
    world = make_world(make_site(shard_size=100))
    world.store.append([add("first")])
    append, late = Partition.append, False

    def overtaken(part: Partition, packed: Any, *, delay_ms: int = 0, place: str = "") -> Wake:
        nonlocal late
        if not late:
            late = True
            append(part, left.packed, place=left.place)  # the server comes to the old connection's now
        return append(part, packed, delay_ms=delay_ms, place=place)

    with world.store.stream() as stream:
        with held_up(world.client):
            give(world, stream, [add("a")])
            give(world, stream, [delete("a")])
            stream._connection.disconnect()
        (_, left) = stream._under_way
        monkeypatch.setattr(Partition, "append", overtaken)
        settle(world, stream)
    assert late
    settled(world, "first")


def test_an_append_alone_leaves_no_key(make_world: MakeWorld) -> None:
    """Single events come thousands a second: a key for each would fill the memory."""
    world = make_world(make_site(shard_size=100))
    with world.store.stream() as stream:
        give_each(world, stream, "a", "b")
    assert list(world.client.scan_iter("*:stream:*")) == []
    with world.store.stream() as stream:
        give(world, stream, [add("c")])
        give_each(world, stream, "d")
    (key,) = world.client.scan_iter("*:stream:*")
    assert isinstance(key, bytes)
    assert 0 < world.client.ttl(key) <= 60


def test_an_error_leaves_the_connections_clean(make_world: MakeWorld) -> None:
    """An answer that nobody reads must not be taken for that of the next command."""
    world = make_world(make_site())
    world.store.append([add("a")])
    with held_up(world.client):
        with suppress(ZeroDivisionError), world.store.stream() as stream:
            give(world, stream, [add("a")])
            raise ZeroDivisionError
        for n in range(3):
            assert world.client.echo(f"{n}") == f"{n}".encode()
    settled(world, "a")


def test_a_full_redis_says_so_and_keeps_what_it_answered(make_world: MakeWorld) -> None:
    """The error is the one of a plain append, and what came after the refused one is not waited for."""
    world = make_world(make_site(shard_size=100))
    with world.store.stream() as stream:
        give(world, stream, [add("kept")])
        settle(world, stream)
        world.client.config_set("maxmemory", 1)
        try:
            with pytest.raises(Unavailable, match=r"is full.*noeviction"):
                give_each(world, stream, *(f"refused{n}" for n in range(AHEAD + 2)))
        finally:
            world.client.config_set("maxmemory", 0)
        assert stream.answered == 1
    settled(world, "kept")


def test_a_server_that_comes_back_gets_what_it_did_not_answer(
    any_redis: RedisServer, make_world: MakeWorld
) -> None:
    """kill -9 in the middle of a load: the stream goes on, and all of it is there."""
    world = make_world(make_site(shard_size=100))
    world.client.config_set("appendfsync", "always")
    with world.store.stream() as stream:
        for n in range(20):
            give(world, stream, [add(f"p{n}")])
            if n == 10:
                any_redis.restart(kill=True)
        settle(world, stream)
    settled(world, *(f"p{n}" for n in range(20)))


def test_a_server_that_is_away_is_named(any_redis: RedisServer, make_world: MakeWorld) -> None:
    """One sentence, as of any other command."""
    world = make_world(make_site())
    any_redis.stop()
    try:
        with world.store.stream() as stream, pytest.raises(Unavailable, match="can't be reached"):
            give_each(world, stream, "a")
    finally:
        any_redis.start()


@contextmanager
def held_up(client: redis.Redis, seconds: float = 0.5) -> Iterator[None]:
    """Keep the server busy, so that it answers nothing meanwhile."""

    def work() -> None:
        client.eval(_BUSY, 0, str(seconds))

    # One connection for the script, and one that others need not make while nothing is answered.
    for connection in [client.connection_pool.get_connection() for _ in range(2)]:
        client.connection_pool.release(connection)
    thread = Thread(target=work)
    thread.start()
    time.sleep(0.1)
    try:
        yield
    finally:
        thread.join()

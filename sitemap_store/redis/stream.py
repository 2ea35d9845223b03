"""Appends that are sent ahead: Redis takes one while the next is made, and never waits for it.

A script call of `BATCH` events keeps Redis busy for about as long as Python is with making the next. Sent
one by one, each of the two waits for the other half of the time. A thread does not help: it needs the
interpreter's lock at each answer, for which it waits longer than for Redis.

When a connection breaks, what was under way on it is sent again on another, and the server may still come
to the first. So an append that is sent ahead carries its place in the stream, and the script passes over one
that comes twice, or after a later one. One that is sent alone needs none: the server comes to it before what
is sent after the answer to its repetition.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from secrets import token_hex
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import redis

from sitemap_store.errors import Unavailable
from sitemap_store.redis.claims import Wake
from sitemap_store.redis.prepare import Packed, Prepared
from sitemap_store.redis.state import Partition

AHEAD: Final = 3
"""Appends that may be under way: enough to keep Redis busy, and no more than a socket's buffer takes."""


class Place:
    """What tells the appends of one stream, or of several that follow each other, apart."""

    def __init__(self) -> None:
        self.id = token_hex(8)
        self._last = 0

    def next(self) -> str:
        """The place of the next append."""
        self._last += 1
        return f"{self.id} {self._last}"


class _Sent(NamedTuple):
    partition: Partition
    packed: Packed
    delay_ms: int
    place: str


class AppendStream:
    """Appends in the order in which they are given, for one thread. Raises Unavailable when Redis is.

    What is `answered` is stored. What is not when an error is raised may be stored or not, as with any append
    whose answer was lost. `left` holds the places of streams that ended so: the next one goes on from there,
    and what the server may still come to of theirs is overtaken by it.
    """

    def __init__(self, client: redis.Redis, partitions: tuple[Partition, ...], left: list[Place]) -> None:
        self.sent = 0
        """Appends given to Redis so far."""
        self._pool = client.connection_pool
        self._partitions = partitions
        self._connection: Any = None  # redis-py's connections are not typed
        self._under_way: deque[_Sent] = deque()
        self._left = left
        self._follows = True
        try:
            self._place = left.pop()
        except IndexError:
            self._place, self._follows = Place(), False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception | GeneratorExit) and not isinstance(error, Unavailable):
            # Whoever failed to make the next append may do it all over: not before this is done.
            with suppress(Unavailable):  # the first error is the one to tell of
                self.settle()
        if self._under_way:
            self._left.append(self._place)
        self._let_go()

    @property
    def answered(self) -> int:
        """How many of those sent are stored, as Redis says."""
        return self.sent - len(self._under_way)

    def send(self, prepared: Prepared, *, delay_ms: int = 0) -> list[Wake]:
        """Append some events; returns the shards that earlier appends made due now.

        Their rewrite waits for `delay_ms`.
        """
        wakes: list[Wake] = []
        for number, packed in prepared.packed:
            place = self._place.next() if self._follows or self._under_way else ""
            each = _Sent(self._partitions[number], packed, delay_ms, place)
            self._under_way.append(each)
            self.sent += 1
            try:
                self._give(each)
            except redis.RedisError:
                wakes += self._start_over()
            while len(self._under_way) > AHEAD:
                wakes += self._answer()
        return wakes

    def settle(self, count: int | None = None) -> list[Wake]:
        """Wait until all that was sent, or the first `count` of it, is stored; returns as `send` does."""
        wakes: list[Wake] = []
        while self.answered < (self.sent if count is None else count):
            wakes += self._answer()
        return wakes

    def _give(self, each: _Sent) -> None:
        if self._connection is None:
            self._connection = self._pool.get_connection()
        partition, packed, delay_ms, place = each
        command = self._connection.pack_command(*partition.append_call(packed, delay_ms, place))
        # A health check reads its answer, so there must be no other under way before it.
        self._connection.send_packed_command(command, check_health=len(self._under_way) == 1)

    def _answer(self) -> list[Wake]:
        if self._connection is None:
            return self._start_over()
        try:
            answer: Any = self._connection.read_response()
        except redis.RedisError:
            return self._start_over()
        return _due(self._under_way.popleft().partition.appended(answer))

    def _start_over(self) -> list[Wake]:
        """Append what is under way again, one by one, by the way that tries again and knows each error.

        The server may have taken some of it already, or lost the script.
        """
        self._let_go()
        # First the old connection's are overtaken: one in between would count before an earlier one.
        for partition in {each.partition for each in self._under_way if each.place}:
            partition.overtake(self._place.id)
        self._place, self._follows = Place(), True
        wakes: list[Wake] = []
        while self._under_way:
            partition, packed, delay_ms, _ = self._under_way[0]
            wakes += _due(partition.append(packed, delay_ms=delay_ms, place=self._place.next()))
            self._under_way.popleft()
        return wakes

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            if self._under_way:
                connection.disconnect()  # answers that nobody reads are on their way
            self._pool.release(connection)


def _due(wake: Wake) -> list[Wake]:
    return [wake] if wake.members else []

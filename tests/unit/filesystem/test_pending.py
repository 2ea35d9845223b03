"""Paths that wait until they are quiet."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.filesystem.pending import PendingPaths


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def waiting(notify: Callable[[], object] = bool) -> tuple[PendingPaths, Clock]:
    """Paths with a quiet time of 1 s and a longest of 5 s."""
    clock = Clock()
    return PendingPaths(1.0, 5.0, clock=clock, notify=notify), clock


def test_a_path_is_ripe_once_it_was_quiet() -> None:
    """A mark starts its time anew; other paths are not held up by it."""
    pending, clock = waiting()
    pending.add(b"a")
    clock.now += 0.6
    pending.add(b"a")
    pending.add(b"b")
    clock.now += 0.6
    assert pending.take(9) == []
    clock.now += 0.4
    assert sorted(pending.take(9)) == [b"a", b"b"]
    assert pending.take(9) == []


def test_a_path_that_is_never_quiet_is_ripe_all_the_same() -> None:
    """After the longest time it is looked at, however often it was marked."""
    pending, clock = waiting()
    for _ in range(10):
        pending.add(b"a")
        clock.now += 0.5
    assert pending.take(9) == [b"a"]


def test_no_more_than_asked_are_taken() -> None:
    """The rest stays ripe, oldest first."""
    pending, clock = waiting()
    for path in (b"a", b"b", b"c"):
        pending.add(path)
    clock.now += 2
    assert pending.take(2) == [b"a", b"b"]
    assert pending.take(2) == [b"c"]


def test_what_is_put_back_is_ripe_at_once() -> None:
    """Work that failed is not debounced a second time."""
    pending, clock = waiting()
    pending.add(b"a")
    clock.now += 2
    pending.put_back(pending.take(9))
    pending.add(b"b")
    assert pending.take(9) == [b"a"]
    assert len(pending) == 1


def test_too_many_paths_are_an_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: beyond that a scan is asked for instead."""
    monkeypatch.setattr("producers.filesystem.pending.MOST", 2)
    pending, clock = waiting()
    for path in (b"a", b"b", b"a", b"c"):
        pending.add(path)
    assert (pending.overflowed, len(pending)) == (True, 2)
    pending.clear()
    assert (pending.overflowed, len(pending)) == (False, 0)
    clock.now += 9
    assert pending.take(9) == []


def test_it_says_when_to_look_again() -> None:
    """Never where nothing waits; the first path of several rouses whoever looks."""
    roused: list[bool] = []
    pending, clock = waiting(lambda: roused.append(True))
    assert pending.next_ripe() == float("inf")
    pending.add(b"a")
    clock.now += 0.25
    pending.add(b"b")
    assert (pending.next_ripe(), roused) == (0.75, [True])
    clock.now += 0.75
    assert pending.next_ripe() == 0
    assert pending.take(9) == [b"a"]
    assert pending.next_ripe() == 0.25


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.floats(0, 3))))
def test_a_path_waits_neither_too_long_nor_too_short(marks: list[tuple[bytes, float]]) -> None:
    """Whatever the marks, a path is ripe exactly from its quiet time, or its longest, on."""
    pending, clock = waiting()
    first: dict[bytes, float] = {}
    last: dict[bytes, float] = {}
    for path, pause in marks:
        pending.add(path)
        first.setdefault(path, clock.now)
        last[path] = clock.now
        clock.now += pause
        due = {p for p in first if last[p] + 1.0 <= clock.now or first[p] + 5.0 <= clock.now}
        assert set(pending.take(99)) == due
        for p in due:
            del first[p], last[p]

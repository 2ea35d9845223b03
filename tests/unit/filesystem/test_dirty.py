"""Paths that wait until they are quiet."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from producers.filesystem.dirty import Dirty


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def waiting(most: int = 1000) -> tuple[Dirty, Clock]:
    """Paths with a quiet time of 1 s and a longest of 5 s."""
    clock = Clock()
    return Dirty(1.0, 5.0, clock=clock, most=most), clock


def test_a_path_is_ripe_once_it_was_quiet() -> None:
    """A mark starts its time anew; other paths are not held up by it."""
    dirty, clock = waiting()
    dirty.mark(b"a")
    clock.now += 0.6
    dirty.mark(b"a")
    dirty.mark(b"b")
    clock.now += 0.6
    assert dirty.take(9) == []
    clock.now += 0.4
    assert sorted(dirty.take(9)) == [b"a", b"b"]
    assert dirty.take(9) == []


def test_a_path_that_is_never_quiet_is_ripe_all_the_same() -> None:
    """After the longest time it is looked at, however often it was marked."""
    dirty, clock = waiting()
    for _ in range(10):
        dirty.mark(b"a")
        clock.now += 0.5
    assert dirty.take(9) == [b"a"]


def test_no_more_than_asked_are_taken() -> None:
    """The rest stays ripe, oldest first."""
    dirty, clock = waiting()
    for path in (b"a", b"b", b"c"):
        dirty.mark(path)
    clock.now += 2
    assert dirty.take(2) == [b"a", b"b"]
    assert dirty.take(2) == [b"c"]


def test_what_is_put_back_is_ripe_at_once() -> None:
    """Work that failed is not debounced a second time."""
    dirty, clock = waiting()
    dirty.mark(b"a")
    clock.now += 2
    dirty.put_back(dirty.take(9))
    dirty.mark(b"b")
    assert dirty.take(9) == [b"a"]
    assert len(dirty) == 1


def test_too_many_paths_are_an_overflow() -> None:
    """Memory is bounded: beyond that a scan is asked for instead."""
    dirty, clock = waiting(most=2)
    for path in (b"a", b"b", b"a", b"c"):
        dirty.mark(path)
    assert (dirty.overflowed, len(dirty)) == (True, 2)
    dirty.clear()
    assert (dirty.overflowed, len(dirty)) == (False, 0)
    clock.now += 9
    assert dirty.take(9) == []


def test_a_wait_ends_when_it_is_roused() -> None:
    """Even when the call comes before the wait."""
    dirty, _ = waiting()
    dirty.rouse()
    dirty.wait(60)  # would hang if the call were lost
    waiter = threading.Thread(target=dirty.wait, args=(60,))
    waiter.start()
    dirty.rouse()
    waiter.join(10)
    assert not waiter.is_alive()


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.floats(0, 3))))
def test_a_path_waits_neither_too_long_nor_too_short(marks: list[tuple[bytes, float]]) -> None:
    """Whatever the marks, a path is ripe exactly from its quiet time, or its longest, on."""
    dirty, clock = waiting()
    first: dict[bytes, float] = {}
    last: dict[bytes, float] = {}
    for path, pause in marks:
        dirty.mark(path)
        first.setdefault(path, clock.now)
        last[path] = clock.now
        clock.now += pause
        due = {p for p in first if last[p] + 1.0 <= clock.now or first[p] + 5.0 <= clock.now}
        assert set(dirty.take(99)) == due
        for p in due:
            del first[p], last[p]

"""The plan comes from the seed alone, deals every fault, and the list of faults is read as written."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from tests.torture import fuzz
from tests.torture.checks import Found
from tests.torture.faults import chosen, faults
from tests.torture.load import Pusher
from tests.torture.plan import Round, plan
from tests.torture.redis_faults import REPLIES
from tests.torture.report import QUIET, Report

GROUPS = {name: fault.group for name, fault in faults().items()}
ALONE = {name for name, fault in faults().items() if fault.loses}


def _rounds(seed: int, count: int = 300) -> list[Round]:
    return list(islice(plan(seed, GROUPS, ALONE), count))


def test_the_same_seed_gives_the_same_plan_and_load() -> None:
    """Rounds, faults, what they hit, events and nonsense: all from the seed; another seed gives others."""
    assert _rounds(5) == _rounds(5)
    assert _rounds(5) != _rounds(6)
    one, again = (Pusher("a", 0, 2, random.Random("a 5")).batch(200) for _ in range(2))
    assert one == again
    assert fuzz.lines(random.Random(5), 60, 0) == fuzz.lines(random.Random(5), 60, 0)


def test_every_fault_comes_before_any_comes_again() -> None:
    """One deal has each fault once; later deals have rounds with two of different groups that may meet."""
    rounds = _rounds(11)
    first = [part.injections[0].fault for part in rounds[: len(GROUPS)]]
    assert sorted(first) == sorted(GROUPS)
    pairs = [part.injections for part in rounds if len(part.injections) > 1]
    assert pairs
    assert all(GROUPS[one.fault] != GROUPS[other.fault] for one, other in pairs)
    assert all(ALONE.isdisjoint((one.fault, other.fault)) for one, other in pairs)


def test_without_faults_rounds_are_quiet() -> None:
    """No fault chosen: load alone."""
    assert all(part.injections == () for part in islice(plan(1, {}), 20))


@pytest.mark.parametrize(
    ("words", "within", "without"),
    [
        ("all", {"kill-redis", "wipe-output", "enospc"}, set()),
        ("processes", {"kill-worker", "stop-host"}, {"kill-redis"}),
        ("all,-tampering", {"kill-redis"}, {"wipe-output", "alter-files"}),
        ("-replies", {"kill-redis"}, {"reply-OOM"}),
        ("redis -kill-redis enospc", {"enospc", "pause-redis"}, {"kill-redis"}),
        ("none", set(), set(GROUPS)),
    ],
)
def test_the_list_of_faults(words: str, within: set[str], without: set[str]) -> None:
    """Names, groups, all and none; a minus leaves out."""
    found = chosen(words, faults()).keys()
    assert within <= found
    assert not without & found


def test_an_unknown_fault_is_named() -> None:
    """The error names the word and those that there are."""
    with pytest.raises(ValueError, match=r"'kill-radio' is no fault; there are .*kill-redis"):
        chosen("kill-radio", faults())


def test_each_fault_says_what_is_promised() -> None:
    """Every fault has a promise and a time, and each error reply of Redis is one of them."""
    assert all(fault.promised and fault.within > 0 for fault in faults().values())
    assert {f"reply-{code}" for code in REPLIES} <= faults().keys()
    assert all(text.startswith(f"{code} ") for code, (text, _) in REPLIES.items())


def test_a_process_is_stopped_past_its_lease() -> None:
    """Who is stopped with a lease in hand wakes up after it has ended."""
    assert faults(60)["stop-host"].lasts[0] > 60
    assert all(fault.lasts[0] > 8 for name, fault in faults(8).items() if name.startswith("stop-at-"))


def test_nonsense_is_one_line_an_event() -> None:
    """No line is blank or holds a line feed, the good ones are among them, and most rules are met."""
    rows, numbers = fuzz.lines(random.Random(3), 200, 40)
    assert len(rows) == 200
    assert all(row.strip() and b"\n" not in row for row in rows)
    assert numbers == list(range(40, 60))
    assert all(any(b"good/%d" % number in row for row in rows) for number in numbers)


def test_the_table_counts_by_fault() -> None:
    """Injections, violations and the worst recovery of each; one that two share counts once in total."""
    report = Report({"a": ("nothing is lost", 5.0), "b": ("all goes on", 3.0), "c": ("", 1.0)})
    report.rows["c"].skipped = "no disk"
    report.round(["a"], [], 1.0)
    report.round(["a", "b"], [Found("no file", "x")], 7.25)
    report.round([], [], None)
    rows = report.table().splitlines()
    assert "| `a` | nothing is lost | 2 | 1 | 7.2 (5) |" in rows
    assert "| `b` | all goes on | 1 | 1 | 7.2 (3) |" in rows
    assert any("skipped: no disk" in row for row in rows)
    assert any(row.startswith(f"| `{QUIET}` ") for row in rows)
    assert report.total == 1
    assert [text.split(":")[0] for text in report.late()] == ["a", "b"]

"""The model says what docs/wire-format.md says, and the load is what it claims to be."""

from __future__ import annotations

import random

import pytest

from tests.torture.load import Folder, Pusher, Table
from tests.torture.model import Entry, Model, Push, differences

DAY = Entry("2026-03-21")
LATER_DAY = Entry("2026-03-22")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([Push("add", "a", DAY)], DAY),
        ([Push("add", "a", DAY), Push("add", "a", Entry(None, "daily"))], Entry(None, "daily")),
        ([Push("add", "a", DAY), Push("update", "a", Entry(None, "daily"))], Entry("2026-03-21", "daily")),
        ([Push("update", "a", DAY)], DAY),
        ([Push("add", "a", DAY), Push("delete", "a")], None),
        ([Push("delete", "a"), Push("add", "a", DAY, 5)], None),
        ([Push("add", "a", DAY), Push("delete", "a", at=5)], DAY),
        ([Push("add", "a", DAY, 5), Push("add", "a", LATER_DAY, 4)], DAY),
        ([Push("add", "a", DAY, 5), Push("add", "a", LATER_DAY, 5)], LATER_DAY),
        ([Push("delete", "a", at=6), Push("add", "a", DAY, 5)], None),
        ([Push("delete", "a", at=6), Push("add", "a", DAY, 7)], DAY),
    ],
)
def test_what_events_add_up_to(events: list[Push], expected: Entry | None) -> None:
    """Adds replace, updates change what they name, late events lose, of two at once the later wins."""
    model = Model()
    model.apply(events)
    assert model.entries.get("a") == expected


def _pushers(seed: int) -> list[Pusher]:
    return [Pusher(name, place, 2, random.Random(f"{name} {seed}")) for place, name in enumerate("ab")]


def test_a_load_pushed_again_adds_up_to_the_same() -> None:
    """A batch that is sent twice, or several in their order, leaves what it left at first."""
    (pusher, _) = _pushers(7)
    batches = [pusher.batch(30) for _ in range(20)]
    once, twice = Model(), Model()
    for place, batch in enumerate(batches):
        once.apply(batch)
        twice.apply(batch)
        for again in batches[max(0, place - 3) : place + 1]:
            twice.apply(again)
    assert once.entries == twice.entries
    assert once.entries


def test_what_pushers_share_does_not_depend_on_who_comes_first() -> None:
    """Events of two pushers add up to the same in either order."""
    one, other = _pushers(8)
    first, second = one.batch(2000), other.batch(2000)
    model, reverse = Model(), Model()
    for events in (first, second):
        model.apply(events)
    for events in (second, first):
        reverse.apply(events)
    assert model.entries == reverse.entries
    assert any(path.startswith("shared/") for path in model.entries)


def test_the_load_has_every_kind() -> None:
    """There are adds, updates, deletes, duplicates, late events and URLs that both pushers speak of."""
    one, other = (pusher.batch(500) for pusher in _pushers(9))
    assert {push.op for push in one} == {"add", "update", "delete"}
    assert len(set(one)) < len(one)
    times = [push.at for push in one if push.at is not None]
    assert times != sorted(times)
    assert {push.path for push in one} & {push.path for push in other}
    assert not {p.at for p in one if p.at is not None} & {p.at for p in other if p.at is not None}


def test_a_folders_changes_lead_to_its_pages() -> None:
    """Steps name files that are there, and leave the pages that the folder says."""
    folder = Folder(random.Random(1))
    files: dict[str, str] = {}
    kinds = set()
    for step in folder.batch(600):
        kinds.add(step.kind)
        if step.kind == "write":
            files[step.path] = step.lastmod
        elif step.kind == "remove":
            del files[step.path]
        elif step.kind == "move":
            files[step.to] = files.pop(step.path)
        else:
            assert not any(path.startswith(f"{step.to}/") for path in files)
            for path in [path for path in files if path.startswith(f"{step.path}/")]:
                files[f"{step.to}/{path.partition('/')[2]}"] = files.pop(path)
    assert folder.expected() == {f"pages/{path}/": Entry(day) for path, day in files.items()}
    assert kinds == {"write", "remove", "move", "move-folder", "hostile"}


def test_a_tables_statements_lead_to_its_rows() -> None:
    """Swaps change places, what is hidden is not listed, and what is put again is."""
    table = Table(random.Random(2))
    rows: dict[str, tuple[str, bool]] = {}
    kinds = set()
    for step in table.batch(400):
        kinds.add(step.kind)
        if step.kind == "put":
            rows[step.path] = (step.lastmod, True)
        elif step.kind == "hide":
            rows[step.path] = (rows[step.path][0], False)
        elif step.kind == "drop":
            del rows[step.path]
        else:
            rows[step.path], rows[step.to] = rows[step.to], rows[step.path]
    assert table.expected() == {f"rows/{slug}": Entry(day) for slug, (day, live) in rows.items() if live}
    assert kinds == {"put", "hide", "drop", "swap"}


def test_differences_are_said_by_name() -> None:
    """What is missing, what is too much and what says something else; and no more than a few."""
    assert differences({"a": DAY}, {"a": DAY}) == []
    said = differences({"a": DAY, "b": DAY}, {"a": LATER_DAY, "c": DAY})
    assert [text.split()[0] for text in said] == ["c", "b", "a"]
    assert len(differences({}, {str(n): DAY for n in range(100)})) == 6

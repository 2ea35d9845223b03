"""The fold, rule by rule."""

import itertools
import json
import random
from typing import Any, TypedDict, Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.model.dates import instant_ms
from sitemap_store.model.entries import Entry, Tombstone
from sitemap_store.model.events import Event, Logged, encode
from sitemap_store.model.extensions import canonical
from sitemap_store.shards.fold import TOMBSTONE_MS, Folded, fold, fold_elements, next_purge
from sitemap_store.shards.snapshot import EMPTY, Snapshot
from tests import strategies
from tests.world import BASE, START

LOC = BASE + "a"


def at_once(*events: Event, before: Snapshot = EMPTY, now: int = START + 1000) -> Folded:
    """Fold events that were appended a millisecond apart."""
    return fold(before, [Logged(event, START + n) for n, event in enumerate(events)], now)


class Fields(TypedDict, total=False):
    """What an event may say of its URL."""

    at: int
    source: str | None
    lastmod: str
    changefreq: str
    priority: str
    ext: str


def add(**fields: Unpack[Fields]) -> Event:
    """An add of the one URL."""
    return Event("add", LOC, **fields)


def update(**fields: Unpack[Fields]) -> Event:
    """An update of the one URL."""
    return Event("update", LOC, **fields)


def delete(**fields: Unpack[Fields]) -> Event:
    """A delete of the one URL."""
    return Event("delete", LOC, **fields)


# Rule 1: events apply in the order they were appended.


def test_without_times_the_last_appended_wins() -> None:
    """Add, delete, add is there; add, add, delete is not."""
    assert LOC in at_once(add(), delete(), add()).snapshot.entries
    assert LOC not in at_once(add(), add(), delete()).snapshot.entries


def test_an_event_counts_as_having_happened_when_it_was_appended() -> None:
    """Without `at` the entry's time is the append's."""
    assert at_once(update(), add()).snapshot.entries[LOC].at == START + 1


def test_time_does_not_run_back_in_an_entry() -> None:
    """When the clock was set back, an entry keeps the later time, and the later append still wins."""
    before = Snapshot({LOC: Entry(LOC, "2020-01-01", at=START + 3_600_000)}, {})
    folded = at_once(add(lastmod="2021-01-01"), before=before)
    assert folded.snapshot.entries[LOC] == Entry(LOC, "2021-01-01", at=START + 3_600_000)
    assert LOC not in at_once(delete(), before=before).snapshot.entries


# Rule 2: an older `at` has lost the race.


def test_an_older_update_after_the_delete_leaves_the_url_gone() -> None:
    """A late event can't bring back what was deleted after it."""
    for late in (add(at=START - 1), update(at=START - 1)):
        folded = at_once(delete(at=START), late)
        assert LOC not in folded.snapshot.entries
        assert folded.lost == 1


def test_an_older_event_does_not_change_an_entry() -> None:
    """Neither an update nor a delete that happened before what the entry says."""
    newest = add(at=START, lastmod="2026-02-02")
    for late in (add(at=START - 1), update(at=START - 1, lastmod="2026-01-01"), delete(at=START - 1)):
        folded = at_once(newest, late)
        assert folded.snapshot.entries[LOC].lastmod == "2026-02-02"
        assert (folded.lost, folded.freed) == (1, ())


def test_at_the_same_instant_the_later_append_wins() -> None:
    """Equal times do not lose."""
    assert LOC not in at_once(add(at=START), delete(at=START)).snapshot.entries
    assert LOC in at_once(delete(at=START), add(at=START)).snapshot.entries
    assert at_once(add(at=START), delete(at=START)).lost == 0


def test_an_event_without_time_always_applies() -> None:
    """Even after one whose time lies ahead of the clock."""
    assert LOC not in at_once(add(at=START + 50_000), delete()).snapshot.entries


def test_a_delete_reaches_back_only_as_far_as_its_time() -> None:
    """What happened after the delete survives it, whenever the delete arrives."""
    assert LOC in at_once(add(at=START), delete(at=START - 1)).snapshot.entries
    assert LOC in at_once(delete(at=START - 1), add(at=START)).snapshot.entries


# Rule 3: add replaces, update merges.


def test_an_add_replaces_the_whole_entry() -> None:
    """What the new add does not say is not kept."""
    old = add(
        lastmod="2026-01-01",
        changefreq="daily",
        priority="0.5",
        source="cms",
        ext='{"images":["https://x.example/1"]}',
    )
    assert at_once(old, add()).snapshot.entries[LOC] == Entry(LOC, at=START + 1)


def test_an_add_makes_its_source_the_owner() -> None:
    """The last one to add vouches for the entry."""
    assert at_once(add(source="a"), add(source="b")).snapshot.entries[LOC].source == "b"


def test_an_update_changes_what_it_names_and_keeps_the_owner() -> None:
    """The other fields and the source stay; a field given as empty is emptied."""
    old = add(
        lastmod="2026-01-01",
        changefreq="daily",
        priority="0.5",
        source="cms",
        ext='{"images":["https://x.example/1"]}',
    )
    folded = at_once(old, update(priority="0.9", source="other"), update(changefreq=""))
    assert folded.snapshot.entries[LOC] == Entry(
        LOC, "2026-01-01", "", "0.9", START + 2, "cms", '{"images":["https://x.example/1"]}'
    )


def test_an_update_of_an_unknown_url_makes_it() -> None:
    """Desired state: what is updated is there."""
    folded = at_once(update(priority="0.9", source="cms"))
    assert folded.snapshot.entries[LOC] == Entry(LOC, "", "", "0.9", START, "cms")


def test_an_update_after_a_delete_starts_from_nothing() -> None:
    """What the deleted entry said does not come back."""
    folded = at_once(add(lastmod="2026-01-01"), delete(), update(priority="0.1"))
    assert folded.snapshot.entries[LOC] == Entry(LOC, "", "", "0.1", START + 2)


def test_an_update_merges_the_extensions_key_by_key() -> None:
    """What it does not name stays, null takes one out, an update of the lastmod alone keeps them all."""
    images, news = '"images":["https://x.example/1"]', '"news":{"publication_date":"2026-09-21"}'
    old = add(ext=f"{{{images}}}")
    both = at_once(old, update(ext=f"{{{news}}}"), update(lastmod="2026-01-01"))
    assert both.snapshot.entries[LOC].ext == f"{{{images},{news}}}"
    assert at_once(old, update(ext='{"images":null}')).snapshot.entries[LOC].ext == ""
    assert at_once(old, update(ext='{"news":null}')).snapshot.entries[LOC].ext == f"{{{images}}}"
    assert at_once(update(ext=f'{{"images":null,{news}}}')).snapshot.entries[LOC].ext == f"{{{news}}}"
    assert at_once(old, add()).snapshot.entries[LOC].ext == ""


@given(strategies.logs(size=20))
def test_extensions_are_those_of_a_plain_dict_that_got_the_same_events(log: list[Logged]) -> None:
    """Late events, removals, deletes and adds in between: as a dict of dicts would have them."""
    known: dict[str, tuple[int, dict[str, Any] | None]] = {}
    for event, appended in log:
        at, found = known.get(event.loc, (0, None))
        if event.at is not None and event.at < at:
            continue
        at = max(appended, at) if event.at is None else event.at
        said = json.loads(event.ext) if event.ext else {}
        old = found or {} if event.op == "update" else {}
        merged = {name: value for name, value in (old | said).items() if value is not None}
        known[event.loc] = at, None if event.op == "delete" else merged
    unowned = [Logged(event._replace(source=None), appended) for event, appended in log]
    entries = fold(EMPTY, unowned, START).snapshot.entries
    assert {loc: json.loads(entry.ext or "{}") for loc, entry in entries.items()} == {
        loc: found for loc, (_, found) in known.items() if found is not None
    }


# Rule 4: deletes, tombstones, ownership.


def test_a_delete_leaves_a_tombstone_for_a_day() -> None:
    """It says when the delete happened and when the seat is given up."""
    folded = at_once(add(), delete(at=START + 5, source=None))
    assert folded.snapshot.tombstones == {LOC: Tombstone(LOC, START + 5, START + 1 + TOMBSTONE_MS)}
    assert folded.purge_at == START + 1 + TOMBSTONE_MS
    assert folded.freed == ()


def test_a_delete_of_an_unknown_url_leaves_one_too() -> None:
    """Its add may still be on the way."""
    assert LOC in at_once(delete(at=START)).snapshot.tombstones
    assert LOC not in at_once(delete(at=START), add(at=START - 1)).snapshot.entries


def test_a_delete_that_names_a_source_removes_that_sources_entry_only() -> None:
    """Another source's entry, and one of nobody's, stay."""
    for owner in ("a", None):
        folded = at_once(add(source=owner), delete(source="b"))
        assert LOC in folded.snapshot.entries
        assert folded.lost == 1
    assert LOC not in at_once(add(source="b"), delete(source="b")).snapshot.entries


def test_a_delete_that_names_none_removes_any() -> None:
    """A person or an app speaks for all."""
    assert LOC not in at_once(add(source="a"), delete()).snapshot.entries


def test_a_sources_tombstone_holds_off_that_sources_late_events_only() -> None:
    """Another source may still say that the URL is there, with an older time as well."""
    gone = delete(at=START, source="a")
    assert LOC not in at_once(gone, add(at=START - 1, source="a")).snapshot.entries
    assert LOC in at_once(gone, add(at=START - 1, source="b")).snapshot.entries
    assert LOC in at_once(gone, add(at=START - 1)).snapshot.entries


def test_a_tombstone_for_all_is_not_narrowed_by_a_sources_delete() -> None:
    """After a delete for all, a late event of any source stays out."""
    both = (delete(at=START), delete(at=START + 1, source="a"))
    assert LOC not in at_once(*both, add(at=START - 1, source="b")).snapshot.entries


def test_an_add_ends_the_tombstone() -> None:
    """A URL is an entry or a tombstone, never both."""
    folded = at_once(delete(at=START), add(at=START + 1))
    assert (list(folded.snapshot.entries), folded.snapshot.tombstones) == ([LOC], {})
    assert folded.purge_at is None


# Rule 5: expiry and seats.


def test_a_tombstone_whose_time_is_over_gives_up_the_seat() -> None:
    """At its very instant, and not a millisecond before."""
    dead = at_once(add(), delete()).snapshot
    until = dead.tombstones[LOC].until
    early, due = fold(dead, [], until - 1), fold(dead, [], until)
    assert (early.freed, early.snapshot, early.purge_at) == ((), dead, until)
    assert (due.freed, due.snapshot, due.purge_at) == ((LOC,), EMPTY, None)


def article(published: str) -> str:
    """Extensions of an article and an image."""
    return f'{{"images":["https://x.example/1"],"news":{{"publication_date":"{published}"}}}}'


def test_an_article_is_news_for_48_hours() -> None:
    """At the very instant the news goes, and not a millisecond before; the URL and its image stay."""
    before = at_once(add(ext=article("2026-09-21T14:13:20Z")))
    until = START + 48 * 3_600_000
    assert before.purge_at == until
    early, due = fold(before.snapshot, [], until - 1), fold(before.snapshot, [], until)
    assert (early.snapshot, early.purge_at) == (before.snapshot, until)
    assert due.snapshot.entries[LOC] == before.snapshot.entries[LOC]._replace(
        ext='{"images":["https://x.example/1"]}'
    )
    assert due.purge_at is None


def test_the_next_purge_is_the_first_of_tombstones_and_articles() -> None:
    """Whichever comes first; text that looks like an article is none."""
    rows = [Entry(BASE + str(n), at=START, ext=article(f"2026-09-2{n}")) for n in (1, 2)]
    rows.append(Entry(BASE + "3", ext=canonical({"images": ['"news":']})))
    snapshot = Snapshot({row.loc: row for row in rows}, {})
    assert next_purge(snapshot) == instant_ms("2026-09-23")
    grave = Tombstone(BASE + "9", START, instant_ms("2026-09-22"))
    assert next_purge(snapshot._replace(tombstones={grave.loc: grave})) == grave.until
    assert next_purge(Snapshot({rows[-1].loc: rows[-1]}, {})) is None


def test_an_event_in_the_last_moment_keeps_the_seat() -> None:
    """The log applies before the tombstones are looked at."""
    dead = at_once(delete()).snapshot
    until = dead.tombstones[LOC].until
    assert fold(dead, [Logged(add(), until)], until).freed == ()
    again = fold(dead, [Logged(delete(), until)], until)
    assert again.freed == ()
    assert again.purge_at == until + TOMBSTONE_MS


def test_a_log_that_was_left_for_a_day_frees_what_it_deleted() -> None:
    """A delete appended longer ago than a tombstone lasts leaves none."""
    folded = at_once(add(), delete(), now=START + 1 + TOMBSTONE_MS)
    assert folded == Folded(EMPTY, (LOC,), 0, None)


def test_the_next_purge_is_the_earliest() -> None:
    """Of several tombstones the first to end sets the time."""
    graves = {BASE + str(n): Tombstone(BASE + str(n), START, START + 5000 + n) for n in range(3)}
    assert fold(Snapshot({}, graves), [], START).purge_at == START + 5000


def test_freed_locs_are_sorted() -> None:
    """The same fold gives the same commit, whatever order a set has."""
    graves = {BASE + str(n): Tombstone(BASE + str(n), START, START + 1) for n in range(20)}
    assert fold(Snapshot({}, graves), [], START + 1).freed == tuple(sorted(graves))


# As a whole.


@given(strategies.snapshots, strategies.logs())
def test_a_fold_leaves_its_inputs_as_they_are(snapshot: Snapshot, log: list[Logged]) -> None:
    """Pure: a crash after it has changed nothing."""
    entries, graves = dict(snapshot.entries), dict(snapshot.tombstones)
    fold(snapshot, log, START)
    assert (snapshot.entries, snapshot.tombstones) == (entries, graves)


@given(strategies.snapshots, strategies.logs())
def test_a_url_is_an_entry_or_a_tombstone_or_free(snapshot: Snapshot, log: list[Logged]) -> None:
    """Exactly one of the three, for every URL that was known or that the log names."""
    folded = fold(snapshot, log, START + 100_000)
    entries, graves = set(folded.snapshot.entries), set(folded.snapshot.tombstones)
    known = {*snapshot.entries, *snapshot.tombstones, *(event.loc for event, _ in log)}
    assert entries | graves | set(folded.freed) == known
    assert len(entries) + len(graves) + len(folded.freed) == len(known)
    assert folded.lost <= len(log)


@given(strategies.logs(), st.integers(0, 12))
def test_folding_in_two_steps_is_folding_at_once(log: list[Logged], cut: int) -> None:
    """Where the rewrites happen to fall makes no difference."""
    now = START + 1000
    halfway = fold(EMPTY, log[:cut], now)
    assert fold(halfway.snapshot, log[cut:], now).snapshot == fold(EMPTY, log, now).snapshot


@given(strategies.logs(), st.randoms(use_true_random=False))
def test_a_log_that_comes_twice_folds_to_the_same(log: list[Logged], shuffler: random.Random) -> None:
    """At-least-once delivery: any event of the log may be there twice in a row."""
    twice = [logged for logged in log for _ in range(shuffler.choice((1, 2)))]
    assert fold(EMPTY, twice, START + 1000).snapshot == fold(EMPTY, log, START + 1000).snapshot


@given(strategies.logs())
def test_a_whole_log_repeated_ends_in_the_same_urls(log: list[Logged]) -> None:
    """A producer that sends all of it again leaves the same URLs as its last round alone would."""
    timed = [Logged(event._replace(at=START + n, source=None), START) for n, (event, _) in enumerate(log)]
    once, again = fold(EMPTY, timed, START), fold(EMPTY, timed * 2, START)
    assert set(again.snapshot.entries) == set(once.snapshot.entries)


@given(strategies.logs(size=7), st.randoms(use_true_random=False))
def test_events_with_their_own_times_give_the_same_urls_in_any_order(
    log: list[Logged], shuffler: random.Random
) -> None:
    """With distinct `at` and no source, the latest event of each URL decides whether it is there."""
    timed = [
        Logged(event._replace(at=START + n, source=None), appended) for n, (event, appended) in enumerate(log)
    ]
    expected: dict[str, bool] = {}
    for event, _ in timed:
        expected[event.loc] = event.op != "delete"
    shuffled = timed.copy()
    shuffler.shuffle(shuffled)
    found = fold(EMPTY, shuffled, START + 1000).snapshot
    assert set(found.entries) == {loc for loc, there in expected.items() if there}
    assert set(found.tombstones) == {loc for loc, there in expected.items() if not there}


def test_all_orders_of_add_update_delete_agree() -> None:
    """The six orders of three events with times, written out."""
    for latest in (add, delete, update):
        events = [
            make(at=START + (9 if make is latest else n)) for n, make in enumerate((add, delete, update))
        ]
        there = {LOC in at_once(*order).snapshot.entries for order in itertools.permutations(events)}
        assert there == {latest is not delete}, latest


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_other_urls_stay_as_they_are(count: int) -> None:
    """A fold touches what its log names and nothing else."""
    rows = {loc: Entry(loc, at=5) for loc in (f"{BASE}p{n}" for n in range(count))}
    folded = at_once(add(), before=Snapshot(rows, {}))
    assert {loc: row for loc, row in folded.snapshot.entries.items() if loc != LOC} == rows


# A log as it is stored.


@given(strategies.snapshots, strategies.logs(paths=6, size=20), st.data())
def test_a_stored_log_folds_as_its_events_do(
    snapshot: Snapshot, log: list[Logged], data: st.DataObject
) -> None:
    """Whether an element is taken at once or event by event: the same entries, graves, seats and counts."""
    source = data.draw(st.sampled_from([None, "cms"]))
    plain = [
        Logged(Event("add", f"{BASE}n{n}", lastmod="2026-01-01", source=source), START)
        for n in range(data.draw(st.integers(0, 9)))
    ]
    place = data.draw(st.integers(0, len(log)))
    log = log[:place] + plain + log[place:]
    elements, logged = [], []
    while log:
        size = data.draw(st.integers(1, 8))
        some, log = log[:size], log[size:]
        elements.append("\n".join([str(some[0].appended), *(encode(event) for event, _ in some)]).encode())
        logged += [Logged(event, some[0].appended) for event, _ in some]
    stored, alone = fold_elements(snapshot, elements, START), fold(snapshot, logged, START)
    assert stored == alone
    assert list(stored.snapshot.entries) == list(alone.snapshot.entries)


@pytest.mark.parametrize("source", [None, "cms"])
def test_a_bulk_load_is_taken_an_element_at_a_time(
    monkeypatch: pytest.MonkeyPatch, source: str | None
) -> None:
    """Adds of new URLs with a lastmod never become events of their own."""
    monkeypatch.setattr("sitemap_store.shards.fold.read_log", lambda elements: pytest.fail("read one by one"))
    adds = [Event("add", f"{BASE}{n}", lastmod=f"2026-01-0{n}", source=source) for n in range(1, 9)]
    element = "\n".join([str(START), *map(encode, adds)]).encode()
    entries = fold_elements(EMPTY, [element], START).snapshot.entries
    assert [entry.lastmod for entry in entries.values()] == [f"2026-01-0{n}" for n in range(1, 9)]
    assert {(entry.at, entry.source) for entry in entries.values()} == {(START, source or "")}


def test_entries_come_in_the_order_of_their_locs() -> None:
    """Whatever order they were added in."""
    late = (
        Event("add", BASE + "z", lastmod="2026-01-01"),
        Event("add", BASE + "b"),
        Event("update", BASE + "a"),
    )
    assert list(at_once(*late).snapshot.entries) == [BASE + "a", BASE + "b", BASE + "z"]

"""The log's text: what an append wrote is what the fold reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.model.events import (
    FUTURE_MS,
    KEEP,
    Event,
    Logged,
    count_events,
    decode,
    encode,
    plain_adds,
    read_log,
)
from tests import strategies
from tests.world import BASE, START


def _plain(event: Event) -> Event:
    """An event with what the log does not tell apart put into one form."""
    if event.op == "update":
        return event._replace(urgent=False)
    if event.op == "delete":
        return event._replace(lastmod="", changefreq="", priority="", ext="")
    return event._replace(
        lastmod=event.lastmod or "",
        changefreq=event.changefreq or "",
        priority=event.priority or "",
        ext=event.ext or "",
        urgent=False,
    )


def _read(event: Event) -> Event:
    found = decode(encode(event))
    return found._replace(
        lastmod=found.lastmod if event.op == "update" else found.lastmod or "",
        changefreq=found.changefreq if event.op == "update" else found.changefreq or "",
        priority=found.priority if event.op == "update" else found.priority or "",
        ext=found.ext if event.op == "update" else found.ext or "",
    )


@given(strategies.events)
def test_an_event_comes_back_from_its_record(event: Event) -> None:
    """Every field of every kind of event survives the log."""
    assert _read(event) == _plain(event)


@given(strategies.events)
def test_a_record_is_one_line(event: Event) -> None:
    """Records are joined by line feeds, so none holds one, nor ends in empty fields."""
    record = encode(event)
    assert "\n" not in record
    assert not record.endswith("\t")


def test_an_update_tells_keep_from_clear() -> None:
    """A field that is not given stays as it is; one that is given as empty is emptied."""
    keep = Event("update", BASE + "a")
    clear = Event("update", BASE + "a", "", "", "", None, None, "")
    assert encode(keep).split("\t")[1] == KEEP
    assert (decode(encode(keep)).lastmod, decode(encode(keep)).ext) == (None, None)
    assert (decode(encode(clear)).lastmod, decode(encode(clear)).ext) == ("", "")


def test_only_a_delete_is_urgent() -> None:
    """The code of an urgent delete is its own; an add can't carry the word."""
    assert encode(Event("delete", BASE + "a", urgent=True)) == f"x{BASE}a"
    assert decode(f"x{BASE}a").urgent
    assert encode(Event("add", BASE + "a", urgent=True)) == f"a{BASE}a"


def test_the_epoch_is_a_time_like_any_other() -> None:
    """`at` of 0 is not the same as no `at`."""
    assert decode(encode(Event("add", BASE + "a", at=0))).at == 0
    assert decode(encode(Event("delete", BASE + "a", at=0))).at == 0


@given(
    st.lists(
        st.tuples(st.integers(START, 2**53), st.lists(strategies.events, min_size=1, max_size=4)), max_size=4
    )
)
def test_a_log_gives_its_events_oldest_first_with_their_time(appends: list[tuple[int, list[Event]]]) -> None:
    """Each element is one append: its time, then its records in their order."""
    elements = ["\n".join([str(appended), *map(encode, events)]).encode() for appended, events in appends]
    assert list(read_log(elements)) == [
        Logged(decode(encode(event)), appended) for appended, events in appends for event in events
    ]


def is_plain(event: Event) -> bool:
    """Whether an event is an add that says a loc, a lastmod and perhaps a source."""
    _op, _loc, lastmod, changefreq, priority, at, _source, ext, _urgent = event
    return event.op == "add" and bool(lastmod) and at is None and not (changefreq or priority or ext)


def plain_adds_agree(appended: int, events: list[Event]) -> None:
    """All of an element's adds, column by column, are what its records say; or nothing of it is taken."""
    element = "\n".join([str(appended), *map(encode, events)]).encode()
    assert count_events([element, element]) == 2 * len(events)
    adds = plain_adds(element)
    if adds is not None:
        found = [(loc, lastmod, adds.source, adds.appended) for loc, lastmod in zip(*adds[2:], strict=True)]
        read = [(event.loc, event.lastmod, event.source or "", at) for event, at in read_log([element])]
        assert found == read
    one_source = len({event.source for event in events}) == 1
    assert (adds is not None) == (one_source and all(map(is_plain, events)))


@given(st.integers(0, 2**53), st.lists(strategies.events, min_size=1, max_size=4))
def test_plain_adds_are_what_their_records_say(appended: int, events: list[Event]) -> None:
    """Whatever else is among them."""
    plain_adds_agree(appended, events)


@given(st.integers(0, 2**53), st.lists(strategies.plain_adds, min_size=1, max_size=4), st.booleans())
def test_plain_adds_of_one_source_are_taken(appended: int, events: list[Event], alike: bool) -> None:
    """Those of a bulk load, with the producer's name or without."""
    plain_adds_agree(
        appended, [event._replace(source=events[0].source) for event in events] if alike else events
    )


@pytest.mark.parametrize(
    ("at", "counts_as"), [(1000, 1000), (2000 + FUTURE_MS, 2000 + FUTURE_MS), (10**15, 2000)]
)
def test_a_time_far_behind_its_append_counts_as_the_append(at: int, counts_as: int) -> None:
    """Whoever wrote the record: a clock that is years ahead wins no race."""
    element = f"2000\n{encode(Event('delete', 'https://example.com/', at=at))}".encode()
    assert [logged.event.at for logged in read_log([element])] == [counts_as]

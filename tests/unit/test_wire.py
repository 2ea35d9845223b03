"""The wire format: what a producer sends, checked once."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.errors import Refused
from sitemap_store.model.events import FUTURE_MS, Event, Op, decode, encode
from sitemap_store.model.protocol import CURRENT
from sitemap_store.model.wire import (
    FIELDS,
    OPS,
    check,
    check_at,
    check_source,
)
from tests import strategies
from tests.world import BASE, START, make_site

SITE = make_site()
NOW = START  # 2026-09-21T14:13:20Z


def checked(caller: str | None = None, /, **item: Any) -> Event:
    """The event of an item that keeps the rules, without a warning."""
    event, warnings = check({"op": "add", "loc": BASE + "a"} | item, SITE, NOW, source=caller)
    assert warnings == ()
    return event


def refused(item: object) -> Refused:
    """Why an item is refused."""
    with pytest.raises(Refused) as caught:
        check(item, SITE, NOW)
    return caught.value


@pytest.mark.parametrize("op", OPS)
def test_op_and_loc_are_enough(op: Op) -> None:
    """Everything else may be left out."""
    assert checked(op=op) == Event(op, BASE + "a")


def test_every_field_is_read() -> None:
    """A whole event, with each value in its final form."""
    event = checked(
        loc="HTTPS://Example.COM:443/a b",
        lastmod="2026-03-21T11:22+01:00",
        changefreq="daily",
        priority=1,
        at="2026-03-21T11:22:33.5Z",
        source="cms:main-1",
        urgent=True,
        ext={},
    )
    assert event == Event(
        "add",
        BASE + "a%20b",
        "2026-03-21T11:22:00+01:00",
        "daily",
        "1.0",
        1_774_092_153_500,
        "cms:main-1",
        "",
        True,
    )


def test_null_is_not_given() -> None:
    """A field that is null counts as left out: in an update it keeps what is there."""
    nothing = dict.fromkeys(FIELDS[2:])
    assert checked(**nothing) == Event("add", BASE + "a")
    assert checked(op="update", **nothing) == Event("update", BASE + "a")


def test_the_callers_source_is_for_events_that_name_none() -> None:
    """An event's own word comes first."""
    assert checked("watch").source == "watch"
    assert checked("watch", source=None).source == "watch"
    assert checked("watch", source="cms").source == "cms"


def test_warnings_say_what_was_changed_or_left_out() -> None:
    """A fragment is dropped, a year is no day: accepted, and said."""
    event, warnings = check({"op": "add", "loc": BASE + "a#top", "lastmod": "1997"}, SITE, NOW)
    assert (event.loc, event.lastmod) == (BASE + "a", None)
    assert len(warnings) == 2
    assert "1997" in warnings[1]


@pytest.mark.parametrize(
    ("item", "rule", "named"),
    [
        (None, "event", "None"),
        ([], "event", "JSON object"),
        ("add", "event", "JSON object"),
        ({}, "op", "add, update, delete"),
        ({"op": "add"}, "type", ""),
        ({"op": "add", "loc": None}, "type", ""),
        ({"op": "add", "loc": 7}, "type", ""),
        ({"op": "ADD", "loc": BASE}, "op", "ADD"),
        ({"op": ["add"], "loc": BASE}, "op", "add"),
        ({"op": "add", "loc": "/a"}, "not-absolute", "/a"),
        ({"op": "add", "loc": "https://other.example/"}, "location", "other"),
        ({"op": "add", "loc": BASE, "lastmood": "2026-01-01"}, "field", "lastmod?"),
        ({"op": "add", "loc": BASE, "zzz": 1}, "field", "The fields are op, loc"),
        ({"op": "add", "loc": BASE, "lastmod": 20260101}, "lastmod", "20260101"),
        ({"op": "add", "loc": BASE, "lastmod": "2026-13-01"}, "lastmod", "2026-13-01"),
        ({"op": "add", "loc": BASE, "lastmod": ""}, "lastmod", ""),
        ({"op": "add", "loc": BASE, "changefreq": "Daily"}, "changefreq", "Daily"),
        ({"op": "add", "loc": BASE, "changefreq": ["daily"]}, "changefreq", ""),
        ({"op": "add", "loc": BASE, "priority": "0,5"}, "priority", "0,5"),
        ({"op": "add", "loc": BASE, "priority": True}, "priority", "True"),
        ({"op": "add", "loc": BASE, "at": 1_700_000_000}, "at", "1700000000"),
        ({"op": "add", "loc": BASE, "at": "2026-03"}, "at", "2026-03"),
        ({"op": "add", "loc": BASE, "at": "2026-03-21T11:22:22"}, "at", ""),
        ({"op": "add", "loc": BASE, "source": ""}, "source", "1 to 64"),
        ({"op": "add", "loc": BASE, "source": "a b"}, "source", "a b"),
        ({"op": "add", "loc": BASE, "source": "a\n"}, "source", ""),
        ({"op": "add", "loc": BASE, "source": "a" * 65}, "source", ""),
        ({"op": "add", "loc": BASE, "source": 5}, "source", "5"),
        ({"op": "add", "loc": BASE, "urgent": "yes"}, "urgent", "yes"),
        ({"op": "add", "loc": BASE, "urgent": 1}, "urgent", "1"),
        ({"op": "add", "loc": BASE, "ext": [], "strict": True}, "ext", "JSON object"),
        ({"op": "add", "loc": BASE, "ext": {"image": []}, "strict": True}, "ext", "images?"),
        ({"op": "add", "loc": BASE, "strict": 1}, "strict", "1"),
        ({"op": "add", "loc": BASE, "lang": ["en"]}, "lang", "en"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_its_name_and_a_sentence(
    item: object, rule: str, named: str
) -> None:
    """I8: each refusal has its loc, its rule and a detail that names the value."""
    found = refused(item)
    assert found.rule == rule
    assert named in found.detail
    assert "\n" not in found.detail
    assert found.detail.endswith((".", "?"))
    if isinstance(item, dict) and isinstance(item.get("loc"), str):
        assert found.loc == item["loc"]


def test_a_refused_field_names_the_normal_loc() -> None:
    """The loc is the one under which the site would list the page."""
    assert refused({"op": "add", "loc": "HTTPS://EXAMPLE.com/a b", "priority": 2}).loc == BASE + "a%20b"


@pytest.mark.parametrize("ahead", ["2026-09-21T14:18:20.001Z", "2099-01-01"])
def test_a_time_far_ahead_counts_as_now(ahead: str) -> None:
    """Clocks differ by five minutes at most; what is further ahead would win every race, and is warned of."""
    in_time = check({"op": "add", "loc": BASE, "at": "2026-09-21T14:18:20Z"}, SITE, NOW)
    assert (in_time.event.at, in_time.warnings) == (NOW + FUTURE_MS, ())
    event, (warning,) = check({"op": "add", "loc": BASE, "at": ahead}, SITE, NOW)
    assert event.at is None
    assert ahead in warning
    assert BASE in warning


def test_a_time_before_1970_is_the_epoch() -> None:
    """It has lost against everything, and no negative number reaches the log."""
    assert check_at("1969-12-31T23:59:59Z") == 0


def test_a_zone_may_be_assumed_for_at_as_for_lastmod() -> None:
    """The site's setting counts for both."""
    assert check_at("2026-03-21T11:22:33", "+01:00") == check_at("2026-03-21T10:22:33Z")


@pytest.mark.parametrize("name", ["a", "watch:pages", "db.main_1-x", "0", "a" * 64])
def test_names_of_sources(name: str) -> None:
    """Letters, digits and a few signs, up to 64."""
    assert check_source(name) == name


def test_what_is_wrong_in_an_extension_is_left_out_and_said() -> None:
    """The event is accepted with the rest; a strict one is refused."""
    item = {
        "op": "add",
        "loc": BASE + "a",
        "ext": {"images": ["/a.jpg", "https://x.example/b.jpg"], "foo": 1},
    }
    event, warnings = check(item, SITE, NOW)
    assert event.ext == '{"images":["https://x.example/b.jpg"]}'
    assert len(warnings) == 2
    found = refused(item | {"strict": True})
    assert (found.loc, found.rule, found.detail) == (BASE + "a", "ext", warnings[0])
    assert check(item | {"strict": False}, SITE, NOW) == (event, warnings)
    assert check(item | {"ext": {}, "strict": True}, SITE, NOW).warnings == ()


def test_an_update_says_of_extensions_what_it_names() -> None:
    """Null removes one; an empty object, and one of which nothing is right, say nothing."""
    image = "https://x.example/a.jpg"
    assert checked(op="update", ext={"videos": None}).ext == '{"videos":null}'
    assert checked(op="update", ext={"images": image}).ext == f'{{"images":["{image}"]}}'
    assert checked(op="update", ext={}).ext is None
    assert checked(op="add", ext={"videos": None}).ext == ""
    assert check({"op": "update", "loc": BASE, "ext": {"images": "/a"}}, SITE, NOW).event.ext is None


def test_a_delete_has_no_extensions() -> None:
    """There is nothing that they could say."""
    assert checked(op="delete", ext={"images": ["/a.jpg"]}).ext is None


def test_the_language_of_a_page_completes_its_alternates() -> None:
    """In a warning, as everything that is not as it was sent."""
    links = [{"hreflang": "de", "href": BASE + "b"}]
    event, (warning,) = check(
        {"op": "add", "loc": BASE, "lang": "en", "ext": {"alternates": links}}, SITE, NOW
    )
    assert event.ext is not None
    assert json.loads(event.ext) == {"alternates": [*links, {"hreflang": "en", "href": BASE}]}
    assert "was added as en" in warning


def test_the_limits_decide_how_long_a_videos_title_may_be() -> None:
    """100 characters under the strict limits."""
    video = {"title": "t" * 101, "thumbnail_loc": BASE, "description": "d", "content_loc": BASE + "v"}
    item = {"op": "add", "loc": BASE, "ext": {"videos": video}}
    assert check(item, SITE, NOW).event.ext == ""
    current = dataclasses.replace(SITE, limits=CURRENT)
    assert check(item, current, NOW).warnings == ()


@given(
    st.fixed_dictionaries(
        {"op": st.sampled_from(OPS), "loc": strategies.locs},
        optional={
            "lastmod": strategies.lastmods,
            "changefreq": strategies.changefreqs,
            "priority": strategies.priorities,
            "source": strategies.sources.filter(bool),
            "urgent": st.booleans(),
        },
    )
)
def test_what_is_accepted_reaches_the_log_as_one_record(item: dict[str, Any]) -> None:
    """Normal values pass unchanged, and no checked event can break the log's text."""
    event = check(item, SITE, NOW).event
    for name, value in item.items():
        assert getattr(event, name) == value
    record = encode(event)
    assert "\n" not in record
    assert decode(record).loc == item["loc"]


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.floats(), st.text(max_size=9)), st.lists, max_leaves=3
    )
)
def test_any_json_in_any_field_is_accepted_or_refused(value: object) -> None:
    """No value of the wrong type gets through as an error of another kind."""
    for field in (*FIELDS, "other"):
        try:
            check({"op": "add", "loc": BASE + "a"} | {field: value}, SITE, NOW)
        except Refused as error:
            assert error.rule
            assert error.detail


_locs: st.SearchStrategy[Any] = st.one_of(
    strategies.locs,
    st.sampled_from(
        [BASE, BASE + "a/../b", BASE + ".", BASE + "%2e", "https://other.example.org/", "", 5, None, [], {}]
    ),
)
_dates: st.SearchStrategy[Any] = st.one_of(
    strategies.lastmods,
    st.sampled_from(
        ["2026", "2026-02-30", "2026-01-01T10:00", "", "2026-01-01" * 20, None, 5, 1.5, [], True]
    ),
)
_items = st.one_of(
    st.fixed_dictionaries(
        {"op": st.sampled_from([*OPS, "put", None, 1, []]), "loc": _locs},
        optional={
            "lastmod": _dates,
            "priority": st.just(0.5),
            "sourec": st.just("x"),
            "source": st.just("cms"),
        },
    ),
    st.sampled_from(
        [None, [], "op", 1, {"op": "add"}, {"loc": BASE}, {"op": "add", "lastmod": "2026-01-01"}]
    ),
)


@given(_items, st.sampled_from([None, "cms"]))
def test_what_is_read_at_once_is_what_is_read_field_by_field(item: Any, source: str | None) -> None:
    """A field that says nothing makes `check` read every field: it comes to the same."""

    def result(item: Any) -> object:
        try:
            return check(item, SITE, NOW, source=source)
        except Refused as refused:
            return refused.loc, refused.rule, refused.detail

    longer = {**item, "ext": None} if isinstance(item, dict) else item
    assert result(item) == result(longer)

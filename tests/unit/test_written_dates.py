"""Dates as people write them in front matter."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.dates import date_text, instant
from sitemap_store.model.dates import instant_ms, parse_lastmod

ROME = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("written", "zone", "lastmod"),
    [
        ("2015-10-01", None, "2015-10-01"),
        ("2015-10-01", "+08:00", "2015-10-01"),
        ("2015-10-01 01:00:00", "+02:00", "2015-10-01T01:00:00+02:00"),
        ("2015-10-01 01:00:00", None, "2015-10-01"),
        ("2015-10-01 01:00:00 +0800", None, "2015-10-01T01:00:00+08:00"),
        ("2015-10-01 01:00:00 +0800", "+02:00", "2015-10-01T01:00:00+08:00"),
        ("2015-10-01T01:00:00Z", None, "2015-10-01T01:00:00Z"),
        ("2015-10-01T01:00:00.25Z", None, "2015-10-01T01:00:00.25Z"),
        ("2015-10-01t01:00z", None, "2015-10-01T01:00:00Z"),
        ("2015-10-01 1:05 UTC", None, "2015-10-01T01:05:00Z"),
        ("2015-10-01 01:00:00 -3", None, "2015-10-01T01:00:00-03:00"),
        ("2017-2-5", None, "2017-02-05"),
        ("2017/02/05", None, "2017-02-05"),
        (" 2017-02-05 ", None, "2017-02-05"),
        ("03/04/2021", None, ""),
        ("2021-04", None, ""),
        ("2021", None, ""),
        (20210403, None, ""),
        ("0000-00-00", None, ""),
        ("0001-01-01T00:00:00Z", None, ""),
        ("2021-02-29", None, ""),
        ("2021-02-28 25:00:00", "Z", ""),
        ("2021-02-28 12:00:00 +1500", None, ""),
        ("yesterday", None, ""),
        ("", None, ""),
        (None, None, ""),
        (["2021-01-01"], None, ""),
        (date(2015, 10, 1), None, "2015-10-01"),
        (datetime(2015, 10, 1, 1, tzinfo=ROME), None, "2015-10-01T01:00:00+01:00"),
        (datetime(2015, 10, 1, 1, tzinfo=UTC), None, "2015-10-01T01:00:00Z"),
        ("2015-07-01 01:00:00", "Europe/Berlin", "2015-07-01T01:00:00+02:00"),
        (datetime(2015, 10, 1, 1), "Z", "2015-10-01T01:00:00Z"),  # noqa: DTZ001 - as YAML gives it
        (datetime(2015, 10, 1, 1), None, "2015-10-01"),  # noqa: DTZ001 - as YAML gives it
    ],
)
def test_a_date_is_what_was_meant_or_left_out(written: object, zone: str | None, lastmod: str) -> None:
    """The day never shifts, an offset is kept, and what can't be told for certain is left out."""
    assert date_text(written, zone) == lastmod


@pytest.mark.parametrize(
    ("written", "zone", "utc"),
    [
        ("2030-01-01", None, "2030-01-01T00:00:00Z"),
        ("2030-01-01", "+08:00", "2030-01-01T00:00:00+08:00"),
        ("2030-07-01", "Europe/Berlin", "2030-07-01T00:00:00+02:00"),
        ("2030-01-01 12:00", None, "2030-01-01T12:00:00Z"),
        ("2030-01-01 12:00", "-05:00", "2030-01-01T12:00:00-05:00"),
    ],
)
def test_a_day_begins_at_its_midnight_in_the_sites_zone(written: str, zone: str | None, utc: str) -> None:
    """A page that is to come out on a day comes out when that day begins for the site."""
    assert instant(written, zone) == instant_ms(utc)


def test_what_is_no_date_is_no_instant() -> None:
    """0 stands for none."""
    assert instant("soon", None) == 0
    assert instant(None, "Z") == 0


@given(st.text(max_size=40) | st.from_regex(r"[0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}[ T]?[0-9:+ Z-]*"))
def test_whatever_is_written_the_result_is_a_lastmod_or_nothing(text: str) -> None:
    """No text makes it raise, and what it gives passes the sitemap's own check unchanged."""
    found = date_text(text, "+01:00")
    assert found == "" or parse_lastmod(found).text == found

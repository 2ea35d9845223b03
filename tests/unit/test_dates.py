"""lastmod and instants."""

import datetime
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sitemap_store.errors import BadSetting, Refused
from sitemap_store.model.dates import format_instant, instant_ms, parse_lastmod

FIRST_MS = -62_135_596_800_000  # 0001-01-01T00:00:00Z
LAST_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z

KEPT = [
    "2026-03-21",
    "2026-03-31",
    "2024-02-29",
    "2000-02-29",
    "0001-01-01",
    "9999-12-31",
    "2026-03-21T11:22:22Z",
    "2026-03-21T11:22:22+01:00",
    "2026-03-21T11:22:22-00:00",
    "2026-03-21T11:22:22-14:00",
    "2026-03-21T11:22:22+14:00",
    "2026-03-21T11:22:22+05:45",
    "2026-03-21T00:00:00Z",
    "2026-03-21T23:59:59Z",
    "2024-02-29T23:59:59.123456789-13:59",
    "2026-03-21T11:22:22.5Z",
    "2026-03-21T11:22:22.000Z",
]

REFUSED = [
    *("", " ", "2026-03-21 ", " 2026-03-21", "2026-03-21\n", "2026-03-21T11:22:22Z\n"),
    *("2026-13-01", "2026-00-01", "2026-01-00", "2026-02-29", "1900-02-29", "2026-04-31"),
    *("0000-01-01", "0000", "0000-00-00", "-2026-03-21", "12026-03-21", "2026-13", "2026-00"),
    *("2026-3-21", "2026-03-1", "20260321", "2026-W12-6", "2026-080", "21.03.2026", "03/04/2021"),
    *("2026-03-21T24:00:00Z", "2026-03-21T11:60:00Z", "2026-03-21T11:22:60Z"),
    *("2026-03-21T11:22:22+0100", "2026-03-21T11:22:22+01", "2026-03-21T11:22:22 +01:00"),
    *("2026-03-21T11:22:22+14:01", "2026-03-21T11:22:22-15:00", "2026-03-21T11:22:22+01:60"),
    *("2026-03-21 11:22:22Z", "2026-03-21t11:22:22Z", "2026-03-21T11:22:22z", "2026-03-21T"),
    *("2026-03-21T11Z", "2026-03-21Z", "2026-03-21+01:00", "2026-03-21T1:22:22Z"),
    *("2026-03-21T11:22:22,5Z", "2026-03-21T11:22:22.Z", "2026-03-21T11:22:22.1234567890Z"),
    *("2026-03-21T11:22.5Z", "٢٠٢٦-٠٣-٢١", "2026‐03‐21", "now", "infinity", "1774092142"),
]


@pytest.mark.parametrize("text", KEPT)
def test_a_whole_date_is_kept_as_given(text: str) -> None:
    """A date or a time with seconds and a zone is written as it came, fraction and zone too."""
    assert parse_lastmod(text) == (text, None)


@pytest.mark.parametrize("text", REFUSED)
def test_a_date_that_a_sitemap_cannot_hold_is_refused(text: str) -> None:
    """The refusal names the value and has the one rule, whichever part of the date is wrong."""
    with pytest.raises(Refused) as caught:
        parse_lastmod(text)
    assert caught.value.rule == "lastmod"
    assert repr(text) in caught.value.detail


@pytest.mark.parametrize("value", [None, 0, 20260321, b"2026-03-21", datetime.date(2026, 3, 21)])
def test_what_is_no_text_is_no_lastmod(value: object) -> None:
    """A value of another type is refused by its type's name."""
    with pytest.raises(Refused, match=type(value).__name__):
        parse_lastmod(value)


@pytest.mark.parametrize("text", ["1997", "1997-07", "2026-12"])
def test_a_year_or_a_month_alone_is_left_out_with_a_warning(text: str) -> None:
    """W3C allows it and the XSD does not: no day is made up for it."""
    written, warning = parse_lastmod(text)
    assert written is None
    assert warning is not None
    assert repr(text) in warning


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-03-21T11:22+01:00", "2026-03-21T11:22:00+01:00"),
        ("2026-03-21T11:22Z", "2026-03-21T11:22:00Z"),
        ("2024-02-29T11:22Z", "2024-02-29T11:22:00Z"),
    ],
)
def test_missing_seconds_are_completed(text: str, written: str) -> None:
    """W3C allows hours and minutes alone; the XSD wants the seconds."""
    assert parse_lastmod(text) == (written, None)


@pytest.mark.parametrize("text", ["2026-03-21T11:22:22", "2026-03-21T11:22", "2026-03-21T11:22:22.5"])
def test_a_time_without_a_zone_is_refused_and_the_setting_named(text: str) -> None:
    """An hour without a zone could be any of 27 instants; the operator may say which."""
    with pytest.raises(Refused, match="assume_timezone"):
        parse_lastmod(text)


@pytest.mark.parametrize(
    ("text", "zone", "written"),
    [
        ("2026-03-21T11:22:22", "+01:00", "2026-03-21T11:22:22+01:00"),
        ("2026-03-21T11:22:22.50", "Z", "2026-03-21T11:22:22.50Z"),
        ("2026-03-21T11:22", "-03:30", "2026-03-21T11:22:00-03:30"),
        ("2026-03-21T11:22:22Z", "+01:00", "2026-03-21T11:22:22Z"),
        ("2026-03-21", "+01:00", "2026-03-21"),
        ("2024-02-29", "+01:00", "2024-02-29"),
        ("2026-01-21T11:22:22", "Europe/Berlin", "2026-01-21T11:22:22+01:00"),
        ("2026-07-21T11:22", "Europe/Berlin", "2026-07-21T11:22:00+02:00"),
        ("2026-07-21T11:22:22.5", "America/St_Johns", "2026-07-21T11:22:22.5-02:30"),
        ("2026-07-21T11:22:22", "UTC", "2026-07-21T11:22:22Z"),
        ("2026-01-21T11:22:22", "Europe/London", "2026-01-21T11:22:22Z"),
        ("2026-10-25T02:30:00", "Europe/Berlin", "2026-10-25T02:30:00+02:00"),
        ("2026-03-29T02:30:00", "Europe/Berlin", "2026-03-29T02:30:00+01:00"),
    ],
)
def test_the_assumed_zone_fills_only_a_missing_one(text: str, zone: str, written: str) -> None:
    """A zone that was given stays, a date stays the same day; of an hour that comes twice it is the first."""
    assert parse_lastmod(text, assume_zone=zone) == (written, None)


@pytest.mark.parametrize("zone", ["", "Europe/Atlantis", "+1", "+0100", "+15:00", "z", "+01:00\n", "../x"])
def test_an_assumed_zone_that_is_none_is_the_operators_mistake(zone: str) -> None:
    """The setting is named, not the event blamed."""
    with pytest.raises(BadSetting) as caught:
        parse_lastmod("2026-03-21T11:22:22", assume_zone=zone)
    assert caught.value.setting == "assume_timezone"


@given(st.dates(), st.times(), st.integers(-840, 840), st.integers(0, 9))
def test_every_date_of_the_calendar_is_accepted(
    day: datetime.date, time: datetime.time, offset: int, digits: int
) -> None:
    """Any day, time, zone and length of fraction that the rules allow is kept as given."""
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"
    fraction = f".{time.microsecond:09d}"[: digits + 1] if digits else ""
    clock = time.replace(microsecond=0).isoformat()
    for text in (day.isoformat(), f"{day}T{clock}{fraction}{zone}", f"{day}T{clock}{fraction}Z"):
        assert parse_lastmod(text) == (text, None)


@given(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32))
def test_a_day_is_accepted_when_and_only_when_the_calendar_has_it(year: int, month: int, day: int) -> None:
    """The standard library's calendar and ours agree on every day and on every day that is not."""
    text = f"{year:04d}-{month:02d}-{day:02d}"
    try:
        datetime.date(year, month, day)
    except ValueError:
        with pytest.raises(Refused):
            parse_lastmod(text)
    else:
        assert parse_lastmod(text).text == text


DATE_LIKE = st.from_regex(
    r"[0-9]{4}-[0-3][0-9]-[0-3][0-9]([Tt ][0-2][0-9]:[0-6][0-9](:[0-6][0-9](\.[0-9]{0,10})?)?"
    r"(Z|z|[+-][01][0-9]:?[0-6][0-9])?)?",
    fullmatch=True,
)


@given(DATE_LIKE | st.text())
def test_what_is_written_is_a_whole_date_that_is_accepted_again(text: str) -> None:
    """Whatever comes is refused, or left out with a warning, or written so that it stays."""
    try:
        written, warning = parse_lastmod(text, assume_zone="+02:00")
    except Refused as refused:
        assert refused.rule == "lastmod"
        return
    assert (written is None) == (warning is not None)
    if written is not None:
        assert re.fullmatch(
            r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
            r"(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2}))?",
            written,
        )
        assert parse_lastmod(written) == (written, None)
        instant_ms(written)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.001Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_774_092_142_500, "2026-03-21T11:22:22.500Z"),
        (1_774_092_142_000, "2026-03-21T11:22:22Z"),
        (FIRST_MS, "0001-01-01T00:00:00Z"),
        (LAST_MS, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_an_instant_is_written_in_utc_with_milliseconds_where_there_are_any(ms: int, text: str) -> None:
    """Milliseconds appear only when they are not 000, and reading gives the instant back."""
    assert format_instant(ms) == text
    assert instant_ms(text) == ms


@given(st.integers(FIRST_MS, LAST_MS), st.integers(FIRST_MS, LAST_MS))
@example(1_000, 1_001)
def test_instants_with_all_milliseconds_sort_as_their_times_do(one: int, other: int) -> None:
    """Written with milliseconds in any case, the order of texts is the order of instants."""
    texts = [format_instant(ms, always_milliseconds=True) for ms in (one, other)]
    assert (texts[0] < texts[1]) == (one < other)
    assert [instant_ms(text) for text in texts] == [one, other]


@given(st.integers(FIRST_MS, LAST_MS))
def test_an_instant_survives_writing_and_reading(ms: int) -> None:
    """What is written is a valid lastmod and reads back as the same millisecond."""
    text = format_instant(ms)
    assert parse_lastmod(text) == (text, None)
    assert instant_ms(text) == ms


@pytest.mark.parametrize("ms", [FIRST_MS - 1, LAST_MS + 1, 10**18, -(10**40)])
def test_an_instant_outside_four_digit_years_is_refused(ms: int) -> None:
    """A file's time may be any number; it is refused and nothing crashes."""
    with pytest.raises(Refused, match="0001 to 9999"):
        format_instant(ms)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-03-21", "2026-03-21T00:00:00Z"),
        ("2026-03-21T11:22+01:00", "2026-03-21T10:22:00Z"),
        ("2026-03-21T11:22:22-03:30", "2026-03-21T14:52:22Z"),
        ("2026-03-21T11:22:22.9999Z", "2026-03-21T11:22:22.999Z"),
        ("2026-03-21T11:22:22.123456789Z", "2026-03-21T11:22:22.123Z"),
        ("2026-03-21T11:22:22.5+00:00", "2026-03-21T11:22:22.500Z"),
        ("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"),
        ("2024-02-29T00:00:00+14:00", "2024-02-28T10:00:00Z"),
    ],
)
def test_an_instant_is_read_with_its_zone(text: str, utc: str) -> None:
    """Zones are applied, fractions beyond the millisecond cut, dates begin at midnight UTC."""
    assert format_instant(instant_ms(text)) == utc


def test_the_first_and_the_last_times_of_all_zones_are_instants() -> None:
    """The 14 hours before year 1 and after year 9999 are numbers like any other."""
    assert instant_ms("0001-01-01T00:00:00+14:00") == FIRST_MS - 14 * 3_600_000
    assert instant_ms("9999-12-31T23:59:59.999-14:00") == LAST_MS + 14 * 3_600_000


@pytest.mark.parametrize("value", ["1997", "1997-07", "2026-03-21T11:22:22", "2026-W12-6", "", None])
def test_what_names_no_instant_is_refused(value: object) -> None:
    """A month is no instant, and neither is a time without a zone."""
    with pytest.raises(Refused) as caught:
        instant_ms(value)
    assert caught.value.rule == "lastmod"

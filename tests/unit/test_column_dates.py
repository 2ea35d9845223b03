"""Database values as lastmod."""

import pytest

from producers.dates import Kind, NoDate, Numbers, lastmod_of

BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("value", "kind", "zone", "lastmod"),
    [
        ("2026-03-21 11:22:33+00", "instant", "", "2026-03-21T11:22:33Z"),
        ("2026-03-21 11:22:33.120000+00", "instant", "", "2026-03-21T11:22:33.12Z"),
        ("2026-03-21 11:22:33.000000", "instant", BERLIN, "2026-03-21T11:22:33Z"),
        ("2026-07-01 12:00:00", "local", BERLIN, "2026-07-01T12:00:00+02:00"),
        ("2026-01-01 12:00:00.5", "local", BERLIN, "2026-01-01T12:00:00.5+01:00"),
        ("2026-10-25 02:30:00", "local", BERLIN, "2026-10-25T02:30:00+02:00"),
        ("2026-03-29 02:30:00", "local", BERLIN, "2026-03-29T02:30:00+01:00"),
        ("2026-07-01 12:00:00", "local", "-05:30", "2026-07-01T12:00:00-05:30"),
        ("2026-07-01 12:00:00", "local", "UTC", "2026-07-01T12:00:00Z"),
        ("2026-07-01", "day", "", "2026-07-01"),
        ("2026-07-01T12:00:00+0800", "text", "", "2026-07-01T12:00:00+08:00"),
        ("2026-07-01 12:00", "any", "Z", "2026-07-01T12:00:00Z"),
        (20260321, "any", "", "2026-03-21"),
        ("20260321", "text", "", "2026-03-21"),
        ("20260321", "integer", "", "2026-03-21"),
        (20260321113000, "integer", BERLIN, "2026-03-21T11:30:00+01:00"),
        ("202607211130", "text", BERLIN, "2026-07-21T11:30:00+02:00"),
        (2461120.97917, "any", "", "2026-03-21T11:30:00.288Z"),
        ("2440587.5", "number", "", "1970-01-01T00:00:00Z"),
        (1790000000123456, "any", "", "2026-09-21T14:13:20.123Z"),
        (100000000000, "integer", "", "1973-03-03T09:46:40Z"),
        ("1790000000", "integer", "", "2026-09-21T14:13:20Z"),
        (1790000000.5, "any", "", "2026-09-21T14:13:20.500Z"),
        (1790000000123, "any", "", "2026-09-21T14:13:20.123Z"),
        ("1790000000", "text", "", "2026-09-21T14:13:20Z"),
        (b"2026-07-01", "any", "", "2026-07-01"),
    ],
)
def test_dates_are_written_exactly(value: object, kind: Kind, zone: str, lastmod: str) -> None:
    """Instants keep their instant, local times get their zone's offset, days stay days."""
    assert lastmod_of(value, kind, zone) == lastmod


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "infinity",
        "-infinity",
        "0044-03-15 BC",
        "0000-00-00",
        "0000-00-00 00:00:00",
        "2026-02-30",
        "2026-00-00 00:00:00",
        "12026-01-01 00:00:00+00",
        "2026-01-01 25:00:00",
        "yesterday",
        20260230,
        float("inf"),
        float("nan"),
        10**30,
    ],
)
@pytest.mark.parametrize("kind", ["instant", "local", "day", "any"])
def test_what_is_no_date(value: object, kind: Kind) -> None:
    """Zero dates, infinity and the like are none."""
    with pytest.raises(NoDate):
        lastmod_of(value, kind, BERLIN)


@pytest.mark.parametrize("value", [0, 1, -5, 20000, 45000.5, 99999999, "20261399", 7 * 10**9])
def test_a_number_that_may_count_anything_names_the_setting(value: object) -> None:
    """It gives no date, unless the setting says what it counts."""
    with pytest.raises(NoDate, match="lastmod_numbers"):
        lastmod_of(value, "any", "")


@pytest.mark.parametrize(
    ("value", "numbers", "lastmod"),
    [
        (0, "seconds", "1970-01-01T00:00:00Z"),
        (20260321, "seconds", "1970-08-23T11:52:01Z"),
        (20260321113000, "milliseconds", "2612-01-10T10:58:33Z"),
        (0.5, "julian", "-"),
        ("20260321", "digits", "2026-03-21"),
        (1790000000, "digits", "-"),
    ],
)
def test_the_setting_says_what_numbers_count(value: object, numbers: Numbers, lastmod: str) -> None:
    """Then they are never taken for something else."""
    if lastmod == "-":
        with pytest.raises(NoDate):
            lastmod_of(value, "any", "", numbers)
    else:
        assert lastmod_of(value, "any", "", numbers) == lastmod


def test_a_time_without_a_zone_needs_the_setting() -> None:
    """It is never taken for UTC."""
    with pytest.raises(NoDate, match="zone"):
        lastmod_of("2026-07-01 12:00:00", "local", "")

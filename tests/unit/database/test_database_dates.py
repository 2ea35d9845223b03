"""Database values as lastmod."""

import pytest

from producers.database.dates import Kind, NoDate, Zone, lastmod_of

BERLIN = Zone("Europe/Berlin")


@pytest.mark.parametrize(
    ("value", "kind", "zone", "lastmod"),
    [
        ("2026-03-21 11:22:33+00", "instant", None, "2026-03-21T11:22:33Z"),
        ("2026-03-21 11:22:33.120000+00", "instant", None, "2026-03-21T11:22:33.12Z"),
        ("2026-03-21 11:22:33.000000", "instant", BERLIN, "2026-03-21T11:22:33Z"),
        ("2026-07-01 12:00:00", "local", BERLIN, "2026-07-01T12:00:00+02:00"),
        ("2026-01-01 12:00:00.5", "local", BERLIN, "2026-01-01T12:00:00.5+01:00"),
        ("2026-10-25 02:30:00", "local", BERLIN, "2026-10-25T02:30:00+02:00"),
        ("2026-03-29 02:30:00", "local", BERLIN, "2026-03-29T02:30:00+01:00"),
        ("2026-07-01 12:00:00", "local", Zone("-05:30"), "2026-07-01T12:00:00-05:30"),
        ("2026-07-01 12:00:00", "local", Zone("UTC"), "2026-07-01T12:00:00Z"),
        ("2026-07-01", "day", None, "2026-07-01"),
        ("2026-07-01T12:00:00+0800", "text", None, "2026-07-01T12:00:00+08:00"),
        ("2026-07-01 12:00", "any", Zone("Z"), "2026-07-01T12:00:00Z"),
        (0, "any", None, "1970-01-01T00:00:00Z"),
        ("1790000000", "integer", None, "2026-09-21T14:13:20Z"),
        (1790000000.5, "any", None, "2026-09-21T14:13:20.500Z"),
        (1790000000123, "any", None, "2026-09-21T14:13:20.123Z"),
        ("1790000000", "text", None, "2026-09-21T14:13:20Z"),
        (b"2026-07-01", "any", None, "2026-07-01"),
    ],
)
def test_dates_are_written_exactly(value: object, kind: Kind, zone: Zone | None, lastmod: str) -> None:
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


def test_a_time_without_a_zone_needs_the_setting() -> None:
    """It is never taken for UTC."""
    with pytest.raises(NoDate, match="zone"):
        lastmod_of("2026-07-01 12:00:00", "local", None)


@pytest.mark.parametrize("name", ["Europe/Atlantis", "+25:00", "../etc/passwd", "summer"])
def test_zones_that_there_are_not(name: str) -> None:
    """They are refused when the source is read."""
    with pytest.raises(ValueError, match="zone"):
        Zone(name)

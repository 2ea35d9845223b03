"""changefreq and priority."""

import decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.errors import Refused
from sitemap_store.model.protocol import CHANGEFREQS
from sitemap_store.model.values import check_changefreq, check_priority


@pytest.mark.parametrize("word", CHANGEFREQS)
def test_each_of_the_seven_words_is_a_changefreq(word: str) -> None:
    """The protocol's words are taken as they stand."""
    assert check_changefreq(word) == word


@pytest.mark.parametrize("value", ["Daily", "", " daily", "daily\n", "bi-weekly", None, 1, ["daily"]])
def test_anything_else_is_no_changefreq(value: object) -> None:
    """Other words, other cases and other types are refused, and the way out is named."""
    with pytest.raises(Refused) as caught:
        check_changefreq(value)
    assert caught.value.rule == "changefreq"
    assert "always, hourly, daily" in caught.value.detail


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("1", "1.0"),
        ("1.0", "1.0"),
        ("1.000", "1.0"),
        ("0", "0.0"),
        ("0.0", "0.0"),
        ("0.5", "0.5"),
        ("0.50", "0.5"),
        (1, "1.0"),
        (0, "0.0"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (-0.0, "0.0"),
        ("0.80", "0.8"),
        ("1.00", "1.0"),
        (0.5, "0.5"),
        (0.8, "0.8"),
        (0.1, "0.1"),
    ],
)
def test_a_priority_is_written_with_one_decimal(value: object, written: str) -> None:
    """Text and JSON numbers in tenths are taken exactly."""
    assert check_priority(value) == written


@pytest.mark.parametrize("text", ["0.55", "0.05", "0.999", "0.51"])
def test_a_priority_finer_than_tenths_is_refused(text: str) -> None:
    """Nothing is rounded: the caller hears that one decimal is what there is."""
    with pytest.raises(Refused, match="tenths") as caught:
        check_priority(text)
    assert caught.value.rule == "priority"


@pytest.mark.parametrize(
    "value",
    [
        *("-0.1", "1.01", "NaN", "0,5", "5e-1", "", " 0.5", "0.5\n", "+0.5", "-0", "0_5", "٠.٥"),
        *("1.1", "2", "10", "0.", ".5", "00.5", "inf", "½", "0x0", "0.5 "),
        *(2, -1, 10**5000, 1.1, -0.1, 0.1 + 0.2, 1e-5, 1e300),
        *(float("nan"), float("inf"), True, False, None, b"0.5", [0.5], decimal.Decimal("0.5")),
    ],
    ids=lambda value: repr(value) if not isinstance(value, int) else "int",
)
def test_what_is_no_decimal_of_0_to_1_is_no_priority(value: object) -> None:
    """Other numbers, other spellings and other types are refused, in a sentence of one line."""
    with pytest.raises(Refused) as caught:
        check_priority(value)
    assert caught.value.rule == "priority"
    assert caught.value.loc == ""
    assert "\n" not in caught.value.detail
    assert len(caught.value.detail) < 200


@given(st.text() | st.decimals(allow_nan=False).map(str) | st.floats() | st.integers())
def test_a_priority_is_refused_or_its_exact_value_in_tenths(value: object) -> None:
    """Whatever comes, what goes out is 0.0, 0.1, … 1.0 and equal to what came in."""
    try:
        written = check_priority(value)
    except Refused as refused:
        assert refused.rule == "priority"
    else:
        assert written in {*(f"0.{tenth}" for tenth in range(10)), "1.0"}
        assert decimal.Decimal(str(value)) == decimal.Decimal(written)

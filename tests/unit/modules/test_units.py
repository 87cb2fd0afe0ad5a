"""Tests that one parser reads times as Slurm and as people write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.errors import UsageError
from batchcast.units import format_duration, parse_duration, parse_share, parse_span


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6h", 21600), ("6:00:00", 21600), ("360", 21600), ("0-6", 21600), ("0.25 days", 21600), ("6 hours", 21600),
        ("1h30m", 5400), ("1 h 30 min", 5400), ("90m", 5400), ("5400s", 5400), ("1d12h", 129600), ("2W", 1209600),
    ],
)  # fmt: skip
def test_slurm_and_everyday_forms_say_the_same(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["30m1h", "1h2h", "h", "1 fortnight", "1h30", "-5m", "6hx", "1.2.3h", "1h,30m"])
def test_what_is_no_time_is_refused_with_both_kinds_of_forms(text: str) -> None:
    with pytest.raises(UsageError, match=r"days-hours:minutes:seconds; or 90s"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["90", "1.5", ""])
def test_a_span_needs_its_unit(text: str) -> None:
    with pytest.raises(UsageError, match="not a duration with a unit"):
        parse_span(text)


@given(st.integers(0, 10**8))
def test_what_is_printed_is_read_back(seconds: int) -> None:
    assert parse_duration(format_duration(float(seconds))) == seconds
    assert math.isinf(parse_duration(format_duration(math.inf)))


@pytest.mark.parametrize("text", ["0", "1", "2", "100%", "-5%", "nan", "half", ""])
def test_no_share(text: str) -> None:
    with pytest.raises(UsageError, match="above 0 and below 1"):
        parse_share(text)

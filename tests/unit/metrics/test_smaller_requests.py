"""Tests the waits of jobs that requested less on the same days: reported only if the record has enough such jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from tests.forked import batchcast
from tests.unit.service.answers.test_efficiency import row, table

from batchcast.metrics.smaller_requests import Axis, Waited, compare_smaller_requests, interval

DAY = 86400


def naive_interval(values: list[float]) -> tuple[float, float] | None:
    """Return the medians that a two-sided sign test of 5 % does not reject, as order statistics."""
    n = len(values)
    places = [k for k in range(1, n + 1) if 2 * binom.cdf(k - 1, n, 0.5) <= 0.05]
    return (sorted(values)[max(places) - 1], sorted(values)[n - max(places)]) if places else None


@given(st.lists(st.integers(-50, 50).map(float), max_size=40))
def test_the_interval_is_that_of_the_sign_test(values: list[float]) -> None:
    found = interval(values)
    assert (found and (found[0], found[2])) == naive_interval(values)


def days(waits: list[tuple[float, float]], *, limit: float = 1.0, other: float = 1.0) -> tuple[list[Waited], ...]:
    """Return, for each day, a job that requests 10 h and a job that requests this share of 1 h, with other sizes and
    waits."""
    these = [Waited(day * DAY, "main", long, (36000.0, 4.0, 1e6)) for day, (long, _) in enumerate(waits)]
    rest = [
        Waited(day * DAY, "main", short, (3600.0 * limit, 4.0 * other, 1e6)) for day, (_, short) in enumerate(waits)
    ]
    return these, rest


def test_it_speaks_where_days_agree_in_either_direction() -> None:
    for long, short, sign in ((5000.0, 1000.0, 1), (1000.0, 5000.0, -1)):
        these, rest = days([(long, short)] * 6)
        found = compare_smaller_requests(these, these + rest, Axis.LIMIT, 3600.0)
        assert found is not None
        assert (found.less_s, found.days, found.jobs) == (4000.0 * sign, 6, 6)


@pytest.mark.parametrize(("waits", "more"), [
    ([(5000.0, 1000.0)] * 5, {}),  # there are too few days
    ([(5000.0, 1000.0)] * 6 + [(1000.0, 5000.0)] * 2, {}),  # the days disagree
    ([(5000.0, 4990.0)] * 9, {}),  # the difference is below a minute
    ([(5000.0, 1000.0)] * 9, {"limit": 0.3}),  # the other jobs requested far less than the advised limit
    ([(5000.0, 1000.0)] * 9, {"other": 4.0}),  # the other jobs have another size
])  # fmt: skip
def test_it_is_silent_where_the_record_cannot_tell(waits: list[tuple[float, float]], more: dict[str, float]) -> None:
    these, rest = days(waits, **more)
    assert compare_smaller_requests(these, these + rest, Axis.LIMIT, 3600.0) is None


def test_a_burst_of_one_day_is_one_piece_of_evidence() -> None:
    these, rest = days([(5000.0, 1000.0)])
    assert compare_smaller_requests(these * 500, (these + rest) * 500, Axis.LIMIT, 3600.0) is None


def test_the_report_says_it_beside_the_advice(tmp_path: Path) -> None:
    def job(number: int, name: str, wait: int, minutes: int) -> str:
        at = DAY * (number % 100) + 1000
        return row(str(number), name, Submit=at, Eligible=at + 500, Start=at + 500 + wait, End=at + 500 + wait + 3600,
                   TimelimitRaw=minutes)  # fmt: skip

    path = tmp_path / "jobs.txt"
    long, short = [job(k, "relax", 7200, 720) for k in range(8)], [job(100 + k, "short", 600, 60) for k in range(8)]
    path.write_text(table(*long, *short))
    said = batchcast("report", path).stdout
    assert (
        "on main that requested 38 min to 1 h 15 min waited 1 h 50 min less (1 h 50 min to 1 h 50 min, 8 days)" in said
    )
    path.write_text(table(*long))
    assert "on the same days" not in batchcast("report", path).stdout

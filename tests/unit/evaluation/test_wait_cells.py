"""Tests the cells of heat maps against plain loops: medians, the log's time zone, and the classes of the service's
page."""

from __future__ import annotations

import statistics

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchcast.evaluation.calendar import by_size, median_cells, weekday_hour
from batchcast.metrics.wait import LIMITS, SIZES, class_of
from batchcast.table import LogInfo, Trace
from batchcast.trace.select import parse_date, zone

ROWS = st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 3), st.one_of(st.none(), st.floats(0, 1e6))), max_size=60)


@given(ROWS, st.integers(1, 5))
def test_counts_and_medians_are_those_of_plain_loops(rows: list[tuple[int, int, float | None]], least: int) -> None:
    row, column = (np.array([one[k] for one in rows], int) for k in (0, 1))
    values = np.array([np.nan if one[2] is None else one[2] for one in rows], float)
    cells = median_cells(row, column, values, (3, 4), least)
    for r in range(3):
        for c in range(4):
            there = [v for a, b, v in rows if (a, b) == (r, c) and v is not None]
            assert cells.jobs[r, c] == len(there)
            if len(there) >= least:
                assert cells.median[r, c] == statistics.median(there)
            else:
                assert np.isnan(cells.median[r, c])


def test_the_hour_is_that_of_the_logs_zone_before_and_after_the_clocks_change() -> None:
    where = zone("Europe/Berlin")
    dates = ("2026-03-28T23:30", "2026-03-29T03:10", "2026-10-25T12:00")
    instants = [parse_date(date, where) for date in dates]
    log = Trace.from_arrays(
        {"submit_time": [at - instants[0] for at in instants]},
        LogInfo(unix_start=instants[0], timezone="Europe/Berlin"),
    )
    day, hour = weekday_hour(log)
    assert day.tolist() == [5, 6, 6]
    assert hour.tolist() == [23, 3, 12]


@given(st.lists(st.tuples(st.integers(1, 200), st.integers(-1, 100_000)), min_size=1, max_size=30))
def test_sizes_and_limits_are_the_classes_of_the_services_page(jobs: list[tuple[int, int]]) -> None:
    log = Trace.from_arrays({"submit_time": np.arange(len(jobs), dtype=float), "req_procs": [p for p, _ in jobs],
                             "req_time": [float(t) for _, t in jobs]})  # fmt: skip
    cells = by_size(log, np.ones(len(jobs)))
    expected = np.zeros((len(SIZES), len(LIMITS)), int)
    for procs, limit in jobs:
        if limit > 0:
            expected[class_of(procs, SIZES), class_of(limit, LIMITS)] += 1
    assert cells.jobs.tolist() == expected.tolist()

"""Tests that the shortest of several mean waits is corrected for having been selected."""

from __future__ import annotations

import numpy as np
import pytest

from batchcast.evaluation.differences import Comparison
from batchcast.evaluation.findings import ScheduleRow, find, optimism
from batchcast.evaluation.validity import Verdict
from batchcast.metrics.paired import PairedDifference

WEEK = 7 * 86400.0


def test_the_best_of_many_equal_schedules_is_corrected_to_no_gain() -> None:
    """Forty schedules with no real difference: the shortest seems shorter by chance, and the correction removes
    that."""
    rng = np.random.default_rng(3)
    week = np.repeat(np.arange(40), 50)
    changes = {str(k): rng.normal(0.0, 300.0, 40)[week] for k in range(40)}
    apparent = min(float(one.mean()) for one in changes.values())
    assert apparent < -80.0
    assert apparent + optimism(changes, week * WEEK) > -40.0


def test_a_schedule_that_is_best_in_both_halves_keeps_its_gain() -> None:
    week = np.repeat(np.arange(8), 5) * WEEK
    changes = {"good": np.full(40, -100.0), "bad": np.full(40, 10.0)}
    assert optimism(changes, week) == 0.0


def test_jobs_that_one_schedule_left_out_do_not_count() -> None:
    week = np.repeat(np.arange(8), 5) * WEEK
    other = np.where(np.arange(40) < 20, np.nan, -5.0)
    assert optimism({"good": np.full(40, -100.0), "other": other}, week) == 0.0
    assert optimism({"one": np.full(40, np.nan), "other": other}, week) == 0.0


@pytest.mark.parametrize(("correction", "named"), [(0.0, True), (30.0, True), (60.0, False)])
def test_a_gain_that_the_correction_takes_back_is_not_recommended(correction: float, named: bool) -> None:
    change = Comparison(
        500.0, 0.9, 1.0, 0.0, differences={"mean_wait_s": PairedDifference(-100.0, -150.0, -50.0, 9, 20).stated()}
    )
    rows = [
        ScheduleRow("easy", "requested", {"jobs": 9, "mean_wait_s": 600.0}, None),
        ScheduleRow("easy", "last_2", {"jobs": 9, "mean_wait_s": 500.0}, None, comparison=change),
        ScheduleRow("easy", "kernel", {"jobs": 9, "mean_wait_s": 510.0}, None, comparison=change),
    ]
    found = find(rows, Verdict.CLOSE, lambda one, other: None, lambda rows: correction, 20.0)
    assert found is not None
    assert (found.best is not None) is named
    if found.gain is not None:
        change = found.gain.change
        assert (change.value, change.low, change.high) == (-100.0 + correction, -150.0 + correction, -50.0 + correction)
        assert found.gain.candidates == 2

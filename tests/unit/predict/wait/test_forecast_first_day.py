"""Tests `forecast` on a site without history: two hundred jobs in a growing queue, scored from job 50 on."""

from __future__ import annotations

import numpy as np
import pytest

from batchcast.evaluation.replay import replay
from batchcast.machines.machine import Machine, homogeneous
from batchcast.predict.protocol import Grounds
from batchcast.predict.registry import make
from batchcast.predict.wait.forecast import Forecast
from batchcast.simulation.simulate import simulate
from batchcast.table import Trace

JOBS, PROCS = 200, 8.0


def busy_day(seed: int, to_start: float) -> Trace:
    """Users who repeat jobs and pad limits, under EASY; every job occupies its processors `to_start` seconds longer
    than it runs, as with a real scheduler's delay before the next start, which no log shows."""
    rng = np.random.default_rng(seed)
    habit = rng.integers(0, 6, JOBS)
    wide, typical, padding = rng.integers(1, 5, 6), rng.uniform(40.0, 300.0, 6), rng.choice([1.5, 3.0, 6.0], 6)
    run = np.maximum(typical[habit] * rng.lognormal(0.0, 0.4, JOBS), 20.0).round()
    limit = np.maximum(np.ceil(typical * padding / 300.0)[habit] * 300.0 + 300.0, run)
    columns = {
        "job_id": range(1, JOBS + 1),
        "submit_time": np.sort(rng.uniform(0.0, 75.0 * JOBS, JOBS)).round(),
        "req_procs": 2.0 * wide[habit],
        "user_id": habit % 2,
    }
    held = simulate(
        Trace.from_arrays({**columns, "run_time": run + to_start, "req_time": limit + to_start}), "easy", total=PROCS
    )
    return Trace.from_arrays({**columns, "run_time": run, "req_time": limit, "wait_time": held.wait_time})


@pytest.mark.parametrize(("to_start", "kept"), [(0.0, (0.85, 1.0)), (60.0, (0.8, 1.0))])
def test_bounds_hold_and_the_likely_time_is_better_than_the_last_waits(to_start, kept) -> None:
    coverage, ratio = [], []
    for seed in (1, 2, 3):
        log = busy_day(seed, to_start)
        said = replay(
            log, {name: make("wait", name) for name in ("forecast", "recent_wait")}, target="wait_time", total=PROCS
        )
        later, wait = slice(50, None), log.wait_time[50:]
        forecast = said["forecast"]
        by_90 = forecast.quantiles[later, forecast.levels.index(0.9)]
        coverage.append(float(np.mean(wait <= by_90)))
        error, other = (np.median(np.abs(said[name].points[later] - wait)) for name in ("forecast", "recent_wait"))
        ratio.append(float(error / other))
        assert Grounds.SIMULATION in set(forecast.grounds[50:])
        assert Grounds.MODEL not in set(forecast.grounds), "no model is fitted before 500 submissions"
    assert kept[0] <= np.mean(coverage) <= kept[1], coverage
    assert np.mean(ratio) < 0.75, ratio


@pytest.mark.parametrize("machine", [None, homogeneous(4, 4, 4000.0)])
def test_equal_jobs_of_the_same_user_in_front_are_counted_at_submission(machine: Machine | None) -> None:
    """On a young site, the 29th of a user's equal jobs was predicted to start in 20 s; it waited for hours.

    Until then every job on the 16 processors had started at once. Four of the equal jobs run at a time, an hour each.
    """
    before, burst = 80, 32
    submit = [*(600.0 * k for k in range(before)), *(600.0 * before + k for k in range(burst))]
    waits = [*(1.0 for _ in range(before)), *(max(k // 4 * 3600.0 + 1 - k, 1.0) for k in range(burst))]
    log = Trace.from_arrays({
        "job_id": range(1, before + burst + 1), "submit_time": submit, "wait_time": waits,
        "run_time": [120.0] * before + [3600.0] * burst, "req_time": [600.0] * before + [7200.0] * burst,
        "req_procs": [1.0] * before + [4.0] * burst, "user_id": [0] * before + [1] * burst,
    })  # fmt: skip
    points = Forecast(machine=machine).predict_trace(log, total=16.0).points[before:]
    assert all(points[:4] < 60.0)
    assert np.all(np.diff(points[4:]) > 0), "each is told later than the one in front"
    assert np.all(points[8:] > 0.5 * log.wait_time[before + 8 :])

"""Tests the coverage of wait intervals, for all jobs and for jobs with a predicted wait."""

import numpy as np

from batchcast.evaluation.wait import Scored, chance_figures
from batchcast.events.recorded import Forecasts
from batchcast.predict.hazard.bins import ENDS_S


def test_intervals_are_judged_apart_for_jobs_that_were_told_to_wait():
    """Ninety jobs are predicted not to wait and do not; ten are predicted to wait two hours and wait five, outside
    every interval."""
    long = np.arange(100) >= 90
    wait = np.where(long, 18_000.0, 0.0)
    chances = np.where(long[:, None], np.append(ENDS_S > 7200.0, True), 1.0)
    chances[~long, 0] = 0.5
    told = np.where(long, 7200.0, 1.0)
    forecasts = Forecasts(points=told, levels=(), quantiles=np.empty((100, 0)), basis=[""] * 100)
    figures = chance_figures(Scored("", forecasts, chances), wait, np.ones(100), 3600.0)
    assert figures["told_10min_jobs"] == figures["told_1h_jobs"] == 10
    assert (figures["told_10min_80"], figures["told_1h_90"]) == (0.0, 0.0)
    assert figures["interval_80"] > 0.4
    assert figures["told_4h_jobs"] == 0
    assert np.isnan(figures["told_4h_80"])
    assert np.isnan(chance_figures(Scored("", forecasts, None), wait, np.ones(100), 3600.0)["told_10min_80"])

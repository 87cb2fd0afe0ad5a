"""Tests suggested limits by a predictor that is refitted."""

import math

import pytest

from batchcast.events.event import End
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.recommend import LimitAdvice


def test_a_predictor_that_is_refitted_is_trained_where_it_advises_limits() -> None:
    """The driver must find `refit` on the suggestion; otherwise a regression would always answer with its fallback."""
    advice = LimitAdvice("bayesian_ridge:features=core_num+encut,min_jobs=20")
    state = SystemState()
    for row in range(60):
        cutoff = 300.0 if row % 2 else 500.0
        job = JobRequest(row, row, float(row), 4.0, 36000.0, math.nan, user_id="ada", job_name="relax",
                         extra={"encut": cutoff})  # fmt: skip
        advice.observe(End(float(row), job, cutoff * 10, 0.0), state)
        if row % advice.refit_every_jobs == 0:
            advice.refit(float(row))
    points = [
        advice.predict(JobRequest(99, 99, 99.0, 4.0, 36000.0, math.nan, user_id="ada", job_name="relax",
                                  extra={"encut": cutoff}), state).point
        for cutoff in (300.0, 500.0)
    ]  # fmt: skip
    assert points == pytest.approx([3000.0, 5000.0], rel=0.01)

"""Tests the effect of each policy setting, computed from pairs of plans, and the plans on the frontier."""

from __future__ import annotations

from typing import Any

import pytest

from batchcast.sweep.compare import ablation, compare, word_between

pl = pytest.importorskip("polars")
LONG = "easy:order=sjf,first_after=48h,refresh=yes"
PLANS = [("easy", "requested", 50.0, 100.0), ("easy:order=sjf,first_after=48h", "kernel", 30.0, 300.0),
         (LONG, "kernel", 20.0, 200.0), (LONG, "kernel:point=geometric", 24.0, 100.0),
         ("easy-sjbf", "actual", 10.0, 90.0)]  # fmt: skip


def study(replicates: int = 3) -> Any:
    """Results in which a plan's figures grow with the replicate's number."""
    rows = [
        {"log": "a", "period": "", "settings": "", "policy": policy, "predictor": predictor, "replicate": k, "jobs": 9,
         "mean_bounded_slowdown": slowdown * k, "geometric_mean_bounded_slowdown": slowdown, "mean_wait_s": 1.0,
         "p99_wait_s": longest / 2, "max_wait_s": longest * k, "utilization": 0.5,
         "user": [0], "user_jobs": [60], "user_wait_s": [60.0 * slowdown],
         "job_wait_s": None, "job_bounded_slowdown": None, "job_group": None}
        for k in range(1, replicates + 1)
        for policy, predictor, slowdown, longest in PLANS
    ]  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def test_pairs_that_differ_by_one_word() -> None:
    rows = {(row["policy"], row["predictor"], row["without"]): row for row in ablation(study())}
    assert set(rows) == {(LONG, "kernel", "refresh=yes"), (LONG, "kernel:point=geometric", "kernel point=geometric")}
    row = rows[LONG, "kernel", "refresh=yes"]
    change = row["replicated"]["mean_bounded_slowdown"]
    assert change.value == pytest.approx((30 - 20) * 2)  # mean over replicates 1, 2, 3
    assert change.low == pytest.approx(10 * 1.1)
    assert change.high == pytest.approx(10 * 2.9)
    assert row["ratios"]["geometric_mean_bounded_slowdown"].value == pytest.approx(1.5)
    assert row["ratios"]["max_wait_s"].value == pytest.approx(1.5)
    assert row["replicates"] == 3


def test_perfect_knowledge_ousts_no_plan_from_the_frontier() -> None:
    on = {(row["policy"], row["predictor"]): row["frontier"] for row in compare(study())}
    assert [plan for plan, is_on in on.items() if is_on] == [
        (LONG, "kernel"),
        (LONG, "kernel:point=geometric"),
        ("easy-sjbf", "actual"),
    ]


class FirstComeFirstServed:
    """A scheduler of a user, as a plan of a study names it."""

    def start(self, queue: Any, machine: Any, now: float) -> Any:
        return [job for job in queue[:1] if machine.fits(job)]


def test_a_users_own_scheduler_differs_by_more_than_one_word() -> None:
    own = f"{__name__}:FirstComeFirstServed"
    assert word_between((own, "kernel"), ("easy", "kernel")) == ""
    assert word_between((own, "kernel:point=mean"), (own, "kernel")) == "kernel point=mean"

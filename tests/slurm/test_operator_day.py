"""Tests how operator_day.py judges answers; the day itself is a program that needs a lab."""

from __future__ import annotations

import math
from typing import Any

import pytest
from operator_day import Queue, Told, judged

NOW = 10_000.0


class Shown:
    """A lab whose `squeue` shows one text, and `sinfo` another: the nodes that are out of service."""

    def __init__(self, text: str, away: str = "") -> None:
        self.text, self.away = text, away

    def now(self) -> float:
        return 0.0

    def run(self, program: str, *_: str) -> str:
        return self.text if program == "squeue" else self.away


def job(start: float | None) -> dict[str, Any]:
    return {"submit": 0.0, "eligible": 0.0, "start": start, "state": "PENDING" if start is None else "RUNNING"}


def test_90_percent_times_within_the_day_are_counted_apart() -> None:
    """For 90 % times after the end of the day, only started jobs count, and all of them as started in time, so the
    share over all answers is too high."""
    told = [Told("renewed", str(k), 0.0, 100.0, by_90) for k, by_90 in enumerate((500.0, 500.0, 500.0, 2e4, 2e4))]
    jobs = {str(k): job(start) for k, start in enumerate((400.0, 600.0, None, 400.0, None))}
    row = judged("renewed", told, jobs, NOW)
    assert (row["judged"], row["kept_90"]) == (4, 0.5)
    assert (row["due"], row["due_kept_90"]) == (3, pytest.approx(1 / 3))
    assert (row["due_low"], row["due_high"]) == (0.0, pytest.approx(2 / 3))


def test_the_interval_of_a_share_is_over_jobs_and_arrays() -> None:
    """A thousand answers for one job prove no more than one answer."""
    told = [Told("renewed", f"{k % 2}_{k}", 0.0, 100.0, 500.0) for k in range(1000)]
    jobs = {f"{k % 2}_{k}": job(400.0 + 200.0 * (k % 2)) for k in range(1000)}
    row = judged("renewed", told, jobs, NOW)
    assert (row["due_kept_90"], row["due_low"], row["due_high"]) == (0.5, 0.0, 1.0)


def test_an_answer_is_compared_with_the_limits_of_what_runs_and_waits_before_it() -> None:
    queue = Queue(
        Shown("1 RUNNING 16 1:00:00 30:00 100\n2 PENDING 8 1:00:00 1:00:00 90\n3 PENDING 16 10:00 10:00 80\n")
    )
    assert queue.latest("main", 8.0, "2") == 1800.0
    assert queue.latest("main", 16.0, "3") == 1800.0 + 3600.0
    assert queue.latest("main", 1.0) == 1800.0 + 3600.0 + 600.0
    drained = Queue(Shown("1 RUNNING 12 1:00:00 30:00 100\n2 PENDING 8 1:00:00 1:00:00 90\n", "main* 4\nshort 4\n"))
    assert drained.latest("main", 8.0, "2") == 1800.0
    assert math.isnan(drained.latest("main", 16.0)), "it waits for the drained node"
    latest = queue.latest("main", 16.0, "3")
    told = [
        Told("renewed", "3", 0.0, 0.0, by_90, latest) for by_90 in (5000.0, 6000.0, 5400.0 * 1.5 + 3602.0, math.nan)
    ]
    row = judged("renewed", told, {"3": job(None)}, NOW)
    assert (row["compared"], row["beyond"], row["beyond_margin"]) == (3, 2, 1)
    assert row["furthest_min"] == pytest.approx((2700.0 + 3602.0) / 60)

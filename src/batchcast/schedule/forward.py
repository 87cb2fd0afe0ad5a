"""Forward simulation: when the last job of the queue starts if nobody else comes and every plan holds."""

from __future__ import annotations

import numpy as np

from .advance import advance
from .orders import NAMES
from .state import CONSERVATIVE, EASY, GIVEN, GONE, NO_BACKFILL, make_jobs, make_state

POLICIES = {
    "fcfs": {"backfill": NO_BACKFILL},
    "easy": {"backfill": EASY},
    "conservative": {"backfill": CONSERVATIVE},
    "easy-sjbf": {"backfill": EASY, "candidate_order": NAMES["sjf"]},
}


def forward_start(
    total: int,
    running_procs: np.ndarray,
    running_left: np.ndarray,
    queued_procs: np.ndarray,
    queued_planned: np.ndarray,
    policy: str = "easy",
) -> float:
    """Seconds from now until the last queued job starts, under first-come-first-served or EASY.

    `running_left` is the planned time each running job still has, `queued_planned` the planned run time of each queued
    job in order of arrival (all positive seconds; processors whole). The kernel of the simulated clock decides: the
    running jobs are submitted a second before now and fit, the queue arrives at once. A queued job larger than the
    machine is left out; infinity when that is the last one. The running jobs' processors must not exceed `total`.
    O(jobs) passes; about a microsecond a job.

    >>> forward_start(4, np.array([2]), np.array([60.0]), np.array([4, 2]), np.array([100.0, 50.0]))
    0.0
    >>> forward_start(4, np.array([2]), np.array([60.0]), np.array([4, 2]), np.array([100.0, 50.0]), "fcfs")
    160.0
    """
    fits = queued_procs <= min(total, GONE - 1)
    if not fits[-1]:
        return float("inf")
    procs = np.concatenate([running_procs, queued_procs[fits]]).astype(np.int64)
    running = len(running_procs)
    planned = np.concatenate([running_left + 1.0, queued_planned[fits]])
    submit = np.where(np.arange(len(procs)) < running, -1.0, 0.0)
    jobs = make_jobs(submit, procs, planned, planned, planned)
    advance(*make_state(jobs, total, planner=GIVEN, **POLICIES[policy]))
    return float(jobs["start"][-1])

"""A small workload from a seed for the lab: users who repeat jobs and pad their limits, and jobs that are cancelled,
held or requeued."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from slurm_lab import USERS, Lab

NAMES = ("relax", "bands|dos", 'md "npt"', "scan\nlines", "Straße", "übung", "wave 😀", "x" * 200)


class Planned(NamedTuple):
    """One submission: its time in seconds after the start, its options, how long it sleeps, and what is done to it
    afterwards."""

    at: float
    options: tuple[str, ...]
    seconds: float
    user: str
    name: str
    fate: str = ""


def plan(jobs: int, seed: int, *, nodes: int, span: float, holds: bool = True) -> list[Planned]:
    """Return submissions over `span` seconds; about 5 % are cancelled, held for a while or requeued.

    Without `holds` no job is held: Slurm 22.05 never releases a job that was submitted while slurmdbd was away and
    recovered by a restarted slurmctld ("waited 5 seconds for JobId to get a db_index").
    """
    rng = np.random.default_rng(seed)
    habits = [(rng.integers(1, nodes + 1), float(rng.uniform(40, 300)), rng.choice([1.5, 3.0, 6.0])) for _ in range(6)]
    found = []
    for at in np.sort(rng.uniform(0, span, jobs)):
        habit = int(rng.integers(len(habits)))
        wide, typical, padding = habits[habit]
        run = max(20.0, typical * float(rng.lognormal(0, 0.4)))
        limit = int(np.ceil(typical * padding / 60 / 5) * 5) + 5
        fate = str(rng.choice(["", "cancel", "hold", "requeue"], p=[0.88, 0.04, 0.04, 0.04]))
        fate = "cancel" if fate == "hold" and not holds else fate
        options = (f"-N{wide}", "--exclusive", "-t", str(limit))
        if rng.uniform() < 0.03:
            options = ("-N1", "-n1", "-t", str(limit), "--array=1-4%2")
        found.append(
            Planned(float(at), options, min(run, limit * 60 + 120), USERS[habit % len(USERS)], NAMES[habit], fate)
        )
    return found


def span_at(load: float, jobs: int, seed: int, *, nodes: int) -> float:
    """Return the span in seconds over which `plan` submits `load` times the work that the nodes can do."""
    planned = plan(jobs, seed, nodes=nodes, span=1.0)
    work = sum(job.seconds * float(job.options[0][2:]) for job in planned)
    return work / (nodes * load)


def submit(lab: Lab, planned: list[Planned], beside: Any = None) -> list[str]:
    """Submit at the planned instants of the lab's clock, and call `beside(k)` after the k-th submission. Returns the
    job ids."""
    start = lab.now()
    ids: list[str] = []
    for k, job in enumerate(planned):
        ahead = (start + job.at - lab.now()) / lab.speed
        if ahead > 0:
            time.sleep(ahead)
        options = (*job.options, *(["-H"] if job.fate == "hold" else []))
        ids.append(_persistently(lambda o=options, j=job: lab.submit(*o, seconds=j.seconds, user=j.user, name=j.name)))
        for earlier in (k - 3, k - 6):  # some time after its submission
            if earlier < 0 or not planned[earlier].fate:
                continue
            word = {"cancel": ("scancel",), "hold": ("scontrol", "release"), "requeue": ("scontrol", "requeue")}[
                planned[earlier].fate
            ]
            if planned[earlier].fate == "requeue" and earlier == k - 3:
                continue
            with contextlib.suppress(RuntimeError):  # the job may have ended already
                lab.run(*word, ids[earlier])
        if beside is not None:
            beside(k)
    for job_id, job in zip(ids, planned):
        if job.fate == "hold":
            with contextlib.suppress(RuntimeError):
                lab.run("scontrol", "release", job_id)
    return ids


def _persistently(action: Callable[[], str], tries: int = 10) -> str:
    """Submit, and try again after a failure: sbatch may die while slurmctld restarts. A job that is submitted twice is
    only an additional job."""
    for _ in range(tries - 1):
        with contextlib.suppress(RuntimeError):
            return action()
    return action()

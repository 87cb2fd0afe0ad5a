# SPDX-License-Identifier: Apache-2.0
"""`check_order`: what every order of the queue passes, open to anyone's own function."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from ..schedule.advance import advance
from ..schedule.state import GIVEN, make_jobs, make_state
from ..simulation import Policy

Order = str | Callable[..., float]


def check_order(order: Order) -> list[str]:
    """Run every check on an order, named as `--order` names it or given as a function; returns the names of those run.

    Raises UsageError when a function does not compile, AssertionError in words at the first failure. Under a second
    once the kernel is compiled.

    >>> check_order("saf:ageing=0.5")
    ['keys_are_numbers', 'every_job_starts', 'machine_is_never_overfull', 'same_answer_twice']
    """
    for check in CHECKS:
        check(order)
    return [check.__name__ for check in CHECKS]


def keys_are_numbers(order: Order) -> None:
    """A function of one's own gives a finite key for ordinary and for odd jobs."""
    if isinstance(order, str):
        return
    values = ((0.0, 60.0, 1e7), (0.0, 1.6e9), (1.0, 1e6), (1.0, 3600.0, 1e7))
    for wait, submit, procs, planned in itertools.product(*values):
        try:
            key = float(order(submit + wait, submit, procs, planned, wait))
        except (ArithmeticError, ValueError) as error:
            raise AssertionError(f"{_jobs(submit, procs, planned, wait)}: {error}") from None
        assert math.isfinite(key), f"{_jobs(submit, procs, planned, wait)}: the key is {key}"


def every_job_starts(order: Order) -> None:
    """As head order, as candidate order and without backfilling, every job starts, none before its submission."""
    for policy in _policies(order):
        jobs = _schedule(policy)
        assert not np.isnan(jobs["start"]).any(), f"{policy.name}: a job never starts"
        assert (jobs["start"] >= jobs["submit"]).all(), f"{policy.name}: a job starts before it is submitted"


def machine_is_never_overfull(order: Order) -> None:
    """The jobs running at once never hold more processors than there are."""
    for policy in _policies(order):
        jobs = _schedule(policy)
        start, end = jobs["start"], jobs["start"] + jobs["run"]
        held = [int(jobs["procs"][(start <= instant) & (instant < end)].sum()) for instant in start]
        assert max(held) <= TOTAL, f"{policy.name}: {max(held)} of {TOTAL} processors are held at once"


def same_answer_twice(order: Order) -> None:
    """The same jobs give the same schedule."""
    for policy in _policies(order):
        assert np.array_equal(_schedule(policy)["start"], _schedule(policy)["start"]), f"{policy.name}: two answers"


CHECKS = (keys_are_numbers, every_job_starts, machine_is_never_overfull, same_answer_twice)
TOTAL = 16


def _policies(order: Order) -> tuple[Policy, ...]:
    return Policy(order), Policy(backfill_order=order), Policy(order, "none")


def _schedule(policy: Policy, count: int = 300, seed: int = 5) -> np.ndarray:
    """An overloaded machine of jobs with ties, zero lengths and padded requests."""
    rng = np.random.default_rng(seed)
    submit = np.cumsum(rng.choice([0.0, 0.0, 5.0, 60.0], count)) + 1e6
    run = np.round(rng.lognormal(4.0, 1.2, count)) * rng.choice([0.0, 1.0], count, p=[0.05, 0.95])
    request = np.maximum(run * rng.choice([1.0, 2.0, 10.0], count), 60.0)
    jobs = make_jobs(submit, 2 ** rng.integers(0, 5, count), run, request, np.maximum(run, request / 2))
    advance(make_state(jobs, TOTAL, planner=GIVEN, **policy.rules()))
    return jobs


def _jobs(submit: float, procs: float, planned: float, wait: float) -> str:
    return f"submit {submit:g}, {procs:g} processors, planned {planned:g} s, waited {wait:g} s"

# SPDX-License-Identifier: Apache-2.0
"""`check_policy` and `check_order`: the checks for schedulers and queue orders, both batchcast's own and users'
schedulers and orders."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ..errors import BatchcastError, UsageError
from ..simulation import Policy, Schedule, simulate
from ..table import Trace

TOTAL = 16
NODES = (4, 4, 8)
Order = str | Callable[..., float]


def check_policy(policy: Any, *, on_nodes: bool = True) -> list[str]:
    """Run every check on a scheduler. The checks take some seconds.

    Parameters
    ----------
    policy
        A class, an object, or a function that returns an object, with the method `start(queue, machine, now)`.
    on_nodes
        Whether to check the scheduler not only on a pool of processors, but also on nodes.

    Returns
    -------
    list of str
        Names of the checks that were run.

    Raises
    ------
    AssertionError
        At the first check that fails.
    UsageError
        If the argument is one of batchcast's own policies.

    Examples
    --------
    >>> class FirstComeFirstServed:
    ...     def start(self, queue, machine, now):
    ...         for job in queue:
    ...             if not machine.fits(job):
    ...                 return
    ...             yield job
    >>> check_policy(FirstComeFirstServed)[:2]
    ['every_job_starts_once', 'machine_is_never_overfull']
    """
    if isinstance(policy, (str, Policy)):
        raise UsageError(
            f"check_policy: {policy!r} is a policy of batchcast's own (accepted: a class, an object or a function of "
            "yours with start(queue, machine, now))",
            hint="an order of the queue is checked by check_order",
        )
    for check in CHECKS:
        for nodes in (None, NODES) if on_nodes else (None,):
            check(policy, nodes)
    return [check.__name__ for check in CHECKS]


def every_job_starts_once(policy: Any, nodes: Any = None) -> None:
    """Every job starts exactly once and not before its submission, for all test logs."""
    for name, log in LOGS.items():
        schedule = _schedule(policy, log(), nodes, name)
        assert not np.isnan(schedule.start_time).any(), f"{name}: a job never starts"
        assert (schedule.start_time >= schedule.submit_time).all(), f"{name}: a job starts before it is submitted"


def machine_is_never_overfull(policy: Any, nodes: Any = None) -> None:
    """Running jobs never use more processors than the machine has, and on each node not more processors than the node
    has."""
    for name, log in LOGS.items():
        schedule = _schedule(policy, log(), nodes, name)
        start, end = schedule.start_time, schedule.end_time
        for instant in start.tolist():
            on = np.flatnonzero((start <= instant) & (instant < end))
            held = int(schedule.procs[on].sum())
            assert held <= TOTAL, f"{name}: {held} of {TOTAL} processors are used at once"
            for number, size in enumerate(nodes or ()):
                used = sum(schedule.nodes[k].get(number, 0) for k in on.tolist())
                assert used <= size, f"{name}: {used} of the {size} processors of node {number} are used at once"


def future_is_hidden(policy: Any, nodes: Any = None) -> None:
    """Changes of submissions and of run times do not change the starts of jobs before the instant of the change."""
    log = small_workload()
    schedule = _schedule(policy, log, nodes, "a log")
    for share in (0.2, 0.5, 0.8):
        instant = float(np.quantile(schedule.start_time, share))
        shorter = np.minimum(log.run_time, log.req_time) * 0.5 + 7.0
        unseen = (schedule.end_time > instant) & (schedule.start_time + shorter > instant)
        columns: dict[str, Any] = {name: log.column(name) for name in log.names}
        columns["run_time"] = np.where(unseen, shorter, log.run_time)
        columns["submit_time"] = np.where(log.submit_time > instant, log.submit_time + 500.0, log.submit_time)
        changed = Trace(columns, log.info, is_sorted=True)
        again = _schedule(policy, changed, nodes, "a log with another future")
        known = schedule.start_time <= instant
        wrong = np.flatnonzero(known & (schedule.start_time != again.start_time))
        assert not len(wrong), (
            f"the start of job {schedule.job_id[wrong[:1]]} by {instant:g} s uses times after that instant"
        )


def same_answer_twice(policy: Any, nodes: Any = None) -> None:
    """Two runs with the same jobs give the same schedule; an earlier schedule does not affect a later schedule."""
    log = small_workload()
    first, second = (_schedule(policy, log, nodes, "a log") for _ in range(2))
    assert np.array_equal(first.start_time, second.start_time), (
        "two runs on one log gave two schedules: a random policy needs a seed that is set when it is created"
    )
    assert first.nodes == second.nodes, "two runs on one log gave two placements"


def forecasts_may_be_wrong(policy: Any, nodes: Any = None) -> None:
    """All jobs start, even if they run longer, or much shorter, than predicted."""
    log = small_workload()
    for word in ("recent_mean", "last_2"):
        starts = _schedule(policy, log, nodes, f"planned with {word}", word).start_time
        assert not np.isnan(starts).any(), f"planned with {word}: a job never starts"


CHECKS: tuple[Callable[..., None], ...] = (
    every_job_starts_once,
    machine_is_never_overfull,
    same_answer_twice,  # run this check before future_is_hidden, which compares two schedules
    future_is_hidden,
    forecasts_may_be_wrong,
)


def small_workload(count: int = 200, seed: int = 5) -> Trace:
    """Generate a log that overloads a machine of 16 processors for a while.

    The log has jobs submitted at one instant, run times of 0, and time limits above the run time.
    """
    rng = np.random.default_rng(seed)
    run = np.round(rng.lognormal(4.0, 1.2, count)) * rng.choice([0.0, 1.0], count, p=[0.05, 0.95])
    return Trace.from_arrays(
        {
            "submit_time": np.cumsum(rng.choice([0.0, 0.0, 5.0, 60.0, 200.0], count)),
            "run_time": run,
            "req_time": np.maximum(run * rng.choice([1.0, 2.0, 10.0], count), 60.0),
            "req_procs": 2.0 ** rng.integers(0, 5, count),
            "user_id": [f"user{k}" for k in rng.integers(0, 6, count)],
        }
    )


def _same(**values: float) -> Trace:
    """Return a log of twelve equal jobs."""
    columns = {"submit_time": 0.0, "run_time": 60.0, "req_time": 60.0, "req_procs": 1.0} | values
    return Trace.from_arrays({name: np.full(12, value) for name, value in columns.items()})


LOGS: dict[str, Callable[[], Trace]] = {
    "an overloaded machine": small_workload,
    "one job": lambda: small_workload(1),
    "all at once": _same,
    "runs of no length": lambda: _same(run_time=0.0),
    "jobs as wide as the machine": lambda: _same(req_procs=float(TOTAL)),
    "no known request": lambda: small_workload(40).with_columns({"req_time": np.append(np.full(39, math.nan), 3600.0)}),
}


def _schedule(policy: Any, log: Trace, nodes: Any, name: str, predictor: str = "requested") -> Schedule:
    """Return the schedule of a log under the policy; AssertionError if the simulation rejects it."""
    where = "on nodes" if nodes else "on a pool"
    try:
        return simulate(log, policy, predictor, total=None if nodes else TOTAL, nodes=nodes)
    except BatchcastError as error:
        raise AssertionError(f"{name}, {where}: {error.message}") from None


def check_order(order: Order) -> list[str]:
    """Run every check on a queue order. The checks take some seconds after the kernel is compiled.

    The checks are `keys_are_numbers` and the checks that `check_policy` runs on a pool of processors. The order is used
    in three ways: for the queue, for backfill candidates, and for the queue without backfilling.

    Parameters
    ----------
    order
        Name of an order, as for `--order`, or a function.

    Returns
    -------
    list of str
        Names of the checks that were run.

    Raises
    ------
    UsageError
        If a function cannot be compiled.
    AssertionError
        At the first check that fails.

    Examples
    --------
    >>> check_order("saf:ageing=0.5")[:3]
    ['keys_are_numbers', 'every_job_starts_once', 'machine_is_never_overfull']
    """
    for check in ORDER_CHECKS:
        check(order)
    return [check.__name__ for check in ORDER_CHECKS]


def keys_are_numbers(order: Order) -> None:
    """If the order is a function, it returns a finite key for ordinary and for extreme jobs."""
    if isinstance(order, str):
        return
    values = ((0.0, 60.0, 1e7), (0.0, 1.6e9), (1.0, 1e6), (1.0, 3600.0, 1e7))
    for wait, submit, procs, planned in itertools.product(*values):
        job = f"submit {submit:g}, {procs:g} processors, planned {planned:g} s, waited {wait:g} s"
        try:
            key = float(order(submit + wait, submit, procs, planned, wait))
        except (ArithmeticError, ValueError) as error:
            raise AssertionError(f"{job}: {error}") from None
        assert math.isfinite(key), f"{job}: the key is {key}"


def _of_order(check: Callable[..., None]) -> Callable[[Order], None]:
    """Convert a check of policies to a check of queue orders."""

    @wraps(check)
    def as_policies(order: Order) -> None:
        for policy in (Policy(order), Policy(backfill_order=order), Policy(order, "none")):
            policy.rules()  # raises UsageError if a function cannot be compiled
            try:
                check(policy)
            except AssertionError as error:
                raise AssertionError(f"{policy.name}: {error}") from None

    return as_policies


ORDER_CHECKS = (keys_are_numbers, *map(_of_order, CHECKS))

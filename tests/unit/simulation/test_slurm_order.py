"""Tests Slurm's loops with the planned order: cycles of 30 s, levels, and what the site's own order keeps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchcast.errors import UsageError
from batchcast.machines.machine import homogeneous
from batchcast.machines.request import NodeRequest
from batchcast.planning.order import OrderRule
from batchcast.predict.protocol import Prediction
from batchcast.schedule.slurm.simulate import Lengths, Seen, simulate_slurm
from batchcast.simulation.on_nodes import Ordering, QueueOrder, QueuePlan, orderable, simulate_on
from batchcast.table import Trace

MACHINE = homogeneous(1, 4)


def log(limits: list[float], runs: list[float] | None = None, submit: list[float] | None = None) -> Trace:
    count = len(limits)
    return Trace.from_arrays(
        {
            "submit_time": submit or [0.0] + [1.0] * (count - 1),
            "run_time": runs or limits,
            "req_time": limits,
            "req_procs": [4] * count,
            "user_id": [0, 0, *[1] * (count - 2)],
            "account": [0, 0, *[1] * (count - 2)],
        }
    )


def starts(trace: Trace, words: str, within: str = "queue", age: float = math.nan) -> list[float]:
    return simulate_on(MACHINE, trace, queue=QueuePlan(order=Ordering.of(words, within, age))).start_time.tolist()


def test_the_shortest_goes_first_after_a_look() -> None:
    trace = log([600.0, 7200.0, 60.0])
    assert starts(trace, "none") == simulate_on(MACHINE, trace).start_time.tolist()
    first, long, short = starts(trace, "limit")
    assert first < short < long


def test_after_the_age_arrival_decides() -> None:
    """A long job competes with an endless stream of short jobs. Without an age limit it starts last; with an age limit
    it starts soon after it has waited that long."""
    shorts = [60.0] * 60
    trace = log([60.0, 7200.0, *shorts], submit=[0.0, 1.0, *np.arange(2.0, 3002.0, 50.0).tolist()])
    patient, impatient = starts(trace, "limit", age=1e6), starts(trace, "limit", age=600.0)
    assert patient[1] > max(patient[2:])
    assert 600.0 < impatient[1] < 600.0 + 1.0 + 30.0 + 60.0 + 60.0


jobs_drawn = st.tuples(st.integers(0, 3000), st.integers(1, 900), st.integers(1, 5000), st.sampled_from([1, 4]))


@settings(max_examples=40)
@given(st.lists(jobs_drawn, min_size=1, max_size=25), st.integers(60, 2000))
def test_an_unchanged_queue_keeps_the_order_that_a_planner_without_memory_would_set(
    drawn: list[tuple[int, int, int, int]], age: int
) -> None:
    jobs = [NodeRequest(str(k), submit, run, limit, tasks=tasks) for k, (submit, run, limit, tasks) in enumerate(drawn)]
    parts = orderable(MACHINE), jobs, lambda r: r.limit
    rule = OrderRule(age=float(age))

    def forgetful(seen: Seen) -> tuple[np.ndarray, float]:
        return QueueOrder(rule, *parts)(seen)

    kept, anew = (simulate_slurm(*parts[:2], reorder=each) for each in (QueueOrder(rule, *parts), forgetful))
    assert kept.starts() == anew.starts()


def test_within_an_account_nobody_else_is_passed() -> None:
    """Account 0 has the first position in the queue and account 1 the next, so the short job of account 1 stays
    behind."""
    site = replace(MACHINE, settings=MACHINE.settings | {"PriorityType": "priority/multifactor"})
    trace = log([600.0, 7200.0, 3600.0, 60.0])
    within = simulate_on(site, trace, queue=QueuePlan(order=Ordering.of("limit", "account"))).start_time.tolist()
    # without weights there are no priorities to redistribute
    assert within == simulate_on(site, trace).start_time.tolist()
    aged = replace(site, settings=site.settings | {"PriorityWeightAge": "1000000", "PriorityMaxAge": "1-00:00:00"})
    later = log([900.0, 7200.0, 3600.0, 60.0], submit=[0.0, 1.0, 100.0, 200.0])
    start = simulate_on(aged, later, queue=QueuePlan(order=Ordering.of("limit", "account", 1e6))).start_time.tolist()
    assert start[0] < start[1] < start[3] < start[2]


@pytest.mark.parametrize(("share", "is_first"), [(0.0, True), (0.25, False)])
def test_short_jobs_under_a_name_do_not_carry_a_long_one_past_an_honest_job(share: float, is_first: bool) -> None:
    """Row 1 requests eight hours, but the prediction is a minute; row 2 requests an hour and needs it."""
    trace = log([600.0, 28_800.0, 3600.0])
    order = Ordering(
        "forecast", np.array([600.0, 60.0, 3600.0]), OrderRule(age=1e6, least_share=share, own_history=False)
    )
    start = simulate_on(MACHINE, trace, queue=QueuePlan(order=order)).start_time
    assert (start[1] < start[2]) == is_first


def passes(most_overrun: float, second: float = 28_800.0) -> list[bool]:
    """Return whether each long job of user 0, whose predicted run time is a minute, passes a correctly predicted job
    that arrived a minute earlier.

    Each pair waits behind a job of ten minutes; the pairs are ten hours apart.
    """
    pairs, limits, runs, submit = 2, [], [], []
    for k in range(pairs):
        limits += [600.0, 7200.0, 28_800.0]
        runs += [600.0, 7200.0, (28_800.0, second)[k]]
        submit += [k * 50_000.0, k * 50_000.0 + 1.0, k * 50_000.0 + 61.0]
    trace = Trace.from_arrays(
        {
            "submit_time": submit,
            "run_time": runs,
            "req_time": limits,
            "req_procs": [4] * len(runs),
            "user_id": [1, 1, 0] * pairs,
        }
    )
    rule = OrderRule(age=1e6, most_overrun=most_overrun, own_history=False)
    order = Ordering("forecast", np.array([600.0, 7200.0, 60.0] * pairs), rule)
    start = simulate_on(MACHINE, trace, queue=QueuePlan(order=order)).start_time
    return [bool(start[3 * k + 2] < start[3 * k + 1]) for k in range(pairs)]


def test_a_user_passes_others_with_a_long_job_that_looks_short_once_and_not_twice() -> None:
    assert passes(1.0) == [True, True]
    assert passes(0.25) == [True, False]


@pytest.mark.parametrize("changes", ["app_id", "job_name"])
def test_a_changed_command_or_name_passes_nobody_until_a_job_with_it_has_ended(changes: str) -> None:
    """The second and fourth job of user 0 are predicted to take a minute, as the first job with another command did."""
    # A job of 2,000 s fills the machine before each pair: user 1's job of two hours, and a second later user 0's of
    # eight.
    log = Trace.from_arrays(
        {
            "submit_time": [0.0, 9000.0, 10_000.0, 10_001.0, 49_000.0, 50_000.0, 50_001.0],
            "run_time": [60.0, 2000.0, 7200.0, 28_000.0, 2000.0, 7200.0, 28_000.0],
            "req_time": [10_800.0, 2000.0, 7200.0, 28_800.0, 2000.0, 7200.0, 28_800.0],
            "req_procs": [4] * 7,
            "user_id": [0, 2, 1, 0, 2, 1, 0],
            changes: ["a", "c", "x", "b", "c", "x", "b"],
        }
    )
    told = np.where(log.number("req_time") == 28_800.0, 60.0, log.number("req_time"))

    def passed(own_history: bool) -> list[bool]:
        rule = OrderRule(age=1e6, most_overrun=1.0, least_share=0.0, own_history=own_history)
        start = simulate_on(MACHINE, log, queue=QueuePlan(order=Ordering("forecast", told, rule))).start_time
        of = dict(zip(log.submit_time.tolist(), start.tolist()))
        return [of[10_001.0] < of[10_000.0], of[50_001.0] < of[50_000.0]]

    assert passed(False) == [True, True]
    assert passed(True) == [False, True]


def test_a_machine_without_weights_keeps_arrival() -> None:
    trace = log([600.0, 7200.0, 60.0, 300.0])
    assert simulate_on(orderable(MACHINE), trace).start_time.tolist() == simulate_on(MACHINE, trace).start_time.tolist()


class Unlearning:
    """A predictor that learns nothing from finished jobs."""

    def observe(self, event: object, at: object) -> None:
        pass


class OftenShort(Unlearning):
    """Predicts a minute for the job with a limit of 3 h, whose 90 % quantile is 2 h; half an hour for the others."""

    def predict(self, job: object, at: object) -> Prediction:
        if job.req_time == 10_800.0:
            return Prediction(60.0, (0.5, 0.8, 0.9), (60.0, 3600.0, 7200.0), "like jobs")
        return Prediction(1800.0, (0.5, 0.8, 0.9), (1800.0, 1800.0, 1800.0), "like jobs")


def test_a_predictor_orders_by_its_upper_quantile_and_not_by_its_point() -> None:
    trace = log([600.0, 10_800.0, 10_000.0], runs=[600.0, 60.0, 1800.0])
    order = Ordering("forecast", OftenShort, OrderRule(age=1e6, least_share=0.0, own_history=False))
    start = simulate_on(MACHINE, trace, queue=QueuePlan(order=order)).start_time
    assert start[2] < start[1]  # by point predictions, the first of the two would go first


class HalfHour(Unlearning):
    """Predicts an 80 % quantile of half an hour."""

    def predict(self, job: object, at: object) -> Prediction:
        return Prediction(10_000.0, (0.5, 0.8, 0.9), (100.0, 1800.0, 10_000.0), "like jobs")


def test_a_predictor_as_lengths_plans_its_80_percent_quantile() -> None:
    """Two of four processors are busy for an hour, the next job needs all four, and the last job needs two for a
    minute."""
    trace = Trace.from_arrays(
        {
            "submit_time": [0.0, 1.0, 2.0], "run_time": [3600.0, 600.0, 60.0], "req_time": [3600.0, 10_000.0, 10_800.0],
            "req_procs": [2, 4, 2], "user_id": [0, 1, 2],
        }
    )  # fmt: skip
    own, planned = (simulate_on(MACHINE, trace, queue=QueuePlan(lengths=spec)).start_time for spec in (None, HalfHour))
    assert own[2] > own[1] >= 3600.0
    assert planned[2] < 3600.0 <= planned[1]
    assert simulate_on(MACHINE, trace, queue=QueuePlan(lengths=np.full(3, np.nan))).start_time.tolist() == own.tolist()


def test_both_spellings_of_time_limits_are_the_same_order() -> None:
    assert Ordering.of("limits") == Ordering.of("limit")
    assert Ordering.of("prediction:last_2") == Ordering.of("forecast:last_2")


@pytest.mark.parametrize("words", ["shortest", "limits:kernel", "limit:kernel", "none:kernel", ""])
def test_says_which_orders_there_are(words: str) -> None:
    with pytest.raises(UsageError, match="accepted: none, forecast"):
        Ordering.of(words)


def test_an_update_reckons_the_priority_anew() -> None:
    """As on a real Slurm 22.05: of three waiting jobs, the last one's limit is updated, and it passes the earlier ones.

    Until the next PriorityCalcPeriod only its age counts up to the present.
    """
    settings = {
        "PriorityType": "priority/multifactor", "PriorityWeightAge": "100000", "PriorityMaxAge": "1-00:00:00",
        "SchedulerParameters": "sched_interval=30,bf_interval=30",
    }  # fmt: skip
    site = replace(MACHINE, settings=MACHINE.settings | settings)
    jobs = [NodeRequest(str(k), at, 100.0, 600.0, tasks=4) for k, at in enumerate((0.0, 10.0, 12.0, 14.0))]

    def starts(which: str) -> list[float]:
        lengths = Lengths(lambda r: 300.0 if r.key in which else 600.0, restored=True, late=30.0)
        return simulate_slurm(site, jobs, lengths=lengths).start.tolist()

    first, *others = starts("3")
    assert first < others[2] < others[0] < others[1]
    assert starts("") == sorted(starts("")) == starts("123")

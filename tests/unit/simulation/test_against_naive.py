"""Tests that the kernel equals brute force start by start, and respects a scheduler's reservations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive.schedule import Job, NaiveMachine

from batchcast.schedule.advance import advance
from batchcast.schedule.orders import NAMES
from batchcast.schedule.state import GIVEN, TAIL, make_jobs, make_state
from batchcast.simulation import Policy

TOTAL = 8
LIKE = np.arange(5000) * 7 % 4 - 1  # class of each job; -1 means no class

SPREAD = np.random.default_rng(3).integers(0, 2, (5000, len(TAIL)))

one_job = st.tuples(
    st.integers(0, 40),  # time since the previous job; small values give many ties
    st.integers(1, TOTAL),
    st.integers(0, 300),
    st.integers(1, 400),
    st.integers(1, 400),
)
ORDERS = ["fcfs", *(o for o in NAMES if o != "fcfs"), "tests.naive.orders:odd", "sjf:on=requested,ageing=0.5", "wfp"]
rules = {
    "correct": st.sampled_from(["requested", "incremental", "doubling"]),
    "event_order": st.sampled_from(["instant", "pyss"]),
}
easy = st.builds(
    Policy,
    order=st.sampled_from(ORDERS),
    backfill=st.sampled_from(["none", "easy", "easy"]),
    backfill_order=st.sampled_from(ORDERS),
    running_ends=st.sampled_from(["planned", "planned", "requested"]),
    head_after=st.sampled_from([float("inf"), 0.0, 10.0, 60.0]),
    first_after=st.sampled_from([float("inf"), float("inf"), 0.0, 30.0, 200.0]),
    refresh=st.sampled_from([False, True]),
    risk_budget=st.sampled_from([0.0, 0.0, 0.05, 1.0]),
    **rules,
)
due = st.builds(
    replace,
    easy.filter(lambda policy: policy.event_order == "instant"),
    due_after=st.sampled_from([0.0, 20.0, 100.0]),
    due_ends=st.sampled_from(["requested", "planned"]),
)
conservative = st.builds(Policy, backfill=st.just("conservative"), **rules)
policies = st.one_of(easy, due, easy, conservative)


def columns(rows, exact=False):
    gaps, procs, run, request, planned = (np.array(c, dtype=float) for c in zip(*rows))
    submit = np.cumsum(np.maximum(gaps - 20, 0))
    run = np.minimum(run, request)
    planned = np.maximum(run, 1.0) if exact else np.minimum(planned, request)
    if exact:
        run = np.maximum(run, 1.0)
        request = np.maximum(run, request)
    return submit, procs, run, request, planned


def both(rows, policy, exact=False):
    submit, procs, run, request, planned = columns(rows, exact)
    jobs = make_jobs(submit, procs, run, request, planned)
    # each job has its own quantiles; some lie far below the request, some equal it
    tails = np.minimum(request[:, None], np.cumsum(SPREAD[: len(jobs)] * planned[:, None] / 2, axis=1))
    state = make_state(jobs, TOTAL, planner=GIVEN, similar_class=LIKE[: len(jobs)], tails=tails, **policy.rules())
    advance(state)
    twin = NaiveMachine(
        [
            Job(
                k,
                *map(float, row[:1]),
                int(row[1]),
                *map(float, row[2:]),
                like=int(LIKE[k]),
                tail=tuple(tails[k].tolist()),
            )
            for k, row in enumerate(zip(submit, procs, run, request, planned))
        ],
        TOTAL,
        policy.backfill,
        policy.order,
        policy.backfill_order,
        policy.correct,
        policy.event_order == "pyss",
        policy.running_ends,
        policy.head_after,
        policy.first_after,
        policy.due_after,
        policy.refresh,
        policy.due_ends,
        policy.risk_budget,
    )
    twin.go()
    return jobs, state, twin


@given(st.lists(one_job, min_size=1, max_size=30), policies)
@settings(max_examples=150)
def test_every_start_is_that_of_brute_force(rows, policy):
    starts_as_by_brute_force(rows, policy)


@pytest.mark.long
@given(st.lists(one_job, min_size=1, max_size=30), policies)
@settings(max_examples=600)
def test_every_start_of_many_more_is_that_of_brute_force(rows, policy):
    starts_as_by_brute_force(rows, policy)


def starts_as_by_brute_force(rows, policy):
    jobs, state, twin = both(rows, policy)
    assert jobs["start"].tolist() == [j.start for j in twin.jobs]
    assert jobs["backfilled"].astype(bool).tolist() == [j.backfilled for j in twin.jobs]
    assert int(state.record["corrections"][0]) == twin.corrections


@given(st.lists(one_job, min_size=1, max_size=40))
def test_beside_easy_by_requests_the_shadow_is_that_schedule(rows):
    rows = [(*row[:4], row[3]) for row in rows]
    (jobs, state, _), alone = both(rows, Policy(due_after=5e3)), both(rows, Policy())[0]
    assert (state.arrays["asides"]["due"] - 5e3).tolist() == jobs["start"].tolist() == alone["start"].tolist()


@given(st.lists(one_job, min_size=1, max_size=40), policies)
def test_no_reserved_job_bears_more_risk_than_its_budget(rows, policy):
    _, state, _ = both(rows, policy)
    assert (state.arrays["asides"]["spent"] <= policy.risk_budget).all()


@given(st.lists(one_job, min_size=1, max_size=40), policies)
def test_the_machine_is_never_overfull_and_nobody_starts_before_submission(rows, policy):
    jobs, _, _ = both(rows, policy)
    start, end = jobs["start"], jobs["start"] + jobs["run"]
    assert (start >= jobs["submit"]).all()
    for instant in start:
        assert jobs["procs"][(start <= instant) & (instant < end)].sum() <= TOTAL


@given(st.lists(one_job, min_size=2, max_size=40), st.sampled_from(["fcfs", "sjf"]))
def test_under_exact_estimates_no_head_starts_after_its_reservation(rows, backfill_order):
    jobs, _, twin = both(rows, Policy(backfill_order=backfill_order), exact=True)
    assert all(jobs["start"][row] <= promised for row, promised in twin.promises)


@given(st.lists(one_job, min_size=2, max_size=40), st.sampled_from(["instant", "pyss"]))
def test_conservative_never_delays_a_job_beyond_its_first_reservation(rows, event_order):
    jobs, _, twin = both(rows, Policy(backfill="conservative", event_order=event_order), exact=True)
    promised = dict(reversed(twin.promises))
    assert len(promised) == len(jobs)
    assert all(jobs["start"][row] == first for row, first in promised.items())


@given(st.lists(one_job, min_size=2, max_size=40), st.data())
def test_under_conservative_who_comes_later_changes_nothing_for_who_came_before(rows, data):
    few = data.draw(st.integers(1, len(rows)))
    policy = Policy(backfill="conservative")
    whole, part = both(rows, policy, exact=True)[0], both(rows[:few], policy, exact=True)[0]
    assert part["start"].tolist() == whole["start"][:few].tolist()


@given(st.lists(one_job, min_size=2, max_size=40), st.sampled_from([0.5, 2.0, 50.0]))
def test_with_ageing_nobody_is_passed_for_ever(rows, ageing):
    """With ageing, a job that arrives more than planned / ageing seconds after a waiting job does not start before that
    job."""
    jobs, _, _ = both(rows, Policy(f"sjf:ageing={ageing}", backfill="none"))
    for waiting in jobs:
        late = jobs["submit"] > waiting["submit"] + waiting["first"] / ageing
        assert (jobs["start"][late] >= waiting["start"]).all()


@pytest.mark.long
@given(
    st.lists(one_job, min_size=100, max_size=400),
    st.sampled_from(["fcfs", "sjf", "wfp"]),
    st.sampled_from(["fcfs", "sjf", "f1"]),
)
@settings(max_examples=8)
def test_a_queue_of_many_blocks_is_kept_as_well_as_a_short_one(rows, order, backfill_order):
    rows = [(0, *row[1:]) for row in rows]  # all arrive at once, so several blocks wait, and gaps are closed on the way
    jobs, _, twin = both(rows, Policy(order=order, backfill_order=backfill_order))
    assert jobs["start"].tolist() == [j.start for j in twin.jobs]


@pytest.mark.parametrize("order", ["fcfs", "sjf"])
def test_a_stopped_kernel_goes_on_where_it_stopped(order):
    from batchcast.schedule.state import ASKED, DONE, NEEDS_PREDICTION

    rng = np.random.default_rng(7)
    rows = [tuple(int(v) for v in rng.integers([0, 1, 0, 1, 1], [41, TOTAL + 1, 301, 401, 401])) for _ in range(200)]
    submit, procs, run, request, planned = columns(rows)
    whole, asked = make_jobs(submit, procs, run, request, planned), make_jobs(submit, procs, run, request, request)
    advance(make_state(whole, TOTAL, planner=GIVEN, **Policy(backfill_order=order).rules()))
    state = make_state(asked, TOTAL, planner=ASKED, log_size=64, **Policy(backfill_order=order).rules())
    questions = 0
    while (reason := advance(state)) != DONE:
        state.record["logged"] = 0
        if reason == NEEDS_PREDICTION:
            row = int(state.record["job"][0])
            asked["planned"][row] = planned[row]
            questions += 1
    assert questions == len(rows)
    assert asked["start"].tolist() == whole["start"].tolist()

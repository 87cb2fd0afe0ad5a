"""Tests `scheduler_replay` and its forward plan: by brute force, and an updated plan against a new plan at every
question."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive import waits as naive

from batchcast.events.event import Capacity, End, Requeue, Start, Submit, Withdraw
from batchcast.events.recorded import events
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.registry import make
from batchcast.schedule.forward import POLICIES, ForwardPlan
from batchcast.testing.logs import small_log

NAN = float("nan")
LENGTHS = st.sampled_from([1.0, 5.0, 9.0, 30.0, 31.0])
RUNNING = st.lists(st.tuples(st.integers(1, 4), LENGTHS), max_size=3)
JOBS = st.lists(st.tuples(st.integers(1, 13), LENGTHS), min_size=1, max_size=40)


def columns(jobs):
    return np.array([p for p, _ in jobs], np.int64), np.array([t for _, t in jobs], float)


@given(RUNNING, JOBS, JOBS, st.sampled_from(list(POLICIES)))
def test_a_growing_plan_as_by_brute_force(now, line, more, policy):
    """Each new job joins the plan, and at every step the answer equals a simulation of the queue from its beginning."""
    procs, ends = columns(now)
    plan = ForwardPlan(0.0, 12, ends, procs, *columns(line), policy)
    for job in more[:6]:
        expected = naive.forward_start(12, now, [*line, job], policy)
        assert plan.start_of(*job) == expected
        assert plan.start_of(*job) == expected, "asking changes the plan"
        assert plan.append(*job) == expected
        line = [*line, job]


STEPS = st.lists(
    st.tuples(st.sampled_from("sssaaaew.rc"), st.integers(1, 9), LENGTHS, st.sampled_from([0.0, 0.0, 1.0, 4.0])),
    max_size=60,
)


@given(STEPS, st.sampled_from(["policy=fcfs", "policy=easy", "policy=easy-sjbf", "policy=easy,runtime=last_2"]))
def test_a_kept_plan_answers_as_one_made_anew(steps, spec):
    """Submissions, planned and other starts, ends, withdrawals, requeues, drained nodes, and time passing."""
    method, state = make("wait", f"scheduler_replay:{spec}"), SystemState(12.0)
    now, row, planned = 0.0, 0, {}
    for kind, procs, length, later in steps:
        now += later
        job = JobRequest(row, row, now, float(procs), length, NAN, user_id=f"u{procs % 2}")
        queued, running = list(state.queued.values()), list(state.running.items())
        if kind == "s":
            state.now = now
            planned[row] = now + method.predict(job, state).point
            event, row = Submit(now, job), row + 1
        elif kind == "a":
            due = [j for j in queued if planned[j.row] <= now + 1.0] or queued[:1]
            event = Start(now, due[0], now - due[0].submit_time) if due else Capacity(now, 12.0)
        elif kind == "e" and running:
            _, entry = running[0]
            event = End(now, entry.job, now - entry.start_time, 0.0)
        elif kind == "w" and queued:
            event = Withdraw(now, queued[-1], now - queued[-1].submit_time)
        elif kind == "r" and running:
            event = Requeue(now, running[-1][1].job)
        elif kind == "c":
            event = Capacity(now, float(procs + 3))
        else:
            event = None
        if event is not None:
            state.apply(event)
            method.observe(event, state)
        state.now = now
        asked = JobRequest(10**6, 10**6, now, float(procs), length, NAN, user_id="u1")
        fresh = make("wait", f"scheduler_replay:{spec}")
        fresh.plans, fresh.peak, fresh.limits, fresh.method = method.plans, method.peak, method.limits, method.method
        assert method.predict(asked, state) == fresh.predict(asked, state), event


def test_a_plan_is_kept_while_jobs_come_and_start_as_planned():
    """If every answer ran a simulation, the test above would compare two new plans."""
    method, state = make("wait", "scheduler_replay"), SystemState(12.0)
    kept = []
    for event in events(small_log(60)):
        if isinstance(event, Submit):
            state.now = event.time
            before = method.plans.plans[1]
            method.predict(event.job, state)
            kept.append(before is not None and method.plans.plans[1] is before)
        state.apply(event)
        method.observe(event, state)
    assert 3 < sum(kept) < 60


@pytest.mark.parametrize("policy", list(POLICIES))
def test_a_job_larger_than_the_machine_never_starts(policy):
    plan = ForwardPlan(0.0, 4, np.array([60.0]), np.array([2]), np.array([9, 4]), np.array([5.0, 5.0]), policy)
    assert plan.start_of(5, 1.0) == np.inf
    assert plan.append(5, 1.0) == np.inf
    assert plan.start_of(4, 1.0) == 65.0

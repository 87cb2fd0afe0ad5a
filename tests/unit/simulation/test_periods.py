"""Tests that a log simulated period by period has the schedule of the whole log, at any cut."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.periods import cut

from batchcast import Trace
from batchcast.errors import NoAnswer, UsageError
from batchcast.job import JobRequest
from batchcast.predict.protocol import Prediction
from batchcast.schedule.state import ARRAYS
from batchcast.simulation import Policy, RunSetup, Schedule, simulate
from batchcast.simulation.periods import simulate_periods
from batchcast.trace import demo_path, read_trace

TOTAL = 8
job = st.tuples(
    st.integers(0, 30),  # time since the previous job, none in two of three: many jobs at one instant
    st.integers(1, TOTAL + 1),
    st.one_of(st.just(0), st.integers(1, 400)),
    st.one_of(st.none(), st.integers(1, 400)),
    st.integers(0, 3),
)
policies = st.builds(
    Policy,
    order=st.sampled_from(["fcfs", "sjf", "wfp", "sjf:on=requested,ageing=0.5"]),
    backfill=st.sampled_from(["none", "easy", "easy"]),
    backfill_order=st.sampled_from(["fcfs", "sjf"]),
    correct=st.sampled_from(["requested", "incremental", "doubling"]),
    kill=st.booleans(),
    event_order=st.sampled_from(["instant", "pyss"]),
    running_ends=st.sampled_from(["planned", "requested"]),
    head_after=st.sampled_from([float("inf"), 0.0, 60.0]),
    first_after=st.sampled_from([float("inf"), 0.0, 200.0]),
)
conservative = st.builds(
    Policy, backfill=st.just("conservative"), kill=st.booleans(), event_order=st.sampled_from(["instant", "pyss"])
)


class Half:
    """A Python predictor that also learns and revises: half of the request, or half of the user's last run time."""

    uses = ("user_id", "req_time")

    def __init__(self) -> None:
        self.last: dict[Any, float] = {}

    def predict(self, job: JobRequest, at: Any) -> Prediction:
        """the key depends on the running jobs, so a wrong state changes the schedule"""
        return Prediction(max(self.last.get(job.user_id, job.req_time) / 2 + len(at.running) + len(at.queued), 1.0))

    def observe(self, event: Any, at: Any) -> None:
        """Learn at the end."""
        if type(event).__name__ == "End":
            self.last[event.job.user_id] = event.run_time

    def revise(self, job: JobRequest, elapsed: float, at: Any) -> float:
        """Twice as long."""
        return 2 * elapsed + at.free


def log_of(jobs: list[tuple[Any, ...]]) -> Trace:
    gaps, procs, run, request, user = zip(*jobs)
    submit = np.cumsum(np.maximum(np.array(gaps) - 20, 0))
    columns = {"submit_time": submit, "req_procs": procs, "run_time": run, "req_time": request, "user_id": user}
    return Trace.from_arrays(columns)


def together(parts: list[Schedule]) -> dict[str, np.ndarray]:
    """Return the pieces of a schedule in log order."""
    names = [field.name for field in fields(Schedule) if isinstance(getattr(parts[0], field.name), np.ndarray)]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    order = np.argsort(columns["rows"])
    return {name: values[order] for name, values in columns.items()}


def assert_equal(parts: list[Schedule], whole: Schedule) -> None:
    for name, values in together(parts).items():
        assert np.array_equal(values, getattr(whole, name)), name
    assert sum(part.corrections for part in parts) == whole.corrections
    assert {rule: sum(part.left_out[rule] for part in parts if part.left_out) for rule in whole.left_out} == dict(
        whole.left_out
    )


@given(
    st.lists(job, min_size=2, max_size=60),
    st.one_of(policies, conservative),
    st.sampled_from(
        ["requested", "actual", "last_2", "recent_mean", "recent_mean:k=2,fields=user_id+procs_log2", "own"]
    ),
    st.integers(1, 9),
)
@settings(max_examples=150)
def test_every_start_is_that_of_the_whole_log(
    jobs: list[tuple[Any, ...]], policy: Policy, runtime: str, pieces: int
) -> None:
    log = log_of(jobs)
    own: Any = Half() if runtime == "own" else runtime
    whole = None
    with suppress(NoAnswer):  # no job fits the machine
        whole = simulate(log, policy, own, total=TOTAL, default_request=300.0)
    own = Half() if runtime == "own" else runtime
    parts = list(simulate_periods(cut(log, pieces), policy, own, RunSetup(total=TOTAL, default_request=300.0)))
    if whole is not None:
        assert_equal(parts, whole)
    else:
        assert not sum(map(len, parts))


@pytest.mark.parametrize("runtime", ["last_2", "kernel", "largest_recent"])
def test_a_months_load_is_carried(runtime: str) -> None:
    log = read_trace(demo_path())
    assert_equal(list(simulate_periods(cut(log, 7), "easy-sjbf", runtime)), simulate(log, "easy-sjbf", runtime))


def test_every_array_of_the_kernel_is_carried_or_known_to_need_no_carrying() -> None:
    """Anyone who passes another array to the kernel must decide here how `simulation.carry` treats it."""
    moved = {"jobs", "slots", "blocks", "plan", "endings", "instant", "profile", "memory"}
    made_anew = {"nodes", "choices", "log"}
    refused = {"asides", "shadow_queue", "shadow_running", "results", "tails"}
    assert set(ARRAYS) == moved | made_anew | refused


def test_what_ended_is_not_kept() -> None:
    """On a machine that is never full for long, each period returns nearly all of its jobs at once."""
    log = read_trace(demo_path())
    sizes = [len(part) for part in simulate_periods(cut(log, 10), "easy")]
    assert sum(sizes) == len(simulate(log, "easy"))
    assert min(sizes) > 100


@pytest.mark.parametrize(
    ("policy", "wide", "word"),
    [(Policy(due_after=3600.0), "drop", "due_after"), (Policy(refresh=True), "drop", "refresh"),
     (Policy(risk_budget=0.5), "drop", "risk_budget"),
     (Policy(), "widen", "widen")],
)  # fmt: skip
def test_what_needs_the_whole_log_is_refused_by_name(policy: Policy, wide: str, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        list(simulate_periods([read_trace(demo_path())], policy, setup=RunSetup(wide=wide)))

"""Tests compiled features against their slow reference version, and simulated starts against a brute-force schedule."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive.hazard import seen

from batchcast.events.event import END, START, SUBMIT
from batchcast.events.recorded import replay
from batchcast.predict.hazard.features import NAMES
from batchcast.predict.runtime.kernel import Kernel
from batchcast.predict.wait.forecast import Forecast, seen_in
from batchcast.table import Trace

from .test_looks import told_one_by_one

KINDS = {SUBMIT: "submit", START: "start", END: "end"}
JOBS = st.lists(
    st.tuples(
        st.integers(0, 900), st.integers(0, 5000), st.integers(1, 4000), st.integers(1, 8),
        st.sampled_from([60, 600, 3600, 7200]), st.sampled_from("ab"), st.sampled_from("xy"), st.sampled_from("gh"),
        st.integers(0, 3), st.sampled_from([None, "a100", "v100"]),
    ),
    min_size=1,
    max_size=14,
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(JOBS)
def test_every_feature_is_what_the_twin_says(drawn):
    gaps, wait, run, procs, limit, user, queue, group, gpus, gpu_type = map(list, zip(*drawn))
    log = Trace.from_arrays(
        {
            **{"submit_time": np.cumsum(gaps), "wait_time": wait, "run_time": run, "req_procs": procs},
            **{"req_time": limit, "user_id": user, "queue_id": queue, "group_id": group},
            **{"req_gpus": gpus, "gpu_type": gpu_type},
        }
    )
    told = seen_in(log, "honest", "req", 8.0)
    runs = Kernel().predict_trace(log).quantiles.astype(np.float32).reshape(len(log), -1)
    jobs, story = {}, []
    for time, kind, row, _ in told.events:
        if kind == SUBMIT:
            known = runs.shape[1] > 0 and runs[row, 0] == runs[row, 0]
            jobs[row] = {
                "submit": time, "procs": float(procs[row]), "limit": float(limit[row]), "user": user[row],
                "queue": queue[row], "group": group[row], "gpus": gpus[row],
                "gpu_type": gpu_type[row], "quantiles": runs[row].tolist() if known else None,
            }  # fmt: skip
            check(told.rows[row], seen(jobs[row], story, 8.0), row)
        elif kind == START:
            jobs[row] |= {"start": time, "wait": float(wait[row])}
        story.append((time, KINDS[kind], jobs[row]))


@settings(max_examples=40, deadline=None)
@given(JOBS, st.lists(st.sampled_from([0, 0, 0, 400]), min_size=14, max_size=14), st.sampled_from([6.0, math.nan]))
def test_what_one_instant_brings_sees_the_same_simulated_together_and_each_alone(drawn, gaps, size):
    _, wait, run, procs, limit, user, queue, group, gpus, gpu_type = map(list, zip(*drawn))
    log = Trace.from_arrays(
        {
            **{"submit_time": np.cumsum(gaps[: len(drawn)]), "wait_time": wait, "run_time": run, "req_procs": procs},
            **{"req_time": limit, "user_id": user, "queue_id": queue, "group_id": group},
            **{"req_gpus": gpus, "gpu_type": gpu_type},
        }
    )
    method = Forecast(first=10**9)
    replay(log, {"forecast": told_one_by_one(method)}, total=size)
    np.testing.assert_array_equal(seen_in(log, "honest", "req", size).rows, method.submissions.features[: len(drawn)])


def check(row, twin, job):
    features = dict(zip(NAMES, row.tolist()))
    assert set(twin) <= set(NAMES)
    for name, value in twin.items():
        assert math.isclose(features[name], value, rel_tol=2e-5, abs_tol=2e-5) or (
            features[name] != features[name] and value != value
        ), f"job {job}, {name}: {features[name]} instead of {value}"


def test_the_twin_covers_all_but_what_is_drawn():
    job = {"submit": 0.0, "procs": 1.0, "limit": 60.0, "user": "a", "queue": "x", "group": "g", "quantiles": None}
    job |= {"gpus": 0, "gpu_type": None}
    left_out = {name for name in NAMES if name not in seen(job, [], 8.0)}
    drawn = {name for name in left_out if name.startswith(("simulated", "greedy"))}
    assert left_out - drawn == {"nodes", "memory", "gpus", "account's processors", "queue's running"}


@pytest.mark.long
@pytest.mark.lightgbm
@pytest.mark.parametrize("shift", [0, 3])
def test_nothing_after_an_instant_moves_any_feature_or_promise_up_to_it(shift):
    """If every start, run time and request after job K is replaced at random, all features and predictions up to K stay
    identical."""
    random = np.random.default_rng(shift)
    n = 160
    submit = np.cumsum(random.integers(0, 400, n)).astype(float)
    columns = {
        **{"submit_time": submit, "wait_time": random.integers(0, 3000, n), "run_time": random.integers(1, 3000, n)},
        **{"req_procs": random.integers(1, 9, n), "req_time": random.integers(60, 9000, n)},
        **{"user_id": random.choice(list("abc"), n), "req_gpus": random.integers(0, 3, n)},
        "gpu_type": random.choice(["a100", "v100"], n),
    }
    at = 90 + shift
    now = submit[at]
    changed = {name: np.array(values) for name, values in columns.items()}
    start = submit + columns["wait_time"]
    later = np.arange(n) > at
    changed["wait_time"][start > now] = random.integers(10_000, 90_000, (start > now).sum())
    unseen = start + columns["run_time"] > now
    changed["run_time"][unseen] = random.integers(20_000, 90_000, unseen.sum())
    changed["req_procs"][later] = random.integers(1, 9, later.sum())
    changed["req_gpus"][later] = random.integers(0, 9, later.sum())
    changed["gpu_type"][later] = "a100"
    said = []
    for log in (columns, changed):
        method = Forecast(window=80, first=30, every=25, step=10)
        trace = Trace.from_arrays(log)
        method.predict_trace(trace, total=16.0, renew=True)
        rows = seen_in(trace, "honest", "req", 16.0).rows
        looks = [(look.row, look.waited, look.features, left) for when, look, left in method.snapshots if when <= now]
        said.append((rows[: at + 1], method.chances[: at + 1], *(np.concatenate(of) for of in zip(*looks))))
        assert method.renewal.models
    for before, after in zip(*said):
        np.testing.assert_array_equal(before, after)
    assert np.unique(said[0][1], axis=0).shape[0] > 50
    assert np.unique(said[0][-1], axis=0).shape[0] > 15
